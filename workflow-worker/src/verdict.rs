//! What becomes of a run when its drive begins or ends: pure decisions.

use std::time::Duration;

use workflow_sdk::engine::{ClaimedRun, Divergence, EndWrite, ParkWrite, RetryWrite, RunEnd, Write};
use workflow_sdk::{BackendError, ErrorKind, StoredError, Timestamp};

use crate::suspicion::RETRIAL_DELAY;

/// How long a run whose history does not fit the code waits for other code.
pub(crate) const DIVERGENCE_DELAY: Duration = Duration::from_secs(30);

/// How long a run waits whose history was not read because the database was away.
const REREAD_DELAY: Duration = Duration::from_secs(1);

/// How a drive ended.
#[derive(Debug)]
pub(crate) enum Exit {
    /// The function returned, with its output or its error.
    Ended(Result<String, StoredError>),
    /// The function returned an error, and is to be called again.
    Retry(Box<RetryWrite>),
    /// Somebody canceled the run.
    Canceled,
    /// Its deadline has passed.
    Deadline,
    /// It waits until this instant, or for what others do.
    Park {
        until: Timestamp,
        /// The run's `wakes` as the drive knows it.
        wakes: i64,
    },
    /// Its history does not fit the code.
    Diverged(Divergence),
    /// Its history could not be read.
    Unreadable(BackendError),
    /// The worker stops.
    Released,
    /// It is suspected to kill its workers, and another suspect is on trial.
    Suspected,
    /// The claim is another's.
    Lost,
}

/// What ends a claimed run before its function is called.
pub(crate) fn before_drive(run: &ClaimedRun, now: Timestamp, max_crashes: u32) -> Option<RunEnd> {
    if run.cancel_requested {
        return Some(RunEnd::Canceled);
    }
    if run.deadline_at.is_some_and(|deadline| deadline <= now) {
        return Some(deadline_end());
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
    let park_at = |wakes, until, error, reset_crashes| {
        Some(Write::Park(ParkWrite { claim: run.claim, wakes, until, error, reset_crashes }))
    };
    let park = |until, error, reset_crashes| park_at(run.wakes, until, error, reset_crashes);
    match exit {
        Exit::Ended(Ok(output)) => end(RunEnd::Succeeded(output)),
        Exit::Ended(Err(error)) => end(RunEnd::Failed(error)),
        Exit::Retry(write) => Some(Write::Retry(*write)),
        Exit::Canceled => end(RunEnd::Canceled),
        Exit::Deadline => end(deadline_end()),
        Exit::Park { until, wakes } => park_at(wakes, until, None, true),
        Exit::Diverged(divergence) => park(now + DIVERGENCE_DELAY, Some(divergence.to_stored()), false),
        // Not at once: what could not be read will often not be readable a moment later either.
        Exit::Unreadable(error) if error.kind.is_transient() => park(now + REREAD_DELAY, None, false),
        Exit::Unreadable(error) => park(now + DIVERGENCE_DELAY, Some(unreadable(&error)), false),
        Exit::Released => park(now, None, false),
        Exit::Suspected => park(now + RETRIAL_DELAY, None, false),
        Exit::Lost => None,
    }
}

/// A history that cannot be read, as the error of its run.
pub(crate) fn unreadable(error: &BackendError) -> StoredError {
    let mut stored = StoredError::from_error(ErrorKind::Divergence, error);
    stored.message = format!("the run's history cannot be read ({}); mend it or cancel the run", stored.message);
    stored
}

fn deadline_end() -> RunEnd {
    RunEnd::Failed(StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline"))
}
