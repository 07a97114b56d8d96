//! Runs that are deleted.

use workflow_engine::model::{AttemptStatus, RunId};
use workflow_engine::store::FoundRun;

use super::tables::Tables;

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
