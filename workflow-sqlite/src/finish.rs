//! Ends and parks of claimed runs.

use serde::Serialize;
use sqlx::SqliteConnection;

use workflow_engine::faults::planted;
use workflow_engine::model::{RunId, Timestamp};
use workflow_engine::store::{DatabaseError, EndWrite, ParkWrite, RunEnd};

use super::error::During;
use super::sql;

const END: &str = "end runs";
const PARK: &str = "park runs";

/// Ends runs whose claims have passed the fence.
pub(super) async fn end(
    connection: &mut SqliteConnection,
    ends: &[&EndWrite],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    update(connection, (END, sql::END_RUNS), end_rows(ends)?, now).await.map(drop)
}

/// Ends a run if its claim holds, and returns whether it did.
pub(super) async fn end_held(
    connection: &mut SqliteConnection,
    write: &EndWrite,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    Ok(update(connection, (END, sql::END_RUNS), end_rows(&[write])?, now).await? == 1)
}

/// Returns ends as `end_runs.sql` takes them; `None`, which SQLite takes for no rows, without any.
pub(super) fn end_rows(ends: &[&EndWrite]) -> Result<Option<String>, DatabaseError> {
    rows(ends.iter().copied().map(end_row), END)
}

type EndRow<'a> = (RunId, i64, &'static str, Option<&'a str>, Option<String>);

fn end_row(write: &EndWrite) -> Result<EndRow<'_>, serde_json::Error> {
    let (output, error) = match &write.end {
        RunEnd::Succeeded(output) => (Some(output.as_str()), None),
        RunEnd::Failed(error) => (None, Some(serde_json::to_string(error)?)),
        RunEnd::Canceled => (None, None),
    };
    Ok((write.claim.run_id, write.claim.epoch, write.end.status().as_str(), output, error))
}

/// Parks runs whose claims have passed the fence.
pub(super) async fn park(
    connection: &mut SqliteConnection,
    parks: &[&ParkWrite],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    update(connection, (PARK, sql::PARK_RUNS), park_rows(parks)?, now).await.map(drop)
}

/// Returns parks as `park_runs.sql` takes them; `None`, which SQLite takes for no rows, without
/// any.
pub(super) fn park_rows(parks: &[&ParkWrite]) -> Result<Option<String>, DatabaseError> {
    rows(parks.iter().copied().map(park_row), PARK)
}

type ParkRow = (RunId, i64, Option<i64>, Timestamp, bool, Option<String>, bool);

fn park_row(write: &ParkWrite) -> Result<ParkRow, serde_json::Error> {
    let ParkWrite { claim, wakes, until, until_deadline, error, reset_crashes } = write;
    let wakes = (!planted("park-without-recheck")).then_some(*wakes);
    let error = error.as_ref().map(serde_json::to_string).transpose()?;
    Ok((claim.run_id, claim.epoch, wakes, *until, *reset_crashes, error, *until_deadline))
}

fn rows<T: Serialize>(
    rows: impl Iterator<Item = Result<T, serde_json::Error>>,
    operation: &'static str,
) -> Result<Option<String>, DatabaseError> {
    let rows: Vec<T> = rows.collect::<Result<_, _>>().during(operation)?;
    if rows.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(&rows).map(Some).during(operation)
}

/// Executes the statement, if there are rows. Returns the number of changed runs.
async fn update(
    connection: &mut SqliteConnection,
    (operation, statement): (&'static str, &'static str),
    rows: Option<String>,
    now: Timestamp,
) -> Result<u64, DatabaseError> {
    if rows.is_none() {
        return Ok(0);
    }
    let query = sqlx::query(statement).bind(now.as_micros()).bind(rows);
    Ok(query.execute(connection).await.during(operation)?.rows_affected())
}
