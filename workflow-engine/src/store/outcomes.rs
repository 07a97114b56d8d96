use crate::model::{Claim, RunId, RunStatus};

use super::ended::Ended;
use super::fence::Fence;
use super::{CancelOutcome, DatabaseError, DatabaseErrorKind, Outcome, Write};

/// The outcomes of a batch while it is applied, by the indexes of its writes.
#[derive(Debug)]
pub struct Outcomes(Vec<Option<Outcome>>);

/// A store left a write of a batch without an outcome. This is a bug in that store.
#[derive(Debug, thiserror::Error)]
#[error("write {index} of {writes} has no outcome")]
pub struct MissingOutcome {
    /// The index of the write in its batch.
    pub index: usize,
    /// The number of writes in the batch.
    pub writes: usize,
}

impl Outcomes {
    /// Returns no outcomes yet, with a place for that of each write.
    #[must_use]
    pub fn of(writes: &[Write]) -> Self {
        Self(writes.iter().map(|_| None).collect())
    }

    /// Sets the outcome of the write at this index.
    pub fn set(&mut self, index: usize, outcome: Outcome) {
        if let Some(slot) = self.0.get_mut(index) {
            *slot = Some(outcome);
        }
    }

    /// Sets the outcome of the write at this index, and returns whether it releases its claim.
    pub fn let_go(&mut self, index: usize, fence: &mut Fence, claim: Claim, status: RunStatus) -> bool {
        let refusal = fence.refusal(claim);
        let holds = refusal.is_none();
        if holds {
            fence.release(claim, status);
        }
        self.set(index, refusal.unwrap_or(Outcome::Applied));
        holds
    }

    /// Returns the runs that ended in this batch.
    pub fn ended(&self, writes: &[Write], expired: Vec<RunId>) -> Ended {
        let mut ended = Ended::default();
        for (write, outcome) in writes.iter().zip(&self.0) {
            match (write, outcome) {
                (Write::End(write), Some(Outcome::Applied)) => ended.by_worker(write),
                (Write::Cancel(id) | Write::Terminate(id), Some(Outcome::Canceled(CancelOutcome::Canceled))) => {
                    ended.by_others(*id);
                }
                _ => {}
            }
        }
        expired.into_iter().for_each(|run| ended.by_others(run));
        ended
    }

    /// Returns the outcome of each write, in their order.
    ///
    /// # Errors
    /// [`MissingOutcome`] if a write has none.
    pub fn complete(self) -> Result<Vec<Outcome>, MissingOutcome> {
        let writes = self.0.len();
        let complete =
            self.0.into_iter().enumerate().map(|(index, outcome)| outcome.ok_or(MissingOutcome { index, writes }));
        complete.collect()
    }
}

impl From<MissingOutcome> for DatabaseError {
    fn from(missing: MissingOutcome) -> Self {
        Self::new(DatabaseErrorKind::Other, "commit a batch", missing)
    }
}
