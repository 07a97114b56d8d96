//! The numbers in the idempotency keys of calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers the calls of each step. While a block is repeated after a failure, a call has the number
/// that it had in the first attempt, so a service sees the same request again.
///
/// The numbers follow from the order of the calls, which a replay repeats.
#[derive(Default)]
pub(super) struct Visits {
    /// The numbers around a block that is repeated. `None`: those of the run.
    around: Option<Arc<Visits>>,
    calls: Mutex<BTreeMap<String, Calls>>,
}

/// The calls of one step.
#[derive(Default)]
struct Calls {
    /// The numbers that were given in a block that is repeated.
    given: Vec<u32>,
    /// The calls of this attempt.
    count: u32,
}

impl Visits {
    /// Returns the numbers of a block that is repeated.
    pub(super) fn of_block(around: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { around: Some(Arc::clone(around)), calls: Mutex::default() })
    }

    /// Lets the calls of the next attempt have the numbers of the first one.
    pub(super) fn begin_attempt(&self) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.values_mut().for_each(|calls| calls.count = 0);
    }

    /// Returns the number of the next call of the step at this path, from 0.
    pub(super) fn next(&self, path: &str) -> u32 {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.entry(path.to_owned()).or_default();
        let count = calls.count;
        calls.count += 1;
        let Some(around) = &self.around else { return count };
        match calls.given.get(count as usize) {
            Some(number) => *number,
            None => {
                let number = around.next(path);
                calls.given.push(number);
                number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_block_has_the_numbers_of_its_first_attempt() {
        let run = Arc::new(Visits::default());
        assert_eq!(run.next("charge"), 0);
        let outer = Visits::of_block(&run);
        let mut seen = Vec::new();
        for _ in 0..2 {
            outer.begin_attempt();
            let inner = Visits::of_block(&outer);
            for _ in 0..2 {
                inner.begin_attempt();
                seen.push([inner.next("charge"), inner.next("charge"), inner.next("ship")]);
            }
            seen.push([outer.next("charge"), outer.next("ship"), 0]);
        }
        let attempt = [[1, 2, 0], [1, 2, 0], [3, 1, 0]];
        assert_eq!(seen, [attempt, attempt].concat());
        assert_eq!((run.next("charge"), run.next("ship")), (4, 2), "a later call has a number of its own");
    }
}
