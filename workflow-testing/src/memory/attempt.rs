//! Attempts of steps, with what is committed together with them.

use std::collections::btree_map::Entry;

use workflow_engine::model::{AttemptStatus, Effect, RunId, StepAttempt, Timestamp};
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{AttemptWrite, Outcome, StartOutcome, Write};

use super::start;
use super::tables::Tables;

/// Applies the attempts of a batch whose claims hold.
pub(super) fn apply(tables: &mut Tables, writes: &[Write], now: Timestamp, fence: &Fence, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        let Write::Attempt(write) = write else { continue };
        let outcome = match fence.refusal(write.claim) {
            Some(refusal) => refusal,
            None => apply_one(tables, write, now),
        };
        outcomes.set(place, outcome);
    }
}

fn apply_one(tables: &mut Tables, write: &AttemptWrite, now: Timestamp) -> Outcome {
    match &write.effect {
        Effect::None => {}
        Effect::Start(child) => match start::start(tables, child, now) {
            StartOutcome::Created => {}
            StartOutcome::Existing { id, .. } | StartOutcome::Continued { id } => return Outcome::KeyTaken { id },
        },
        Effect::Consume { seq } => consume(tables, write.claim.run_id, *seq, &write.row.step_key),
    }
    record(tables, write);
    Outcome::Applied
}

/// Writes one attempt, whose claim holds. Says whether the row was written: not if it was final already.
pub(super) fn record(tables: &mut Tables, write: &AttemptWrite) -> bool {
    let row = StepAttempt { epoch: write.claim.epoch, ..write.row.clone() };
    match tables.attempts_mut(write.claim.run_id).entry((row.step_key.clone(), row.attempt)) {
        Entry::Vacant(place) => {
            place.insert(row);
            true
        }
        Entry::Occupied(mut place) if place.get().status == AttemptStatus::Running => {
            let started_at = place.get().started_at;
            place.insert(StepAttempt { started_at, ..row });
            true
        }
        Entry::Occupied(_) => false,
    }
}

fn consume(tables: &mut Tables, run: RunId, seq: i64, step_key: &str) {
    if let Some(signal) = tables.signals_mut(run).get_mut(&seq) {
        signal.consumed_by.get_or_insert_with(|| step_key.to_owned());
    }
}
