use std::time::Duration;

use workflow_engine::model::check_queue;
use workflow_engine::replay::HistorySize;
use workflow_sdk::{DEFAULT_QUEUE, ErrorKind, StoredError};

use crate::WorkerError;

/// Decides about the running bodies of a run whose lease may have ended: the database was away, or
/// this process was stopped, for longer than the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LapsedLease {
    /// Drops the bodies at their next await and gives the run up. Another worker may have begun
    /// them meanwhile.
    #[default]
    DropBodies,
    /// Lets the bodies end. Their outcomes are stored if no other worker has claimed the run.
    LetBodiesEnd,
}

/// The reaction of a worker to a workflow that awaits something, outside of its steps, that is not
/// a call of its context. Such a wait is not durable, so the code after it may go another way on
/// replay. If nothing wakes it, the run keeps its place in the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ForeignAwait {
    /// Logs a warning: once per workflow when such a wait ends, and once per run when it has lasted
    /// for one lease, or for 30 s if the lease is longer.
    #[default]
    Warn,
    /// Fails the run. Meant for tests.
    Fail,
}

/// The options of a worker. Set them through the methods of [`Worker`](crate::Worker).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// How many runs the worker drives at the same time. A run counts until its end is queued for
    /// the database. Default: 100. Range: 1 or more.
    pub concurrency: u32,
    /// How long a claim lasts without a renewal. The worker renews its claims three times per
    /// lease. Default: 30 s. Range: 200 ms to a day; to a year on a store in memory.
    pub lease: Duration,
    /// A run that waits for a shorter time than this stays in memory, unless other runs need its
    /// place. A run that waits longer is parked. Default: 1 s. Range: up to a year.
    pub linger: Duration,
    /// How long running steps may go on after the worker was told to stop. Default: 30 s. Range:
    /// up to a year.
    pub grace: Duration,
    /// How long a run may clean up after it was canceled or has passed its deadline, counted from
    /// the moment at which it was told to end. After that time it ends at once. Set the same value
    /// on all workers of a database, because the worker that has the run at its end applies its own
    /// value. A run that blocks its thread is cleaned up by the worker that takes it over. Default:
    /// 60 s. Range: up to a year; with zero, nothing is cleaned up.
    pub cancel_grace: Duration,
    /// How often the worker of a run may die while it drives this run and no other one. After one
    /// more such death the run fails with an error of kind
    /// [`CrashLoop`](workflow_sdk::ErrorKind::CrashLoop). A run that was in flight at five deaths
    /// without an outcome in between is driven alone. Default: 1.
    pub max_crashes: u32,
    /// Whether running bodies are dropped when the lease of their run may have ended, because it
    /// could not be renewed in time. Default: [`LapsedLease::DropBodies`].
    pub lapsed_lease: LapsedLease,
    /// The longest time between two polls for due runs if no notification comes. Each interval is
    /// shortened at random by up to a quarter, so that workers do not poll in step. Default: 1 s.
    /// Range: a millisecond to a year.
    pub poll_interval: Duration,
    /// The queues that the worker serves. Default: `default`, and the queues in the attributes of
    /// its workflows (`#[workflow(queue = "..")]`). A worker that names queues, by
    /// [`Worker::queues`](crate::Worker::queues) or [`Worker::queue`](crate::Worker::queue), serves
    /// these alone. Range: one or more.
    pub queues: Vec<String>,
    /// How many steps the history of a run may have. A run with more fails with an error of kind
    /// [`HistoryLimit`](workflow_sdk::ErrorKind::HistoryLimit), before its workflow is called if
    /// its recorded history is larger. The worker logs a warning from
    /// [`WorkerOptions::HISTORY_WARNING`] steps on. Attempts that have ended, sleeps, patches and
    /// items of streams count, since the run last
    /// [continued as new](workflow_sdk::Ctx::continue_as_new). Compensations and waits that were
    /// dropped do not count, and a run that was canceled or has passed its deadline is bounded by
    /// its grace instead. A run that fails by this limit is not undone, because its function does
    /// not return. Default: 50,000. Range: 1 or more.
    pub history_limit: u64,
    /// How many bytes of JSON text the values of a history may have. A run with more fails with an
    /// error of kind [`HistoryLimit`](workflow_sdk::ErrorKind::HistoryLimit). The worker logs a
    /// warning from a tenth of the limit on. Items of streams do not count, because a replay does
    /// not read them. Default: 128 MiB. Range: 1 or more. A worker may hold this much memory for
    /// each run that it drives, and the database must deliver a history within at most 30 s.
    pub history_bytes_limit: u64,
    /// The reaction to a workflow that awaits something that is not durable. Default: a warning.
    pub foreign_await: ForeignAwait,
}

