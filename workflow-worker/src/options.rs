use std::time::Duration;

use workflow_sdk::DEFAULT_QUEUE;
use workflow_sdk::engine::check_queue;

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
    /// Runs at once. Default: 100. Range: 1 or more.
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
            foreign_await: ForeignAwait::default(),
        }
    }
}
