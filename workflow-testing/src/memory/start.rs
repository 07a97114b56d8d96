//! Starts of runs.

use workflow_engine::model::{NewRun, Run, Timestamp};
use workflow_engine::store::Outcomes;
use workflow_engine::store::{Outcome, StartOutcome, Write};

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
    let available_at = deadline_at.map_or(start, |deadline| deadline.min(start));
    let mut run = Run::pending(new.id, new.lane.clone(), new.input.clone(), available_at, now);
    run.key = new.key.clone();
    run.depth = new.depth;
    run.parent = new.parent.clone();
    run.deadline_at = deadline_at;
    run.tags = new.tags.clone();
    run
}
