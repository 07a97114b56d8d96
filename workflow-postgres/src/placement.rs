//! Where runs wait to be claimed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::Row;
use sqlx::postgres::PgRow;

use workflow_engine::model::{Rank, RunId};
use workflow_engine::store::{PlaceTarget, PlacedRun, Placement};

use super::error::Failure;
use super::fence::ids;
use super::row;
use super::slow_path::SlowPath;

impl PlaceTarget for SlowPath<'_> {
    async fn read_placements(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, PlacedRun>, Failure> {
        let rows = self.sql.read_placements.query().bind(ids(runs.iter())).fetch_all(&mut *self.connection).await?;
        rows.iter().map(|found| Ok((row::run_id(found)?, placed_run(found)?))).collect()
    }

    /// Fails with [`Failure::missing_lane`] if the new lane of a run has no row.
    async fn place_runs(&mut self, runs: &BTreeMap<RunId, Placement>) -> Result<(), Failure> {
        let text = |of: fn(&Placement) -> &str| runs.values().map(of).collect::<Vec<_>>();
        let query = self.sql.place_runs.query().bind(ids(runs.keys()));
        let query = query.bind(text(|placement| &placement.lane.queue));
        let query = query.bind(text(|placement| &placement.lane.workflow));
        let query = query.bind(text(|placement| &placement.lane.version));
        let query = query.bind(text(|placement| placement.gate.as_deref().unwrap_or_default()));
        let query = query.bind(runs.values().map(|placement| placement.rank.number()).collect::<Vec<_>>());
        let placed = query.execute(&mut *self.connection).await?.rows_affected();
        if placed == runs.len() as u64 { Ok(()) } else { Err(Failure::missing_lane()) }
    }
}

fn placed_run(found: &PgRow) -> Result<PlacedRun, Failure> {
    let gate: String = found.try_get("gate")?;
    let rank = Rank::numbered(found.try_get("rank")?).map_err(Failure::corrupt)?;
    let placement = Placement { lane: row::lane(found)?, gate: Some(gate).filter(|gate| !gate.is_empty()), rank };
    Ok(PlacedRun { status: row::run_status(found.try_get("status")?)?, epoch: found.try_get("epoch")?, placement })
}
