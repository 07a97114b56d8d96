//! The seams that the worker and the tests use: the contract of a backend, its writes and their outcomes.
//!
//! Internal: exempt from semantic versioning.

pub use crate::backend::{
    AttemptWrite, Backend, BackendOptions, ClaimRequest, Claimed, ClaimedRun, EndWrite, EndedRun, Hints, LeaseSession,
    NextDue, Outcome, ParkWrite, Renewed, RunEnd, StartOutcome, Write, connect, redact,
};
pub use crate::client::run_history;
pub use crate::ctx::{Entry, Polled, Poller, Port, RunCell, RunSettings, WorkflowFuture, dry_replay};
pub use crate::executor::{Executor, ExecutorStopped, Hub, PendingOutcome};
pub use crate::failpoint::failpoint;
pub use crate::model::{Claim, Clock, Effect, Lane, NewRun, StartTime, WorkerId, check_name, check_queue, check_tag};
pub use crate::replay::{
    CallId, CallPoll, Delivered, Divergence, Machine, Next, OutboxRow, Standstill, StepOptions, Wait,
};
