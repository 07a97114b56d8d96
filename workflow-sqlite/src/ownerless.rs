//! Changes of runs that do not come from the worker that drives them: a worker releases claims that
//! it does not know, clients cancel and terminate, deadlines expire.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::SqliteConnection;

use workflow_engine::model::{Claim, RunId, RunStatus, StoredError, Timestamp, WorkerId};
use workflow_engine::store::{CancelOutcome, DatabaseError};

use super::error::During;
use super::{row, sql};

/// Releases every claim of the worker but the known ones. Returns their number.
pub(super) async fn release_unknown(
    connection: &mut SqliteConnection,
    worker: WorkerId,
    known: &[Claim],
    now: Timestamp,
) -> Result<u64, DatabaseError> {
    const OPERATION: &str = "release unknown claims";
    let known: Vec<_> = known.iter().map(|claim| (claim.run_id, claim.epoch)).collect();
    let query = sqlx::query(sql::RELEASE_UNKNOWN_CLAIMS)
        .bind(worker.to_string())
        .bind(serde_json::to_string(&known).during(OPERATION)?)
        .bind(now.as_micros());
    Ok(query.execute(connection).await.during(OPERATION)?.rows_affected())
}

/// Cancels runs: a run that was never claimed ends, another one is asked to end. Returns the
/// outcome of each run that exists.
pub(super) async fn cancel(
    connection: &mut SqliteConnection,
    runs: &[RunId],
    now: Timestamp,
) -> Result<HashMap<RunId, CancelOutcome>, DatabaseError> {
    end(connection, ("cancel runs", sql::CANCEL_RUNS), runs, |epoch| epoch == 0, now).await
}

/// Terminates runs. Returns the outcome of each run that exists.
pub(super) async fn terminate(
    connection: &mut SqliteConnection,
    runs: &[RunId],
    now: Timestamp,
) -> Result<HashMap<RunId, CancelOutcome>, DatabaseError> {
    end(connection, ("terminate runs", sql::TERMINATE_RUNS), runs, |_| true, now).await
}

/// Applies a statement that ends, of the runs that have not ended, those whose epoch it `ends`, and
/// that asks the others to end.
async fn end(
    connection: &mut SqliteConnection,
    (operation, statement): (&'static str, &'static str),
    runs: &[RunId],
    ends: impl Fn(i64) -> bool,
    now: Timestamp,
) -> Result<HashMap<RunId, CancelOutcome>, DatabaseError> {
    let ids = serde_json::to_string(runs).during(operation)?;
    let before = sqlx::query(sql::READ_STATUSES).bind(&ids).fetch_all(&mut *connection).await.during(operation)?;
    sqlx::query(statement).bind(&ids).bind(now.as_micros()).execute(connection).await.during(operation)?;
    let outcome = |status: RunStatus, epoch| match status {
        _ if status.is_terminal() => CancelOutcome::Ended(status),
        _ if ends(epoch) => CancelOutcome::Canceled,
        _ => CancelOutcome::Requested,
    };
    let outcomes =
        before.iter().map(|row| Ok((row::id(row, "id")?, outcome(row::status(row)?, row::get(row, "epoch")?))));
    outcomes.collect()
}

/// Ends the pauses of late runs, then fails, with this error, at most `limit` runs whose deadline
/// has passed and that no worker holds or serves: see
/// [`Write::Expire`](workflow_engine::store::Write::Expire). Returns the failed ones.
pub(super) async fn expire(
    connection: &mut SqliteConnection,
    limit: u32,
    patience: Duration,
    error: &StoredError,
    now: Timestamp,
) -> Result<Vec<RunId>, DatabaseError> {
    const OPERATION: &str = "expire runs";
    let query = sqlx::query(sql::RESUME_LATE_RUNS).bind(now.as_micros()).bind(limit);
    query.execute(&mut *connection).await.during(OPERATION)?;
    let query = sqlx::query(sql::EXPIRE_RUNS)
        .bind(now.as_micros())
        .bind(serde_json::to_string(error).during(OPERATION)?)
        .bind(limit)
        .bind((now - patience).as_micros());
    let rows = query.fetch_all(connection).await.during(OPERATION)?;
    rows.iter().map(|row| row::id(row, "id")).collect()
}
