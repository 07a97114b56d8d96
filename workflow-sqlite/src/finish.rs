//! The two ways in which a worker lets go of a run: it ends, or it is parked.

use serde::Serialize;
use sqlx::SqliteConnection;

use workflow_engine::faults::planted;
use workflow_engine::model::{RunId, RunStatus, Timestamp};
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{DatabaseError, EndWrite, ParkWrite, RunEnd, Write};

use super::error::During;
use super::sql;

const END: &str = "end runs";
const PARK: &str = "park runs";

/// Applies the ends of a batch whose claims hold.
pub(super) async fn end(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    let rows = ends(writes, fence, outcomes)?;
    update(connection, (END, sql::END_RUNS), rows, now).await.map(drop)
}

/// The ends of a batch whose claims hold, as `end_runs.sql` takes them.
pub(super) fn ends(
    writes: &[Write],
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Result<Option<String>, DatabaseError> {
    let mut live: Vec<&EndWrite> = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::End(write) = write else { continue };
        if outcomes.let_go(place, fence, write.claim, write.end.status()) {
            live.push(write);
        }
    }
    live.sort_unstable_by_key(|write| write.claim);
    rows(live.into_iter().map(end_row), END)
}

/// Ends this run if its claim holds, and says whether it did.
pub(super) async fn end_held(
    connection: &mut SqliteConnection,
    write: &EndWrite,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let rows = rows(std::iter::once(end_row(write)), END)?;
    Ok(update(connection, (END, sql::END_RUNS), rows, now).await? == 1)
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

/// Applies the parks of a batch whose claims hold.
pub(super) async fn park(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    let rows = parks(writes, fence, outcomes)?;
    update(connection, (PARK, sql::PARK_RUNS), rows, now).await.map(drop)
}

/// The parks of a batch whose claims hold, as `park_runs.sql` takes them.
pub(super) fn parks(
    writes: &[Write],
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Result<Option<String>, DatabaseError> {
    let mut live: Vec<&ParkWrite> = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Park(write) = write else { continue };
        if outcomes.let_go(place, fence, write.claim, RunStatus::Parked) {
            live.push(write);
        }
    }
    live.sort_unstable_by_key(|write| write.claim);
    rows(live.into_iter().map(park_row), PARK)
}

type ParkRow = (RunId, i64, Option<i64>, Timestamp, bool, Option<String>, bool);

fn park_row(write: &ParkWrite) -> Result<ParkRow, serde_json::Error> {
    let ParkWrite { claim, wakes, until, until_deadline, error, reset_crashes } = write;
    let wakes = (!planted("park-without-recheck")).then_some(*wakes);
    let error = error.as_ref().map(serde_json::to_string).transpose()?;
    Ok((claim.run_id, claim.epoch, wakes, *until, *reset_crashes, error, *until_deadline))
}

/// `None`, which SQLite takes for no rows, if there are none.
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

/// Says how many runs were changed.
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
