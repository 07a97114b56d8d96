//! Changes of runs that do not come from the worker that drives them: a worker releases claims that
//! it does not know, clients cancel and terminate, deadlines expire.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::{PgConnection, Row};

use workflow_engine::model::{Claim, Clock, RunId, RunStatus, StoredError, Timestamp, WorkerId};
use workflow_engine::store::CancelOutcome;

use super::error::Failure;
use super::fence::ids;
use super::finish::error_text;
use super::row;
use super::sql::{Sql, Statement};

/// Releases every claim of the worker but the known ones. Returns their number.
pub(super) async fn release_unknown(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    worker: WorkerId,
    known: &[Claim],
) -> Result<u64, Failure> {
    let query = sql
        .release_unknown_claims
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(worker.as_uuid())
        .bind(ids(known.iter().map(|claim| &claim.run_id)))
        .bind(known.iter().map(|claim| claim.epoch).collect::<Vec<_>>());
    Ok(query.execute(connection).await?.rows_affected())
}

/// Cancels or terminates runs that the fence has locked, by this statement. Returns the outcome of
/// each run that exists.
pub(super) async fn cancel(
    connection: &mut PgConnection,
    sql: &Sql,
    statement: &Statement,
    clock: &Clock,
    runs: &[RunId],
) -> Result<HashMap<RunId, CancelOutcome>, Failure> {
    let query = statement.query().bind(clock.fixed().map(Timestamp::as_micros)).bind(ids(runs.iter()));
    let mut outcomes = HashMap::new();
    for row in &query.fetch_all(&mut *connection).await? {
        let canceled = row::run_status(row.try_get("status")?)? == RunStatus::Canceled;
        let outcome = if canceled { CancelOutcome::Canceled } else { CancelOutcome::Requested };
        outcomes.insert(row::run_id(row)?, outcome);
    }
    let unchanged = ids(runs.iter().filter(|run| !outcomes.contains_key(run)));
    if !unchanged.is_empty() {
        for row in &sql.read_statuses.query().bind(unchanged).fetch_all(connection).await? {
            outcomes.insert(row::run_id(row)?, CancelOutcome::Ended(row::run_status(row.try_get("status")?)?));
        }
    }
    Ok(outcomes)
}

/// Ends the pauses of late runs, then fails, with this error, at most `limit` runs whose deadline
/// has passed and that no worker holds or serves: see
/// [`Write::Expire`](workflow_engine::store::Write::Expire). Returns the failed ones.
pub(super) async fn expire(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    limit: u32,
    patience: Duration,
    error: &StoredError,
) -> Result<Vec<RunId>, Failure> {
    let now = clock.fixed().map(Timestamp::as_micros);
    sql.resume_late_runs.query().bind(now).bind(i64::from(limit)).execute(&mut *connection).await?;
    let query = sql
        .expire_runs
        .query()
        .bind(now)
        .bind(error_text(Some(error))?)
        .bind(i64::from(limit))
        .bind(i64::try_from(patience.as_micros()).unwrap_or(i64::MAX / 2));
    query.fetch_all(connection).await?.iter().map(row::run_id).collect()
}
