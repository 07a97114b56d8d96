//! Claims of due runs.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use sqlx::SqliteConnection;

use crate::backend::outcomes::Outcomes;
use crate::backend::{BackendError, ClaimRequest, Claimed, ClaimedRun, Outcome, Write};
use crate::model::{Claim, Lane, RunId, Timestamp};
use crate::planted::altered;

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
    let lanes: Vec<_> = request.lanes.iter().map(|lane| (&lane.queue, &lane.workflow, &lane.version)).collect();
    let query = sqlx::query_scalar(sql::FIND_DUE_RUNS).bind(serde_json::to_string(&lanes).during(OPERATION)?);
    let query = query.bind(now.as_micros()).bind(request.limit);
    let found: Vec<String> = query.fetch_all(connection).await.during(OPERATION)?;
    let mut due: BTreeSet<(i64, RunId)> = BTreeSet::new();
    for lane in &found {
        due.append(&mut row::json(lane)?);
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
    let due = serde_json::to_string(due).during(OPERATION)?;
    let claim = altered("late-crash-count", sql::CLAIM_RUNS, "crashes + (status = 'running')", "crashes");
    let query = sqlx::query_scalar(claim).bind(&due).bind(request.worker.to_string());
    let query = query.bind((now + request.lease).as_micros()).bind(now.as_micros());
    let claimed: Vec<String> = query.fetch_all(connection).await.during(OPERATION)?;
    let run = |text: &String| row::json::<ClaimedRow>(text)?.run();
    claimed.iter().map(|text| run(text).map(|run| (run.claim.run_id, run))).collect()
}

/// The columns of a claimed run, in the order of `claim_runs.sql`.
#[derive(Deserialize)]
struct ClaimedRow(
    RunId,
    i64,
    String,
    String,
    String,
    i64,
    i64,
    i64,
    i64,
    i64,
    Option<RunId>,
    Option<Timestamp>,
    Option<Timestamp>,
    Timestamp,
    Timestamp,
    Option<String>,
    String,
);

impl ClaimedRow {
    fn run(self) -> Result<ClaimedRun, BackendError> {
        let Self(run_id, epoch, queue, workflow, version, wakes, crashes, attempt, generation, depth, ..) = self;
        let (parent_run_id, deadline_at, cancel_requested_at, started_at) = (self.10, self.11, self.12, self.13);
        Ok(ClaimedRun {
            claim: Claim { run_id, epoch },
            lane: Lane { queue, workflow, version },
            input: self.16,
            wakes,
            crashes,
            attempt,
            generation,
            depth,
            parent_run_id,
            deadline_at,
            cancel_requested: cancel_requested_at.is_some(),
            started_at,
            lease_until: self.14,
            error: self.15.as_deref().map(row::json).transpose()?,
        })
    }
}
