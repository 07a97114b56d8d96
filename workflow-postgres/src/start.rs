//! Starts of runs, in a batch or in a transaction of the application.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{Clock, NewRun, Parent, StartTime, Timestamp};
use workflow_engine::store::StartOutcome;

use super::error::Failure;
use super::row;
use super::sql::{Sql, Statement};

/// Starts runs and returns the outcome of each, in their order. Of several with one key or one id,
/// the first is started.
pub(super) async fn start(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    runs: &[&NewRun],
) -> Result<Vec<StartOutcome>, Failure> {
    let new = bind(&sql.insert_runs, clock, &in_order_of_keys(runs))?.execute(&mut *connection).await?.rows_affected();
    outcomes(connection, sql, runs, new).await
}

/// Returns the outcome of each start, in their order, after `new` rows were inserted. The statement
/// returns only that number, because it is nearly always all.
pub(super) async fn outcomes(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &[&NewRun],
    new: u64,
) -> Result<Vec<StartOutcome>, Failure> {
    if new == runs.len() as u64 {
        return Ok(runs.iter().map(|_| StartOutcome::Created).collect());
    }
    let mut found = find_started(connection, sql, runs).await?;
    // A gap: the transaction has a snapshot of its own, or the run was deleted in between. The next
    // try finds out.
    let all: Option<Vec<StartOutcome>> = (0..runs.len()).map(|place| found.remove(&place)).collect();
    all.ok_or_else(|| Failure::busy("the run that holds the key cannot be seen yet"))
}

/// Sorts runs by key, because concurrent inserts wait for each other's keys. The sort is stable, so
/// of two starts with one key the first is created.
pub(super) fn in_order_of_keys<'r>(runs: &[&'r NewRun]) -> Vec<&'r NewRun> {
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| (&a.lane.workflow, &a.key).cmp(&(&b.lane.workflow, &b.key)));
    runs
}

/// Returns a statement that starts runs, with the parameters that all such statements begin with.
pub(super) fn bind(
    statement: &Statement,
    clock: &Clock,
    runs: &[&NewRun],
) -> Result<Query<'static, Postgres, PgArguments>, Failure> {
    let (start_at, start_delay): (Vec<_>, Vec<_>) = runs.iter().map(|run| columns(Some(run.start))).unzip();
    let (deadline_at, deadline_delay): (Vec<_>, Vec<_>) = runs.iter().map(|run| columns(run.deadline)).unzip();
    let tags = runs.iter().map(|run| serde_json::to_string(&run.tags)).collect::<Result<Vec<_>, _>>();
    let parents: Vec<Option<&Parent>> = runs.iter().map(|run| run.parent.as_ref()).collect();
    let query = statement
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(runs.iter().map(|run| run.id.as_uuid()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.lane.workflow.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.lane.version.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.lane.queue.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.input.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.key.as_deref()).collect::<Vec<_>>())
        .bind(start_at)
        .bind(start_delay)
        .bind(deadline_at)
        .bind(deadline_delay)
        .bind(tags.map_err(Failure::invalid)?)
        .bind(runs.iter().map(|run| run.depth).collect::<Vec<_>>())
        .bind(parents.iter().map(|parent| parent.map(|parent| parent.run_id.as_uuid())).collect::<Vec<_>>())
        .bind(parents.iter().map(|parent| parent.map(|parent| parent.step_key.as_str())).collect::<Vec<_>>())
        .bind(parents.iter().map(|parent| parent.map(|parent| parent.on_end.as_str())).collect::<Vec<_>>());
    Ok(query)
}

/// Finds the outcomes of starts, by their indexes.
async fn find_started(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &[&NewRun],
) -> Result<HashMap<usize, StartOutcome>, Failure> {
    let query = sql
        .find_started_runs
        .query()
        .bind(runs.iter().map(|run| run.id.as_uuid()).collect::<Vec<Uuid>>())
        .bind(runs.iter().map(|run| run.lane.workflow.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.key.as_deref()).collect::<Vec<_>>());
    let mut found = HashMap::new();
    for row in query.fetch_all(connection).await? {
        let place = usize::try_from(row.try_get::<i64, _>("place")? - 1).unwrap_or(usize::MAX);
        let Some(run) = runs.get(place) else { continue };
        let id = row::run_id(&row)?;
        // The run's own id: made just now, or by an earlier commit whose reply was lost.
        if id == run.id {
            found.insert(place, StartOutcome::Created);
        } else {
            let outcome = match row.try_get::<i64, _>("generation")? {
                0 => StartOutcome::Existing { id, input: row.try_get("input")? },
                _ => StartOutcome::Continued { id },
            };
            found.entry(place).or_insert(outcome);
        }
    }
    Ok(found)
}

/// Returns the columns (instant, delay in microseconds) of a time that the database resolves.
pub(super) fn columns(time: Option<StartTime>) -> (Option<i64>, Option<i64>) {
    match time {
        None => (None, None),
        Some(StartTime::Now) => (None, Some(0)),
        Some(StartTime::After(delay)) => (None, Some(micros(delay))),
        Some(StartTime::At(at)) => (Some(at.as_micros()), None),
    }
}

/// Returns a duration in microseconds, cut where its sum with any time would leave the calendar.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(Timestamp::FAR_FUTURE.as_micros())
}
