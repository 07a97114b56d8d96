//! Changes of the places where runs wait to be claimed.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::RunId;
use crate::store::batch_target::BatchTarget;
use crate::store::{Outcome, PlaceOutcome};

use super::OpenBatch;

impl<T: BatchTarget> OpenBatch<'_, T> {
    /// Changes where runs wait. Several changes of one run are applied in their order, each to the
    /// result of the one before.
    pub(super) async fn place_runs(&mut self) -> Result<(), T::Error> {
        let runs: BTreeSet<RunId> = self.writes.placements.writes().iter().map(|write| write.run_id).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let mut found = self.target.read_placements(&runs).await?;
        let mut changed = BTreeMap::new();
        for (index, write) in self.writes.placements.iter() {
            let Some(run) = found.get_mut(&write.run_id) else {
                self.outcomes.set(index, Outcome::Placed(PlaceOutcome::Unknown));
                continue;
            };
            let (outcome, placement) = write.change.decide(run);
            if let Some(placement) = placement {
                run.placement = placement.clone();
                changed.insert(write.run_id, placement);
            }
            self.outcomes.set(index, outcome);
        }
        if changed.is_empty() { Ok(()) } else { self.target.place_runs(&changed).await }
    }
}
