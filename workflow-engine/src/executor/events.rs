//! The events and the counts of a committed batch.

use std::sync::Arc;

use crate::model::{Effect, NewRun};
use crate::observe::{Event, Observers, RunName};
use crate::store::{Outcome, StartOutcome, Write};

use super::in_flight::Completed;
use super::statistics::Statistics;

/// Learns of committed batches.
pub(super) struct Reporter {
    pub(super) observers: Observers,
    pub(super) statistics: Arc<Statistics>,
}

impl Reporter {
    /// Sends the events of a committed batch, first those of its writes, then that of the batch,
    /// and counts the runs that it has started.
    pub(super) fn report(&self, completed: &Completed) {
        let Completed { writes, outcomes, duration, .. } = completed;
        writes.iter().zip(outcomes).for_each(|(write, outcome)| self.report_one(write, outcome));
        self.observers.event(&Event::Committed { writes: writes.len(), duration: *duration });
    }

    fn report_one(&self, write: &Write, outcome: &Outcome) {
        match (write.inner(), outcome) {
            (Write::Start(run), Outcome::Started(StartOutcome::Created | StartOutcome::Replaced { .. })) => {
                self.started(run);
            }
            (Write::Schedule(write), Outcome::Applied) => write.starts.iter().for_each(|run| self.started(run)),
            (Write::Fork(fork), Outcome::Started(StartOutcome::Created)) => self.started(&fork.new),
            (Write::Attempt(write), Outcome::Applied) => {
                if let Effect::Start(child) = &write.effect {
                    self.started(child);
                }
                if let Some(event) = Event::of_attempt(write) {
                    self.observers.event(&event);
                }
            }
            (Write::Bulk(write), Outcome::Advanced(outcomes)) => {
                write.writes().zip(outcomes).for_each(|(write, outcome)| self.report_one(write, outcome));
            }
            _ => {}
        }
    }

    fn started(&self, run: &NewRun) {
        let lane = &run.lane;
        let run = RunName { id: run.id, workflow: &lane.workflow, version: &lane.version, queue: &lane.queue };
        self.observers.event(&Event::RunStarted { run });
        self.statistics.started(lane);
    }
}
