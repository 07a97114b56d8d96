//! Decides what the executor does after a failed commit. Pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::faults::planted;
use crate::store::{DatabaseError, Write};

/// The decision after a failed commit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterFailure {
    /// Commit the batch again, after this delay.
    Again(Duration),
    /// Commit each half on its own. One write is bad, and must not prevent the others.
    Split,
    /// Answer with the error.
    GiveUp,
}

/// The failures of one batch.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    first: Option<Instant>,
}

impl Failures {
    /// Adds a failure. Returns the number of failures, and the time since the first of them.
    ///
    /// The time does not count from the first attempt. If the database went silent, the first
    /// failure comes after the deadline of the call, which alone may be as long as [`PATIENCE`].
    pub(super) fn add(&mut self, now: Instant) -> (u32, Duration) {
        self.count += 1;
        (self.count, now.saturating_duration_since(*self.first.get_or_insert(now)))
    }
}

/// How long a batch is retried while the database is away. The default lease is as long: after that
/// time the claims behind most writes have lapsed.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

const FIRST_DELAY: Duration = Duration::from_millis(5);
const LAST_DELAY: Duration = Duration::from_secs(1);

/// Decides about a batch of `writes` writes.
///
/// `failures` counts the failures of this batch, with this one. `elapsed` is the time since the
/// first. `fraction` is a random number from 0 to 1, for the jitter.
pub(super) fn after_failure(
    error: &DatabaseError,
    writes: usize,
    failures: u32,
    elapsed: Duration,
    fraction: f64,
) -> AfterFailure {
    if error.kind.is_transient() {
        if elapsed >= PATIENCE {
            return AfterFailure::GiveUp;
        }
        let delay = FIRST_DELAY.saturating_mul(2_u32.saturating_pow(failures.min(16))).min(LAST_DELAY);
        return AfterFailure::Again(delay.mul_f64(0.5 + fraction / 2.0));
    }
    if writes > 1 { AfterFailure::Split } else { AfterFailure::GiveUp }
}

/// Returns `true` if a write may be sent again when it is unknown whether it was committed. A claim
/// must not: the runs that it took the first time would have no driver. Its sender releases unknown
/// claims. An emission of the application must not: it would reach runs that have begun to wait
/// after the first commit. The emission of a step leaves a record, by which a repetition is known.
pub(super) fn may_repeat(write: &Write) -> bool {
    match write.inner() {
        Write::Claim(_) => planted("repeated-claim"),
        Write::Emit(emission) => emission.by.is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DatabaseErrorKind;

    fn error(kind: DatabaseErrorKind) -> DatabaseError {
        DatabaseError::new(kind, "commit", "test")
    }

    #[test]
    fn a_transient_error_repeats_the_batch_until_patience_ends() {
        let busy = error(DatabaseErrorKind::Busy);
        assert!(matches!(after_failure(&busy, 100, 1, Duration::ZERO, 0.5), AfterFailure::Again(_)));
        assert_eq!(after_failure(&busy, 100, 9, PATIENCE, 0.5), AfterFailure::GiveUp);
    }

    #[test]
    fn a_bad_write_is_found_by_halving() {
        let invalid = error(DatabaseErrorKind::Invalid);
        assert_eq!(after_failure(&invalid, 2, 1, Duration::ZERO, 0.5), AfterFailure::Split);
        assert_eq!(after_failure(&invalid, 1, 1, Duration::ZERO, 0.5), AfterFailure::GiveUp);
    }

    #[test]
    fn a_batch_whose_first_answer_took_all_the_patience_is_tried_again() {
        let silent = error(DatabaseErrorKind::Unreachable);
        let mut failures = Failures::default();
        let mut after = |now: Instant| {
            let (count, elapsed) = failures.add(now);
            after_failure(&silent, 100, count, elapsed, 0.5)
        };
        let first = Instant::now() + 2 * PATIENCE;
        assert!(matches!(after(first), AfterFailure::Again(_)));
        assert!(matches!(after(first + PATIENCE / 2), AfterFailure::Again(_)));
        assert_eq!(after(first + PATIENCE), AfterFailure::GiveUp);
    }

    #[test]
    fn delays_grow_to_a_second() {
        let busy = error(DatabaseErrorKind::Busy);
        let after = |failures| after_failure(&busy, 1, failures, Duration::ZERO, 1.0);
        assert_eq!(after(1), AfterFailure::Again(Duration::from_millis(10)));
        assert_eq!(after(3), AfterFailure::Again(Duration::from_millis(40)));
        assert_eq!(after(40), AfterFailure::Again(LAST_DELAY));
    }
}
