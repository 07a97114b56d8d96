//! The outcome of a write, taken apart: each function panics at its caller if the outcome is another one.

use workflow_engine::store::{Claimed, Outcome, StartOutcome};
use workflow_sdk::{CancelOutcome, SignalOutcome};

/// The only outcome.
#[track_caller]
pub fn one(outcomes: Vec<Outcome>) -> Outcome {
    let count = outcomes.len();
    let [outcome] = <[Outcome; 1]>::try_from(outcomes).unwrap_or_else(|_| panic!("{count} outcomes for one write"));
    outcome
}

/// It was done.
#[track_caller]
pub fn applied(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Applied), "expected Applied, got {outcome:?}");
}

/// It had been done before.
#[track_caller]
pub fn duplicate(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Duplicate), "expected Duplicate, got {outcome:?}");
}

/// The claim was not the run's current one.
#[track_caller]
pub fn lost(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Lost), "expected Lost, got {outcome:?}");
}

/// What became of a start.
#[track_caller]
pub fn started(outcome: &Outcome) -> StartOutcome {
    match outcome {
        Outcome::Started(start) => start.clone(),
        other => panic!("expected Started, got {other:?}"),
    }
}

/// The start made a run.
#[track_caller]
pub fn created(outcome: &Outcome) {
    assert_eq!(started(outcome), StartOutcome::Created);
}

/// What became of a cancel.
#[track_caller]
pub fn canceled(outcome: &Outcome) -> CancelOutcome {
    match outcome {
        Outcome::Canceled(cancel) => *cancel,
        other => panic!("expected Canceled, got {other:?}"),
    }
}

/// What a claim found.
#[track_caller]
pub fn claimed(outcome: Outcome) -> Claimed {
    match outcome {
        Outcome::Claimed(claimed) => claimed,
        other => panic!("expected Claimed, got {other:?}"),
    }
}

/// What became of a signal.
#[track_caller]
pub fn signaled(outcome: &Outcome) -> SignalOutcome {
    match outcome {
        Outcome::Signaled(signaled) => *signaled,
        other => panic!("expected Signaled, got {other:?}"),
    }
}

/// How many runs changed.
#[track_caller]
pub fn changed(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Changed(count) => *count,
        other => panic!("expected Changed, got {other:?}"),
    }
}
