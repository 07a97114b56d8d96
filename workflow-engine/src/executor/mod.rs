//! The single writer of a process: takes what is queued, commits it in one transaction, answers after the commit.
//!
//! There is no timer: while one batch is being committed the next one gathers, so the batches grow with the load.

mod announcer;
mod batch;
mod failure;
mod flight;
mod hint;
mod hub;
mod offers;
mod queue;
mod quiet;
mod thread;
mod writer;

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::store::{ClaimRequest, Claimed, DatabaseError, DatabaseErrorKind, Outcome, Store, Write};

use queue::Gather;
use quiet::Quiet;

pub use hub::{Cancel, Hub};

/// Writes that may wait for the next batch before senders are held back. Enough to fill the largest batch while one is on
/// its way.
const QUEUE: usize = 8192;

/// The executor has ended: its process can write no more, and must say so and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the executor of this process has stopped; nothing more can be written: restart the process")]
pub struct ExecutorStopped;

/// What the executor is sent.
enum Message {
    /// A write for the next batch.
    Write(Request),
    /// A claim that may wait until a run is due.
    Offer(Request),
    /// No offer may wait any longer.
    CallIn,
}

/// A write and where its answer goes.
struct Request {
    write: Write,
    reply: Reply,
}

/// Where the answer to a write goes.
enum Reply {
    Outcome(oneshot::Sender<Outcome>),
    Claim(oneshot::Sender<ClaimAnswer>),
}

impl Reply {
    /// Whether nobody waits for the answer.
    fn is_closed(&self) -> bool {
        match self {
            Self::Outcome(sender) => sender.is_closed(),
            Self::Claim(sender) => sender.is_closed(),
        }
    }

    /// Answers. One who has gone wanted no answer.
    fn send(self, outcome: Outcome, begun: Instant) {
        match self {
            Self::Outcome(sender) => drop(sender.send(outcome)),
            Self::Claim(sender) => {
                let outcome = match outcome {
                    Outcome::Claimed(claimed) => Ok(claimed),
                    Outcome::Refused(error) => Err(error),
                    other => {
                        Err(DatabaseError::new(DatabaseErrorKind::Other, "claim runs", format!("got {}", other.name())))
                    }
                };
                drop(sender.send(ClaimAnswer { outcome, begun }));
            }
        }
    }
}

/// What a claim came to.
#[derive(Debug)]
pub struct ClaimAnswer {
    /// What was claimed; an error, if it is unknown what was.
    pub outcome: Result<Claimed, DatabaseError>,
    /// Before the database was asked: the leases count from here, whenever the answer came.
    pub begun: Instant,
}

/// The sending side of the executor. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    sender: mpsc::Sender<Message>,
    hub: Arc<Hub>,
}

/// Room for one write in the queue; free again when this is dropped.
pub struct SendPermit<'a>(mpsc::Permit<'a, Message>);

impl SendPermit<'_> {
    /// Queues a write, as [`Executor::send`].
    pub fn send(self, write: Write) -> PendingOutcome {
        let (reply, outcome) = oneshot::channel();
        self.0.send(Message::Write(Request { write, reply: Reply::Outcome(reply) }));
        outcome
    }
}

impl fmt::Debug for SendPermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendPermit").finish_non_exhaustive()
    }
}

/// The answer to a write that was sent.
pub type PendingOutcome = oneshot::Receiver<Outcome>;

/// The answer to a claim. Dropped before it is there, an offer is withdrawn; a claim that is under way claims for nobody, and
/// its worker must release it.
pub type PendingClaim = oneshot::Receiver<ClaimAnswer>;

