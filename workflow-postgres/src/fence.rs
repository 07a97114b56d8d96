//! The fence of a batch: locks its runs, and finds out which of its claims hold.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::faults::planted;
use workflow_engine::model::{Claim, RunId};
use workflow_engine::store::{Asked, Fact, Fence, Locks};

use super::error::Failure;
use super::ownership::{FEW, Workers};
use super::row;
use super::sql::Sql;

/// Locks these runs, all in one statement and in the order of their ids, so that the fence holds
/// until the commit.
pub(super) async fn lock(connection: &mut PgConnection, sql: &Sql, asked: &Asked) -> Result<Fence, Failure> {
    if asked.is_empty() {
        return Ok(Fence::default());
    }
    let mut order: Vec<_> = asked.iter().collect();
    if planted("unsorted-update") {
        fastrand::shuffle(&mut order);
    }
    let query = sql.lock_runs.query().bind(ids(order.iter().map(|(run, _)| *run)));
    let query = query.bind(order.iter().map(|(_, epoch)| **epoch).collect::<Vec<_>>());
    Fence::of(query.fetch_all(connection).await?.iter().map(run))
}

/// Locks the runs of a batch, and returns what they are until the commit.
///
/// If the batch records attempts of many runs and changes them in no other way, the locked rows of
/// this process's workers stand for those runs (`ownership.rs`). Workers come before runs, and
/// all workers if runs are terminated: every batch locks in this order, so no two deadlock.
pub(super) async fn lock_batch(
    connection: &mut PgConnection,
    sql: &Sql,
    workers: &Workers,
    locks: &Locks,
) -> Result<Fence, Failure> {
    let mut asked = locks.claims.clone();
    for run in &locks.changed {
        // A run that is changed whatever its epoch is must be locked together with the others.
        asked.entry(*run).or_insert(None);
    }
    let recorded = if workers.ids().is_empty() { BTreeMap::new() } else { take_recorded(&mut asked, &locks.changed) };
    let workers = if recorded.is_empty() { Vec::new() } else { workers.uuids() };
    let locked = lock_workers(connection, sql, &workers, locks.terminates).await?;
    if !recorded.is_empty() {
        asked.extend(find_unheld(connection, sql, &recorded, locked).await?);
    }
    if locks.with_children.is_empty() && locks.parents_unknown.is_empty() {
        return lock(connection, sql, &asked).await;
    }
    lock_families(connection, sql, &asked, locks).await
}

/// Takes the runs out of `asked` that the batch does not change, if they are many.
fn take_recorded(asked: &mut Asked, changed: &BTreeSet<RunId>) -> BTreeMap<RunId, i64> {
    let recorded = |(run, epoch): (&RunId, &Option<i64>)| Some((*run, epoch.filter(|_| !changed.contains(run))?));
    let recorded: BTreeMap<RunId, i64> = asked.iter().filter_map(recorded).collect();
    if recorded.len() < FEW {
        return BTreeMap::new();
    }
    asked.retain(|run, _| !recorded.contains_key(run));
    recorded
}

/// Locks the rows of these workers, or of all if runs are terminated. Returns which of `workers`
/// have a row.
async fn lock_workers(
    connection: &mut PgConnection,
    sql: &Sql,
    workers: &[Uuid],
    terminates: bool,
) -> Result<Vec<Uuid>, Failure> {
    let mut locked = Vec::new();
    if !workers.is_empty() || terminates {
        let query = sql.lock_workers.query().bind(workers).bind(terminates);
        for row in &query.fetch_all(connection).await? {
            locked.push(row.try_get("id")?);
        }
        locked.retain(|worker| workers.contains(worker));
    }
    Ok(locked)
}

/// Returns those of these claims that the locked workers do not hold, as questions to the fence.
async fn find_unheld(
    connection: &mut PgConnection,
    sql: &Sql,
    recorded: &BTreeMap<RunId, i64>,
    workers: Vec<Uuid>,
) -> Result<Asked, Failure> {
    let query = sql
        .read_claims
        .query()
        .bind(ids(recorded.keys()))
        .bind(recorded.values().copied().collect::<Vec<_>>())
        .bind(workers);
    let rows = query.fetch_all(connection).await?;
    let unheld = rows.iter().map(|row| {
        let run_id = row::run_id(row)?;
        Ok((run_id, recorded.get(&run_id).copied()))
    });
    unheld.collect()
}

/// Locks these runs with the children that are to end with them, and with the parents that the
/// batch does not know.
async fn lock_families(
    connection: &mut PgConnection,
    sql: &Sql,
    asked: &Asked,
    locks: &Locks,
) -> Result<Fence, Failure> {
    let query = sql
        .lock_families
        .query()
        .bind(ids(asked.keys()))
        .bind(ids(locks.with_children.iter()))
        .bind(ids(locks.parents_unknown.iter()));
    let rows = query.fetch_all(connection).await?;
    // The statement names the runs that exist. Of the other runs, the fence must know that they do
    // not.
    let unknown = asked.keys().map(|run| Ok((*run, None)));
    Fence::of(unknown.chain(rows.iter().map(run)))
}

/// Reads the run of this claim without a lock: it may change at once.
pub(super) async fn read(connection: &mut PgConnection, sql: &Sql, claim: Claim) -> Result<Fence, Failure> {
    let row = sql.read_fence.query().bind(claim.run_id.as_uuid()).fetch_optional(connection).await?;
    let fact = row.as_ref().map_or(Ok((claim.run_id, None)), run);
    Fence::of(std::iter::once(fact))
}

/// Returns runs as a statement takes them.
pub(super) fn ids<'r>(runs: impl Iterator<Item = &'r RunId>) -> Vec<Uuid> {
    runs.map(|run| run.as_uuid()).collect()
}

fn run(row: &PgRow) -> Result<(RunId, Fact), Failure> {
    let fact = match row.try_get::<Option<i64>, _>("epoch")? {
        Some(epoch) => Some((epoch, row::run_status(row.try_get("status")?)?)),
        None => None,
    };
    Ok((row::run_id(row)?, fact))
}
