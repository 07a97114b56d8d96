//! The history of a fork.

use sqlx::PgConnection;

use workflow_engine::model::RunId;

use super::error::Failure;
use super::sql::Sql;

/// Sets the epoch of a new run to 1. Returns `false` if the run was claimed or copied into before.
pub(super) async fn mark(connection: &mut PgConnection, sql: &Sql, run: RunId) -> Result<bool, Failure> {
    Ok(sql.mark_fork.query().bind(run.as_uuid()).fetch_optional(connection).await?.is_some())
}

/// Copies what a fork keeps of the history of `source`: the outcomes before this position, and what
/// belongs to them.
pub(super) async fn copy_history(
    connection: &mut PgConnection,
    sql: &Sql,
    source: RunId,
    new: RunId,
    before: i64,
) -> Result<(), Failure> {
    let query = sql.copy_history.query().bind(source.as_uuid()).bind(new.as_uuid()).bind(before);
    query.execute(connection).await?;
    Ok(())
}
