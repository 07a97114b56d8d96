//! The single writer of a process: takes what is queued, commits it in one transaction, answers after the commit.
//!
//! There is no timer: while one batch is being committed the next one gathers, so the batches grow with the load.

mod batch;
mod hint;
mod hub;
mod thread;
mod writer;

use std::fmt;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::backend::{Backend, Outcome, Write};

pub use hub::{Cancel, Hub};

/// Writes that may wait for the next batch before senders are held back. Enough to fill the largest batch while one is on
/// its way.
const QUEUE: usize = 8192;

/// The executor has ended: its process can write no more, and must say so and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the executor of this process has stopped; nothing more can be written: restart the process")]
pub struct ExecutorStopped;

/// A write and where its answer goes.
struct Request {
    write: Write,
    reply: oneshot::Sender<Outcome>,
}

/// The sending side of the executor. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    sender: mpsc::Sender<Request>,
    hub: Arc<Hub>,
}

/// The answer to a write that was sent.
pub type PendingOutcome = oneshot::Receiver<Outcome>;

impl Executor {
    /// Starts the executor of this process on a thread of its own. It ends when its last sender is gone.
    #[must_use]
    pub fn start(backend: Arc<dyn Backend>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let hub = Hub::start(Arc::clone(&backend));
        thread::start(writer::run(backend, receiver, Arc::clone(&hub)));
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
        let (reply, outcome) = oneshot::channel();
        self.sender.send(Request { write, reply }).await.map_err(|_| ExecutorStopped)?;
        Ok(outcome)
    }

    /// Queues a write and waits for its commit.
    ///
    /// # Errors
    /// [`ExecutorStopped`].
    ///
    /// # Cancel safety
    /// Dropped after it was queued, the write is committed all the same.
    pub async fn commit(&self, write: Write) -> Result<Outcome, ExecutorStopped> {
        self.send(write).await?.await.map_err(|_| ExecutorStopped)
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
