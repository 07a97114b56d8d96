//! What a run draws instead of the world: who it is, which attempt it is at, and what looks random.

use uuid::Uuid;

use crate::model::{derived_u64, derived_uuid, in_generation};

use super::{RunCell, lock};

impl RunCell {
    /// Returns the number of the present attempt: of the step inside a body, of the run outside.
    pub fn attempt(&self) -> u32 {
        let inner = lock(&self.inner);
        inner.current.and_then(|call| inner.machine.attempt(call)).unwrap_or(self.settings.attempt)
    }

    /// Returns a text that is equal in every attempt of the present step, or of the run outside of a body.
    pub fn idempotency_key(&self) -> String {
        let inner = lock(&self.inner);
        // A run's id is of one length, so no step's key can be mistaken for a generation.
        let run = match self.settings.generation {
            0 => self.settings.run_id.to_string(),
            generation => format!("{}.{generation}", self.settings.run_id),
        };
        match inner.current {
            Some(call) => format!("{run}/{}", inner.machine.key(call)),
            None => run,
        }
    }

    /// Draws the next random number: equal on every replay.
    pub fn random(&self) -> u64 {
        derived_u64(self.settings.run_id, &self.draw("random"))
    }

    /// Draws the next random UUID: equal on every replay.
    pub fn uuid(&self) -> Uuid {
        derived_uuid(self.settings.run_id, &self.draw("uuid"))
    }

    /// Names a draw. Bodies have counters of their own: how often a body runs is not part of the history.
    fn draw(&self, what: &str) -> String {
        let mut inner = lock(&self.inner);
        let inner = &mut *inner;
        let draw = match inner.current {
            Some(call) => {
                let draws = &mut inner.slots[call.index()].draws;
                *draws += 1;
                format!("{what} {draws} of step {}", inner.machine.key(call))
            }
            None => {
                inner.draws += 1;
                format!("{what} {}", inner.draws)
            }
        };
        in_generation(self.settings.generation, draw)
    }
}
