//! Runs that are paused and resumed.

use sqlx::{PgConnection, Row};

use workflow_engine::model::{Clock, RunId, RunStatus, Timestamp};

use super::error::Failure;
use super::row;
use super::sql::Sql;

/// Pauses a run that has not ended. Returns the status that it has; `None` if there is no such run.
pub(super) async fn pause(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    run: RunId,
) -> Result<Option<RunStatus>, Failure> {
    let query = sql.pause_run.query().bind(clock.fixed().map(Timestamp::as_micros)).bind(run.as_uuid());
    let paused = query.fetch_optional(connection).await?;
    paused.map(|row| row::run_status(row.try_get("status")?)).transpose()
}

/// Resumes a run, and returns whether it was paused.
pub(super) async fn resume(connection: &mut PgConnection, sql: &Sql, run: RunId) -> Result<bool, Failure> {
    Ok(sql.resume_run.query().bind(run.as_uuid()).fetch_optional(connection).await?.is_some())
}
