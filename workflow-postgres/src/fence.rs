use std::collections::{BTreeMap, BTreeSet};

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::faults::planted;
use workflow_engine::model::{Claim, RunId};
use workflow_engine::store::{Asked, Fact, Fence};

use super::error::Failure;
use super::row;
use super::sql::Sql;
use super::worker_lock::{FEW, Workers};

/// Locks these runs, all in one statement and in the order of their ids, so that what it says holds until the commit.
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

/// The same, with the children of these parents that are to end with them, and the parents of these children.
async fn lock_families(
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

/// What a batch must know of its runs.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Runs that are locked.
    pub(super) asked: Asked,
    /// Runs whose attempts it records and no more: the locks of their workers are enough.
    pub(super) recorded: BTreeMap<RunId, i64>,
    /// Runs whose children may end with them.
    pub(super) with_children: BTreeSet<RunId>,
    /// Whether there are runs that end whoever holds them.
    pub(super) terminates: bool,
    /// Runs whose parents are not known.
    pub(super) canceled: BTreeSet<RunId>,
}

impl Wanted {
    /// Of the runs that were asked about, leaves those that are not among these to the locks of their workers, if they are
    /// many.
    pub(super) fn spare_all_but(&mut self, changed: &BTreeSet<RunId>) {
        let spared = |(run, epoch): (&RunId, &Option<i64>)| Some((*run, epoch.filter(|_| !changed.contains(run))?));
        let recorded: BTreeMap<RunId, i64> = self.asked.iter().filter_map(spared).collect();
        if recorded.len() < FEW {
            return;
        }
        self.recorded = recorded;
        self.asked.retain(|run, _| !self.recorded.contains_key(run));
    }

    /// Locks and reads them, after these workers, unless all runs are asked about; after all workers, if runs are terminated.
    pub(super) async fn lock(
        mut self,
        connection: &mut PgConnection,
        sql: &Sql,
        workers: &Workers,
    ) -> Result<Fence, Failure> {
        let workers = if self.recorded.is_empty() { Vec::new() } else { workers.uuids() };
        let mut locked = Vec::new();
        if !workers.is_empty() || self.terminates {
            let query = sql.lock_workers.query().bind(&workers).bind(self.terminates);
            for row in &query.fetch_all(&mut *connection).await? {
                locked.push(row.try_get("id")?);
            }
            locked.retain(|worker| workers.contains(worker));
        }
        if !self.recorded.is_empty() {
            let query = sql
                .read_claims
                .query()
                .bind(ids(self.recorded.keys()))
                .bind(self.recorded.values().copied().collect::<Vec<_>>())
                .bind(locked);
            for row in &query.fetch_all(&mut *connection).await? {
                let run_id = row::run_id(row)?;
                self.asked.insert(run_id, self.recorded.get(&run_id).copied());
            }
        }
        lock_families(connection, sql, &self.asked, &self.with_children, &self.canceled).await
    }
}

/// Reads the run of this claim, which anybody may change the moment after.
pub(super) async fn read(connection: &mut PgConnection, sql: &Sql, claim: Claim) -> Result<Fence, Failure> {
    let row = sql.read_fence.query().bind(claim.run_id.as_uuid()).fetch_optional(connection).await?;
    let fact = row.as_ref().map_or(Ok((claim.run_id, None)), run);
    Fence::of(std::iter::once(fact))
}

/// These runs, as a statement takes them.
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
