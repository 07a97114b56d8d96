//! What the end of a run means for its parent and its children.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use uuid::Uuid;

use workflow_engine::model::{Clock, RunId, Timestamp};
use workflow_engine::store::Ended;

use super::error::Failure;
use super::sql::Sql;
use super::{row, signal};

/// Wakes the parents of runs that ended, and ends the children that are to end with them.
pub(super) async fn tell(connection: &mut PgConnection, sql: &Sql, clock: &Clock, ended: Ended) -> Result<(), Failure> {
    let ids = |runs: &BTreeSet<RunId>| runs.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>();
    let mut parents = ended.parents;
    if !ended.parents_unknown.is_empty() {
        let query = sql.find_parents.query().bind(ids(&ended.parents_unknown));
        for row in &query.fetch_all(&mut *connection).await? {
            parents.insert(row::run_id(row)?);
        }
    }
    signal::wake(connection, sql, clock, &parents).await?;
    if !ended.with_children.is_empty() {
        let query = sql.cancel_children.query().bind(clock.fixed().map(Timestamp::as_micros));
        query.bind(ids(&ended.with_children)).execute(connection).await?;
    }
    Ok(())
}
