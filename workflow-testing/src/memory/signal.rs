//! Signals into the inboxes of runs.

use std::collections::BTreeSet;

use workflow_engine::model::{NewSignal, RunId, RunStatus, SignalOutcome, Timestamp};
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{Outcome, Write};

use super::tables::{SignalRow, Tables};

/// Applies the signals of a batch.
pub(super) fn apply(tables: &mut Tables, writes: &[Write], now: Timestamp, fence: &Fence, outcomes: &mut Outcomes) {
    let mut woken = BTreeSet::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Signal(signal) = write else { continue };
        let outcome = match fence.status(signal.run_id) {
            None => SignalOutcome::Unknown,
            Some(_) if !fence.is_open(signal.run_id) => SignalOutcome::Finished,
            Some(_) if insert(tables, signal) => {
                woken.insert(signal.run_id);
                SignalOutcome::Accepted
            }
            Some(_) => signal.key.met(),
        };
        outcomes.set(place, Outcome::Signaled(outcome));
    }
    wake(tables, &woken, now);
}

/// Says whether it was new.
fn insert(tables: &mut Tables, signal: &NewSignal) -> bool {
    let key = signal.key.as_str();
    if tables.signals(signal.run_id).any(|(_, there)| there.key == key) {
        return false;
    }
    let inbox = tables.signals_mut(signal.run_id);
    let seq = inbox.last_key_value().map_or(0, |(last, _)| *last) + 1;
    let (name, payload) = (signal.name.clone(), signal.payload.clone());
    inbox.insert(seq, SignalRow { name, key: key.to_owned(), payload, consumed_by: None });
    true
}

/// Something has happened to these runs.
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
