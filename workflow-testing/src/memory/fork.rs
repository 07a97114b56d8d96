//! The history of a fork.

use workflow_engine::model::{AttemptStatus, RunId, StepAttempt, StepKind};

use super::tables::Tables;

/// Sets the epoch of a new run to 1. Returns `false` if the run was claimed or copied into before.
pub(super) fn mark(tables: &mut Tables, run: RunId) -> bool {
    let is_new = tables.run(run).is_some_and(|run| run.epoch == 0);
    if is_new {
        tables.update(run, |run| run.epoch = 1);
    }
    is_new
}

/// Copies what a fork keeps of the history of `source`: the outcomes before this position, the
/// failed attempts of the same steps, and the patches. Nothing is kept from an interruption on.
pub(super) fn copy_history(tables: &mut Tables, source: RunId, new: RunId, before: i64) {
    let history: Vec<&StepAttempt> = tables.attempts(source).collect();
    let interrupted = history.iter().filter(|row| row.kind == StepKind::Interruption).filter_map(|row| row.position);
    let cut = interrupted.min().map_or(before, |position| position.min(before));
    let is_before_cut = |row: &StepAttempt| row.position.is_some_and(|position| position < cut);
    let is_kept = |row: &StepAttempt| match row.position {
        _ if matches!(row.kind, StepKind::Published | StepKind::Emitted) => false,
        Some(_) => is_before_cut(row),
        None if row.kind == StepKind::Patch => true,
        None => {
            let is_of_step = |other: &&StepAttempt| other.step_key == row.step_key && is_before_cut(other);
            row.status == AttemptStatus::Failed && history.iter().any(is_of_step)
        }
    };
    let kept: Vec<StepAttempt> = history.iter().copied().filter(|row| is_kept(row)).cloned().collect();
    let rows = tables.attempts_mut(new);
    for row in kept {
        rows.insert((row.step_key.clone(), row.attempt), StepAttempt { epoch: 1, ..row });
    }
}
