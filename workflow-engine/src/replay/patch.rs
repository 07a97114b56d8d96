//! Changes of the code that a run takes or, if it has passed their place before they were there, does not.

use std::panic::Location;

use crate::model::{AttemptStatus, ErrorKind, StepKind, StoredError, Timestamp};

use super::records::Note;
use super::{Divergence, Machine};

/// A patch that the code has asked for.
#[derive(Debug)]
pub(super) struct Patch {
    location: &'static Location<'static>,
    taken: bool,
}

impl Machine {
    /// Whether this run takes the patch of this name. A run that has it in its history does. One whose history holds
    /// anything that the code has not come to yet does not: it passed here before the patch was there. Any other run takes
    /// it from now on, and nothing that follows is seen or has an effect before that is committed.
    ///
    /// # Errors
    /// Kind [`ErrorKind::Refused`] for a name that the code uses at two places.
    pub fn patched(
        &mut self,
        name: &str,
        location: &'static Location<'static>,
        now: Timestamp,
    ) -> Result<bool, StoredError> {
        let key = StepKind::Patch.key_of(name);
        if let Some(patch) = self.patches.get(&key) {
            if patch.location != location {
                return Err(used_twice(name, patch.location, location));
            }
            return Ok(patch.taken);
        }
        self.check_free(&key)?;
        let recorded = self.history.patches.contains(&key);
        let taken = recorded || self.is_past_history();
        if taken && !recorded && self.divergence.is_none() {
            let at = self.tick(now);
            let status = AttemptStatus::Succeeded;
            self.note(&key, Note { kind: StepKind::Patch, attempt: 1, status, output: "true".into(), at });
            self.unconfirmed = self.in_flight.len() + self.outbox.len();
        }
        self.keys.reserve(&key);
        self.patches.insert(key, Patch { location, taken });
        Ok(taken)
    }

    /// As [`Machine::patched`] for code that has only the new way: a run that does not take the patch has diverged.
    ///
    /// # Errors
    /// As [`Machine::patched`].
    pub fn deprecate_patch(
        &mut self,
        name: &str,
        location: &'static Location<'static>,
        now: Timestamp,
    ) -> Result<(), StoredError> {
        if !self.patched(name, location, now)? && self.divergence.is_none() {
            self.divergence = Some(Divergence::patch(name, location));
        }
        Ok(())
    }

    /// Whether the code has come to everything that is recorded.
    fn is_past_history(&self) -> bool {
        let told_to_end = self.history.interrupted.is_some() && self.interrupted.is_some_and(|it| !it.delivered);
        self.history.all_active() && self.has_published_all() && !told_to_end
    }

    /// Refuses a key that a call has taken.
    pub(super) fn check_free(&self, key: &str) -> Result<(), StoredError> {
        if self.patches.contains_key(key) || self.counts.contains_key(key) {
            return Ok(());
        }
        let Some(call) = self.calls.iter().find(|call| call.key == key) else { return Ok(()) };
        let location = call.location;
        let message = format!("{key:?} is the key of the call at {location}; give that step another name");
        Err(StoredError::new(ErrorKind::Refused, message).fatal())
    }
}

fn used_twice(name: &str, first: &Location<'_>, second: &Location<'_>) -> StoredError {
    let message = format!(
        "the patch {name:?} is asked for at {first} and at {second}; \
         a patch is one change at one place: ask once and keep the answer, or give the second change a name of its own"
    );
    StoredError::new(ErrorKind::Refused, message).fatal()
}
