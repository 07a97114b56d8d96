//! The single writer of a process: takes the queued writes, commits them in one transaction, and
//! answers their senders after the commit.
//!
//! No timer closes a batch: while one batch is being committed the next one gathers, so the batches
//! grow with the load. `pipeline.rs` shows the states of the executor in a figure.

mod acknowledger;
mod batch;
mod events;
mod failure;
mod gather;
mod hint;
mod in_flight;
mod notifier;
mod pending_claims;
mod pipeline;
mod queue;
mod quiescence;
mod request;
mod statistics;
mod thread;

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::observe::Observers;
use crate::store::{ClaimRequest, Outcome, Store, Write};

use gather::Gather;
use pipeline::Pipeline;
use queue::Queue;
use quiescence::Quiescence;
use request::{QueuedWrite, Reply, Request};

pub use notifier::{Cancel, Notifier};
pub use request::ClaimAnswer;
pub use statistics::Statistics;

/// Requests that may wait in the channel before their senders have to wait. One more batch of the
/// largest size fits in while such a batch is being committed.
const QUEUE: usize = 8192;

/// The executor has ended. Its process cannot write anything any more, and must say so and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the executor of this process has stopped; nothing more can be written: restart the process")]
pub struct ExecutorStopped;

/// The sending side of the executor. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    sender: mpsc::Sender<Request>,
    notifier: Arc<Notifier>,
    statistics: Arc<Statistics>,
}

/// Room for one write in the queue, or for writes that belong together. Dropping it frees the room.
pub struct SendPermit<'a>(mpsc::Permit<'a, Request>);

impl SendPermit<'_> {
    /// Queues a write. The write is committed even if the receiver of its outcome is dropped.
    pub fn send(self, write: Write) -> PendingOutcome {
        let (reply, outcome) = oneshot::channel();
        self.0.send(Request::Write(QueuedWrite { write, reply: Reply::Outcome(reply) }));
        outcome
    }

    /// Queues writes of one claim, each of which depends on those before it. They are committed in
    /// their order, and together unless they are larger than a batch may be. If one is refused, so
    /// are those behind it.
    pub fn send_together(self, writes: Vec<Write>) -> Vec<PendingOutcome> {
        let queued = writes.into_iter().map(|write| {
            let (reply, outcome) = oneshot::channel();
            ((write, reply), outcome)
        });
        let (writes, outcomes) = queued.unzip();
        self.0.send(Request::Together(writes));
        outcomes
    }
}

impl fmt::Debug for SendPermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendPermit").finish_non_exhaustive()
    }
}

/// Receives the outcome of a write that was sent.
pub type PendingOutcome = oneshot::Receiver<Outcome>;

/// Receives the answer to a claim.
///
/// Dropping it withdraws a claim that is still pending. If the claim is already being committed, it
/// takes runs that nothing drives, and its worker has to release them.
pub type PendingClaim = oneshot::Receiver<ClaimAnswer>;

