use std::time::Duration;

use workflow_engine::executor::ExecutorStopped;
use workflow_sdk::{DatabaseError, InvalidName};

/// Why a worker did not start, or had to stop. Runs that it held are taken over by others.
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
    /// A workflow's or queue's name cannot be stored.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The worker serves no queue.
    #[error("the worker serves no queue; name one or more, or leave queues(..) out for \"default\"")]
    NoQueues,
    /// The worker may run nothing at once.
    #[error("concurrency 0 is refused: the worker could run nothing; use 1 or more")]
    ZeroConcurrency,
    /// No history is small enough.
    #[error("a history limit of 0 is refused: every run would fail; use 1 or more for steps and for bytes")]
    ZeroHistoryLimit,
    /// The lease is too short.
    #[error(
        "a lease of {lease:?} is refused; use {shortest:?} or more, for it must outlast a slow commit several times"
    )]
    LeaseTooShort {
        /// The lease.
        lease: Duration,
        /// The shortest that is accepted.
        shortest: Duration,
    },
    /// The thread that keeps the worker's claims could not be started, or has died.
    #[error("the thread that renews the worker's leases is gone: {reason}; the worker cannot keep its runs")]
    LeaseThread {
        /// Why.
        reason: String,
    },
    /// The database answered with an error.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The executor of this process has stopped.
    #[error(transparent)]
    Stopped(#[from] ExecutorStopped),
    /// The process cannot learn of signals.
    #[error("cannot listen for the signals that end the worker")]
    Signals(#[source] std::io::Error),
}
