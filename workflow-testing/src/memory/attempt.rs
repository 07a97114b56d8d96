//! Attempts of steps.

use std::collections::btree_map::Entry;

use workflow_engine::model::{AttemptStatus, StepAttempt};
use workflow_engine::store::{AttemptRow, AttemptWrite};

use super::tables::Tables;

/// Returns whether the row of this attempt is final.
pub(super) fn is_final(tables: &Tables, write: &AttemptWrite) -> bool {
    let row = tables.attempt(write.claim.run_id, &write.row.step_key, write.row.attempt);
    row.is_some_and(|row| row.status != AttemptStatus::Running)
}

/// Writes an attempt whose claim holds. Returns `false` if its row was final already, so that
/// nothing was written.
pub(super) fn record(tables: &mut Tables, AttemptRow { write, started_at }: AttemptRow<'_>) -> bool {
    let row = StepAttempt { epoch: write.claim.epoch, started_at, ..write.row.clone() };
    match tables.attempts_mut(write.claim.run_id).entry((row.step_key.clone(), row.attempt)) {
        Entry::Vacant(entry) => {
            entry.insert(row);
            true
        }
        Entry::Occupied(mut entry) if entry.get().status == AttemptStatus::Running => {
            let started_at = entry.get().started_at;
            entry.insert(StepAttempt { started_at, ..row });
            true
        }
        Entry::Occupied(_) => false,
    }
}
