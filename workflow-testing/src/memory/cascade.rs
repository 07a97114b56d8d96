//! The parents and children of runs that ended.

use std::collections::BTreeSet;

use workflow_engine::model::{OnParentEnd, RunId, RunStatus, Timestamp};

use super::finish::ended_at;
use super::tables::Tables;

/// Returns the parents of those of these runs that have one.
pub(super) fn find_parents(tables: &Tables, runs: &BTreeSet<RunId>) -> Vec<RunId> {
    let parent_of = |run: &RunId| Some(tables.run(*run)?.parent.as_ref()?.run_id);
    runs.iter().filter_map(parent_of).collect()
}

/// Cancels the children of these runs that are to end with their parent. Returns those that have
/// ended.
pub(super) fn cancel_children(tables: &mut Tables, parents: &BTreeSet<RunId>, now: Timestamp) -> Vec<RunId> {
    let mut ended = Vec::new();
    for parent in parents {
        for child in tables.children(*parent) {
            if cancel_child(tables, child, now) {
                ended.push(child);
            }
        }
    }
    ended
}

/// Returns whether the child has ended.
fn cancel_child(tables: &mut Tables, child: RunId, now: Timestamp) -> bool {
    let ends = tables.run(child).is_some_and(|run| {
        let on_end = run.parent.as_ref().map(|parent| parent.on_end);
        !run.status.is_terminal() && on_end == Some(OnParentEnd::Cancel)
    });
    if !ends {
        return false;
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
    tables.run(child).is_some_and(|run| run.status == RunStatus::Canceled)
}
