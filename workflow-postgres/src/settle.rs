//! Changes of runs that the writer does not hold a claim of: disown, cancel, terminate, expire.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{Claim, Clock, ErrorKind, RunId, RunStatus, StoredError, Timestamp, WorkerId};
use workflow_engine::store::CancelOutcome;

use super::error::Failure;
use super::finish::error_text;
use super::row;
use super::sql::{Sql, Statement};

/// Gives back every claim of the worker but the known ones; says how many.
pub(super) async fn disown(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    worker: WorkerId,
    known: &[Claim],
) -> Result<u64, Failure> {
    let query = sql
        .disown_runs
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(worker.as_uuid())
        .bind(known.iter().map(|claim| claim.run_id.as_uuid()).collect::<Vec<_>>())
        .bind(known.iter().map(|claim| claim.epoch).collect::<Vec<_>>());
    Ok(query.execute(connection).await?.rows_affected())
}

/// Fails at most `limit` runs whose deadline has passed; says which.
pub(super) async fn expire(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    limit: u32,
    patience: Duration,
) -> Result<Vec<RunId>, Failure> {
    let error = StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline");
    let query = sql
        .expire_runs
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(error_text(Some(&error))?)
        .bind(i64::from(limit))
        .bind(i64::try_from(patience.as_micros()).unwrap_or(i64::MAX / 2));
    query.fetch_all(connection).await?.iter().map(row::run_id).collect()
}

/// Cancels or terminates runs, which the fence has locked, and says for each, in order, what became of it.
pub(super) async fn cancel(
    connection: &mut PgConnection,
    sql: &Sql,
    statement: &Statement,
    clock: &Clock,
    ids: &[RunId],
) -> Result<Vec<CancelOutcome>, Failure> {
    let query = statement
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(ids.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>());
    let mut found = HashMap::new();
    for row in &query.fetch_all(&mut *connection).await? {
        let canceled = row::run_status(row.try_get("status")?)? == RunStatus::Canceled;
        let outcome = if canceled { CancelOutcome::Canceled } else { CancelOutcome::Requested };
        found.insert(row::run_id(row)?, outcome);
    }
    let others: Vec<Uuid> = ids.iter().filter(|id| !found.contains_key(id)).map(|id| id.as_uuid()).collect();
    if !others.is_empty() {
        for row in &sql.read_statuses.query().bind(others).fetch_all(connection).await? {
            found.insert(row::run_id(row)?, CancelOutcome::Ended(row::run_status(row.try_get("status")?)?));
        }
    }
    let outcomes = ids.iter().map(|id| {
        let outcome = found.get(id).copied().unwrap_or(CancelOutcome::Unknown);
        // The same run a second time in this batch finds what the first did.
        if outcome == CancelOutcome::Canceled {
            found.insert(*id, CancelOutcome::Ended(RunStatus::Canceled));
        }
        outcome
    });
    Ok(outcomes.collect())
}
