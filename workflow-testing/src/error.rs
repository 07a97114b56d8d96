use std::fmt;
use std::time::Duration;

use workflow_sdk::{ClientError, RunId};

use super::{CrashReport, InterleaveReport};

/// Why something in a [`TestEnv`](super::TestEnv) did not go as it should. Its Debug is its Display, for that is what `unwrap`
/// and a test that returns it show.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// What the client said: also how a run failed whose result was asked for.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The run has not ended, and in virtual time nothing happens by itself.
    #[error(
        "run {run} has not ended: {waits_for}\n\
         what to do: time stands still in a TestEnv; let it pass with env.advance(..), send what the run waits for, or use \
         run.finish(), which lets as much time pass as the run needs"
    )]
    StillWaiting {
        /// The run.
        run: RunId,
        /// What it waits for.
        waits_for: String,
    },
    /// The run's history does not fit its code: the code is not deterministic.
    #[error("{divergence}")]
    Diverged {
        /// How they differ.
        divergence: String,
    },
    /// The run goes on and on.
    #[error("run {run} has not ended at {now}, and still waits for time: does it loop for ever? {waits_for}")]
    TooLong {
        /// The run.
        run: RunId,
        /// The virtual time that was reached.
        now: String,
        /// What it waits for.
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
        /// Why.
        reason: String,
    },
    /// A stub waited for another thread, and virtual time went on without it: its timeouts, and whatever else waited for time,
    /// came too early.
    #[error(
        "a body of run {run} was woken by another thread after {by:?} of virtual time had passed without it\n\
         what to do: do blocking work and I/O of a stub in tokio::task::spawn_blocking, for which time waits; or answer from \
         memory, after a tokio::time::sleep if it is to take time"
    )]
    Overtaken {
        /// The run.
        run: RunId,
        /// The virtual time.
        by: Duration,
    },
    /// The workflow was not registered.
    #[error(
        "workflow {name:?} version {version:?} is not registered with this env, so nobody would run it; \
         build the env with .register({name})"
    )]
    NotRegistered {
        /// Its name.
        name: &'static str,
        /// Its version.
        version: &'static str,
    },
    /// The process of the env died while this was going on.
    #[error("the env's process died meanwhile; what it had committed is there: ask again")]
    Crashed,
    /// The env's thread could not be started, or is gone.
    #[error("the env's thread is gone: {reason}")]
    Thread {
        /// Why.
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
