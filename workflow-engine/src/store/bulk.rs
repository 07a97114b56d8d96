//! Writes of bulk operations, and what the outcome of a single write means for its operation.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::{
    BulkCounts, BulkFailure, BulkId, BulkRecord, FullQueue, NewBulk, NewRun, RunId, SignalOutcome, WorkerId,
};

use super::{
    CancelOutcome, DatabaseError, DeleteOutcome, Outcome, PauseOutcome, PlaceOutcome, ResumeOutcome, StartOutcome,
    Write,
};

/// A change of a bulk operation.
#[derive(Clone, Debug)]
pub enum BulkWrite {
    /// Order an operation. One that exists stays as it is.
    Order(NewBulk),
    /// Claim the operation that is due for the longest time.
    Claim {
        /// The worker that claims.
        worker: WorkerId,
        /// How long the claim lasts without a further chunk.
        lease: Duration,
    },
    /// Change the runs of the next chunk, and move the operation on.
    Advance(BulkChunk),
    /// End an operation before it has dealt with all runs.
    Stop(BulkId),
}

/// A worker's hold on a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkClaim {
    /// The operation.
    pub id: BulkId,
    /// The epoch that the claim got.
    pub epoch: i64,
}

/// The next runs of a bulk operation. Either every write of the chunk is applied in one commit with
/// the new place of the operation, or nothing is.
#[derive(Clone, Debug)]
pub struct BulkChunk {
    /// The claim under which the worker writes.
    pub claim: BulkClaim,
    /// The cursor that the worker has seen. If the operation is at another place, nothing changes.
    pub seen: RunId,
    /// The cursor behind this chunk.
    pub cursor: RunId,
    /// The writes, each with its run. They are applied as if they were sent alone. None of them
    /// needs a claim of its run.
    pub writes: Vec<(RunId, Write)>,
    /// The outcomes of further runs of the chunk, which need no write.
    pub known: BulkCounts,
    /// `true` if no run is left.
    pub is_last: bool,
    /// How long the claim lasts from now on. Zero gives the operation back.
    pub lease: Duration,
}

/// The bulk operations of a [`Store`](super::Store).
#[async_trait]
pub trait BulkStore {
    /// Returns the row of a bulk operation; `None` if there is none with this id.
    ///
    /// # Errors
    /// See [`Store::run`](super::Store::run).
    async fn bulk(&self, id: BulkId) -> Result<Option<BulkRecord>, DatabaseError>;

    /// Returns at most `limit` bulk operations with ids before this one, the newest first, without
    /// their payloads.
    ///
    /// # Errors
    /// See [`Store::run`](super::Store::run).
    async fn bulks(&self, older_than: BulkId, limit: u32) -> Result<Vec<BulkRecord>, DatabaseError>;

    /// Returns in how long the next bulk operation is due, which is zero if one is due now. `None`:
    /// all have ended. Reads one entry of an index.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn next_bulk(&self) -> Result<Option<Duration>, DatabaseError>;
}

/// The meaning of a write's outcome for the bulk operation that sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    Done,
    Skipped,
    Failed(String),
}

/// Counts the outcomes of these writes.
pub(super) fn count_outcomes(writes: &[(RunId, Write)], outcomes: &[Outcome]) -> BulkCounts {
    let mut counts = BulkCounts::default();
    for ((run, _), outcome) in writes.iter().zip(outcomes) {
        match meaning(outcome) {
            Meaning::Done => counts.done += 1,
            Meaning::Skipped => counts.skipped += 1,
            Meaning::Failed(reason) => counts.failures.push(BulkFailure::new(*run, reason)),
        }
    }
    counts
}

