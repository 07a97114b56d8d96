//! The history of a fork.

use sqlx::SqliteConnection;

use workflow_engine::model::RunId;
use workflow_engine::store::DatabaseError;

use super::error::During;
use super::sql;

const OPERATION: &str = "fork a run";

/// Sets the epoch of a new run to 1. Returns `false` if the run was claimed or copied into before.
pub(super) async fn mark(connection: &mut SqliteConnection, run: RunId) -> Result<bool, DatabaseError> {
    let query = sqlx::query(sql::MARK_FORK).bind(run.to_string());
    Ok(query.fetch_optional(connection).await.during(OPERATION)?.is_some())
}

/// Copies what a fork keeps of the history of `source`: the outcomes before this position, and what
/// belongs to them.
pub(super) async fn copy_history(
    connection: &mut SqliteConnection,
    source: RunId,
    new: RunId,
    before: i64,
) -> Result<(), DatabaseError> {
    let query = sqlx::query(sql::COPY_HISTORY).bind(source.to_string()).bind(new.to_string()).bind(before);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}
