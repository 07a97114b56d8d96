//! The two ways in which a worker lets go of a run: it ends, or it is parked.

use sqlx::SqliteConnection;

use crate::backend::fence::Fence;
use crate::backend::outcomes::Outcomes;
use crate::backend::{BackendError, EndWrite, ParkWrite, RunEnd, Write};
use crate::model::{RunStatus, StoredError, Timestamp};
use crate::planted::planted;

use super::error::During;
use super::sql;

/// Applies the ends of a batch whose claims hold.
pub(super) async fn end(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Result<(), BackendError> {
    let mut live: Vec<&EndWrite> = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::End(write) = write else { continue };
        if outcomes.let_go(place, fence, write.claim, write.end.status()) {
            live.push(write);
        }
    }
    end_all(connection, live, now).await.map(drop)
}

/// Applies the ends of a plain batch. Says whether all claims held.
pub(super) async fn end_plain(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
) -> Result<bool, BackendError> {
    let ends = writes.iter().filter_map(|write| if let Write::End(write) = write { Some(write) } else { None });
    let ends: Vec<&EndWrite> = ends.collect();
    let count = ends.len() as u64;
    Ok(end_all(connection, ends, now).await? == count)
}

/// Ends those of these runs whose claims hold, and says how many.
async fn end_all(
    connection: &mut SqliteConnection,
    mut ends: Vec<&EndWrite>,
    now: Timestamp,
) -> Result<u64, BackendError> {
    const OPERATION: &str = "end runs";
    ends.sort_unstable_by_key(|write| write.claim);
    let mut rows = Vec::with_capacity(ends.len());
    for EndWrite { claim, end, .. } in ends {
        let (output, error) = match end {
            RunEnd::Succeeded(output) => (Some(output), None),
            RunEnd::Failed(error) => (None, Some(serde_json::to_string(error).during(OPERATION)?)),
            RunEnd::Canceled => (None, None),
        };
        rows.push((claim.run_id, claim.epoch, end.status().as_str(), output, error));
    }
    update(connection, OPERATION, sql::END_RUNS, &rows, now).await
}

/// Applies the parks of a batch whose claims hold.
pub(super) async fn park(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Result<(), BackendError> {
    const OPERATION: &str = "park runs";
    let mut live: Vec<&ParkWrite> = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Park(write) = write else { continue };
        if outcomes.let_go(place, fence, write.claim, RunStatus::Parked) {
            live.push(write);
        }
    }
    live.sort_unstable_by_key(|write| write.claim);
    let mut rows = Vec::with_capacity(live.len());
    for ParkWrite { claim, wakes, until, until_deadline, error, reset_crashes } in live {
        let wakes = (!planted("park-without-recheck")).then_some(wakes);
        let error: Option<&StoredError> = error.as_ref();
        let error = error.map(serde_json::to_string).transpose().during(OPERATION)?;
        rows.push((claim.run_id, claim.epoch, wakes, until, reset_crashes, error, until_deadline));
    }
    update(connection, OPERATION, sql::PARK_RUNS, &rows, now).await.map(drop)
}

async fn update<T: serde::Serialize>(
    connection: &mut SqliteConnection,
    operation: &'static str,
    statement: &'static str,
    rows: &[T],
    now: Timestamp,
) -> Result<u64, BackendError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let rows = serde_json::to_string(rows).during(operation)?;
    let query = sqlx::query(statement).bind(rows).bind(now.as_micros());
    Ok(query.execute(connection).await.during(operation)?.rows_affected())
}
