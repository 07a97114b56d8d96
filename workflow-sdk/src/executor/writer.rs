use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use futures::poll;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backend::{Backend, BackendError, Outcome, Write};
use crate::failpoint::failpoint_error;
use crate::planted::planted;

use super::Message;
use super::announcer::Committed;
use super::batch::Batch;
use super::failure::{AfterFailure, Failures, after_failure};
use super::queue::{Commit, Gather, Queue, gather};

/// So many senders have the processors for a while once they are told, and the database would wait for them. A few are soon back with what
/// they send next: starts with 32 in flight were 13 % fewer a second when they were told later.
const MANY: usize = 64;

/// The loop of the executor. Owns the receiver, so its end is seen by every sender.
pub(super) async fn run(
    backend: Arc<dyn Backend>,
    receiver: mpsc::Receiver<Message>,
    committed: mpsc::UnboundedSender<Committed>,
    how: Gather,
) {
    let mut writer = Writer { backend, queue: Queue::new(receiver), committed, untold: None };
    let mut last = Commit::default();
    while writer.gather(last, how).await {
        let batch = writer.queue.next_batch();
        if batch.writes.is_empty() {
            continue;
        }
        let begun = Instant::now();
        let writes = batch.writes.len();
        for batch in batch.in_sizes() {
            writer.commit(batch).await;
        }
        last = Commit { writes, took: begun.elapsed() };
    }
}

struct Writer {
    backend: Arc<dyn Backend>,
    queue: Queue,
    committed: mpsc::UnboundedSender<Committed>,
    /// A commit of [`MANY`] writes of which nobody was told yet: the database gets the next batch first, if there is one.
    untold: Option<Committed>,
}

impl Writer {
    /// Waits until there is something to commit. `false`: nobody will ever send.
    async fn gather(&mut self, last: Commit, how: Gather) -> bool {
        let something = self.queue.take_all();
        if self.queue.writes() < last.to_gather().0.max(1) {
            // Who is to send the rest waits for the last commit.
            self.tell();
            if !something && !self.queue.wait().await {
                return false;
            }
            if how == Gather::Asleep {
                gather(&mut self.queue, last);
            }
        }
        true
    }

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
    async fn commit(&mut self, batch: Batch) {
        let mut parts = VecDeque::from([batch]);
        while let Some(part) = parts.pop_front() {
            if let Some((first, second)) = self.commit_part(part).await {
                parts.push_front(second);
                parts.push_front(first);
            }
        }
    }

    /// Commits a batch and passes it on to be answered; or gives back its halves, if one of its writes is bad.
    async fn commit_part(&mut self, mut batch: Batch) -> Option<(Batch, Batch)> {
        if planted("reply-before-commit") {
            batch.answer_unwritten();
        }
        let mut failed = Failures::default();
        loop {
            let begun = Instant::now();
            tracing::trace!(writes = batch.writes.len(), "commit");
            let error = match self.try_commit(&batch.writes).await {
                Ok(outcomes) => {
                    self.queue.offers.committed(&batch.writes, &outcomes);
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
