//! Changes of runs that the writer does not hold a claim of: disown, cancel, expire.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::backend::CancelOutcome;
use crate::model::{Claim, Clock, ErrorKind, RunId, RunStatus, StoredError, Timestamp, WorkerId};

use super::error::Failure;
use super::finish::error_text;
use super::row;
use super::sql::Sql;

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
) -> Result<Vec<RunId>, Failure> {
    let error = StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline");
    let query = sql
        .expire_runs
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(error_text(Some(&error))?)
        .bind(i64::from(limit));
    query.fetch_all(connection).await?.iter().map(row::run_id).collect()
}

/// Cancels runs, which the fence has locked, and says for each, in order, what became of it.
pub(super) async fn cancel(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    ids: &[RunId],
) -> Result<Vec<CancelOutcome>, Failure> {
    let query = sql
        .cancel_runs
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(ids.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>());
    let mut found = HashMap::new();
    for row in query.fetch_all(connection).await? {
        let became: Option<&str> = row.try_get("became")?;
        found.insert(row::run_id(&row)?, cancel_outcome(became, row.try_get("was")?)?);
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

fn cancel_outcome(became: Option<&str>, was: &str) -> Result<CancelOutcome, Failure> {
    match became.map(row::run_status).transpose()? {
        Some(RunStatus::Canceled) => Ok(CancelOutcome::Canceled),
        Some(_) => Ok(CancelOutcome::Requested),
        None => Ok(CancelOutcome::Ended(row::run_status(was)?)),
    }
}
