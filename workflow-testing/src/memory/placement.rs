//! Where runs wait to be claimed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use workflow_engine::model::{Rank, Run, RunId};
use workflow_engine::store::{DatabaseError, PlaceTarget, PlacedRun, Placement};

use super::commit::Batch;
use super::start;

impl PlaceTarget for Batch<'_> {
    async fn read_placements(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, PlacedRun>, DatabaseError> {
        Ok(runs.iter().filter_map(|id| Some((*id, placed_run(self.tables.run(*id)?)))).collect())
    }

    async fn place_runs(&mut self, runs: &BTreeMap<RunId, Placement>) -> Result<(), DatabaseError> {
        for (id, Placement { lane, gate, rank }) in runs {
            start::add_gate(self.tables, (lane, gate.as_deref()));
            self.tables.update(*id, |run| {
                run.lane.clone_from(lane);
                run.gate.clone_from(gate);
                run.priority = rank.priority();
            });
        }
        Ok(())
    }
}

fn placed_run(run: &Run) -> PlacedRun {
    let placement = Placement { lane: run.lane.clone(), gate: run.gate.clone(), rank: Rank::from(run.priority) };
    PlacedRun { status: run.status, epoch: run.epoch, placement }
}
