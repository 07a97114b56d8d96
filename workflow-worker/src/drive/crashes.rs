//! The crashes of a driven run, as the database knows them.

use workflow_engine::store::{ClaimedRun, CrashesWrite, Outcome, Write};

use super::exit::Exit;
use crate::quarantine::QuarantineSlot;
use crate::shared::Shared;

/// The crashes of a run, and what its drive has shown about them.
#[derive(Debug)]
pub(super) struct CrashRecord<'a> {
    run: &'a ClaimedRun,
    slot: &'a QuarantineSlot,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The run has no crash, or the drive has cleared it.
    Clear,
    /// The run has crashes, and no outcome yet under this claim.
    Suspected,
    /// The run has crashes, and an outcome was sent.
    HasOutcome,
}

impl<'a> CrashRecord<'a> {
    pub(super) fn new(run: &'a ClaimedRun, slot: &'a QuarantineSlot) -> Self {
        Self { run, slot, state: if run.crashes == 0 { State::Clear } else { State::Suspected } }
    }

    /// Takes note that an outcome of the run was sent or committed.
    pub(super) fn note_outcome(&mut self) {
        if self.state == State::Suspected {
            self.state = State::HasOutcome;
        }
    }

    /// Returns the write that clears the run, once, after its first outcome under this claim: the
    /// code before it did not kill its worker. The outcome and this write are usually committed
    /// together.
    pub(super) fn take_write(&mut self) -> Option<CrashesWrite> {
        if self.state != State::HasOutcome {
            return None;
        }
        self.state = State::Clear;
        self.slot.take_end();
        Some(CrashesWrite { claim: self.run.claim, crashes: 0, lone_crashes: 0, is_alone: false })
    }

    /// Takes note that the write is committed. Call it only then, because a body that begins
    /// afterwards may kill this worker too.
    pub(super) fn written(&self) {
        self.slot.end_isolation();
    }
}

/// Writes whether the run is driven alone from now on.
pub(super) async fn set_alone(shared: &Shared, run: &ClaimedRun, is_alone: bool) -> Result<(), Exit> {
    let ClaimedRun { claim, crashes, lone_crashes, .. } = *run;
    let write = CrashesWrite { claim, crashes, lone_crashes, is_alone };
    match shared.executor().commit(Write::Crashes(write)).await {
        Ok(Outcome::Applied) => Ok(()),
        // It is written again by a later claim.
        Ok(Outcome::Refused(error)) => Err(Exit::Unreadable(error)),
        Ok(_) | Err(_) => Err(Exit::Lost),
    }
}
