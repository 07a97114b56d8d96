//! Claims of due runs.

use std::collections::{BTreeSet, HashMap};

use sqlx::SqliteConnection;

use crate::backend::{BackendError, ClaimRequest, Claimed, ClaimedRun, Outcome, Write};
use crate::model::{Lane, RunId, Timestamp};

use super::commit::Outcomes;
use super::error::During;
use super::{row, sql};

const OPERATION: &str = "claim runs";

/// Applies the claims of a batch, one after the other: what the first takes, the second does not find.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<(), BackendError> {
    for (place, write) in writes.iter().enumerate() {
        let Write::Claim(request) = write else { continue };
        let runs = claim(connection, request, now).await?;
        outcomes.set(place, Outcome::Claimed(Claimed { runs, now }));
    }
    Ok(())
}

async fn claim(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<Vec<ClaimedRun>, BackendError> {
    let due = find_due(connection, request, now).await?;
    // Without a change the transaction writes nothing, so an idle poll costs no sync of the disk.
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let mut claimed = take(connection, request, &due, now).await?;
    Ok(due.iter().filter_map(|id| claimed.remove(id)).collect())
}

/// The runs that have been due longest, over all lanes.
async fn find_due(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<Vec<RunId>, BackendError> {
    let mut due: BTreeSet<(i64, RunId)> = BTreeSet::new();
    for Lane { queue, workflow, version } in &request.lanes {
        let query = sqlx::query(sql::FIND_DUE_RUNS).bind(queue).bind(workflow).bind(version).bind(now.as_micros());
        let rows = query.bind(request.limit).fetch_all(&mut *connection).await.during(OPERATION)?;
        for found in &rows {
            due.insert((row::get(found, "available_at")?, row::id(found, "id")?));
        }
    }
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    Ok(due.into_iter().take(limit).map(|(_, id)| id).collect())
}

async fn take(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    due: &[RunId],
    now: Timestamp,
) -> Result<HashMap<RunId, ClaimedRun>, BackendError> {
    let query = sqlx::query(sql::CLAIM_RUNS)
        .bind(serde_json::to_string(due).during(OPERATION)?)
        .bind(request.worker.to_string())
        .bind((now + request.lease).as_micros())
        .bind(now.as_micros());
    let rows = query.fetch_all(connection).await.during(OPERATION)?;
    rows.iter().map(|row| row::claimed_run(row).map(|run| (run.claim.run_id, run))).collect()
}
