//! Deletions of a batch, and forks whose source was deleted.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::RunId;

use super::OpenBatch;
use crate::store::batch_target::BatchTarget;
use crate::store::{DeleteOutcome, Outcome};

impl<T: BatchTarget> OpenBatch<'_, T> {
    /// Deletes ended runs, after all that may end, revive or need them. Of two deletions of one
    /// run, the second one finds none.
    pub(super) async fn delete_runs(&mut self) -> Result<(), T::Error> {
        let deletions = &self.writes.deletions;
        if deletions.is_empty() {
            return Ok(());
        }
        let asked: BTreeSet<RunId> = deletions.writes().iter().map(|write| write.run_id).collect();
        let mut found = self.target.find_deleted(&asked).await?;
        let mut deleted = BTreeMap::new();
        for (index, write) in deletions.iter() {
            match write.refusal(found.get(&write.run_id).copied()) {
                Some(refusal) => self.outcomes.set(index, Outcome::Deleted(refusal)),
                None => {
                    found.remove(&write.run_id);
                    deleted.insert(write.run_id, index);
                }
            }
        }
        if deleted.is_empty() {
            return Ok(());
        }
        let rows = self.target.delete_runs(&deleted.keys().copied().collect()).await?;
        for (run, index) in deleted {
            let outcome = rows.get(&run).map_or(DeleteOutcome::Unknown, |rows| DeleteOutcome::Deleted(*rows));
            self.outcomes.set(index, Outcome::Deleted(outcome));
        }
        Ok(())
    }

    /// Takes the new run of a fork back: its source is gone, so it would begin with an empty
    /// history.
    pub(super) async fn refuse_fork(&mut self, index: usize, new: RunId) -> Result<(), T::Error> {
        self.target.delete_runs(&BTreeSet::from([new])).await?;
        self.outcomes.set(index, Outcome::SourceMissing);
        Ok(())
    }
}
