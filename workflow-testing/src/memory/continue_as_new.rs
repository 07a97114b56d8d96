//! Runs that continue as new.

use workflow_engine::model::{RunStatus, StepKind, Timestamp};
use workflow_engine::store::ContinueWrite;

use super::tables::Tables;

/// Begins the next generation of a run whose claim has passed the fence.
///
/// Published values, streams and waiting signals stay. So do received signals with a given key,
/// because that key recognizes a repetition for ever.
pub(super) fn continue_run(tables: &mut Tables, ContinueWrite { claim, input }: &ContinueWrite, now: Timestamp) {
    let run = claim.run_id;
    tables.attempts_mut(run).retain(|_, row| matches!(row.kind, StepKind::Published | StepKind::Emitted));
    tables.signals_mut(run).retain(|_, signal| signal.consumed_by.is_none() || !signal.key.starts_with('\u{1}'));
    tables.update(run, |run| {
        run.input.clone_from(input);
        run.generation += 1;
        run.attempt = 1;
        (run.status, run.worker_id, run.error) = (RunStatus::Pending, None, None);
        (run.available_at, run.started_at) = (now, None);
        (run.crashes, run.lone_crashes) = (0, 0);
    });
}
