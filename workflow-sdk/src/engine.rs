//! The seams that the worker and the tests use: the contract of a backend, its writes and their outcomes.
//!
//! Internal: exempt from semantic versioning.

pub use crate::backend::{
    AttemptWrite, Backend, BackendOptions, ClaimRequest, Claimed, ClaimedRun, EndWrite, EndedRun, Hints, INBOX_PAGE,
    Inbox, LeaseSession, NextDue, Outcome, ParkWrite, Renewed, RunEnd, StartOutcome, WaitingApproval, Write, connect,
    redact,
};
pub use crate::ctx::{Entry, Polled, Poller, Port, PortFuture, RunCell, RunSettings, WorkflowFuture};
pub use crate::executor::{Executor, ExecutorStopped, Hub, PendingOutcome};
pub use crate::failpoint::failpoint;
pub use crate::model::{
    Claim, Clock, Effect, InboxSignal, Lane, NewRun, NewSignal, SignalKey, StartTime, WorkerId, check_name,
    check_queue, check_tag,
};
pub use crate::replay::{
    Awaited, CallId, CallPoll, ChildCall, ChildEnd, Delivered, Divergence, Machine, Next, OutboxRow, SignalWait,
    StepOptions, Wait,
};
