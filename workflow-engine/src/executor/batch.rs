//! The writes of one commit, and the places for their answers.

use std::collections::HashSet;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::store::{DatabaseError, Outcome, StatisticsWrite, Write};

use super::failure::{Failures, may_repeat};
use super::request::{GroupId, QueuedWrite, Reply};

/// The most payload in one batch. A statement of either database takes far more (1 GB).
const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// The largest number of writes in a batch. Bounds the memory of a statement and the time of a
/// commit.
pub(super) const MAX_BATCH: usize = 4096;

/// Batch size from which the next batch is sent before this one is acknowledged. So many senders
/// keep the processors busy once they are answered, and the database would be idle meanwhile. For a
/// smaller batch this order would only delay the next writes of its few senders.
pub(super) const MANY: usize = 64;

/// Returns `true` if the batch writes counts of this process, and nothing else.
pub(super) fn is_of_counts(writes: &[Write]) -> bool {
    matches!(writes, [Write::Statistics(write)] if matches!(**write, StatisticsWrite::Count { .. }))
}

/// Writes that are to be committed together. Each has its reply at the same index.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) writes: Vec<Write>,
    pub(super) replies: Vec<Reply>,
    /// How often the commit of just these writes has failed.
    pub(super) failures: Failures,
}

impl Batch {
    /// Returns an empty batch that takes `writes` writes before it has to grow.
    pub(super) fn with_capacity(writes: usize) -> Self {
        Self { writes: Vec::with_capacity(writes), replies: Vec::with_capacity(writes), failures: Failures::default() }
    }

    /// Returns a batch of counts alone, for which no sender waits.
    pub(super) fn of_counts(counts: StatisticsWrite) -> Self {
        let mut batch = Self::default();
        let reply = Reply::Outcome(oneshot::channel().0);
        batch.push(QueuedWrite { write: Write::Statistics(Box::new(counts)), reply });
        batch
    }

    /// Takes the counts out of a batch of counts alone.
    pub(super) fn take_counts(&mut self) -> Option<StatisticsWrite> {
        if !is_of_counts(&self.writes) {
            return None;
        }
        match std::mem::take(&mut self.writes).pop() {
            Some(Write::Statistics(counts)) => Some(*counts),
            _ => None,
        }
    }

    pub(super) fn push(&mut self, QueuedWrite { write, reply }: QueuedWrite) {
        self.writes.push(write);
        self.replies.push(reply);
    }

    /// Returns `true` if `write` is a claim and the batch has another claim of its worker.
    pub(super) fn has_claim_of_its_worker(&self, write: &Write) -> bool {
        let worker = write.as_claim().map(|request| request.worker);
        worker.is_some() && self.writes.iter().any(|other| other.as_claim().map(|request| request.worker) == worker)
    }

    /// Cuts the batch into as few parts as [`MAX_BATCH_BYTES`] and [`MAX_BATCH`] allow, in the
    /// order of the writes.
    /// An empty batch has no parts.
    pub(super) fn into_parts(mut self) -> Vec<Self> {
        let mut parts = Vec::new();
        while let Some(end) = self.end_of_first_part() {
            let rest = self.split_off(end);
            parts.push(std::mem::replace(&mut self, rest));
        }
        if !self.writes.is_empty() {
            parts.push(self);
        }
        parts
    }

    /// Returns the number of writes in the first part, or `None` if all writes fit into one part. A
    /// part has at least one write, however large.
    fn end_of_first_part(&self) -> Option<usize> {
        let mut bytes = 0;
        let too_much = |(index, write): (usize, &Write)| {
            bytes += write.payload_bytes();
            bytes > MAX_BATCH_BYTES || index >= MAX_BATCH
        };
        self.writes.iter().enumerate().position(too_much).map(|end| end.max(1)).filter(|end| *end < self.writes.len())
    }

    /// Cuts the batch in two, to find a bad write.
    pub(super) fn into_halves(mut self) -> (Self, Self) {
        let second = self.split_off(self.writes.len() / 2);
        self.failures = Failures::default();
        (self, second)
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self { writes: self.writes.split_off(at), replies: self.replies.split_off(at), failures: Failures::default() }
    }

    /// Answers the claims with the error and removes them, if the error leaves the effect of the
    /// commit unknown. A repeated claim would leave the runs of the first one without a driver.
    pub(super) fn give_up_claims(&mut self, error: &DatabaseError) {
        if !error.kind.is_transient() {
            return;
        }
        let pairs = std::mem::take(&mut self.writes).into_iter().zip(std::mem::take(&mut self.replies));
        for (write, reply) in pairs {
            if may_repeat(&write) {
                self.writes.push(write);
                self.replies.push(reply);
            } else {
                reply.send(Outcome::refused(error), Instant::now());
            }
        }
    }

    /// Answers attempts, ends and parks with the outcome that is most likely, before the commit:
    /// the planted bug `reply-before-commit`.
    pub(super) fn answer_unwritten(&mut self) {
        for (write, reply) in self.writes.iter().zip(&mut self.replies) {
            if let Write::Attempt(_) | Write::End(_) | Write::Park(_) = write {
                let unused = Reply::Outcome(oneshot::channel().0);
                std::mem::replace(reply, unused).send(Outcome::Applied, Instant::now());
            }
        }
    }

    /// Answers the writes of these groups with the error, and removes them: a write of each was
    /// refused, on which they depend.
    pub(super) fn refuse_groups(&mut self, refused: &HashSet<GroupId>, error: &DatabaseError) {
        let pairs = std::mem::take(&mut self.writes).into_iter().zip(std::mem::take(&mut self.replies));
        for (write, reply) in pairs {
            if reply.group().is_some_and(|group| refused.contains(&group)) {
                reply.send(Outcome::refused(error), Instant::now());
            } else {
                self.push(QueuedWrite { write, reply });
            }
        }
    }

    /// Returns the groups of the writes.
    pub(super) fn groups(&self) -> HashSet<GroupId> {
        self.replies.iter().filter_map(Reply::group).collect()
    }

    /// Returns whether the first write belongs to this group.
    pub(super) fn continues(&self, group: Option<GroupId>) -> bool {
        group.is_some() && self.replies.first().and_then(Reply::group) == group
    }

    /// Answers every write with the error.
    pub(super) fn refuse_all(self, error: &DatabaseError) {
        for reply in self.replies {
            reply.send(Outcome::refused(error), Instant::now());
        }
    }
}
