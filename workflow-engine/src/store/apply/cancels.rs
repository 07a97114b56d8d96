//! Cancels and terminations of a batch.

use std::collections::{BTreeSet, HashMap};

use crate::model::{RunId, RunStatus};

use super::OpenBatch;
use crate::store::batch_target::BatchTarget;
use crate::store::cascade::Ended;
use crate::store::outcomes::Outcomes;
use crate::store::sorted_batch::Indexed;
use crate::store::{CancelOutcome, Outcome};

impl<T: BatchTarget> OpenBatch<'_, T> {
    pub(super) async fn cancel_runs(&mut self) -> Result<(), T::Error> {
        let cancels = &self.writes.cancels;
        if cancels.is_empty() {
            return Ok(());
        }
        let found = self.target.cancel_runs(&distinct(cancels)).await?;
        note_canceled(cancels, found, &mut self.outcomes, &mut self.ended);
        Ok(())
    }

    pub(super) async fn terminate_runs(&mut self) -> Result<(), T::Error> {
        let terminations = &self.writes.terminations;
        if terminations.is_empty() {
            return Ok(());
        }
        let found = self.target.terminate_runs(&distinct(terminations)).await?;
        note_canceled(terminations, found, &mut self.outcomes, &mut self.ended);
        Ok(())
    }
}

/// The runs of a kind, sorted, each once.
fn distinct(runs: &Indexed<RunId>) -> Vec<RunId> {
    let runs: BTreeSet<RunId> = runs.writes().iter().copied().collect();
    runs.into_iter().collect()
}

/// Sets the outcomes of cancels or terminations from what the target found of each run. A second
/// one of a run finds what the first one did.
fn note_canceled(
    kind: &Indexed<RunId>,
    mut found: HashMap<RunId, CancelOutcome>,
    outcomes: &mut Outcomes,
    ended: &mut Ended,
) {
    for (index, run) in kind.iter() {
        let outcome = found.get(&run).copied().unwrap_or(CancelOutcome::Unknown);
        if outcome == CancelOutcome::Canceled {
            ended.without_worker(run);
            found.insert(run, CancelOutcome::Ended(RunStatus::Canceled));
        }
        outcomes.set(index, Outcome::Canceled(outcome));
    }
}
