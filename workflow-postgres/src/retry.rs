//! Runs that get another attempt: by their worker, or by an operator after they failed.

use sqlx::PgConnection;

use workflow_engine::model::{Clock, RunId, Timestamp};
use workflow_engine::store::{RetryWrite, ReviveWrite};

use super::error::Failure;
use super::finish::error_text;
use super::sql::Sql;
use super::start::columns;

/// Gives runs whose claims have passed the fence their next attempt.
pub(super) async fn retry(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    retries: &[&RetryWrite],
) -> Result<(), Failure> {
    let errors = retries.iter().map(|write| error_text(Some(&write.error))).collect::<Result<Vec<_>, _>>()?;
    sql.retry_runs
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(retries.iter().map(|write| write.claim.run_id.as_uuid()).collect::<Vec<_>>())
        .bind(retries.iter().map(|write| write.claim.epoch).collect::<Vec<_>>())
        .bind(retries.iter().map(|write| write.until.as_micros()).collect::<Vec<_>>())
        .bind(errors)
        .execute(&mut *connection)
        .await?;
    drop_open_waits(connection, sql, clock, retries.iter().map(|write| write.claim.run_id)).await
}

/// Ends the open waits and sleeps of runs that get another attempt.
async fn drop_open_waits(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    runs: impl IntoIterator<Item = RunId>,
) -> Result<(), Failure> {
    let runs: Vec<_> = runs.into_iter().map(RunId::as_uuid).collect();
    let now = clock.fixed().map(Timestamp::as_micros);
    sql.drop_open_waits.query().bind(now).bind(runs).execute(connection).await?;
    Ok(())
}

/// Lets the failed ones of these steps be attempted again.
pub(super) async fn reset_outcomes(
    connection: &mut PgConnection,
    sql: &Sql,
    steps: &[(RunId, &str)],
) -> Result<(), Failure> {
    let runs: Vec<_> = steps.iter().map(|(run, _)| run.as_uuid()).collect();
    let keys: Vec<_> = steps.iter().map(|(_, key)| *key).collect();
    sql.reset_outcomes.query().bind(runs).bind(keys).execute(connection).await?;
    Ok(())
}

/// Makes a run due again if it failed at the write's attempt, and returns whether it did.
pub(super) async fn revive(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    write: &ReviveWrite,
) -> Result<bool, Failure> {
    let run = write.run_id.as_uuid();
    let (deadline_at, deadline_delay) = columns(write.deadline);
    let now = clock.fixed().map(Timestamp::as_micros);
    let query = sql.revive_run.query().bind(now).bind(run).bind(write.attempt).bind(deadline_at).bind(deadline_delay);
    let revived = query.fetch_optional(&mut *connection).await?.is_some();
    if revived {
        sql.forget_interruption.query().bind(run).execute(&mut *connection).await?;
        drop_open_waits(connection, sql, clock, [write.run_id]).await?;
    }
    Ok(revived)
}
