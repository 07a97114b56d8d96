//! Starts of runs.

use crate::backend::outcomes::Outcomes;
use crate::backend::{Outcome, StartOutcome, Write};
use crate::model::{NewRun, Run, RunStatus, Timestamp};

use super::tables::Tables;

/// Applies the starts of a batch.
pub(super) fn apply(tables: &mut Tables, writes: &[Write], now: Timestamp, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        if let Write::Start(run) = write {
            outcomes.set(place, Outcome::Started(start(tables, run, now)));
        }
    }
}

/// Starts a run. One of the same id is the run itself, made just now or by an earlier commit whose reply was lost.
pub(super) fn start(tables: &mut Tables, new: &NewRun, now: Timestamp) -> StartOutcome {
    if tables.run(new.id).is_some() {
        return StartOutcome::Created;
    }
    if let Some(there) = new.key.as_deref().and_then(|key| tables.keyed(&new.lane.workflow, key)) {
        return match there.generation {
            0 => StartOutcome::Existing { id: there.id, input: there.input.clone() },
            _ => StartOutcome::Continued { id: there.id },
        };
    }
    tables.insert(row(new, now));
    StartOutcome::Created
}

/// A run is due at its start, but also at its deadline, for then somebody must fail it.
fn row(new: &NewRun, now: Timestamp) -> Run {
    let start = new.start.resolve(now);
    let deadline_at = new.deadline.map(|deadline| deadline.resolve(now));
    Run {
        id: new.id,
        lane: new.lane.clone(),
        status: RunStatus::Pending,
        input: new.input.clone(),
        output: None,
        error: None,
        key: new.key.clone(),
        available_at: deadline_at.map_or(start, |deadline| deadline.min(start)),
        worker_id: None,
        epoch: 0,
        wakes: 0,
        crashes: 0,
        attempt: 1,
        generation: 0,
        depth: new.depth,
        parent: new.parent.clone(),
        deadline_at,
        cancel_requested_at: None,
        paused_at: None,
        created_at: now,
        started_at: None,
        completed_at: None,
        tags: new.tags.clone(),
    }
}
