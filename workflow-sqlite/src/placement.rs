//! Where runs wait to be claimed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{Rank, RunId};
use workflow_engine::store::{DatabaseError, PlaceTarget, PlacedRun, Placement};

use super::error::{During, corrupt};
use super::slow_path::SlowPath;
use super::{gate, row, sql, start};

const OPERATION: &str = "change where runs wait";

impl PlaceTarget for SlowPath<'_> {
    async fn read_placements(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, PlacedRun>, DatabaseError> {
        let query = sqlx::query(sql::READ_PLACEMENTS).bind(serde_json::to_string(runs).during(OPERATION)?);
        let rows = query.fetch_all(&mut *self.connection).await.during(OPERATION)?;
        rows.iter().map(|found| Ok((row::id(found, "id")?, placed_run(found)?))).collect()
    }

    async fn place_runs(&mut self, runs: &BTreeMap<RunId, Placement>) -> Result<(), DatabaseError> {
        insert_lanes(self.connection, runs).await?;
        let rows: Vec<_> = runs
            .iter()
            .map(|(run, Placement { lane, gate, rank })| {
                let gate = gate.as_deref().unwrap_or_default();
                (run, &lane.queue, &lane.workflow, &lane.version, gate, rank.number())
            })
            .collect();
        let query = sqlx::query(sql::PLACE_RUNS).bind(serde_json::to_string(&rows).during(OPERATION)?);
        query.execute(&mut *self.connection).await.during(OPERATION)?;
        Ok(())
    }
}

async fn insert_lanes(
    connection: &mut SqliteConnection,
    runs: &BTreeMap<RunId, Placement>,
) -> Result<(), DatabaseError> {
    start::insert_lanes(&mut *connection, runs.values().map(|placement| &placement.lane)).await?;
    gate::insert(connection, runs.values().map(|Placement { lane, gate, .. }| (lane, gate.as_deref()))).await
}

fn placed_run(found: &SqliteRow) -> Result<PlacedRun, DatabaseError> {
    let gate: String = row::get(found, "gate")?;
    let rank = Rank::numbered(row::get(found, "rank")?).map_err(|error| corrupt(OPERATION, error))?;
    let placement = Placement { lane: row::lane(found)?, gate: Some(gate).filter(|gate| !gate.is_empty()), rank };
    Ok(PlacedRun { status: row::status(found)?, epoch: row::get(found, "epoch")?, placement })
}
