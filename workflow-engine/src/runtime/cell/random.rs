//! Supplies the values of a run that replace those of the outside world: its identity, the number
//! of its attempt, and random values.

use uuid::Uuid;

use crate::model::{derived_u64, derived_uuid, in_generation};

use super::{RunCell, lock};

impl RunCell {
    /// Returns the number of the present attempt: inside a body the step's, outside the run's.
    pub fn attempt(&self) -> u32 {
        let inner = lock(&self.inner);
        inner.current.and_then(|call| inner.machine.attempt(call)).unwrap_or(self.settings.attempt)
    }

    /// Returns the next random number. It is equal on every replay.
    pub fn random(&self) -> u64 {
        derived_u64(self.settings.run_id, &self.next_purpose("random"))
    }

    /// Returns the next random UUID. It is equal on every replay.
    pub fn uuid(&self) -> Uuid {
        derived_uuid(self.settings.run_id, &self.next_purpose("uuid"))
    }

    /// Names the next random value. Bodies have counters of their own, because the number of times
    /// that a body runs is not part of the history.
    fn next_purpose(&self, what: &str) -> String {
        let mut inner = lock(&self.inner);
        let inner = &mut *inner;
        let draw = match inner.current {
            Some(call) => {
                let drawn = &mut inner.slots[call.index()].drawn;
                *drawn += 1;
                format!("{what} {drawn} of step {}", inner.machine.key(call))
            }
            None => {
                inner.drawn += 1;
                format!("{what} {}", inner.drawn)
            }
        };
        in_generation(self.settings.generation, draw)
    }
}
