//! Decides whether a run takes a patch of the code. A run that passed the patch's place before the
//! patch existed does not take it.

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
    /// Returns whether this run takes the patch with this name.
    ///
    /// A run with the patch in its history takes it. A run whose history contains anything that the
    /// code has not reached yet does not take it, because it passed this place before the patch
    /// existed. Any other run takes the patch from now on. Nothing after it is seen or has an
    /// effect before that is committed.
    ///
    /// # Errors
    /// Kind [`ErrorKind::Refused`] if the code uses the name in two places.
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

    /// Declares that the code has only the patched form. A run that does not take the patch has
    /// diverged.
    ///
    /// # Errors
    /// See [`Machine::patched`].
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

    /// Returns whether the code has reached everything that is recorded.
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
