use crate::model::{Claim, RunId, RunStatus};

use super::ended::Ended;
use super::fence::Fence;
use super::{CancelOutcome, DatabaseError, DatabaseErrorKind, Outcome, Write};

/// The outcomes of a batch while it is applied, by the places of its writes.
#[derive(Debug)]
pub struct Outcomes(Vec<Option<Outcome>>);

impl Outcomes {
    /// None yet.
    pub fn of(writes: &[Write]) -> Self {
        Self(writes.iter().map(|_| None).collect())
    }

    /// Says what became of the write at this place.
    pub fn set(&mut self, place: usize, outcome: Outcome) {
        if let Some(slot) = self.0.get_mut(place) {
            *slot = Some(outcome);
        }
    }

    /// Whether the write at this place is the one that ends its claim; if not, says what became of it. Who ends a claim twice in a
    /// batch ends it once.
    pub fn let_go(&mut self, place: usize, fence: &mut Fence, claim: Claim, status: RunStatus) -> bool {
        let refusal = fence.refusal(claim);
        let holds = refusal.is_none();
        if holds {
            fence.ended(claim, status);
        }
        self.set(place, refusal.unwrap_or(Outcome::Applied));
        holds
    }

    /// The runs that ended in this batch.
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

    /// All of them.
    pub fn complete(self) -> Result<Vec<Outcome>, DatabaseError> {
        let all: Option<Vec<_>> = self.0.into_iter().collect();
        all.ok_or_else(|| DatabaseError::new(DatabaseErrorKind::Other, "commit a batch", "a write was left out"))
    }
}
