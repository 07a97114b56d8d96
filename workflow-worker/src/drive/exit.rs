//! What becomes of a run when its drive begins or ends: pure decisions.

use std::time::Duration;

use workflow_engine::replay::{Divergence, Interruption};
use workflow_engine::store::{ClaimedRun, ContinueWrite, EndWrite, ParkWrite, RetryWrite, RunEnd, Write};
use workflow_sdk::{DatabaseError, ErrorKind, StoredError, Timestamp, UnreadablePayload};

use crate::quarantine::QUARANTINE_RETRY_DELAY;

/// How long a run whose history does not fit the code waits for other code.
pub(crate) const DIVERGENCE_DELAY: Duration = Duration::from_secs(30);

/// How long a run waits whose history was not read because the database was away.
const REREAD_DELAY: Duration = Duration::from_secs(1);

/// How a drive ended.
#[derive(Debug)]
pub(crate) enum Exit {
    /// The function returned, with its output or its error; before that it had come to this interruption.
    Ended(Result<String, StoredError>, Option<Interruption>),
    /// The function asked for the run's next generation, with this input.
    Continued(String),
    /// The function returned an error, and is to be called again.
    Retry(Box<RetryWrite>),
    /// The grace after this interruption is over.
    GraceOver(Interruption),
    /// It waits until this instant, or for what others do, and no longer than to its deadline unless it knows that this has
    /// passed.
    Park {
        until: Timestamp,
        until_deadline: bool,
        /// The run's `wakes` as the drive knows it.
        wakes: i64,
    },
    /// Its history does not fit the code. If it was interrupted, its grace goes on.
    Diverged { divergence: Divergence, grace_ends_at: Option<Timestamp> },
    /// Its history could not be read.
    Unreadable(DatabaseError),
    /// The worker stops.
    Released,
    /// It is suspected to kill its workers, and another suspect is on trial.
    QuarantineFull,
    /// The claim is another's.
    Lost,
}

/// The write that ends a claimed run before its function is called.
pub(crate) fn before_drive(run: &ClaimedRun, now: Timestamp, max_crashes: u32) -> Option<Write> {
    let ClaimedRun { claim, parent_run_id, .. } = *run;
    // Only what ran before can have started children.
    let has_children = claim.epoch > 1;
    let end = early_end(run, now, max_crashes)?;
    Some(Write::End(EndWrite { claim, parent_run_id, has_children, end }))
}

fn early_end(run: &ClaimedRun, now: Timestamp, max_crashes: u32) -> Option<RunEnd> {
    // A run that was claimed before may have something to clean up, and is driven.
    let first = run.claim.epoch == 1;
    if first && run.cancel_requested {
        return Some(RunEnd::Canceled);
    }
    if first && run.deadline_at.is_some_and(|deadline| deadline <= now) {
        return Some(deadline_end(Vec::new()));
    }
    if run.crashes > i64::from(max_crashes) {
        let message = format!(
            "the worker of this run died {} times while it ran, the limit is {max_crashes}; \
             look for an abort, a stack overflow or a lack of memory in its steps",
            run.crashes
        );
        return Some(RunEnd::Failed(StoredError::new(ErrorKind::CrashLoop, message)));
    }
    None
}

/// The write that an exit asks for.
pub(crate) fn after_drive(run: &ClaimedRun, exit: Exit, has_children: bool, now: Timestamp) -> Option<Write> {
    let end = |end| {
        let parent_run_id = run.parent_run_id;
        Some(Write::End(EndWrite { claim: run.claim, parent_run_id, has_children, end }))
    };
    let park_write = |wakes, until, until_deadline, error, reset_crashes| {
        let claim = run.claim;
        Some(Write::Park(ParkWrite { claim, wakes, until, until_deadline, error, reset_crashes }))
    };
    // A short wait. Of a deadline that has passed it would make none.
    let park = |until, error, reset_crashes| park_write(run.wakes, until, false, error, reset_crashes);
    match exit {
        Exit::Ended(result, interruption) => end(run_end(result, interruption)),
        Exit::Continued(input) => Some(Write::Continue(ContinueWrite { claim: run.claim, input })),
        Exit::GraceOver(Interruption::Canceled) => end(RunEnd::Canceled),
        Exit::GraceOver(Interruption::Deadline) => end(deadline_end(Vec::new())),
        Exit::Retry(write) => Some(Write::Retry(*write)),
        Exit::Park { until, until_deadline, wakes } => park_write(wakes, until, until_deadline, None, true),
        Exit::Diverged { divergence, grace_ends_at } => {
            let until = (now + DIVERGENCE_DELAY).min(grace_ends_at.unwrap_or(Timestamp::FAR_FUTURE));
            park(until, Some(divergence.to_stored()), false)
        }
        // Not at once: what could not be read will often not be readable a moment later either.
        Exit::Unreadable(error) if error.kind.is_transient() => park(now + REREAD_DELAY, None, false),
        Exit::Unreadable(error) => park(now + DIVERGENCE_DELAY, Some(unreadable(&error)), false),
        Exit::Released => park(now, None, false),
        Exit::QuarantineFull => park(now + QUARANTINE_RETRY_DELAY, None, false),
        Exit::Lost => None,
    }
}

/// A history that cannot be read, as the error of its run.
pub(crate) fn unreadable(error: &DatabaseError) -> StoredError {
    // It says itself what to do.
    if let Some(unreadable) = error.source.downcast_ref::<UnreadablePayload>() {
        return StoredError::new(ErrorKind::Divergence, unreadable.to_string());
    }
    let mut stored = StoredError::from_error(ErrorKind::Divergence, error);
    stored.message = format!("the run's history cannot be read ({}); mend it or terminate the run", stored.message);
    stored
}

/// What a run becomes whose function has returned. One that was canceled may succeed all the same, or fail with an error of its
/// own; one that has passed its deadline has failed, whatever it returned.
fn run_end(result: Result<String, StoredError>, interruption: Option<Interruption>) -> RunEnd {
    match (result, interruption) {
        (Ok(_), Some(Interruption::Deadline)) => deadline_end(Vec::new()),
        (Err(error), Some(Interruption::Deadline)) if error.kind == ErrorKind::Deadline => deadline_end(error.causes),
        (Err(error), Some(Interruption::Deadline)) => deadline_end(vec![error.to_string()]),
        (Err(error), Some(Interruption::Canceled)) if error.kind == ErrorKind::Canceled => RunEnd::Canceled,
        (Ok(output), _) => RunEnd::Succeeded(output),
        (Err(error), _) => RunEnd::Failed(error),
    }
}

fn deadline_end(causes: Vec<String>) -> RunEnd {
    let mut error = StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline");
    error.causes = causes;
    RunEnd::Failed(error)
}
