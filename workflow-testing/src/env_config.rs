//! The configuration of an env, from which further envs like it are made.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use workflow_engine::runtime::BodyHooks;
use workflow_sdk::{Client, RunId, RunsWith, Timestamp};

use workflow_worker::{ForeignAwait, Worker, WorkerOptions};

use super::TestError;
use super::body_hooks::EnvHooks;
use super::commit_log::{CommitLog, SharedLog};
use super::effects::Ledger;
use super::env_thread::EnvThread;
use super::surroundings::{MakeWorker, Surroundings};
use super::time::VirtualTime;

/// The lease and the poll interval. No other worker uses the database and no hint is lost, so
/// claims need no renewal and the worker need not poll. Shorter intervals would cost time when
/// years pass in a moment.
const ONE_YEAR: Duration = WorkerOptions::LONGEST_TIME;

type Register<S> = Arc<dyn Fn(Worker<S>) -> Worker<S> + Send + Sync>;
type Configure<S> = Arc<dyn Fn(Worker<S>) -> Worker<S> + Send + Sync>;

/// The configuration of an env.
pub(super) struct EnvConfig<S> {
    pub(super) state: Box<dyn Fn() -> S + Send + Sync>,
    pub(super) registered: Vec<Register<S>>,
    pub(super) workflows: Vec<(&'static str, &'static str)>,
    pub(super) start: Timestamp,
    pub(super) configure: Option<Configure<S>>,
    pub(super) ids: AtomicU64,
}

impl<S: Send + Sync + 'static> EnvConfig<S> {
    pub(super) fn register<W: RunsWith<S>>(&mut self) {
        self.registered.push(Arc::new(|worker| worker.register_type::<W>()));
        self.workflows.push((W::NAME, W::VERSION));
    }

    /// # Errors
    /// [`TestError::NotRegistered`] if the workflow is not registered.
    pub(super) fn check<W: RunsWith<S>>(&self) -> Result<(), TestError> {
        if self.workflows.contains(&(W::NAME, W::VERSION)) {
            return Ok(());
        }
        Err(TestError::NotRegistered { name: W::NAME, version: W::VERSION })
    }

    /// Starts an env thread with a database and a state of its own, and the configured start time.
    ///
    /// # Errors
    /// [`TestError::Thread`] if the thread could not be started.
    pub(super) fn start_thread(
        self: &Arc<Self>,
        log: CommitLog,
        seed: Option<u64>,
    ) -> Result<(EnvThread, Arc<S>), TestError> {
        let log: SharedLog = Arc::new(log);
        let state = Arc::new((self.state)());
        let time = Arc::new(VirtualTime::new(self.start));
        let ledger = Ledger::new(Arc::clone(&time));
        let hooks: Arc<dyn BodyHooks> = EnvHooks::new(&log, seed, &ledger);
        let (config, its_state) = (Arc::clone(self), Arc::clone(&state));
        let worker: MakeWorker = Arc::new(move |client| {
            let worker = config.worker(client, &its_state, &hooks)?;
            Some(Box::pin(worker.run_until(std::future::pending())))
        });
        let thread = EnvThread::begin(Surroundings::new(time, ledger, log, worker))?;
        Ok((thread, state))
    }

    fn worker(&self, client: Client, state: &Arc<S>, hooks: &Arc<dyn BodyHooks>) -> Option<Worker<S>> {
        if self.registered.is_empty() {
            return None;
        }
        let worker = Worker::with_body_hooks(client, Arc::clone(state), Arc::clone(hooks));
        let worker = self.registered.iter().fold(worker, |worker, register| register(worker));
        let worker =
            worker.lease(ONE_YEAR).poll_interval(ONE_YEAR).linger(Duration::ZERO).foreign_await(ForeignAwait::Fail);
        Some(match &self.configure {
            Some(configure) => configure(worker),
            None => worker,
        })
    }

    /// Returns the id of the env's next run. It is the same in each execution of a test, and so are
    /// the random numbers of the run, which follow from it.
    pub(super) fn next_id(&self) -> Option<RunId> {
        nth_id(self.start, self.ids.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns a UUIDv7 with this time and number.
pub(super) fn nth_id(start: Timestamp, number: u64) -> Option<RunId> {
    let millis = u64::try_from(start.as_micros() / 1000).unwrap_or(0) & 0xffff_ffff_ffff;
    let (high, low) = (millis >> 16, millis & 0xffff);
    format!("{high:08x}-{low:04x}-7000-8000-{number:012x}").parse().ok()
}

impl<S> fmt::Debug for EnvConfig<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvConfig")
            .field("workflows", &self.workflows)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
