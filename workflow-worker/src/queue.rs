use workflow_sdk::{GateLimits, QueueLimits, Rate};

use crate::Worker;

impl<S: Send + Sync + 'static> Worker<S> {
    /// Serves these queues alone, whatever [`Worker::queues`], [`Worker::queue`] and the workflows
    /// name, as a program does whose command line names them. The worker still writes the limits
    /// that [`Worker::queue`] declares. Default: not called. Range: one or more queues.
    ///
    /// # Errors
    /// [`Worker::run`] returns [`WorkerError::NoQueues`](crate::WorkerError::NoQueues) without a
    /// queue, and [`WorkerError::Name`](crate::WorkerError::Name) for a bad name.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_worker::{Queue, Worker};
    ///
    /// # fn worker(client: Client) -> Worker<()> {
    /// // Declares the limits of `mail`, and serves `reports`.
    /// Worker::new(client, ()).queue(Queue::new("mail").concurrency(10)).only_queues(["reports"])
    /// # }
    /// ```
    pub fn only_queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        let mut only: Vec<String> = Vec::new();
        for queue in queues.into_iter().map(Into::into) {
            if !only.contains(&queue) {
                only.push(queue);
            }
        }
        self.only_queues = Some(only);
        self
    }
}

/// A queue that a worker serves, with the limits that it declares: see
/// [`Worker::queue`](crate::Worker::queue).
///
/// ```
/// use workflow_worker::Queue;
///
/// let mail = Queue::new("mail").concurrency(10);
/// # let _ = mail;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a queue does nothing until a worker serves it"]
pub struct Queue {
    pub(crate) name: String,
    pub(crate) limits: QueueLimits,
}

impl Queue {
    /// Creates a queue without limits. Range of the name: 1 to 255 bytes, no control characters;
    /// the worker checks it when it runs.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), limits: QueueLimits::none() }
    }

    /// Drives at most this number of runs of the queue at once, over all workers of the database.
    /// Default: any number. 0 lets none begin. See [`QueueLimits::concurrency`].
    pub fn concurrency(mut self, runs: u32) -> Self {
        self.limits = self.limits.concurrency(runs);
        self
    }

    /// Lets at most this many runs of the queue begin in a period, over all workers of the
    /// database. Default: any number. See [`Rate`] for its range and for what counts.
    ///
    /// ```
    /// use workflow_worker::{Queue, Rate};
    ///
    /// let mail = Queue::new("mail").rate(Rate::per_minute(600).burst(20));
    /// # let _ = mail;
    /// ```
    pub fn rate(mut self, rate: Rate) -> Self {
        self.limits = self.limits.rate(rate);
        self
    }

    /// Refuses starts once this number of runs of the queue waits and has not begun, over all
    /// clients of the database: see [`QueueLimits::max_waiting`]. A start beyond it fails with
    /// [`ClientError::QueueFull`](workflow_sdk::ClientError::QueueFull). Default: any number. 0
    /// takes no start.
    ///
    /// ```
    /// use workflow_worker::{GateLimits, Queue};
    ///
    /// // At most 10,000 imports wait, and at most 100 of one account.
    /// let of_account = GateLimits::none().max_waiting(100);
    /// let imports = Queue::new("imports").max_waiting(10_000).per_gate(of_account);
    /// # let _ = imports;
    /// ```
    pub fn max_waiting(mut self, runs: u32) -> Self {
        self.limits = self.limits.max_waiting(runs);
        self
    }

    /// Sets the limits of each gate of the queue: see [`Start::gate`](workflow_sdk::Start::gate).
    /// Default: none.
    ///
    /// ```
    /// use workflow_worker::{GateLimits, Queue};
    ///
    /// // At most 100 imports at once, and at most 10 of one account.
    /// let of_account = GateLimits::none().concurrency(10);
    /// let imports = Queue::new("imports").concurrency(100).per_gate(of_account);
    /// # let _ = imports;
    /// ```
    pub fn per_gate(mut self, limits: GateLimits) -> Self {
        self.limits = self.limits.per_gate(limits);
        self
    }
}
