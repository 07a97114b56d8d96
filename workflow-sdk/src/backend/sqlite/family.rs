//! What the end of a run means for its parent and its children.

use std::collections::BTreeSet;

use sqlx::SqliteConnection;

use crate::backend::{BackendError, EndWrite};
use crate::model::{RunId, Timestamp};

use super::error::During;
use super::{row, signal, sql};

const OPERATION: &str = "tell parents and children of an end";

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
pub(super) async fn tell(connection: &mut SqliteConnection, ended: Ended, now: Timestamp) -> Result<(), BackendError> {
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
