//! Runs that get another attempt: by their worker, or by an operator after they failed.

use sqlx::SqliteConnection;

use workflow_engine::model::{RunId, Timestamp};
use workflow_engine::store::{DatabaseError, RetryWrite, ReviveWrite};

use super::error::During;
use super::sql;

/// Gives runs whose claims have passed the fence their next attempt.
pub(super) async fn retry(
    connection: &mut SqliteConnection,
    retries: &[&RetryWrite],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "try runs again";
    let row = |RetryWrite { claim, until, error, .. }: &&RetryWrite| {
        let error = serde_json::to_string(error).during(OPERATION)?;
        Ok((claim.run_id, claim.epoch, *until, error))
    };
    let rows = retries.iter().map(row).collect::<Result<Vec<_>, DatabaseError>>()?;
    let query = sqlx::query(sql::RETRY_RUNS).bind(serde_json::to_string(&rows).during(OPERATION)?);
    query.bind(now.as_micros()).execute(&mut *connection).await.during(OPERATION)?;
    let runs: Vec<RunId> = retries.iter().map(|write| write.claim.run_id).collect();
    drop_open_waits(connection, &runs, now).await
}

/// Ends the open waits and sleeps of runs that get another attempt.
async fn drop_open_waits(
    connection: &mut SqliteConnection,
    runs: &[RunId],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "end the waits of failed runs";
    let query = sqlx::query(sql::DROP_OPEN_WAITS).bind(serde_json::to_string(runs).during(OPERATION)?);
    query.bind(now.as_micros()).execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Lets the failed ones of these steps be attempted again.
pub(super) async fn reset_outcomes(
    connection: &mut SqliteConnection,
    steps: &[(RunId, &str)],
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "attempt steps again";
    let query = sqlx::query(sql::RESET_OUTCOMES).bind(serde_json::to_string(steps).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Makes a run due again if it failed at the write's attempt, and returns whether it did.
pub(super) async fn revive(
    connection: &mut SqliteConnection,
    write: &ReviveWrite,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    const OPERATION: &str = "try a failed run again";
    let run = write.run_id.to_string();
    let deadline = write.deadline.map(|deadline| deadline.resolve(now).as_micros());
    let query = sqlx::query(sql::REVIVE_RUN).bind(&run).bind(write.attempt).bind(now.as_micros()).bind(deadline);
    let revived = query.fetch_optional(&mut *connection).await.during(OPERATION)?.is_some();
    if revived {
        sqlx::query(sql::FORGET_INTERRUPTION).bind(&run).execute(&mut *connection).await.during(OPERATION)?;
        drop_open_waits(connection, &[write.run_id], now).await?;
    }
    Ok(revived)
}
