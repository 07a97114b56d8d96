//! The parents and children of runs that ended.

use std::collections::BTreeSet;

use sqlx::{PgConnection, Row};

use workflow_engine::model::{Clock, RunId, Timestamp};

use super::error::Failure;
use super::fence::ids;
use super::row;
use super::sql::Sql;

/// Returns the parents of those of these runs that have one.
pub(super) async fn find_parents(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &BTreeSet<RunId>,
) -> Result<Vec<RunId>, Failure> {
    let query = sql.find_parents.query().bind(ids(runs.iter()));
    query.fetch_all(connection).await?.iter().map(row::run_id).collect()
}

/// Cancels the children of these runs that are to end with their parent. Returns those that have
/// ended.
pub(super) async fn cancel_children(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    parents: &BTreeSet<RunId>,
) -> Result<Vec<RunId>, Failure> {
    let query = sql.cancel_children.query().bind(clock.fixed().map(Timestamp::as_micros));
    let rows = query.bind(ids(parents.iter())).fetch_all(connection).await?;
    let ended = rows.iter().map(|found| Ok(found.try_get::<bool, _>("ended")?.then_some(row::run_id(found)?)));
    Ok(ended.collect::<Result<Vec<_>, Failure>>()?.into_iter().flatten().collect())
}
