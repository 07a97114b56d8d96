//! Signals in the inboxes of runs.

use std::collections::BTreeSet;

use workflow_engine::model::{AcceptedSignal, NewSignal, RunId, RunStatus, Timestamp};
use workflow_engine::store::ConsumedSignal;

use super::tables::{SignalRow, Tables};

/// Returns the signal in the inbox that has the key of this one.
pub(super) fn find(tables: &Tables, signal: &NewSignal) -> Option<AcceptedSignal> {
    let (_, row) = tables.signals(signal.run_id).find(|(_, row)| row.key == signal.key.as_str())?;
    Some(AcceptedSignal::new(signal.run_id, row.name.clone(), row.payload.clone(), row.created_at))
}

/// Inserts a signal, and returns `false` if the inbox has its key already or no room.
pub(super) fn insert(tables: &mut Tables, signal: &NewSignal, now: Timestamp) -> bool {
    let waiting = || tables.signals(signal.run_id).filter(|(_, row)| row.consumed_by.is_none()).count();
    let is_full = signal.limit.is_some_and(|limit| waiting() >= limit as usize);
    if is_full || find(tables, signal).is_some() {
        return false;
    }
    let key = signal.key.as_str();
    let inbox = tables.signals_mut(signal.run_id);
    let seq = inbox.last_key_value().map_or(0, |(last, _)| *last) + 1;
    let (name, payload) = (signal.name.clone(), signal.payload.clone());
    inbox.insert(seq, SignalRow { name, key: key.to_owned(), payload, created_at: now, consumed_by: None });
    true
}

/// Takes a signal out of an inbox. A signal that was consumed before stays with its step.
pub(super) fn consume(tables: &mut Tables, ConsumedSignal { run_id, seq, step_key }: ConsumedSignal<'_>) {
    if let Some(signal) = tables.signals_mut(run_id).get_mut(&seq) {
        signal.consumed_by.get_or_insert_with(|| step_key.to_owned());
    }
}

/// Wakes those of these runs that have not ended.
pub(super) fn wake(tables: &mut Tables, runs: &BTreeSet<RunId>, now: Timestamp) {
    for id in runs {
        if tables.run(*id).is_none_or(|run| run.status.is_terminal()) {
            continue;
        }
        tables.update(*id, |run| {
            run.wakes += 1;
            if run.status == RunStatus::Parked {
                run.available_at = run.available_at.min(now);
            }
        });
    }
}
