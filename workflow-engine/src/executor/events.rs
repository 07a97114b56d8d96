//! The events of a committed batch.

use std::time::Duration;

use crate::model::{AttemptStatus, Effect, NewRun};
use crate::observe::{Event, Observers, RunName, StepName};
use crate::store::{AttemptWrite, Outcome, StartOutcome, Write};

use super::in_flight::Completed;

/// Sends the events of a committed batch: first those of its writes, then that of the batch.
pub(super) fn send(observers: &Observers, completed: &Completed) {
    let Completed { writes, outcomes, duration, .. } = completed;
    for (write, outcome) in writes.iter().zip(outcomes) {
        match (write, outcome) {
            (Write::Start(run), Outcome::Started(StartOutcome::Created)) => observers.event(&started(run)),
            (Write::Fork(fork), Outcome::Started(StartOutcome::Created)) => observers.event(&started(&fork.new)),
            (Write::Attempt(write), Outcome::Applied) => {
                if let Effect::Start(child) = &write.effect {
                    observers.event(&started(child));
                }
                if let Some(event) = of_attempt(write) {
                    observers.event(&event);
                }
            }
            _ => {}
        }
    }
    observers.event(&Event::Committed { writes: writes.len(), duration: *duration });
}

fn started(run: &NewRun) -> Event<'_> {
    let lane = &run.lane;
    let run = RunName { id: run.id, workflow: &lane.workflow, version: &lane.version, queue: &lane.queue };
    Event::RunStarted { run }
}

/// Returns the event of a recorded attempt: the outcome of its step, or a failure that another attempt follows. A body that
/// has begun, a patch and a published value have none.
fn of_attempt(write: &AttemptWrite) -> Option<Event<'_>> {
    let row = &write.row;
    let step = StepName { run_id: write.claim.run_id, key: &row.step_key, kind: row.kind, attempt: row.attempt };
    let error = row.error.as_ref().map(|error| error.kind);
    let duration = row.completed_at.map_or(Duration::ZERO, |at| at.since(row.started_at));
    match (row.status, row.position) {
        (AttemptStatus::Running, _) => None,
        (_, Some(_)) => Some(Event::StepEnded { step, error, duration }),
        (AttemptStatus::Failed, None) => Some(Event::StepRetried { step, error, duration }),
        (_, None) => None,
    }
}
