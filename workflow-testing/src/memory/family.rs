//! What the end of a run means for its parent and its children.

use workflow_engine::model::{OnParentEnd, RunId, RunStatus, Timestamp};
use workflow_engine::store::Ended;

use super::finish::ended_at;
use super::signal;
use super::tables::Tables;

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
