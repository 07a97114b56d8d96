//! What the end of a run means for its parent and its children.

use std::collections::BTreeSet;

use crate::backend::EndWrite;
use crate::model::{OnParentEnd, RunId, RunStatus, Timestamp};

use super::finish::ended_at;
use super::signal;
use super::tables::Tables;

/// Runs that ended in this batch.
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
pub(super) fn tell(tables: &mut Tables, ended: Ended, now: Timestamp) {
    let mut parents = ended.parents;
    let parent_of = |run: &RunId| Some(tables.run(*run)?.parent.as_ref()?.run_id);
    parents.extend(ended.parents_unknown.iter().filter_map(parent_of));
    signal::wake(tables, &parents, now);
    for parent in ended.with_children {
        for child in tables.children(parent) {
            cancel_child(tables, child, now);
        }
    }
}

fn cancel_child(tables: &mut Tables, child: RunId, now: Timestamp) {
    let ends = tables.run(child).is_some_and(|run| {
        let on_end = run.parent.as_ref().map(|parent| parent.on_end);
        !run.status.is_terminal() && on_end == Some(OnParentEnd::Cancel)
    });
    if !ends {
        return;
    }
    tables.update(child, |run| {
        run.cancel_requested_at = run.cancel_requested_at.or(Some(now));
        run.wakes += 1;
        run.paused_at = None;
        if run.status != RunStatus::Running {
            run.available_at = now;
        }
        if run.epoch == 0 {
            (run.status, run.completed_at) = (RunStatus::Canceled, Some(ended_at(run, now)));
        }
    });
}
