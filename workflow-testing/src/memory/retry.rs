//! Runs that get another attempt: by their worker, or by an operator after they failed.

use workflow_engine::model::{AttemptStatus, RunId, RunStatus, StepAttempt, StepKind, Timestamp};
use workflow_engine::store::{RetryWrite, ReviveWrite};

use super::tables::Tables;

/// Gives a run whose claim has passed the fence its next attempt.
pub(super) fn retry(tables: &mut Tables, RetryWrite { claim, until, error, .. }: &RetryWrite, now: Timestamp) {
    tables.update(claim.run_id, |run| {
        let next = if run.cancel_requested_at.is_some() { now } else { (*until).max(now) };
        run.available_at = run.deadline_at.map_or(next, |deadline| deadline.min(next));
        run.attempt += 1;
        (run.status, run.worker_id, run.error) = (RunStatus::Pending, None, Some(error.clone()));
        (run.crashes, run.lone_crashes) = (0, 0);
    });
    drop_open_waits(tables, claim.run_id, now);
}

/// Lets a step of a run be attempted again, if it failed.
pub(super) fn reset_outcome(tables: &mut Tables, run: RunId, step_key: &str) {
    for row in tables.attempts_mut(run).values_mut() {
        if row.status == AttemptStatus::Failed && row.step_key == step_key {
            row.position = None;
        }
    }
}

/// Makes a run due again if it failed at the write's attempt, and returns whether it did.
pub(super) fn revive(tables: &mut Tables, write: &ReviveWrite, now: Timestamp) -> bool {
    let failed =
        tables.run(write.run_id).is_some_and(|run| run.status == RunStatus::Failed && run.attempt == write.attempt);
    if !failed {
        return false;
    }
    tables.update(write.run_id, |run| {
        if let Some(deadline) = write.deadline {
            run.deadline_at = Some(deadline.resolve(now));
        }
        run.attempt += 1;
        (run.status, run.worker_id) = (RunStatus::Pending, None);
        (run.crashes, run.lone_crashes) = (0, 0);
        (run.error, run.output, run.completed_at) = (None, None, None);
        (run.cancel_requested_at, run.paused_at) = (None, None);
        run.available_at = run.deadline_at.map_or(now, |deadline| deadline.min(now));
    });
    tables.attempts_mut(write.run_id).retain(|_, row| row.kind != StepKind::Interruption);
    drop_open_waits(tables, write.run_id, now);
    true
}

/// Ends the open waits and sleeps of a run that gets another attempt.
fn drop_open_waits(tables: &mut Tables, run: RunId, now: Timestamp) {
    for row in tables.attempts_mut(run).values_mut().filter(|row| is_open_wait(row)) {
        row.status = AttemptStatus::Succeeded;
        (row.output, row.completed_at) = (None, Some(now.max(row.started_at)));
    }
}

fn is_open_wait(row: &StepAttempt) -> bool {
    let is_wait = matches!(row.kind, StepKind::Sleep | StepKind::Signal | StepKind::Approval | StepKind::Event);
    is_wait && row.status == AttemptStatus::Running
}
