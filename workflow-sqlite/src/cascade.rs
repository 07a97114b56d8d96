//! The parents and children of runs that ended.

use std::collections::BTreeSet;

use sqlx::SqliteConnection;

use workflow_engine::model::{RunId, Timestamp};
use workflow_engine::store::DatabaseError;

use super::error::During;
use super::{row, sql};

const OPERATION: &str = "tell parents and children of an end";

/// Returns the parents of those of these runs that have one.
pub(super) async fn find_parents(
    connection: &mut SqliteConnection,
    runs: &BTreeSet<RunId>,
) -> Result<Vec<RunId>, DatabaseError> {
    let query = sqlx::query(sql::FIND_PARENTS).bind(serde_json::to_string(runs).during(OPERATION)?);
    let rows = query.fetch_all(connection).await.during(OPERATION)?;
    rows.iter().map(|row| row::id(row, "id")).collect()
}

/// Cancels the children of these runs that are to end with their parent. Returns those that have
/// ended.
pub(super) async fn cancel_children(
    connection: &mut SqliteConnection,
    parents: &BTreeSet<RunId>,
    now: Timestamp,
) -> Result<Vec<RunId>, DatabaseError> {
    let query = sqlx::query(sql::CANCEL_CHILDREN).bind(serde_json::to_string(parents).during(OPERATION)?);
    let rows = query.bind(now.as_micros()).fetch_all(connection).await.during(OPERATION)?;
    let ended: Result<Vec<Option<RunId>>, DatabaseError> =
        rows.iter().map(|found| Ok(row::get::<bool>(found, "ended")?.then_some(row::id(found, "id")?))).collect();
    Ok(ended?.into_iter().flatten().collect())
}
