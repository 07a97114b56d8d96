//! Counts for operators.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{Clock, Timestamp};
use workflow_engine::store::{GateList, HeldRuns, ListedGate, RunCounts, SeatCounts};

use super::error::Failure;
use super::read::map_all;
use super::row;
use super::sql::Sql;

/// See [`Store::run_counts`](workflow_engine::store::Store::run_counts).
pub(super) async fn runs(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    at_most: u32,
) -> Result<RunCounts, Failure> {
    let query = sql.count_runs.query().bind(clock.fixed().map(Timestamp::as_micros)).bind(i64::from(at_most));
    let found = query.fetch_one(connection).await?;
    let count = |column| count(&found, column);
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
pub(super) async fn gates(
    connection: &mut PgConnection,
    sql: &Sql,
    list: GateList<'_>,
) -> Result<Vec<ListedGate>, Failure> {
    let GateList { queue, after, limit, at_most } = list;
    let query = sql.list_gates.query().bind(queue.to_owned()).bind(after.map(str::to_owned));
    let rows = query.bind(i64::from(limit)).bind(i64::from(at_most)).fetch_all(connection).await?;
    map_all(&rows, |found| {
        Ok(ListedGate {
            gate: found.try_get("gate")?,
            weight: count(found, "weight")?,
            used_until: row::time(found, "used_until")?,
            running: count(found, "running")?,
            waiting: count(found, "waiting")?,
        })
    })
}

/// See [`Store::held_runs`](workflow_engine::store::Store::held_runs).
pub(super) async fn held_runs(connection: &mut PgConnection, sql: &Sql, at_most: u32) -> Result<HeldRuns, Failure> {
    let rows = sql.count_held_runs.query().bind(i64::from(at_most)).fetch_all(connection).await?;
    let mut held = HeldRuns::default();
    for found in &rows {
        let runs = count(found, "runs")?;
        held.runs = held.runs.saturating_add(runs);
        if let Some(id) = found.try_get::<Option<Uuid>, _>("id")? {
            held.by_worker.push((id.into(), runs));
        }
    }
    Ok(held)
}

/// See [`Store::seat_counts`](workflow_engine::store::Store::seat_counts).
pub(super) async fn seats(
    connection: &mut PgConnection,
    sql: &Sql,
    limit: &str,
    at_most: u32,
) -> Result<SeatCounts, Failure> {
    let query = sql.count_seats.query().bind(limit.to_owned()).bind(i64::from(at_most));
    let found = query.fetch_one(connection).await?;
    Ok(SeatCounts { held: count(&found, "held")?, waiting: count(&found, "waiting")? })
}

fn count(found: &PgRow, column: &str) -> Result<u32, Failure> {
    u32::try_from(found.try_get::<i64, _>(column)?).map_err(Failure::corrupt)
}
