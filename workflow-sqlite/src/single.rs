//! Runs with a single key, which at most one run of a workflow has at a time.

use serde::Serialize;
use sqlx::SqliteConnection;

use workflow_engine::model::{MovedRun, NewRun, RunId, SingleKey, SingleUntil, Timestamp};
use workflow_engine::store::{DatabaseError, FoundSingle, SingleRun};

use super::error::During;
use super::start::insert_lanes;
use super::{gate, row, sql};

const FIND: &str = "find the runs of single keys";
const MOVE: &str = "move runs to a later start";

/// The columns of a moved run, in the order of `move_runs.sql`.
#[derive(Serialize)]
struct MovedRow<'a>(
    RunId,
    &'a str,
    &'a str,
    &'a str,
    i16,
    &'a str,
    String,
    Timestamp,
    Option<Timestamp>,
    Option<i64>,
    &'a str,
);

/// Finds these runs, and the runs that have their keys. Returns one answer per run, in their order.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    runs: &[SingleRun<'_>],
) -> Result<Vec<FoundSingle>, DatabaseError> {
    let wanted: Vec<_> =
        runs.iter().map(|run| (run.run_id, run.workflow, &run.key.key, run.key.until.as_str())).collect();
    let query = sqlx::query(sql::FIND_SINGLE_RUNS).bind(serde_json::to_string(&wanted).during(FIND)?);
    let mut found = vec![FoundSingle::default(); runs.len()];
    for row in &query.fetch_all(connection).await.during(FIND)? {
        let place = usize::try_from(row::get::<i64>(row, "place")?).unwrap_or(usize::MAX);
        if let Some(found) = found.get_mut(place) {
            *found = FoundSingle { exists: row::get(row, "present")?, holder: row::maybe_id(row, "holder")? };
        }
    }
    Ok(found)
}

/// Gives runs that this transaction has inserted their keys.
pub(super) async fn set_keys(connection: &mut SqliteConnection, runs: &[SingleRun<'_>]) -> Result<(), DatabaseError> {
    const OPERATION: &str = "give runs their single keys";
    let rows: Vec<_> = runs.iter().map(|run| (run.run_id, &run.key.key, run.key.until.as_str())).collect();
    let query = sqlx::query(sql::SET_SINGLE_KEYS).bind(serde_json::to_string(&rows).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Takes their keys from runs.
pub(super) async fn clear_keys(connection: &mut SqliteConnection, runs: &[RunId]) -> Result<(), DatabaseError> {
    const OPERATION: &str = "take single keys from replaced runs";
    let query = sqlx::query(sql::CLEAR_SINGLE_KEYS).bind(serde_json::to_string(runs).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Gives runs that have not begun the values of new runs.
pub(super) async fn move_runs(
    connection: &mut SqliteConnection,
    runs: &[(&MovedRun, &NewRun)],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    insert_lanes(&mut *connection, runs.iter().map(|(_, new)| &new.lane)).await?;
    gate::insert(&mut *connection, runs.iter().map(|(_, new)| new.place())).await?;
    let rows = runs.iter().map(|(moved, new)| moved_row(moved, new, now)).collect::<Result<Vec<_>, _>>()?;
    let query = sqlx::query(sql::MOVE_RUNS).bind(serde_json::to_string(&rows).during(MOVE)?);
    query.execute(connection).await.during(MOVE)?;
    Ok(())
}

fn moved_row<'a>(moved: &'a MovedRun, new: &'a NewRun, now: Timestamp) -> Result<MovedRow<'a>, DatabaseError> {
    let lane = &new.lane;
    Ok(MovedRow(
        moved.id,
        &lane.queue,
        &lane.workflow,
        &lane.version,
        new.rank().number(),
        &moved.input,
        serde_json::to_string(&new.tags).during(MOVE)?,
        new.start.resolve(now),
        new.deadline.map(|deadline| deadline.resolve(now)),
        moved.max_wait.map(|wait| (Timestamp::from_micros(0) + wait).as_micros()),
        new.gate.as_deref().unwrap_or_default(),
    ))
}

/// Returns the workflow and the key that a run gets back if it is revived after this attempt.
pub(super) async fn read_lost(
    connection: &mut SqliteConnection,
    run: RunId,
    attempt: i64,
) -> Result<Option<(String, SingleKey)>, DatabaseError> {
    let query = sqlx::query(sql::READ_LOST_SINGLE).bind(run.to_string()).bind(attempt);
    let Some(row) = query.fetch_optional(connection).await.during(FIND)? else { return Ok(None) };
    let until = row::word(&row, "single_until", SingleUntil::parse)?;
    Ok(Some((row::get(&row, "workflow_name")?, SingleKey { key: row::get(&row, "single_key")?, until })))
}
