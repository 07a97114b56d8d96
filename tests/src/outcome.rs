//! Takes the outcome of a write apart: each function panics at its caller if the outcome is another
//! one.

use workflow_engine::store::{Claimed, Outcome, StartOutcome};
use workflow_sdk::{CancelOutcome, SignalOutcome};

/// Returns the only outcome.
#[track_caller]
pub fn one(outcomes: Vec<Outcome>) -> Outcome {
    let count = outcomes.len();
    let [outcome] = <[Outcome; 1]>::try_from(outcomes).unwrap_or_else(|_| panic!("{count} outcomes for one write"));
    outcome
}

/// Expects an applied write.
#[track_caller]
pub fn applied(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Applied), "expected Applied, got {outcome:?}");
}

/// Expects a write that had been applied before.
#[track_caller]
pub fn duplicate(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Duplicate), "expected Duplicate, got {outcome:?}");
}

/// Expects a write whose claim was not current.
#[track_caller]
pub fn lost(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Lost), "expected Lost, got {outcome:?}");
}

/// Returns the outcome of a start.
#[track_caller]
pub fn started(outcome: &Outcome) -> StartOutcome {
    match outcome {
        Outcome::Started(start) => start.clone(),
        other => panic!("expected Started, got {other:?}"),
    }
}

/// Expects a start that created a run.
#[track_caller]
pub fn created(outcome: &Outcome) {
    assert_eq!(started(outcome), StartOutcome::Created);
}

/// Returns the outcome of a cancel.
#[track_caller]
pub fn canceled(outcome: &Outcome) -> CancelOutcome {
    match outcome {
        Outcome::Canceled(cancel) => *cancel,
        other => panic!("expected Canceled, got {other:?}"),
    }
}

/// Returns the runs of a claim.
#[track_caller]
pub fn claimed(outcome: Outcome) -> Claimed {
    match outcome {
        Outcome::Claimed(claimed) => claimed,
        other => panic!("expected Claimed, got {other:?}"),
    }
}

/// Returns the outcome of a signal.
#[track_caller]
pub fn signaled(outcome: &Outcome) -> SignalOutcome {
    match outcome {
        Outcome::Signaled(signaled) => signaled.clone(),
        other => panic!("expected Signaled, got {other:?}"),
    }
}

/// Returns how many runs changed.
#[track_caller]
pub fn changed(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Changed(count) => *count,
        other => panic!("expected Changed, got {other:?}"),
    }
}
