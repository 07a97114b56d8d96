//! Supplies idempotency keys as borrowed texts, so that the future of a body may hold one.

use std::sync::OnceLock;

use super::{RunCell, lock};

/// The number of blocks. Each has twice the room of the one before it.
const BLOCKS: usize = 32;

type Block = Box<[OnceLock<Box<str>>]>;

/// The texts that were lent out, by number. A text never moves and lives as long as this value.
#[derive(Default)]
pub(super) struct Keys([OnceLock<Block>; BLOCKS]);

impl Keys {
    /// Returns the text with this number, which is made when it is asked for first.
    fn get_or_init(&self, number: usize, make: impl FnOnce() -> String) -> Option<&str> {
        let block = usize::try_from((number + 1).ilog2()).ok()?;
        let room = 1_usize << block;
        let texts = self.0.get(block)?.get_or_init(|| (0..room).map(|_| OnceLock::new()).collect());
        Some(texts.get(number + 1 - room)?.get_or_init(|| make().into()))
    }
}

impl RunCell {
    /// Returns a text that is equal in every attempt of the present step or, outside of a body, of
    /// the run.
    pub fn idempotency_key(&self) -> &str {
        let current = lock(&self.inner).current;
        let number = current.map_or(0, |call| call.index() + 1);
        let make = || {
            // All run ids have one length, so a step's key cannot be mistaken for a generation.
            let run = match self.settings.generation {
                0 => self.settings.run_id.to_string(),
                generation => format!("{}.{generation}", self.settings.run_id),
            };
            match current {
                Some(call) => format!("{run}/{}", lock(&self.inner).machine.key(call)),
                None => run,
            }
        };
        self.keys.get_or_init(number, make).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_where_it_is() {
        let keys = Keys::default();
        let first = keys.get_or_init(0, || "0".into()).unwrap();
        for number in 1..1000 {
            assert_eq!(keys.get_or_init(number, || number.to_string()), Some(number.to_string().as_str()));
        }
        let again = keys.get_or_init(0, || unreachable!("it is made once")).unwrap();
        assert!(std::ptr::eq(first, again));
        assert_eq!(keys.get_or_init(999, || unreachable!("it is made once")), Some("999"));
    }
}
