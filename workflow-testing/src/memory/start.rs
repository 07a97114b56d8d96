//! Starts of runs.

use workflow_engine::model::{Lane, NewRun, Parent, Run, RunStatus, Timestamp};
use workflow_engine::store::StartOutcome;

use super::tables::Tables;

/// Starts a run. If a run of the same id exists, that is the run itself: an earlier write of this
/// batch made it, or a commit whose reply was lost.
pub(super) fn start(tables: &mut Tables, new: &NewRun, now: Timestamp) -> StartOutcome {
    if let Some(outcome) = find(tables, new) {
        return outcome;
    }
    add_gate(tables, new.place());
    tables.insert(row(new, now));
    StartOutcome::Created
}

/// Returns the outcome of a start whose run exists, or another run with its key.
pub(super) fn find(tables: &Tables, new: &NewRun) -> Option<StartOutcome> {
    if tables.run(new.id).is_some() {
        return Some(StartOutcome::Created);
    }
    let existing = new.key.as_deref().and_then(|key| tables.keyed(&new.lane.workflow, key))?;
    Some(match existing.generation {
        0 => StartOutcome::Existing { id: existing.id, input: existing.input.clone() },
        _ => StartOutcome::Continued { id: existing.id },
    })
}

/// Adds the gate of this place, if it has one.
pub(super) fn add_gate(tables: &mut Tables, (lane, gate): (&Lane, Option<&str>)) {
    if let Some(gate) = gate {
        tables.gates.add(lane, gate);
        tables.queue_mut(&lane.queue).has_gates = true;
    }
}

/// Takes the key of this start away from a failed or canceled run. The key of a child is taken from
/// a child of its step alone.
pub(super) fn free_key(tables: &mut Tables, new: &NewRun) {
    let held = new.key.as_deref().and_then(|key| tables.keyed(&new.lane.workflow, key));
    let step_of = |parent: &Option<Parent>| parent.as_ref().map(|parent| (parent.run_id, parent.step_key.clone()));
    let is_free = |run: &&Run| {
        let may_be_freed = new.parent.is_none() || step_of(&new.parent) == step_of(&run.parent);
        may_be_freed && matches!(run.status, RunStatus::Failed | RunStatus::Canceled)
    };
    if let Some(id) = held.filter(is_free).map(|run| run.id)
        && tables.run(new.id).is_none()
    {
        tables.free_key(id);
    }
}

/// A run is due at its start, but also at its deadline, because a worker must fail it then.
fn row(new: &NewRun, now: Timestamp) -> Run {
    let start = new.start.resolve(now);
    let deadline_at = new.deadline.map(|deadline| deadline.resolve(now));
    let available_at = deadline_at.map_or(start, |deadline| deadline.min(start));
    let mut run = Run::pending(new.id, new.lane.clone(), new.input.clone(), available_at, now);
    run.priority = new.rank().priority();
    run.gate = new.gate.clone();
    run.key = new.key.clone();
    run.depth = new.depth;
    run.parent = new.parent.clone();
    run.deadline_at = deadline_at;
    run.tags = new.tags.clone();
    run.trace = new.trace;
    run
}
