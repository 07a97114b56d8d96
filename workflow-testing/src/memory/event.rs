//! Waits for events, and emissions.

use std::collections::{BTreeSet, HashSet};

use workflow_engine::model::{
    EMISSION_SIGNAL, EVENT_SIGNAL, EventName, EventWait, LeftWait, NewEmission, NewSignal, RunId, SignalKey, Timestamp,
};
use workflow_engine::store::{ConsumedSignal, Emitted, StepOf};

use super::signal;
use super::tables::{SignalRow, Tables};

/// Returns the runs that wait for this event.
pub(super) fn waiting(tables: &Tables, event: &EventName) -> BTreeSet<RunId> {
    waits_for(tables, event).into_iter().map(|((run, _), _)| run).collect()
}

fn waits_for(tables: &Tables, event: &EventName) -> Vec<((RunId, String), EventWait)> {
    let waits = tables.event_waits().iter().filter(|(_, wait)| wait.event == *event);
    waits.map(|(place, wait)| (place.clone(), wait.clone())).collect()
}

/// Registers a wait, unless its event was delivered.
pub(super) fn begin(tables: &mut Tables, StepOf { run_id, step_key, it }: StepOf<'_, EventWait>) {
    if delivery(tables, run_id, &it.signal).is_none() {
        tables.event_waits_mut().insert((run_id, step_key.to_owned()), it.clone());
    }
}

/// Ends a wait, and returns `false` if its event was delivered and the wait must not end.
pub(super) fn leave(tables: &mut Tables, StepOf { run_id, step_key, it }: StepOf<'_, LeftWait>) -> bool {
    match delivery(tables, run_id, &it.signal) {
        Some((_, false)) if it.unless_delivered => return false,
        Some((seq, _)) => signal::consume(tables, ConsumedSignal { run_id, seq, step_key }),
        None => {}
    }
    tables.event_waits_mut().remove(&(run_id, step_key.to_owned()));
    true
}

/// Returns number of the signal with this name, which is its key too, and whether it was consumed.
fn delivery(tables: &Tables, run: RunId, signal: &str) -> Option<(i64, bool)> {
    let found = tables.signals(run).find(|(_, row)| row.key == signal);
    found.map(|(seq, row)| (seq, row.consumed_by.is_some()))
}

/// Delivers an event.
pub(super) fn emit(
    tables: &mut Tables,
    NewEmission { event, payload, by }: &NewEmission,
    created_at: Timestamp,
) -> Emitted {
    if let Some(by) = by
        && let Some((_, row)) = tables.signals(by.run_id).find(|(_, row)| row.key == by.key)
    {
        return Emitted { count: row.payload.parse().unwrap_or_default(), woken: Vec::new() };
    }
    let mut woken = BTreeSet::new();
    for (place, wait) in waits_for(tables, event) {
        tables.event_waits_mut().remove(&place);
        let (run_id, _) = place;
        if tables.run(run_id).is_none_or(|run| run.status.is_terminal()) {
            continue;
        }
        let key = SignalKey::Generated(wait.signal.clone());
        let delivered = NewSignal { run_id, name: wait.signal, payload: payload.clone(), key, limit: None };
        if signal::insert(tables, &delivered, created_at) {
            woken.insert(run_id);
        }
    }
    let count = woken.len() as u64;
    if let Some(by) = by {
        let inbox = tables.signals_mut(by.run_id);
        let seq = inbox.last_key_value().map_or(0, |(last, _)| *last) + 1;
        let (name, payload) = (EMISSION_SIGNAL.to_owned(), count.to_string());
        let consumed_by = Some(EMISSION_SIGNAL.to_owned());
        inbox.insert(seq, SignalRow { name, key: by.key.clone(), payload, created_at, consumed_by });
    }
    Emitted { count, woken: woken.into_iter().collect() }
}

/// Deletes the waits and the seats of these runs, and the events that were delivered and not
/// consumed.
pub(super) fn delete(tables: &mut Tables, runs: &BTreeSet<RunId>) {
    tables.event_waits_mut().retain(|(run, _), _| !runs.contains(run));
    tables.seats_mut().retain(|(run, _), _| !runs.contains(run));
    for run in runs {
        let is_left = |row: &SignalRow| row.consumed_by.is_none() && row.name.starts_with(EVENT_SIGNAL);
        tables.signals_mut(*run).retain(|_, row| !is_left(row));
    }
}

/// Ends waits, and returns the indexes of those that stay.
pub(super) fn leave_all(tables: &mut Tables, waits: &[StepOf<'_, LeftWait>]) -> HashSet<usize> {
    (0..waits.len()).filter(|index| !leave(tables, waits[*index])).collect()
}
