use std::time::Duration;

use workflow_engine::model::check_queue;
use workflow_engine::replay::HistorySize;
use workflow_sdk::{DEFAULT_QUEUE, ErrorKind, StoredError};

use crate::WorkerError;

/// What a worker does when a workflow, outside of its steps, was woken by something that is no call of its context: such a
/// wait is not durable, and what follows it may differ on replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ForeignAwait {
    /// Says so, once for each workflow.
    #[default]
    Warn,
    /// Fails the run: for tests.
    Fail,
}

/// How a worker works. Set through [`Worker`](crate::Worker).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// Runs at once, each until its end is on its way to the database. Default: 100. Range: 1 or more.
    pub concurrency: u32,
    /// How long a claim lasts without a renewal; renewed at a third of it. Default: 30 s. Range: 200 ms or more.
    pub lease: Duration,
    /// A wait that ends within this is kept in memory, as long as permits are left, rather than parked. Default: 1 s.
    pub linger: Duration,
    /// After a signal to stop, how long running steps may go on. Default: 30 s.
    pub grace: Duration,
    /// How long a run that was canceled, or has passed its deadline, may clean up, counted from when it was told to end; then
    /// it ends at once. The same for all workers of a database, or a run may get that of whichever has it at the end.
    /// Default: 60 s. Range: any; with zero nothing is cleaned up.
    pub cancel_grace: Duration,
    /// How often the worker of a run may die while the run is running, before the run is failed. Default: 5.
    pub max_crashes: u32,
    /// The longest time between two looks for due runs, where no notification came; shortened at random by up to a quarter,
    /// so that workers do not look all at once. Default: 1 s.
    pub poll_interval: Duration,
    /// The queues that the worker serves, one or more. Default: `default` alone.
    pub queues: Vec<String>,
    /// How many steps the history of a run may have; one more fails the run with an error of kind
    /// [`HistoryLimit`](workflow_sdk::ErrorKind::HistoryLimit). From [`WorkerOptions::HISTORY_WARNING`] on there is a warning.
    /// Counted are attempts that have ended, sleeps, patches and items of streams, since the run last
    /// [continued as new](workflow_sdk::Ctx::continue_as_new). Default: 50,000. Range: 1 or more.
    pub history_limit: u64,
    /// How many bytes of JSON text their values may have; more fails the run in the same way. From a tenth of it on there is
    /// a warning. Items of streams do not count: a replay does not read them. Default: 128 MiB. Range: 1 or more;
    /// a worker may hold as much in memory for each run that it drives, and the database must hand it over within 30 s.
    pub history_bytes_limit: u64,
    /// What follows a wait that is not durable. Default: a warning.
    pub foreign_await: ForeignAwait,
}

impl WorkerOptions {
    /// Default of [`WorkerOptions::concurrency`].
    pub const DEFAULT_CONCURRENCY: u32 = 100;
    /// Default of [`WorkerOptions::lease`].
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
    /// Shortest [`WorkerOptions::lease`]: a third of it must outlast a slow commit.
    pub const SHORTEST_LEASE: Duration = Duration::from_millis(200);
    /// Default of [`WorkerOptions::linger`].
    pub const DEFAULT_LINGER: Duration = Duration::from_secs(1);
    /// Default of [`WorkerOptions::grace`].
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);
    /// Default of [`WorkerOptions::cancel_grace`].
    pub const DEFAULT_CANCEL_GRACE: Duration = Duration::from_secs(60);
    /// Default of [`WorkerOptions::max_crashes`].
    pub const DEFAULT_MAX_CRASHES: u32 = 5;
    /// Default of [`WorkerOptions::poll_interval`].
    pub const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);

    /// Default of [`WorkerOptions::history_limit`].
    pub const DEFAULT_HISTORY_LIMIT: u64 = 50_000;
    /// Default of [`WorkerOptions::history_bytes_limit`]. A replay reads all of it before it can go on, which takes about a
    /// second; and a map over 10,000 items of 10 KiB stays below.
    pub const DEFAULT_HISTORY_BYTES_LIMIT: u64 = 128 * 1024 * 1024;
    /// A history of so many steps is warned of.
    pub const HISTORY_WARNING: u64 = 5_000;

    /// The error of a run whose history has this size, if it is too large.
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

    /// Whether a history of this size is to be warned of.
    pub(crate) fn warns_of(&self, HistorySize { steps, bytes }: HistorySize) -> bool {
        steps >= Self::HISTORY_WARNING.min(self.history_limit) || bytes >= self.history_bytes_limit / 10
    }

    pub(crate) fn check(&self) -> Result<(), WorkerError> {
        if self.concurrency == 0 {
            return Err(WorkerError::ZeroConcurrency);
        }
        if self.lease < Self::SHORTEST_LEASE {
            return Err(WorkerError::LeaseTooShort { lease: self.lease, shortest: Self::SHORTEST_LEASE });
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
            poll_interval: Self::DEFAULT_POLL_INTERVAL,
            queues: vec![DEFAULT_QUEUE.into()],
            history_limit: Self::DEFAULT_HISTORY_LIMIT,
            history_bytes_limit: Self::DEFAULT_HISTORY_BYTES_LIMIT,
            foreign_await: ForeignAwait::default(),
        }
    }
}
