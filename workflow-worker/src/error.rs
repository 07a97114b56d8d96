use std::time::Duration;

use workflow_engine::executor::ExecutorStopped;
use workflow_engine::runtime::PayloadError;
use workflow_sdk::{DatabaseError, InvalidName, InvalidRate, InvalidSchedule, Standby, UnreadableSchedule};

/// The reason why a worker did not start or had to stop. Other workers take over the runs that it
/// held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// No workflow was registered.
    #[error("the worker has no workflow; call register(..) for each workflow that it is to run")]
    NoWorkflows,
    /// Two workflows have the same name and version.
    #[error(
        "workflow {name:?} version {version:?} is registered twice; \
         give one of them another name with #[workflow(name = \"..\")], or another version"
    )]
    DuplicateWorkflow {
        /// The name.
        name: String,
        /// The version.
        version: String,
    },
    /// The name of a workflow, a queue or a limit is not allowed.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The rate of a queue, of its gates or of a limit is out of range. The error says what is
    /// wrong.
    #[error(transparent)]
    Rate(#[from] InvalidRate),
    /// A schedule is refused. The error names the refused value and says what to use instead.
    #[error(transparent)]
    Schedule(#[from] InvalidSchedule),
    /// Two schedules of the worker have the same name.
    #[error("schedule {name:?} is declared twice; give one of them another name")]
    DuplicateSchedule {
        /// The name.
        name: String,
    },
    /// A client has created a schedule of this name.
    #[error("a client has created a schedule {name:?}; give the declared one another name, or delete the other one")]
    ScheduleConflict {
        /// The name.
        name: String,
    },
    /// The input of a schedule cannot be stored.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// A later release has written a schedule that the worker declares.
    #[error(transparent)]
    UnreadableSchedule(#[from] UnreadableSchedule),
    /// A limit for steps is declared with two rules.
    #[error("limit {name:?} is declared with two rules; declare it once, or give one of them another name")]
    DuplicateLimit {
        /// The name.
        name: String,
    },
    /// The worker serves no queue.
    #[error("the worker serves no queue; name one or more, or leave queues(..) out for \"default\"")]
    NoQueues,
    /// [`concurrency`](crate::WorkerOptions::concurrency) is 0.
    #[error("concurrency 0 is refused: the worker could run nothing; use 1 or more")]
    ZeroConcurrency,
    /// [`history_limit`](crate::WorkerOptions::history_limit) or
    /// [`history_bytes_limit`](crate::WorkerOptions::history_bytes_limit) is 0.
    #[error("a history limit of 0 is refused: every run would fail; use 1 or more for steps and for bytes")]
    ZeroHistoryLimit,
    /// A time in the [options](crate::WorkerOptions) is too short or too long.
    #[error("{option} {value:?} is refused; use {shortest:?} to {longest:?}")]
    OutOfRange {
        /// The name of the option.
        option: &'static str,
        /// The time that was asked for.
        value: Duration,
        /// The shortest accepted time.
        shortest: Duration,
        /// The longest accepted time.
        longest: Duration,
    },
    /// The thread that renews the worker's claims could not be started, or has died.
    #[error("the thread that renews the worker's leases is gone: {reason}; the worker cannot keep its runs")]
    LeaseThread {
        /// The reason.
        reason: String,
    },
    /// The client is connected to a standby, on which no run can be claimed.
    #[error("{0}, so no worker can run on it; connect to the primary")]
    Standby(Standby),
    /// The database answered with an error.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The executor of this process has stopped.
    #[error(transparent)]
    Stopped(#[from] ExecutorStopped),
    /// The process cannot listen for the signals that end the worker.
    #[error("cannot listen for the signals that end the worker")]
    Signals(#[source] std::io::Error),
}
