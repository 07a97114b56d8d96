//! The states of the executor, from the queue of writes to committed batches.
//!
//! ```text
//!               a request                a batch
//!  +------+     arrives    +-----------+ is sent   +-----------+     the next batch was
//!  | Idle | -------------> | Gathering | --------> | InFlight  | --+ in line, or is sent
//!  +------+                +-----------+           |  current  |   |
//!   |  ^ ^                       |                 |  next?    | <-+
//!   |  | |   nothing to commit   |                 +-----------+
//!   |  | +-----------------------+                  |   |    ^
//!   |  |                                            |   |    |  the delay is over
//!   |  +--------------------------------------------+   v    |
//!   |       committed or refused, nothing to send    +----------+
//!   v                                                | Retrying |
//!  end: no sender is left                            +----------+
//! ```
//!
//! * While `current` is being committed, the next batch is put in line behind it in the store, as
//!   soon as many writes wait for it, if the store
//!   [prepares it](Store::prepares_next_batch). There are never more than two calls of
//!   [`Store::commit`] at once, and the store applies them in the order of the calls.
//! * A batch in which one write is bad is cut in halves, which are sent one after the other.
//! * If the commit of `current` fails, `next` is called back. It is sent again after `current` is
//!   committed or refused, so writes of one sender stay in their order.
//! * A commit is acknowledged when it has completed. If many senders wait for it, the next batch is
//!   sent first, because these senders keep the processors busy once they are answered.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::observe::{Event, Observers};
use crate::store::{DatabaseError, Store};

use super::batch::{Batch, MANY, is_of_counts};
use super::failure::{AfterFailure, after_failure};
use super::gather::{Gather, LastCommit};
use super::in_flight::{Completed, InFlight};
use super::queue::Queue;
use super::request::GroupId;
use super::statistics::{Statistics, WRITE_DELAY};

/// A state of the executor. Each holds only what is true in it.
enum Stage {
    /// Nothing is being committed, and every commit is acknowledged.
    Idle,
    /// Something has arrived, and more is expected.
    Gathering,
    /// The store commits `current`; `next` is in line behind it.
    InFlight { current: InFlight, next: Option<InFlight> },
    /// The commit of `batch` has failed. It is repeated after `delay`.
    Retrying { batch: Batch, delay: Duration },
}

/// The executor: everything that its states share.
pub(super) struct Pipeline {
    store: Arc<dyn Store>,
    queue: Queue,
    gather: Gather,
    last: LastCommit,
    /// Closed batches that must be sent before anything else, in this order: the parts of a large
    /// batch, the halves of a batch with a bad write, and a batch that was called back.
    backlog: VecDeque<Batch>,
    /// Takes the commits that are to be made known and answered.
    acknowledger: mpsc::UnboundedSender<Completed>,
    /// Learn of commits that fail.
    observers: Observers,
    /// Notified when the senders that were answered last have sent again.
    quiescent: Arc<Notify>,
    /// The counts of this process, which it has to write.
    statistics: Arc<Statistics>,
}

impl Pipeline {
    pub(super) fn new(
        store: Arc<dyn Store>,
        queue: Queue,
        acknowledger: mpsc::UnboundedSender<Completed>,
        observers: Observers,
        quiescent: Arc<Notify>,
        gather: Gather,
        statistics: Arc<Statistics>,
    ) -> Self {
        let (last, backlog) = (LastCommit::default(), VecDeque::new());
        Self { store, queue, gather, last, backlog, acknowledger, observers, quiescent, statistics }
    }

    /// Runs the executor until no sender is left. Owns the queue, so every sender sees its end.
    pub(super) async fn run(mut self) {
        let mut stage = Stage::Idle;
        while let Some(next) = self.step(stage).await {
            stage = next;
        }
    }

    /// Leaves one stage and returns the next one, or `None` if no sender is left.
    async fn step(&mut self, stage: Stage) -> Option<Stage> {
        match stage {
            Stage::Idle => {
                // A batch in line was closed before the one in front of it made a run due. A claim
                // that it left pending must not wait for another request.
                let has_arrived = self.queue.take_all() || self.queue.pending_claims().has_late() || self.wait().await;
                if has_arrived { Some(Stage::Gathering) } else { self.write_last_counts().await }
            }
            Stage::Gathering => {
                self.gather.gather(&mut self.queue, self.last);
                self.close_batch();
                Some(self.proceed().await)
            }
            Stage::InFlight { mut current, mut next } => {
                self.wait_for_answer(&mut current, &mut next).await;
                Some(match current.finish().await {
                    Ok(completed) => self.acknowledge(completed, next).await,
                    Err((batch, error)) => self.retry_or_split(batch, &error, next).await,
                })
            }
            Stage::Retrying { batch, delay } => {
                tokio::time::sleep(delay).await;
                self.put_back(batch);
                Some(self.proceed().await)
            }
        }
    }

    /// Waits for a request, or until counts have to be written. Returns `false` if no sender is
    /// left.
    async fn wait(&mut self) -> bool {
        tokio::select! {
            biased;
            has_arrived = self.queue.wait() => has_arrived,
            () = self.statistics.due() => true,
        }
    }

    /// Writes the last counts, once, when no sender is left.
    async fn write_last_counts(&mut self) -> Option<Stage> {
        let batch = Batch::of_counts(self.statistics.take()?);
        // If this write fails, only the statistics lack these counts.
        let _ = InFlight::send(Arc::clone(&self.store), batch).await.finish().await;
        None
    }

