//! The events of a committed batch.

use crate::model::{Effect, NewRun};
use crate::observe::{Event, Observers, RunName};
use crate::store::{Outcome, StartOutcome, Write};

use super::in_flight::Completed;

/// Sends the events of a committed batch: first those of its writes, then that of the batch.
pub(super) fn send(observers: &Observers, completed: &Completed) {
    let Completed { writes, outcomes, duration, .. } = completed;
    writes.iter().zip(outcomes).for_each(|(write, outcome)| send_one(observers, write, outcome));
    observers.event(&Event::Committed { writes: writes.len(), duration: *duration });
}

fn send_one(observers: &Observers, write: &Write, outcome: &Outcome) {
    match (write.inner(), outcome) {
        (Write::Start(run), Outcome::Started(StartOutcome::Created | StartOutcome::Replaced { .. })) => {
            observers.event(&started(run));
        }
        (Write::Schedule(write), Outcome::Applied) => {
            write.starts.iter().for_each(|run| observers.event(&started(run)));
        }
        (Write::Fork(fork), Outcome::Started(StartOutcome::Created)) => observers.event(&started(&fork.new)),
        (Write::Attempt(write), Outcome::Applied) => {
            if let Effect::Start(child) = &write.effect {
                observers.event(&started(child));
            }
            if let Some(event) = Event::of_attempt(write) {
                observers.event(&event);
            }
        }
        (Write::Bulk(write), Outcome::Advanced(outcomes)) => {
            write.writes().zip(outcomes).for_each(|(write, outcome)| send_one(observers, write, outcome));
        }
        _ => {}
    }
}

fn started(run: &NewRun) -> Event<'_> {
    let lane = &run.lane;
    let run = RunName { id: run.id, workflow: &lane.workflow, version: &lane.version, queue: &lane.queue };
    Event::RunStarted { run }
}
