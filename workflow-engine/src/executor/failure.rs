//! What the executor does with a batch that the database did not take: pure decisions.

use std::time::Duration;

use tokio::time::Instant;

use crate::faults::planted;
use crate::store::{DatabaseError, Write};

/// What comes after a failed commit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterFailure {
    /// The same batch again, after this delay.
    Again(Duration),
    /// Each half on its own: one of the writes is bad, the others must not suffer for it.
    Split,
    /// The error is the answer.
    GiveUp,
}

/// The failures of one batch, and since when.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    first: Option<Instant>,
}

impl Failures {
    /// One more. Gives their number, and the time since the first of them; not since the batch was first tried, for a database
    /// that went silent is heard of only when the deadline of a call has passed, which is all the patience there is.
    pub(super) fn another(&mut self, now: Instant) -> (u32, Duration) {
        self.count += 1;
        (self.count, now.saturating_duration_since(*self.first.get_or_insert(now)))
    }
}

/// How long a batch is tried while the database is away: as long as a default lease lasts. After that the claims behind
/// most of its writes have lapsed.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

const FIRST_DELAY: Duration = Duration::from_millis(5);
const LAST_DELAY: Duration = Duration::from_secs(1);

/// Decides. `failures` of this batch so far, this one included; `elapsed` since the first; `fraction` from 0 to 1 is a
/// draw for the jitter.
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

/// Whether a write may be sent again when it is unknown whether it was committed. A claim may not: what it claimed the
/// first time would be held by nobody. Its sender releases unknown claims instead.
pub(super) fn may_repeat(write: &Write) -> bool {
    !matches!(write, Write::Claim(_)) || planted("repeated-claim")
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
            let (count, elapsed) = failures.another(now);
            after_failure(&silent, 100, count, elapsed, 0.5)
        };
        let heard = Instant::now() + 2 * PATIENCE;
        assert!(matches!(after(heard), AfterFailure::Again(_)));
        assert!(matches!(after(heard + PATIENCE / 2), AfterFailure::Again(_)));
        assert_eq!(after(heard + PATIENCE), AfterFailure::GiveUp);
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
