//! Runs that are paused and resumed.

use workflow_engine::model::{RunId, RunStatus, Timestamp};

use super::tables::Tables;

/// Pauses a run that has not ended. Returns the status that it has; `None` if there is no such run.
pub(super) fn pause(tables: &mut Tables, run: RunId, now: Timestamp) -> Option<RunStatus> {
    let status = tables.run(run)?.status;
    if status.is_terminal() {
        return None;
    }
    tables.update(run, |run| run.paused_at = run.paused_at.or(Some(now)));
    Some(status)
}

/// Resumes a run, and returns whether it was paused.
pub(super) fn resume(tables: &mut Tables, run: RunId) -> bool {
    let is_paused = tables.run(run).is_some_and(|run| !run.status.is_terminal() && run.paused_at.is_some());
    if is_paused {
        tables.update(run, |run| run.paused_at = None);
    }
    is_paused
}