/// A run that has ended, or is gone, or is as the operation wants it, is skipped.
fn meaning(outcome: &Outcome) -> Meaning {
    match outcome {
        Outcome::Applied | Outcome::Started(StartOutcome::Created) => Meaning::Done,
        Outcome::Signaled(SignalOutcome::Accepted) => Meaning::Done,
        Outcome::Canceled(CancelOutcome::Canceled | CancelOutcome::Requested) => Meaning::Done,
        Outcome::Deleted(DeleteOutcome::Deleted(_)) => Meaning::Done,
        Outcome::Paused(PauseOutcome::Paused | PauseOutcome::Requested) => Meaning::Done,
        Outcome::Resumed(ResumeOutcome::Resumed) | Outcome::Placed(PlaceOutcome::Changed) => Meaning::Done,
        Outcome::Placed(PlaceOutcome::Held) => {
            Meaning::Failed("a worker holds it: pause it, and move it once it is parked".into())
        }
        Outcome::Signaled(SignalOutcome::Full) => Meaning::Failed("its inbox is full".into()),
        Outcome::Deleted(DeleteOutcome::NotEnded(status)) => {
            Meaning::Failed(format!("it is {status}, and only a run that has ended can be deleted"))
        }
        Outcome::Deleted(DeleteOutcome::Awaited { parent }) => {
            Meaning::Failed(format!("its parent {parent} has not received its result yet"))
        }
        Outcome::SingleTaken { id } => Meaning::Failed(format!("run {id} has its single key")),
        Outcome::QueueFull(FullQueue { queue, gate: None, .. }) => {
            Meaning::Failed(format!("queue {queue:?} has no room"))
        }
        Outcome::QueueFull(FullQueue { queue, gate: Some(gate), .. }) => {
            Meaning::Failed(format!("gate {gate:?} of queue {queue:?} has no room"))
        }
        Outcome::Lost => Meaning::Failed("another change of the run came first".into()),
        Outcome::Busy => Meaning::Failed("an open transaction holds its single key or its queue".into()),
        Outcome::Refused(error) => Meaning::Failed(error.to_string()),
        Outcome::Duplicate | Outcome::Started(_) | Outcome::Signaled(_) | Outcome::Canceled(_) => Meaning::Skipped,
        Outcome::Deleted(_) | Outcome::Paused(_) | Outcome::Resumed(_) | Outcome::SourceMissing => Meaning::Skipped,
        Outcome::Placed(_) => Meaning::Skipped,
        // No operation sends such a write.
        Outcome::Emitted(_) | Outcome::Delivered | Outcome::KeyTaken { .. } | Outcome::SeatWaits { .. } => {
            Meaning::Skipped
        }
        Outcome::LimitUndeclared | Outcome::Called(_) | Outcome::Claimed(_) | Outcome::Changed(_) => Meaning::Skipped,
        Outcome::BulkClaimed(_) | Outcome::Advanced(_) => Meaning::Skipped,
    }
}

impl BulkWrite {
    /// Returns the writes of a chunk.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        let writes: &[(RunId, Write)] = match self {
            Self::Advance(chunk) => &chunk.writes,
            Self::Order(_) | Self::Claim { .. } | Self::Stop(_) => &[],
        };
        writes.iter().map(|(_, write)| write)
    }
}

impl Write {
    /// Returns the writes of the chunk of a bulk operation.
    pub(super) fn chunk(&self) -> impl Iterator<Item = &Self> {
        let bulk = match self.inner() {
            Self::Bulk(write) => Some(write),
            _ => None,
        };
        bulk.into_iter().flat_map(|write| write.writes())
    }

    /// Returns the runs that the forks of a chunk start.
    pub(super) fn forks_of_chunk(&self) -> impl Iterator<Item = &NewRun> {
        self.chunk().filter_map(|write| match write.inner() {
            Self::Fork(write) => Some(&write.new),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RunStatus;

    #[test]
    fn a_run_is_done_skipped_or_failed() {
        let outcomes = [
            Outcome::Canceled(CancelOutcome::Requested),
            Outcome::Canceled(CancelOutcome::Ended(RunStatus::Failed)),
            Outcome::Canceled(CancelOutcome::Unknown),
            Outcome::Deleted(DeleteOutcome::NotEnded(RunStatus::Running)),
            Outcome::Lost,
        ];
        let runs: Vec<RunId> = outcomes.iter().map(|_| RunId::generate()).collect();
        let writes: Vec<(RunId, Write)> = runs.iter().map(|run| (*run, Write::Cancel(*run))).collect();
        let BulkCounts { done, skipped, failures } = count_outcomes(&writes, &outcomes);
        assert_eq!((done, skipped), (1, 2));
        let failed: Vec<RunId> = failures.iter().map(|failure| failure.run).collect();
        assert_eq!(failed, runs[3..]);
        assert!(failures[0].reason.starts_with("it is running"), "{}", failures[0].reason);
    }
}
