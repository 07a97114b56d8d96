use std::fmt;
use std::time::Duration;

use workflow_sdk::{ClientError, RunId};

use super::{CrashReport, InterleaveReport};

/// An error of a [`TestEnv`](super::TestEnv). Its `Debug` form is its `Display` form, because
/// `unwrap` and a test that returns an error show the `Debug` form.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The client returned an error. A run that failed or was canceled has no result, so that is
    /// such an error too.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The run has not ended, and it will not end unless a test lets time pass or sends something.
    #[error(
        "run {run} has not ended: {waits_for}\n\
         what to do: time stands still in a TestEnv; let it pass with env.advance(..), send what the run waits for, or use \
         run.finish(), which lets as much time pass as the run needs"
    )]
    StillWaiting {
        /// The run.
        run: RunId,
        /// The reason why the run waits.
        waits_for: String,
    },
    /// The history of the run does not fit its code, so the code is not deterministic.
    #[error("{divergence}")]
    Diverged {
        /// The report: how history and code differ.
        divergence: String,
    },
    /// The run does not come to an end.
    #[error("run {run} has not ended at {now}, and still waits for time: is it an endless loop? {waits_for}")]
    TooLong {
        /// The run.
        run: RunId,
        /// The virtual time that the env has reached.
        now: String,
        /// The reason why the run waits.
        waits_for: String,
    },
    /// A crash changes what the workflow does.
    #[error("{0}")]
    NotCrashSafe(Box<CrashReport>),
    /// The order in which concurrent steps end changes what the workflow does.
    #[error("{0}")]
    OrderMatters(Box<InterleaveReport>),
    /// The worker of the env did not start, or has ended.
    #[error("the env's worker has ended: {reason}")]
    Worker {
        /// The reason.
        reason: String,
    },
    /// A stub waited for another thread, and virtual time went on without it. So timeouts and other
    /// timers came too early.
    #[error(
        "a body of run {run} was woken by another thread after {by:?} of virtual time had passed without it\n\
         what to do: do blocking work and I/O of a stub in tokio::task::spawn_blocking, for which time waits; or answer from \
         memory, after a tokio::time::sleep if it is to take time"
    )]
    Overtaken {
        /// The run.
        run: RunId,
        /// The virtual time that passed without the body.
        by: Duration,
    },
    /// The workflow was not registered.
    #[error(
        "workflow {name:?} version {version:?} is not registered with this env, so its worker would not run it; \
         build the env with .register({name})"
    )]
    NotRegistered {
        /// The name of the workflow.
        name: &'static str,
        /// The version of the workflow.
        version: &'static str,
    },
    /// The process of the env died during the call.
    #[error("the env's process died during the call; committed data is not lost: call again")]
    Crashed,
    /// The env's thread could not be started, or has ended.
    #[error("the env's thread is gone: {reason}")]
    Thread {
        /// The reason.
        reason: String,
    },
    /// The input cannot be written as JSON and read again.
    #[error("the input cannot be handed to several runs: {0}")]
    Input(#[source] serde_json::Error),
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
