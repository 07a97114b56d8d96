use std::collections::BTreeSet;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::backend::fence::{Asked, Fact, Fence};
use crate::model::{Claim, RunId};

use super::error::Failure;
use super::row;
use super::sql::Sql;

/// Locks these runs, all in one statement and in the order of their ids, so that what it says holds until the commit.
pub(super) async fn lock(connection: &mut PgConnection, sql: &Sql, asked: &Asked) -> Result<Fence, Failure> {
    if asked.is_empty() {
        return Ok(Fence::default());
    }
    let query = sql.lock_runs.query().bind(ids(asked.keys())).bind(asked.values().copied().collect::<Vec<_>>());
    Fence::of(query.fetch_all(connection).await?.iter().map(run))
}

/// The same, with the children of these parents that are to end with them, and the parents of these children.
pub(super) async fn lock_families(
    connection: &mut PgConnection,
    sql: &Sql,
    asked: &Asked,
    parents: &BTreeSet<RunId>,
    children: &BTreeSet<RunId>,
) -> Result<Fence, Failure> {
    if parents.is_empty() && children.is_empty() {
        return lock(connection, sql, asked).await;
    }
    let query = sql.lock_families.query().bind(ids(asked.keys())).bind(ids(parents.iter())).bind(ids(children.iter()));
    let rows = query.fetch_all(connection).await?;
    // It says what there is; of a run that it does not name, that there is none.
    let unknown = asked.keys().map(|run| Ok((*run, None)));
    Fence::of(unknown.chain(rows.iter().map(run)))
}

/// Reads the run of this claim, which anybody may change the moment after.
pub(super) async fn read(connection: &mut PgConnection, sql: &Sql, claim: Claim) -> Result<Fence, Failure> {
    let row = sql.read_fence.query().bind(claim.run_id.as_uuid()).fetch_optional(connection).await?;
    let fact = row.as_ref().map_or(Ok((claim.run_id, None)), run);
    Fence::of(std::iter::once(fact))
}

fn ids<'r>(runs: impl Iterator<Item = &'r RunId>) -> Vec<Uuid> {
    runs.map(|run| run.as_uuid()).collect()
}

fn run(row: &PgRow) -> Result<(RunId, Fact), Failure> {
    let fact = match row.try_get::<Option<i64>, _>("epoch")? {
        Some(epoch) => Some((epoch, row::run_status(row.try_get("status")?)?)),
        None => None,
    };
    Ok((row::run_id(row)?, fact))
}
