//! Runs that are paused and resumed.

use sqlx::SqliteConnection;

use workflow_engine::model::{RunId, RunStatus, Timestamp};
use workflow_engine::store::{DatabaseError, RunState};

use super::error::During;
use super::{row, sql};

/// Pauses a run that has not ended. Returns the status that it has; `None` if there is no such run.
pub(super) async fn pause(
    connection: &mut SqliteConnection,
    run: RunId,
    now: Timestamp,
) -> Result<Option<RunStatus>, DatabaseError> {
    let query = sqlx::query(sql::PAUSE_RUN).bind(run.to_string()).bind(now.as_micros());
    let paused = query.fetch_optional(connection).await.during("pause a run")?;
    paused.as_ref().map(row::status).transpose()
}

/// Resumes a run, and returns whether it was paused.
pub(super) async fn resume(connection: &mut SqliteConnection, run: RunId) -> Result<bool, DatabaseError> {
    let query = sqlx::query(sql::RESUME_RUN).bind(run.to_string());
    Ok(query.fetch_optional(connection).await.during("resume a run")?.is_some())
}

/// Returns the state of a run; `None` if there is no such run.
pub(super) async fn read_state(
    connection: &mut SqliteConnection,
    run: RunId,
) -> Result<Option<RunState>, DatabaseError> {
    let query = sqlx::query(sql::READ_RUN).bind(run.to_string());
    let row = query.fetch_optional(connection).await.during("read a run")?;
    let run = row.as_ref().map(row::run).transpose()?;
    Ok(run.map(|run| RunState { status: run.status, attempt: run.attempt }))
}
