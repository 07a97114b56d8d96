use std::collections::{BTreeSet, HashMap};

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::backend::Outcome;
use crate::model::{Claim, RunId, RunStatus};

use super::error::Failure;
use super::row;
use super::sql::Sql;

/// What runs were when they were read. It holds until the commit if they were locked.
pub(super) struct Fence(HashMap<RunId, (i64, RunStatus)>);

impl Fence {
    /// Locks these runs, all in one statement and in the order of their ids.
    pub(super) async fn lock(
        connection: &mut PgConnection,
        sql: &Sql,
        runs: &BTreeSet<RunId>,
    ) -> Result<Self, Failure> {
        if runs.is_empty() {
            return Ok(Self(HashMap::new()));
        }
        let ids: Vec<Uuid> = runs.iter().map(|id| id.as_uuid()).collect();
        let rows = sql.lock_runs.query().bind(ids).fetch_all(connection).await?;
        Self::of_rows(&rows)
    }

    /// The same, with the children of these parents that are to end with them, and the parents of these children.
    pub(super) async fn lock_families(
        connection: &mut PgConnection,
        sql: &Sql,
        runs: &BTreeSet<RunId>,
        parents: &BTreeSet<RunId>,
        children: &BTreeSet<RunId>,
    ) -> Result<Self, Failure> {
        if parents.is_empty() && children.is_empty() {
            return Self::lock(connection, sql, runs).await;
        }
        let ids = |runs: &BTreeSet<RunId>| runs.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>();
        let query = sql.lock_families.query().bind(ids(runs)).bind(ids(parents)).bind(ids(children));
        Self::of_rows(&query.fetch_all(connection).await?)
    }

    /// Reads this run, which anybody may change the moment after.
    pub(super) async fn read(connection: &mut PgConnection, sql: &Sql, run: RunId) -> Result<Self, Failure> {
        let rows = sql.read_fence.query().bind(vec![run.as_uuid()]).fetch_all(connection).await?;
        Self::of_rows(&rows)
    }

    fn of_rows(rows: &[PgRow]) -> Result<Self, Failure> {
        let runs = rows.iter().map(|row| {
            let claim = row::claim(row)?;
            Ok((claim.run_id, (claim.epoch, row::run_status(row.try_get("status")?)?)))
        });
        runs.collect::<Result<_, Failure>>().map(Self)
    }

    /// What the run was; `None` if there is none.
    pub(super) fn status(&self, run: RunId) -> Option<RunStatus> {
        self.0.get(&run).map(|(_, status)| *status)
    }

    /// Whether the run is there and has not ended.
    pub(super) fn is_open(&self, run: RunId) -> bool {
        self.status(run).is_some_and(|status| !status.is_terminal())
    }

    /// `None` if the claim is the run's current one; else what a write that carries it is answered with.
    pub(super) fn refusal(&self, claim: Claim) -> Option<Outcome> {
        match self.0.get(&claim.run_id) {
            Some((epoch, RunStatus::Running)) if *epoch == claim.epoch => None,
            // Nobody claimed the run since, so it was this claim's own end or park that let go of it.
            Some((epoch, _)) if *epoch == claim.epoch => Some(Outcome::Duplicate),
            _ => Some(Outcome::Lost),
        }
    }
}
