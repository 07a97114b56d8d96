//! Rows that do not belong to a call: patches, published values and items of streams.

use std::panic::Location;

use crate::model::{AttemptStatus, ErrorKind, StepKind, StoredError, Timestamp};

use super::Machine;
use crate::replay::divergence::Divergence;
use crate::replay::patches::Patch;
use crate::replay::records::Note;

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
        if let Some(patch) = self.recorded.patches.asked(&key) {
            if patch.location != location {
                return Err(used_twice(name, patch.location, location));
            }
            return Ok(patch.taken);
        }
        self.check_free(&key)?;
        let recorded = self.recorded.patches.are_recorded(&key);
        let taken = recorded || self.is_past_history();
        if taken && !recorded && self.divergence.is_none() {
            let (at, status) = (self.time.tick(now), AttemptStatus::Succeeded);
            let note = Note { kind: StepKind::Patch, attempt: 1, status, output: "true".into(), at };
            self.records.post_note(&key, note);
            self.records.require_confirmation();
        }
        self.calls.reserve_key(&key);
        self.recorded.patches.ask(key, Patch { location, taken });
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
        let recorded = &self.recorded;
        recorded.history.all_active() && recorded.publications.are_complete() && !self.interruption.is_ahead()
    }

    /// Publishes a value, JSON text, under this name, unless that is recorded. The body of a step
    /// publishes every time, because no replay runs the body.
    ///
    /// # Errors
    /// Kind [`ErrorKind::Refused`](crate::model::ErrorKind::Refused) if a step has the key.
    pub fn publish(
        &mut self,
        name: &str,
        value: Result<String, StoredError>,
        in_body: bool,
        now: Timestamp,
    ) -> Result<(), StoredError> {
        let key = StepKind::Published.key_of(name);
        self.check_free(&key)?;
        self.calls.reserve_key(&key);
        let unrecorded = self.recorded.publications.publish(&key, in_body);
        let value = value?;
        if let Some(count) = unrecorded.filter(|_| self.divergence.is_none()) {
            let output = format!("{{\"generation\":{},\"count\":{count},\"value\":{value}}}", self.generation);
            let (at, status) = (self.time.tick(now), AttemptStatus::Running);
            self.records.post_note(&key, Note { kind: StepKind::Published, attempt: 1, status, output, at });
        }
        Ok(())
    }

    /// Appends an item, JSON text, to the stream with this name, unless that is recorded.
    ///
    /// A refused item also takes a number. Whether it is refused depends on a limit that may differ
    /// on replay, and the numbers of later items must not differ.
    ///
    /// # Errors
    /// Kind [`ErrorKind::Refused`](crate::model::ErrorKind::Refused) if a step has the key.
    pub fn emit(&mut self, name: &str, item: Result<String, StoredError>, now: Timestamp) -> Result<(), StoredError> {
        let kind = StepKind::Emitted;
        let key = kind.key_of(name);
        self.check_free(&key)?;
        self.calls.reserve_key(&key);
        let next = self.recorded.publications.emit(&key);
        let output = item?;
        if next.is_recorded || self.divergence.is_some() {
            return Ok(());
        }
        let at = self.time.tick(now);
        if let Some(base) = self.recorded.publications.begin_stream(&key) {
            let output = format!("{{\"generation\":{},\"count\":{base}}}", self.generation);
            self.records.post_note(&key, Note { kind, attempt: 0, status: AttemptStatus::Running, output, at });
        }
        let (attempt, status) = (next.number, AttemptStatus::Succeeded);
        self.records.post_note(&key, Note { kind, attempt, status, output, at });
        self.records.count_item();
        Ok(())
    }

    /// Refuses a key that a call has taken.
    fn check_free(&self, key: &str) -> Result<(), StoredError> {
        if self.recorded.patches.asked(key).is_some() || self.recorded.publications.have(key) {
            return Ok(());
        }
        let Some(location) = self.calls.location_of_key(key) else { return Ok(()) };
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
