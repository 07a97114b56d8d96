use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::store::{Answer, Store};

use super::Message;
use super::announcer::Committed;
use super::batch::Batch;
use super::failure::{AfterFailure, Failures, after_failure};
use super::flight::{self, Flight, Landed};
use super::queue::{Commit, Gather, Queue, gather};

/// So many senders have the processors for a while once they are told, and the database would wait for them. A few are soon back with what
/// they send next: starts with 32 in flight were 13 % fewer a second when they were told later.
pub(super) const MANY: usize = 64;

/// The loop of the executor. Owns the receiver, so its end is seen by every sender.
pub(super) async fn run(
    store: Arc<dyn Store>,
    receiver: mpsc::Receiver<Message>,
    committed: mpsc::UnboundedSender<Committed>,
    quiet: Arc<Notify>,
    how: Gather,
) {
    let queue = Queue::new(receiver);
    let mut writer = Writer { store, queue, committed, untold: None, quiet, ready: None, sent: None };
    let mut last = Commit::default();
    loop {
        last = if let Some(flight) = writer.sent.take() {
            writer.commit_sent(flight).await
        } else if let Some(batch) = writer.next_batch(last, how).await {
            if batch.writes.is_empty() {
                continue;
            }
            writer.commit(batch).await
        } else {
            break;
        };
    }
}

struct Writer {
    store: Arc<dyn Store>,
    queue: Queue,
    committed: mpsc::UnboundedSender<Committed>,
    /// A commit of [`MANY`] writes of which nobody was told yet: the database gets the next batch first, if there is one.
    untold: Option<Committed>,
    /// Those who were answered last have sent what comes next.
    quiet: Arc<Notify>,
    /// The next batch, made ready while the last one was committed.
    ready: Option<Batch>,
    /// The same, sent as soon as the last one was committed.
    sent: Option<Flight>,
}

impl Writer {
    /// What is to be committed next, once there is something, though it may be an offer that waits. `None`: nobody will ever send.
    async fn next_batch(&mut self, last: Commit, how: Gather) -> Option<Batch> {
        if let Some(batch) = self.ready.take() {
            return Some(batch);
        }
        let something = self.queue.take_all();
        if self.queue.writes() < last.to_gather().0.max(1) {
            // Who is to send the rest waits for the last commit.
            self.tell();
            if !something && !self.queue.wait().await {
                return None;
            }
            if how == Gather::Asleep {
                gather(&mut self.queue, last);
            }
        }
        Some(self.queue.next_batch())
    }

    /// Makes the next batch ready, if what has come is worth it and the store can.
    fn make_ready(&mut self) {
        self.queue.take_all();
        if self.queue.writes() < MANY {
            return;
        }
        let Some(preparer) = self.store.preparer() else { return };
        if let Some(prepared) = preparer.prepare(self.queue.waiting()) {
            let prepared_writes = self.queue.writes();
            let mut batch = self.queue.next_batch();
            // Offers may have joined it.
            batch.prepared = Some(prepared).filter(|_| batch.writes.len() == prepared_writes);
            self.ready = Some(batch);
        }
    }

    /// Passes on what was committed, to be made known.
    fn tell(&mut self) {
        if let Some(committed) = self.untold.take() {
            // It fails only after the runtime of those who wait has ended, and they with it.
            let _ = self.committed.send(committed);
        }
    }

    /// Commits a batch, in parts if it must be, in the order of its writes.
    async fn commit(&mut self, batch: Batch) -> Commit {
        let (writes, begun) = (batch.writes.len(), Instant::now());
        self.commit_parts(batch.in_sizes().into()).await;
        Commit { writes, took: begun.elapsed() }
    }

    /// The same of one that is sent.
    async fn commit_sent(&mut self, flight: Flight) -> Commit {
        let landed = self.land(flight).await;
        let (writes, begun) = (landed.batch.writes.len(), landed.begun);
        if let Some((first, second)) = self.settle(landed, true).await {
            self.commit_parts(VecDeque::from([first, second])).await;
        }
        Commit { writes, took: begun.elapsed() }
    }

    async fn commit_parts(&mut self, mut parts: VecDeque<Batch>) {
        while let Some(part) = parts.pop_front() {
            let landed = self.send(part).await;
            if let Some((first, second)) = self.settle(landed, parts.is_empty()).await {
                parts.push_front(second);
                parts.push_front(first);
            }
        }
    }

    /// Sends a batch and waits for the answer.
    async fn send(&mut self, batch: Batch) -> Landed {
        let flight = flight::send(Arc::clone(&self.store), batch).await;
        self.land(flight).await
    }

    /// Waits for the answer to what was sent, and makes the next batch ready meanwhile.
    async fn land(&mut self, mut flight: Flight) -> Landed {
        self.tell();
        loop {
            tokio::select! {
                biased;
                landed = &mut flight => return landed,
                () = self.quiet.notified(), if self.ready.is_none() => self.make_ready(),
            }
        }
    }

    /// Passes a batch on to be answered once it is committed; or gives back its halves, if one of its writes is bad. The next one may be
    /// sent after it if it `is_last`.
    async fn settle(&mut self, mut landed: Landed, is_last: bool) -> Option<(Batch, Batch)> {
        let mut failed = Failures::default();
        loop {
            let Landed { mut batch, begun, answer } = landed;
            let error = match answer {
                Ok(answer) => {
                    if is_last {
                        self.send_ready().await;
                    }
                    self.pass_on(batch, begun, answer);
                    return None;
                }
                Err(error) => error,
            };
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
            landed = self.send(batch).await;
        }
    }

    /// Sends the batch that is ready, if there is one: the database has it before the answer to the last one is read.
    async fn send_ready(&mut self) {
        if let Some(batch) = self.ready.take_if(|batch| !batch.is_too_large()) {
            self.sent = Some(flight::send(Arc::clone(&self.store), batch).await);
        }
    }

    /// Passes on what was committed, to be made known now or after the next batch is sent.
    fn pass_on(&mut self, batch: Batch, begun: Instant, answer: Answer) {
        let outcomes = answer.read(&batch.writes);
        self.queue.offers.committed(&batch.writes, &outcomes);
        self.tell();
        let is_now = batch.writes.len() < MANY || self.sent.is_some();
        self.untold = Some(Committed { batch, outcomes, begun });
        if is_now {
            self.tell();
        }
    }
}
