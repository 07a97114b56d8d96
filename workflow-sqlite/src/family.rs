//! What the end of a run means for its parent and its children.

use sqlx::SqliteConnection;

use workflow_engine::model::Timestamp;
use workflow_engine::store::DatabaseError;
use workflow_engine::store::Ended;

use super::error::During;
use super::{row, signal, sql};

const OPERATION: &str = "tell parents and children of an end";

/// Wakes the parents of runs that ended, and ends the children that are to end with them.
pub(super) async fn tell(connection: &mut SqliteConnection, ended: Ended, now: Timestamp) -> Result<(), DatabaseError> {
    let mut parents = ended.parents;
    if !ended.parents_unknown.is_empty() {
        let runs = serde_json::to_string(&ended.parents_unknown).during(OPERATION)?;
        let found = sqlx::query(sql::FIND_PARENTS).bind(runs).fetch_all(&mut *connection).await.during(OPERATION)?;
        for row in &found {
            parents.insert(row::id(row, "id")?);
        }
    }
    signal::wake(connection, &parents, now).await?;
    if !ended.with_children.is_empty() {
        let runs = serde_json::to_string(&ended.with_children).during(OPERATION)?;
        let query = sqlx::query(sql::CANCEL_CHILDREN).bind(runs).bind(now.as_micros());
        query.execute(connection).await.during(OPERATION)?;
    }
    Ok(())
}