    /// Sends the first batch of the backlog, if there is one.
    async fn proceed(&mut self) -> Stage {
        match self.send().await {
            Some(current) => Stage::InFlight { current, next: None },
            None => Stage::Idle,
        }
    }

    /// Returns once the store has answered `current`. Puts the next batch in line meanwhile.
    ///
    /// `current` is always polled first. If it fails, `next` is not polled again: the store would
    /// begin to apply it.
    async fn wait_for_answer(&mut self, current: &mut InFlight, next: &mut Option<InFlight>) {
        loop {
            tokio::select! {
                biased;
                () = current.drive() => return,
                () = drive_on(next) => {}
                () = self.quiescent.notified(), if next.is_none() => *next = self.send_next(current.last_group()).await,
            }
        }
    }

    /// Puts the next batch in line, if it is large. Sends nothing if the batch continues the last
    /// group of the one that is being committed, because a write of that group may be refused.
    async fn send_next(&mut self, last_group: Option<GroupId>) -> Option<InFlight> {
        let continues = self.backlog.front().is_some_and(|next| next.continues(last_group));
        if continues { None } else { self.send_if(MANY).await }
    }

    /// Passes a commit on to be made known and answered. If many senders wait for that, sends the
    /// next batch first.
    async fn acknowledge(&mut self, completed: Completed, next: Option<InFlight>) -> Stage {
        let Completed { writes, outcomes, begun, .. } = &completed;
        if !is_of_counts(writes) {
            self.last.note(writes.len(), *begun, Instant::now());
        }
        self.queue.pending_claims().note_commit(writes, outcomes);
        for (group, error) in completed.refused_groups() {
            self.refuse_groups(&HashSet::from([group]), error);
        }
        let next = match next {
            None if writes.len() >= MANY => self.send_if(self.last.enough().max(1)).await,
            next => next,
        };
        // An error would mean that the runtime of the senders has ended, and the senders with it.
        let _ = self.acknowledger.send(completed);
        match next {
            Some(current) => Stage::InFlight { current, next: None },
            None => self.proceed().await,
        }
    }

    /// Decides about a batch that was not committed, or may not have been.
    async fn retry_or_split(&mut self, mut batch: Batch, error: &DatabaseError, next: Option<InFlight>) -> Stage {
        if let Some(mut next) = next.map(InFlight::call_back) {
            // If the effect of the failed batch is unknown, so is that of the batch behind it.
            next.give_up_claims(error);
            self.put_back(next);
        }
        let (failures, elapsed) = batch.failures.add(Instant::now());
        if let Some(counts) = batch.take_counts() {
            // Other writes do not wait for counts: these are written with later ones.
            self.commit_failed(1, failures, Some(WRITE_DELAY), error);
            self.statistics.put_back(counts);
            return self.proceed().await;
        }
        batch.give_up_claims(error);
        match after_failure(error, batch.writes.len(), failures, elapsed, fastrand::f64()) {
            AfterFailure::Again(delay) => {
                self.commit_failed(batch.writes.len(), failures, Some(delay), error);
                return Stage::Retrying { batch, delay };
            }
            AfterFailure::Split => {
                let (first, second) = batch.into_halves();
                self.put_back(second);
                self.put_back(first);
            }
            AfterFailure::GiveUp => {
                self.commit_failed(batch.writes.len(), failures, None, error);
                self.refuse_groups(&batch.groups(), error);
                batch.refuse_all(error);
            }
        }
        self.proceed().await
    }

    /// Answers those writes of the backlog with the error that depend on a write of these groups.
    fn refuse_groups(&mut self, groups: &HashSet<GroupId>, error: &DatabaseError) {
        if !groups.is_empty() {
            self.backlog.iter_mut().for_each(|later| later.refuse_groups(groups, error));
            self.backlog.retain(|later| !later.writes.is_empty());
        }
    }

    fn commit_failed(&self, writes: usize, failures: u32, retry_after: Option<Duration>, error: &DatabaseError) {
        self.observers.event(&Event::CommitFailed { writes, failures, retry_after, error });
    }

    /// Sends the next batch, if the backlog has one or at least `enough` writes wait.
    async fn send_if(&mut self, enough: usize) -> Option<InFlight> {
        if self.backlog.is_empty() {
            self.queue.take_all();
            if self.queue.writes() < enough {
                return None;
            }
            self.close_batch();
        }
        self.send().await
    }

    /// Sends the first batch of the backlog.
    async fn send(&mut self) -> Option<InFlight> {
        let batch = self.backlog.pop_front()?;
        Some(InFlight::send(Arc::clone(&self.store), batch).await)
    }

    /// Moves the writes that have arrived to the backlog. Counts follow as a batch of their own:
    /// beside other writes, they would keep the batch from the fast path.
    fn close_batch(&mut self) {
        self.backlog.extend(self.queue.close_batch().into_parts());
        if self.statistics.is_due()
            && let Some(counts) = self.statistics.take()
        {
            self.backlog.push_back(Batch::of_counts(counts));
        }
    }

    /// Puts a batch in front of the backlog, unless its claims were all of its writes and were
    /// given up.
    fn put_back(&mut self, batch: Batch) {
        if !batch.writes.is_empty() {
            self.backlog.push_front(batch);
        }
    }
}

/// Drives the call of a batch that is in line. Never returns: the answer counts only after that of
/// the batch before it.
async fn drive_on(next: &mut Option<InFlight>) {
    if let Some(next) = next {
        next.drive().await;
    }
    std::future::pending().await
}
