//! Waits for events, and emissions, of a batch.

use std::collections::{BTreeSet, HashSet};

use crate::faults::planted;
use crate::model::{Effect, NewEmission, RunId};

use super::OpenBatch;
use crate::store::batch_target::{BatchTarget, StepOf};
use crate::store::locks::LockedEvents;
use crate::store::locks::Locks;
use crate::store::{AttemptWrite, Outcome};

impl<T: BatchTarget> OpenBatch<'_, T> {
    /// Locks the events that are emitted, before any run is locked, and adds the runs that wait for
    /// them to the locks: all runs of a batch are locked at once, in one order. Returns the indexes
    /// of the emissions whose events another transaction holds.
    pub(super) async fn lock_events(&mut self, locks: &mut Locks) -> Result<HashSet<usize>, T::Error> {
        let emissions = self.writes.emissions.writes();
        if emissions.is_empty() {
            return Ok(HashSet::new());
        }
        let LockedEvents { busy, waiting } = self.target.lock_events(emissions).await?;
        locks.add_changed(waiting);
        locks.add_changed(emissions.iter().filter_map(|emission| Some(emission.by.as_ref()?.run_id)));
        Ok(busy)
    }

    /// Registers and ends the waits of these attempts. Returns the indexes of those that must not
    /// be recorded; their outcomes are set.
    pub(super) async fn change_event_waits(
        &mut self,
        passed: &[(usize, &AttemptWrite)],
    ) -> Result<HashSet<usize>, T::Error> {
        let (mut begun, mut left) = (Vec::new(), Vec::new());
        for (index, write) in passed {
            let (run_id, step_key) = (write.claim.run_id, write.row.step_key.as_str());
            match &write.effect {
                Effect::AwaitEvent(wait) => begun.push((*index, StepOf { run_id, step_key, it: &**wait })),
                Effect::LeaveEvent(wait) => left.push((*index, StepOf { run_id, step_key, it: &**wait })),
                Effect::None | Effect::Consume { .. } | Effect::Start(_) => {}
                Effect::TakeSeat(_) | Effect::LeaveSeat(_) => {}
            }
        }
        let mut unchanged = HashSet::new();
        // A wait that begins and ends in one batch is registered first.
        if !begun.is_empty() {
            let (indexes, waits): (Vec<usize>, Vec<_>) = begun.into_iter().unzip();
            for busy in self.target.begin_event_waits(&waits).await? {
                unchanged.extend(indexes.get(busy).map(|index| self.answer(*index, Outcome::Busy)));
            }
        }
        if !left.is_empty() {
            let (indexes, waits): (Vec<usize>, Vec<_>) = left.into_iter().unzip();
            for delivered in self.target.leave_event_waits(&waits).await? {
                unchanged.extend(indexes.get(delivered).map(|index| self.answer(*index, Outcome::Delivered)));
            }
        }
        Ok(unchanged)
    }

    fn answer(&mut self, index: usize, outcome: Outcome) -> usize {
        self.outcomes.set(index, outcome);
        index
    }

    /// Emits events, one after the other: an event reaches the waits of this batch too. Wakes the
    /// runs that have received one.
    pub(super) async fn emit_events(&mut self, busy: &HashSet<usize>) -> Result<(), T::Error> {
        let emissions: Vec<(usize, &NewEmission)> = self.writes.emissions.iter().collect();
        let mut woken: BTreeSet<RunId> = BTreeSet::new();
        for (place, (index, emission)) in emissions.into_iter().enumerate() {
            if busy.contains(&place) {
                self.outcomes.set(index, Outcome::Busy);
                continue;
            }
            let emitted = self.target.emit_event(emission).await?;
            woken.extend(&emitted.woken);
            self.outcomes.set(index, Outcome::Emitted(emitted));
        }
        if woken.is_empty() || planted("lost-wake") { Ok(()) } else { self.target.wake_runs(&woken).await }
    }
}