impl Executor {
    /// Starts the executor of this process, which ends when its last sender is dropped.
    ///
    /// It runs on a thread of its own, or on the current runtime if the store lives
    /// [in this process](Store::in_process). The answers are sent from the current runtime.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, observers: Observers) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (completed, to_acknowledge) = mpsc::unbounded_channel();
        let in_process = store.in_process();
        let gather = if in_process { Gather::Never } else { Gather::Asleep };
        let quiescent = Arc::new(Notify::new());
        let prepares = store.prepares_next_batch();
        let quiescence = prepares.then(|| Quiescence::new(sender.downgrade(), Arc::clone(&quiescent)));
        let queue = Queue::new(receiver);
        // Tests of a store in memory count and interrupt its commits, so there are no others.
        let statistics = Arc::new(if in_process { Statistics::off() } else { Statistics::new() });
        let counts = Arc::clone(&statistics);
        let pipeline =
            Pipeline::new(Arc::clone(&store), queue, completed, observers.clone(), quiescent, gather, counts);
        let beside_pipeline = if in_process {
            tokio::spawn(pipeline.run());
            None
        } else {
            thread::start(pipeline.run())
        };
        let notifier = Notifier::start(store, beside_pipeline.unwrap_or_else(Handle::current));
        let reporter = events::Reporter { observers, statistics: Arc::clone(&statistics) };
        tokio::spawn(acknowledger::run(to_acknowledge, Arc::clone(&notifier), reporter, quiescence));
        Self { sender, notifier, statistics }
    }

    /// Queues a write; waits only while the queue is full. Writes of one sender are committed in
    /// the order in which they were sent.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing was queued. A queued write is committed
    /// even if the receiver of its outcome is dropped.
    pub async fn send(&self, write: Write) -> Result<PendingOutcome, ExecutorStopped> {
        Ok(self.reserve().await?.send(write))
    }

    /// Waits until the queue has room for one write. Reserving first keeps the caller's future
    /// small: the `Write` is built only after the room is available.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing was reserved, and the caller loses its turn.
    pub async fn reserve(&self) -> Result<SendPermit<'_>, ExecutorStopped> {
        self.sender.reserve().await.map(SendPermit).map_err(|_| ExecutorStopped)
    }

    /// Returns room for one write; `None` if the queue is full. Does not wait, and takes no room
    /// that waits of [`Executor::send`] and [`Executor::reserve`] have been promised.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    pub fn try_reserve(&self) -> Result<Option<SendPermit<'_>>, ExecutorStopped> {
        match self.sender.try_reserve() {
            Ok(permit) => Ok(Some(SendPermit(permit))),
            Err(TrySendError::Full(())) => Ok(None),
            Err(TrySendError::Closed(())) => Err(ExecutorStopped),
        }
    }

    /// Queues a claim for the next batch. A batch takes at most one claim of each worker: a second
    /// one waits for the batch after it.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing was queued.
    pub async fn claim(&self, request: ClaimRequest) -> Result<PendingClaim, ExecutorStopped> {
        self.send_claim(request, Request::Write).await
    }

    /// Leaves a claim pending. It is committed with the next batch that makes a run due, or after
    /// [`Executor::flush_claims`], or at once if a run became due since this worker's last claim.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing was queued.
    pub async fn wait_claim(&self, request: ClaimRequest) -> Result<PendingClaim, ExecutorStopped> {
        self.send_claim(request, Request::WaitClaim).await
    }

    /// Has all pending claims committed now: a run may be due by other means than a commit of this
    /// process.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing was queued.
    pub async fn flush_claims(&self) -> Result<(), ExecutorStopped> {
        self.sender.send(Request::FlushClaims).await.map_err(|_| ExecutorStopped)
    }

    async fn send_claim(
        &self,
        request: ClaimRequest,
        to_request: fn(QueuedWrite) -> Request,
    ) -> Result<PendingClaim, ExecutorStopped> {
        let (reply, answer) = oneshot::channel();
        let claim = QueuedWrite { write: Write::Claim(request), reply: Reply::Claim(reply) };
        self.sender.send(to_request(claim)).await.map_err(|_| ExecutorStopped)?;
        Ok(answer)
    }

    /// Queues a write and waits for its commit.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped after the write was queued, the write is committed nevertheless.
    pub async fn commit(&self, write: Write) -> Result<Outcome, ExecutorStopped> {
        self.reserve().await?.send(write).await.map_err(|_| ExecutorStopped)
    }

    /// Returns what this process counts of its runs.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Commits what was counted and not written, for a process that is about to end. It is written
    /// within a second otherwise. If the commit fails, the counts are kept for a later one. Counts
    /// whose write has begun are committed before this returns: writes keep their order.
    ///
    /// # Cancel safety
    /// If the future is dropped before the write is queued, the counts are lost.
    pub async fn write_statistics(&self) {
        if let Some(write) = self.statistics.take_last()
            && let Ok(Outcome::Refused(_)) = self.commit(Write::Statistics(Box::new(write.clone()))).await
        {
            self.statistics.put_back(write);
        }
    }

    /// Returns the notifier, which wakes tasks of this process after commits.
    #[must_use]
    pub fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }

    /// Returns once the executor has ended.
    pub async fn stopped(&self) {
        self.sender.closed().await;
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("queued", &(QUEUE - self.sender.capacity())).finish_non_exhaustive()
    }
}
