//! Runs that are deleted.

use workflow_engine::model::{AttemptStatus, RunId};
use workflow_engine::store::{FoundRun, OldRun, OldRuns};

use super::tables::Tables;

/// See [`Store::old_runs`](workflow_engine::store::Store::old_runs).
pub(super) fn old_runs(tables: &Tables, old: &OldRuns) -> Vec<OldRun> {
    let ended = tables.runs().filter(|run| run.lane.workflow == old.workflow && run.status == old.status);
    let mut found: Vec<OldRun> = ended
        .filter_map(|run| Some(OldRun { ended_at: run.completed_at?, id: run.id }))
        .filter(|run| run.ended_at < old.before && old.after.is_none_or(|after| *run > after))
        .collect();
    found.sort_unstable();
    found.truncate(old.limit as usize);
    found
}

/// Returns what decides about the deletion of a run; `None` if there is no such run.
pub(super) fn find(tables: &Tables, id: RunId) -> Option<FoundRun> {
    let run = tables.run(id)?;
    let parent = run.parent.as_ref().filter(|parent| {
        let is_open = tables.run(parent.run_id).is_some_and(|run| !run.status.is_terminal());
        let begun = tables
            .attempts(parent.run_id)
            .find(|row| row.step_key == parent.step_key && row.status == AttemptStatus::Running);
        is_open && begun.is_some()
    });
    let awaited_by = parent.map(|parent| parent.run_id);
    Some(FoundRun { status: run.status, completed_at: run.completed_at, awaited_by })
}
