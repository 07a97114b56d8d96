use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use futures::poll;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backend::{Backend, BackendError, Outcome, Write};
use crate::failpoint::failpoint_error;
use crate::planted::planted;

use super::announcer::Committed;
use super::batch::{AfterFailure, Failures, after_failure, may_repeat};
use super::offers::Offers;
use super::queue::{Commit, Gather, Queue, gather};
use super::{Message, Reply, Request};

/// The most payload in one batch: far below what one statement of either database can take (1 GB).
const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// So many senders have the processors for a while once they are told, and the database would wait for them. A few are soon back with what
/// they send next: starts with 32 in flight were 13 % fewer a second when they were told later.
const MANY: usize = 64;

/// The loop of the executor. Owns the receiver, so its end is seen by every sender.
pub(super) async fn run(
    backend: Arc<dyn Backend>,
    mut receiver: mpsc::Receiver<Message>,
    committed: mpsc::UnboundedSender<Committed>,
    how: Gather,
) {
    let mut queue = Queue::default();
    let mut writer = Writer { backend, committed, untold: None };
    let mut last = Commit::default();
    loop {
        let something = queue.take_all(&mut receiver);
        if queue.writes() < last.to_gather().0.max(1) {
            // Who is to send the rest waits for the last commit.
            writer.tell();
            if !something && !queue.wait(&mut receiver).await {
                break;
            }
            if how == Gather::Asleep {
                gather(&mut receiver, &mut queue, last);
            }
        }
        let batch = queue.next_batch();
        if batch.writes.is_empty() {
            continue;
        }
        let begun = Instant::now();
        let writes = batch.writes.len();
        for batch in batch.in_sizes() {
            writer.commit(&mut queue.offers, batch).await;
        }
        last = Commit { writes, took: begun.elapsed() };
    }
}

struct Writer {
    backend: Arc<dyn Backend>,
    committed: mpsc::UnboundedSender<Committed>,
    /// A commit of [`MANY`] writes of which nobody was told yet: the database gets the next batch first, if there is one.
    untold: Option<Committed>,
}

impl Writer {
    /// Passes on what was committed, to be made known.
    fn tell(&mut self) {
        if let Some(committed) = self.untold.take() {
            // It fails only after the runtime of those who wait has ended, and they with it.
            let _ = self.committed.send(committed);
        }
    }

    async fn try_commit(&mut self, writes: &[Write]) -> Result<Vec<Outcome>, BackendError> {
        failpoint_error("executor.before_commit")?;
        let backend = Arc::clone(&self.backend);
        let mut commit = backend.commit(writes);
        // The first poll sends it.
        let first = poll!(&mut commit);
        self.tell();
        let outcomes = match first {
            Poll::Ready(outcomes) => outcomes,
            Poll::Pending => commit.await,
        }?;
        failpoint_error("executor.after_commit")?;
        Ok(outcomes)
    }

    /// Commits a batch, in parts if it must be, in the order of its writes.
    async fn commit(&mut self, offers: &mut Offers, batch: Batch) {
        let mut parts = VecDeque::from([batch]);
        while let Some(part) = parts.pop_front() {
            if let Some((first, second)) = self.commit_part(offers, part).await {
                parts.push_front(second);
                parts.push_front(first);
            }
        }
    }

    /// Commits a batch and passes it on to be answered; or gives back its halves, if one of its writes is bad.
    async fn commit_part(&mut self, offers: &mut Offers, mut batch: Batch) -> Option<(Batch, Batch)> {
        if planted("reply-before-commit") {
            batch.answer_unwritten();
        }
        let mut failed = Failures::default();
        loop {
            let begun = Instant::now();
            tracing::trace!(writes = batch.writes.len(), "commit");
            let error = match self.try_commit(&batch.writes).await {
                Ok(outcomes) => {
                    offers.committed(&batch.writes, &outcomes);
                    self.tell();
                    let are_few = batch.writes.len() < MANY;
                    self.untold = Some(Committed { batch, outcomes, begun });
                    if are_few {
                        self.tell();
                    }
                    return None;
                }
                Err(error) => error,
            };
            self.tell();
            let (failures, elapsed) = failed.another(Instant::now());
            batch.give_up_claims(&error);
            match after_failure(&error, batch.writes.len(), failures, elapsed, fastrand::f64()) {
                AfterFailure::Again(delay) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        failures,
                        ?delay,
                        "commit failed, trying again"
                    );
                    tokio::time::sleep(delay).await;
                }
                AfterFailure::Split => return Some(batch.halves()),
                AfterFailure::GiveUp => {
                    let writes = batch.writes.len();
                    tracing::error!(error = &error as &dyn std::error::Error, writes, "commit failed");
                    batch.refuse_all(&error);
                    return None;
                }
            }
            if batch.writes.is_empty() {
                return None;
            }
        }
    }
}

/// Writes, and where the answer to each goes.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) writes: Vec<Write>,
    pub(super) replies: Vec<Reply>,
}

impl Batch {
    pub(super) fn push(&mut self, Request { write, reply }: Request) {
        self.writes.push(write);
        self.replies.push(reply);
    }

    /// The batch in as few parts as [`MAX_BATCH_BYTES`] allows, in their order.
    fn in_sizes(mut self) -> Vec<Self> {
        let mut parts = Vec::new();
        while let Some(end) = self.end_of_first() {
            let rest = self.split_off(end);
            parts.push(std::mem::replace(&mut self, rest));
        }
        parts.push(self);
        parts
    }

    /// How many writes are as much as one batch takes, if there are more. One is never too much.
    fn end_of_first(&self) -> Option<usize> {
        let mut bytes = 0;
        let too_much = |write: &Write| {
            bytes += write.payload_bytes();
            bytes > MAX_BATCH_BYTES
        };
        self.writes.iter().position(too_much).map(|end| end.max(1)).filter(|end| *end < self.writes.len())
    }

    fn halves(mut self) -> (Self, Self) {
        let second = self.split_off(self.writes.len() / 2);
        (self, second)
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self { writes: self.writes.split_off(at), replies: self.replies.split_off(at) }
    }

    /// After a failure whose effect is unknown, claims are answered with it rather than repeated.
    fn give_up_claims(&mut self, error: &BackendError) {
        if !error.kind.is_transient() {
            return;
        }
        let pairs = std::mem::take(&mut self.writes).into_iter().zip(std::mem::take(&mut self.replies));
        for (write, reply) in pairs {
            if may_repeat(&write) {
                self.writes.push(write);
                self.replies.push(reply);
            } else {
                reply.send(refused(error), Instant::now());
            }
        }
    }

    /// The bug of this name: what is most often true is answered before it is.
    fn answer_unwritten(&mut self) {
        for (write, reply) in self.writes.iter().zip(&mut self.replies) {
            if let Write::Attempt(_) | Write::End(_) | Write::Park(_) = write {
                let nobody = Reply::Outcome(tokio::sync::oneshot::channel().0);
                std::mem::replace(reply, nobody).send(Outcome::Applied, Instant::now());
            }
        }
    }

    fn refuse_all(self, error: &BackendError) {
        for reply in self.replies {
            reply.send(refused(error), Instant::now());
        }
    }
}

/// One error for several senders.
fn refused(error: &BackendError) -> Outcome {
    Outcome::Refused(BackendError::new(error.kind, error.operation, error.source.to_string()))
}