impl Executor {
    /// Starts the executor of this process on a thread of its own, or on the current runtime if the store is
    /// [in this process](Store::in_process); its answers come by the current runtime. It ends when its last sender is gone.
    #[must_use]
    pub fn start(store: Arc<dyn Store>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (committed, to_announce) = mpsc::unbounded_channel();
        let in_process = store.in_process();
        let how = if in_process { Gather::Never } else { Gather::Asleep };
        let notify = Arc::new(Notify::new());
        let quiet = store.preparer().map(|_| Quiet::new(sender.downgrade(), Arc::clone(&notify)));
        let writer = writer::run(Arc::clone(&store), receiver, committed, notify, how);
        let beside_writer = if in_process {
            tokio::spawn(writer);
            None
        } else {
            thread::start(writer)
        };
        let hub = Hub::start(store, beside_writer.unwrap_or_else(Handle::current));
        tokio::spawn(announcer::run(to_announce, Arc::clone(&hub), quiet));
        Self { sender, hub }
    }

    /// Queues a write; waits only while the queue is full. Writes of one sender are committed in the order in which they
    /// were sent.
    ///
    /// # Errors
    /// [`ExecutorStopped`].
    ///
    /// # Cancel safety
    /// Dropped before it is ready, nothing was queued. The write is committed even if the receiver is dropped.
    pub async fn send(&self, write: Write) -> Result<PendingOutcome, ExecutorStopped> {
        Ok(self.reserve().await?.send(write))
    }

    /// Waits while the queue is full. The future of one who then makes its write is smaller by several writes than that of one
    /// who comes with it.
    ///
    /// # Errors
    /// [`ExecutorStopped`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind, though it loses its turn.
    pub async fn reserve(&self) -> Result<SendPermit<'_>, ExecutorStopped> {
        self.sender.reserve().await.map(SendPermit).map_err(|_| ExecutorStopped)
    }

    /// Queues a claim. A second one of a worker is committed by the batch after that of the first.
    ///
    /// # Errors
    /// [`ExecutorStopped`].
    ///
    /// # Cancel safety
    /// As [`Executor::send`].
    pub async fn claim(&self, request: ClaimRequest) -> Result<PendingClaim, ExecutorStopped> {
        self.send_claim(request, Message::Write).await
    }

    /// Offers to claim: the claim is committed with the next batch that makes a run due, or when it is
    /// [called in](Executor::call_in), or at once if a run became due after this worker's last claim.
    ///
    /// # Errors
    /// [`ExecutorStopped`].
    ///
    /// # Cancel safety
    /// As [`Executor::send`].
    pub async fn offer(&self, request: ClaimRequest) -> Result<PendingClaim, ExecutorStopped> {
        self.send_claim(request, Message::Offer).await
    }

    /// Has all offers committed now: a run may be due by other means than a commit of this process.
    ///
    /// # Errors
    /// [`ExecutorStopped`].
    ///
    /// # Cancel safety
    /// Dropped before it is ready, nothing was queued.
    pub async fn call_in(&self) -> Result<(), ExecutorStopped> {
        self.sender.send(Message::CallIn).await.map_err(|_| ExecutorStopped)
    }

    async fn send_claim(
        &self,
        request: ClaimRequest,
        message: fn(Request) -> Message,
    ) -> Result<PendingClaim, ExecutorStopped> {
        let (reply, answer) = oneshot::channel();
        let request = Request { write: Write::Claim(request), reply: Reply::Claim(reply) };
        self.sender.send(message(request)).await.map_err(|_| ExecutorStopped)?;
        Ok(answer)
    }

    /// Queues a write and waits for its commit.
    ///
    /// # Errors
    /// [`ExecutorStopped`].
    ///
    /// # Cancel safety
    /// Dropped after it was queued, the write is committed all the same.
    pub async fn commit(&self, write: Write) -> Result<Outcome, ExecutorStopped> {
        self.reserve().await?.send(write).await.map_err(|_| ExecutorStopped)
    }

    /// Where commits are made known inside the process.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Ends when the executor does.
    pub async fn stopped(&self) {
        self.sender.closed().await;
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("queued", &(QUEUE - self.sender.capacity())).finish_non_exhaustive()
    }
}
