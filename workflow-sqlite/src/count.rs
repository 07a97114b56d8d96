//! Counts for operators.

use workflow_engine::store::{DatabaseError, GateList, HeldRuns, ListedGate, RunCounts, SeatCounts};

use super::database::Database;
use super::error::During;
use super::read::understand;
use super::{row, sql};

/// See [`Store::run_counts`](workflow_engine::store::Store::run_counts).
pub(super) async fn runs(database: &Database, at_most: u32) -> Result<RunCounts, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::COUNT_RUNS).bind(at_most).bind(database.now().as_micros());
    let found = query.fetch_one(reader.connection()?).await.during("count runs")?;
    let count = |column| row::get::<u32>(&found, column);
    Ok(RunCounts {
        waiting: count("waiting")?,
        pending: count("pending")?,
        parked: count("parked")?,
        delayed: count("delayed")?,
        paused: count("paused")?,
        stuck: count("stuck")?,
        due: count("due")?,
        running: count("running")?,
        running_paused: count("running_paused")?,
        ended: count("ended")?,
        failed: count("failed")?,
    })
}

/// See [`Store::gates`](workflow_engine::store::Store::gates).
pub(super) async fn gates(database: &Database, list: GateList<'_>) -> Result<Vec<ListedGate>, DatabaseError> {
    let GateList { queue, after, limit, at_most } = list;
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::LIST_GATES).bind(queue.to_owned()).bind(after.map(str::to_owned));
    let query = query.bind(limit).bind(at_most);
    let rows = query.fetch_all(reader.connection()?).await.during("list gates")?;
    understand(&rows, |found| {
        Ok(ListedGate {
            gate: row::get(found, "gate")?,
            weight: row::get(found, "weight")?,
            used_until: row::time(found, "used_until")?,
            running: row::get(found, "running")?,
            waiting: row::get(found, "waiting")?,
        })
    })
}

/// See [`Store::held_runs`](workflow_engine::store::Store::held_runs).
pub(super) async fn held_runs(database: &Database, at_most: u32) -> Result<HeldRuns, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::COUNT_HELD_RUNS).bind(at_most);
    let rows = query.fetch_all(reader.connection()?).await.during("count the runs of workers")?;
    let mut held = HeldRuns::default();
    for found in &rows {
        let runs: u32 = row::get(found, "runs")?;
        held.runs = held.runs.saturating_add(runs);
        if let Some(id) = row::get::<Option<&str>>(found, "id")? {
            held.by_worker.push((row::worker_id(id)?, runs));
        }
    }
    Ok(held)
}

/// See [`Store::seat_counts`](workflow_engine::store::Store::seat_counts).
pub(super) async fn seats(database: &Database, limit: &str, at_most: u32) -> Result<SeatCounts, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::COUNT_SEATS).bind(limit.to_owned()).bind(at_most);
    let found = query.fetch_one(reader.connection()?).await.during("count seats")?;
    Ok(SeatCounts { held: row::get(&found, "held")?, waiting: row::get(&found, "waiting")? })
}
