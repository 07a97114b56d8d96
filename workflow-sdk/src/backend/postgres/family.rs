//! What the end of a run means for its parent and its children.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::backend::EndWrite;
use crate::model::{Clock, RunId, Timestamp};

use super::error::Failure;
use super::sql::Sql;
use super::{row, signal};

/// Runs that ended in this transaction.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Whose parents are to be found.
    parents_unknown: BTreeSet<RunId>,
    /// That may have children.
    with_children: BTreeSet<RunId>,
    /// Parents that are known.
    parents: BTreeSet<RunId>,
}

impl Ended {
    /// A worker ended its run.
    pub(super) fn by_worker(&mut self, write: &EndWrite) {
        self.parents.extend(write.parent_run_id);
        if write.has_children {
            self.with_children.insert(write.claim.run_id);
        }
    }

    /// A run was ended by others, who know nothing about it.
    pub(super) fn by_others(&mut self, run: RunId) {
        self.parents_unknown.insert(run);
        self.with_children.insert(run);
    }
}

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
