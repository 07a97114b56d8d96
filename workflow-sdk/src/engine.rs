//! The seams that the worker and the tests use: the contract of a backend, its writes and their outcomes.
//!
//! Internal: exempt from semantic versioning.

pub use crate::backend::{
    Answer, AttemptWrite, Backend, BackendOptions, ClaimRequest, Claimed, ClaimedRun, Coding, ContinueWrite,
    EmittedItem, EndWrite, EndedRun, ForkWrite, Hints, INBOX_PAGE, Inbox, LeaseSession, NextDue, Outcome, ParkWrite,
    Prepared, Preparer, Renewed, RetryWrite, ReviveWrite, RunEnd, StartOutcome, StepCommit, StepTransaction,
    WaitingApproval, WorkerRecord, Write, connect, redact,
};
pub use crate::client::run_history;
pub use crate::ctx::{
    BodyAtHand, BodyWatch, Entry, Polled, Poller, Port, PortFuture, RunCell, RunSettings, TransactionCommit,
    WorkflowFuture, dry_replay, settle,
};
pub use crate::executor::{
    Cancel, ClaimAnswer, Executor, ExecutorStopped, Hub, PendingClaim, PendingOutcome, SendPermit,
};
#[cfg(feature = "failpoints")]
pub use crate::failpoint::{Action, POINTS, Point};
pub use crate::failpoint::{Fault, failpoint, failpoint_error};
pub use crate::model::{
    Admission, Circuit, CircuitChange, Claim, Clock, Effect, InboxSignal, Lane, NewRun, NewSignal, ServiceReport,
    SignalKey, StartTime, WorkerId, attempted_again, check_name, check_queue, check_tag, retry_of_run,
};
pub use crate::planted::planted;
#[cfg(feature = "planted-bugs")]
pub use crate::planted::{BUGS, Check, PlantedBug, plant};
pub use crate::replay::{
    Awaited, CallId, CallPoll, ChildCall, ChildEnd, CommitRow, Delivered, Divergence, HistorySize, Interrupted,
    Interruption, Machine, Next, OutboxRow, SignalWait, Standstill, StepOptions, Wait,
};