impl WorkerOptions {
    /// The default of [`WorkerOptions::concurrency`].
    pub const DEFAULT_CONCURRENCY: u32 = 100;
    /// The default of [`WorkerOptions::lease`].
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
    /// The shortest [`WorkerOptions::lease`]. A third of it must outlast a slow commit.
    pub const SHORTEST_LEASE: Duration = Duration::from_millis(200);
    /// The longest [`WorkerOptions::lease`]. After a power failure, runs wait as long as this.
    pub const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);
    /// The longest value of every other time: a year.
    pub const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 3600);
    /// The shortest [`WorkerOptions::poll_interval`]. Shorter ones would keep an idle database
    /// busy.
    pub const SHORTEST_POLL_INTERVAL: Duration = Duration::from_millis(1);
    /// The default of [`WorkerOptions::linger`].
    pub const DEFAULT_LINGER: Duration = Duration::from_secs(1);
    /// The default of [`WorkerOptions::grace`].
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);
    /// The default of [`WorkerOptions::cancel_grace`].
    pub const DEFAULT_CANCEL_GRACE: Duration = Duration::from_secs(60);
    /// The default of [`WorkerOptions::max_crashes`].
    pub const DEFAULT_MAX_CRASHES: u32 = 1;
    /// The default of [`WorkerOptions::poll_interval`].
    pub const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);

    /// The default of [`WorkerOptions::history_limit`].
    pub const DEFAULT_HISTORY_LIMIT: u64 = 50_000;
    /// The default of [`WorkerOptions::history_bytes_limit`]. It allows a map over 10,000 items of
    /// 10 KiB. More would make a replay slow, because it reads the whole history before it goes on.
    pub const DEFAULT_HISTORY_BYTES_LIMIT: u64 = 128 * 1024 * 1024;
    /// The number of steps from which the worker warns that a history grows large.
    pub const HISTORY_WARNING: u64 = 5_000;

    /// Returns the error of a run whose history has this size, if it is too large.
    pub(crate) fn exceeded_by(&self, HistorySize { steps, bytes }: HistorySize) -> Option<StoredError> {
        let (what, limit) = if steps > self.history_limit {
            (format!("{steps} steps"), format!("{} (history_limit)", self.history_limit))
        } else if bytes > self.history_bytes_limit {
            (format!("{bytes} bytes"), format!("{} (history_bytes_limit)", self.history_bytes_limit))
        } else {
            return None;
        };
        let message = format!(
            "the history of this run has {what}, the limit is {limit}; return ctx.continue_as_new(input) before it is \
             reached, give parts of the work to child runs, or raise the limit of the worker"
        );
        Some(StoredError::new(ErrorKind::HistoryLimit, message))
    }

    /// Whether the worker warns of a history of this size.
    pub(crate) fn warns_of(&self, HistorySize { steps, bytes }: HistorySize) -> bool {
        steps >= Self::HISTORY_WARNING.min(self.history_limit) || bytes >= self.history_bytes_limit / 10
    }

    /// Checks the options of a worker. `in_process`: its store is in this process, so no lease has
    /// to end after a power failure.
    pub(crate) fn check(&self, in_process: bool) -> Result<(), WorkerError> {
        if self.concurrency == 0 {
            return Err(WorkerError::ZeroConcurrency);
        }
        let longest_lease = if in_process { Self::LONGEST_TIME } else { Self::LONGEST_LEASE };
        for (option, value, shortest, longest) in [
            ("lease", self.lease, Self::SHORTEST_LEASE, longest_lease),
            ("linger", self.linger, Duration::ZERO, Self::LONGEST_TIME),
            ("grace", self.grace, Duration::ZERO, Self::LONGEST_TIME),
            ("cancel_grace", self.cancel_grace, Duration::ZERO, Self::LONGEST_TIME),
            ("poll_interval", self.poll_interval, Self::SHORTEST_POLL_INTERVAL, Self::LONGEST_TIME),
        ] {
            if !(shortest..=longest).contains(&value) {
                return Err(WorkerError::OutOfRange { option, value, shortest, longest });
            }
        }
        if self.queues.is_empty() {
            return Err(WorkerError::NoQueues);
        }
        if self.history_limit == 0 || self.history_bytes_limit == 0 {
            return Err(WorkerError::ZeroHistoryLimit);
        }
        self.queues.iter().try_for_each(|queue| check_queue(queue))?;
        Ok(())
    }
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            concurrency: Self::DEFAULT_CONCURRENCY,
            lease: Self::DEFAULT_LEASE,
            linger: Self::DEFAULT_LINGER,
            grace: Self::DEFAULT_GRACE,
            cancel_grace: Self::DEFAULT_CANCEL_GRACE,
            max_crashes: Self::DEFAULT_MAX_CRASHES,
            lapsed_lease: LapsedLease::default(),
            poll_interval: Self::DEFAULT_POLL_INTERVAL,
            queues: vec![DEFAULT_QUEUE.into()],
            history_limit: Self::DEFAULT_HISTORY_LIMIT,
            history_bytes_limit: Self::DEFAULT_HISTORY_BYTES_LIMIT,
            foreign_await: ForeignAwait::default(),
        }
    }
}
