//! The decisions about a run when its drive begins or ends.

use std::time::Duration;

use workflow_engine::replay::{Divergence, Interrupted, Interruption};
use workflow_engine::runtime::Polled;
use workflow_engine::store::{ClaimedRun, ContinueWrite, EndWrite, ParkWrite, RetryWrite, RunEnd, Write};
use workflow_sdk::{DatabaseError, ErrorKind, StoredError, Timestamp, UnreadablePayload};

use crate::claim_state::Directive;
use crate::quarantine::Admission;
use crate::shared::Shared;

/// How long a run whose history does not fit the code waits for other code.
const DIVERGENCE_DELAY: Duration = Duration::from_secs(30);

/// How long a run waits whose history was not read because the database was unreachable.
const REREAD_DELAY: Duration = Duration::from_secs(1);

/// How long a run waits that blocks a thread of this worker, so that other workers may claim it.
const BLOCKED_DELAY: Duration = Duration::from_secs(1);

/// How a drive ended.
#[derive(Debug)]
pub(crate) enum Exit {
    /// The workflow returned its output or an error, after this interruption was delivered to it.
    Ended(Result<String, StoredError>, Option<Interruption>),
    /// The workflow asked to continue as new, with this input.
    Continued(String),
    /// The workflow returned an error, and its policy tries it again.
    Retry(Box<RetryWrite>),
    /// The grace after this interruption is over.
    GraceOver(Interruption),
    /// The run waits until a time or for an external event.
    Park {
        /// When it is due at the latest.
        until: Timestamp,
        /// Whether it is due at its deadline too. `false` if the run knows that its deadline has
        /// passed.
        until_deadline: bool,
        /// The run's `wakes` as the drive knows it.
        wakes: i64,
    },
    /// The history does not fit the code.
    Diverged {
        /// How history and code differ.
        divergence: Divergence,
        /// The end of the run's grace, if the run was told to end. The grace goes on.
        grace_ends_at: Option<Timestamp>,
    },
    /// The history could not be read.
    Unreadable(DatabaseError),
    /// The worker stops or the run is paused, so the run is given back.
    Released,
    /// The run, or another one, may be what kills its workers. It may be driven after this time.
    HeldBack(Duration),
    /// An older drive of the run blocks a thread of this worker.
    Blocked,
    /// The claim is lost.
    Lost,
}

impl Exit {
    /// Returns the delay until the run is due again, if this worker gives it back only to try it
    /// again.
    pub(super) fn comes_back_after(&self) -> Option<Duration> {
        match self {
            Self::HeldBack(delay) => Some(*delay),
            Self::Blocked => Some(BLOCKED_DELAY),
            // The run is due later, because an immediate read would often fail for the same reason.
            Self::Unreadable(error) if error.kind.is_transient() => Some(REREAD_DELAY),
            _ => None,
        }
    }

    /// Returns the outcome of the drive for its span, and the kind of the error if it has failed.
    pub(super) fn outcome(&self) -> (&'static str, Option<ErrorKind>) {
        match self {
            Self::Ended(_, Some(Interruption::Deadline)) | Self::GraceOver(Interruption::Deadline) => {
                ("failed", Some(ErrorKind::Deadline))
            }
            Self::GraceOver(Interruption::Canceled) => ("canceled", None),
            Self::Ended(Err(error), Some(Interruption::Canceled)) if error.kind == ErrorKind::Canceled => {
                ("canceled", None)
            }
            Self::Ended(Err(error), _) => ("failed", Some(error.kind)),
            Self::Ended(Ok(_), _) => ("succeeded", None),
            Self::Continued(_) => ("continued", None),
            Self::Retry(write) => ("retried", Some(write.error.kind)),
            Self::Park { .. } => ("parked", None),
            Self::Diverged { .. } | Self::Unreadable(_) => ("diverged", Some(ErrorKind::Divergence)),
            Self::Released | Self::HeldBack(_) | Self::Blocked => ("released", None),
            Self::Lost => ("lost", None),
        }
    }
}

/// The end of a drive, before its last write.
#[derive(Debug)]
pub(super) struct DriveEnd {
    pub(super) exit: Exit,
    pub(super) left: LeftBehind,
    /// The interruption that was delivered to the workflow.
    pub(super) interruption: Option<Interruption>,
    /// The records that are committed together with the last write, in their order.
    pub(super) records: Vec<Write>,
}

impl DriveEnd {
    /// Returns the end of a drive that has not begun, or was given up.
    pub(super) fn at(exit: Exit) -> Self {
        Self { exit, left: LeftBehind::default(), interruption: None, records: Vec::new() }
    }
}

/// The decision about a claimed run before it is driven.
pub(crate) enum Beginning {
    /// The run ends at once.
    End(Box<Write>),
    /// See [`Shared::admit`].
    Drive(Option<Admission>),
}

impl Beginning {
    /// Decides about a claimed run.
    pub(crate) fn of(shared: &Shared, run: &ClaimedRun) -> Self {
        match before_drive(run, shared.clock.now(), shared.options.max_crashes) {
            Some(end) => Self::End(Box::new(end)),
            None => Self::Drive(shared.admit(run)),
        }
    }
}

/// Returns the write that ends a claimed run before its workflow is called, if it is to end.
fn before_drive(run: &ClaimedRun, now: Timestamp, max_crashes: u32) -> Option<Write> {
    let ClaimedRun { claim, parent_run_id, .. } = *run;
    // Only an earlier claim can have started children and begun waits.
    let was_claimed = claim.epoch > 1;
    let end = early_end(run, now, max_crashes)?;
    Some(Write::End(EndWrite { claim, parent_run_id, has_children: was_claimed, has_event_waits: was_claimed, end }))
}

/// The things that a run may leave behind when it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftBehind {
    pub(super) has_children: bool,
    /// Whether the run may have open waits for events, or seats.
    pub(super) has_event_waits: bool,
    /// Whether a step of the run may have a seat.
    pub(super) has_seats: bool,
}

fn early_end(run: &ClaimedRun, now: Timestamp, max_crashes: u32) -> Option<RunEnd> {
    // A run that was claimed before may have something to clean up, and is driven.
    if let Some(by) = told_to_end(run, now).filter(|_| run.claim.epoch == 1) {
        return Some(interrupted_end(by));
    }
    if run.lone_crashes > i64::from(max_crashes) {
        let message = format!(
            "the worker of this run died {} times while it drove no other run, the limit is {max_crashes}; \
             look for an abort, a stack overflow or a lack of memory in its steps",
            run.lone_crashes
        );
        return Some(RunEnd::Failed(StoredError::new(ErrorKind::CrashLoop, message)));
    }
    None
}

/// Returns why a claimed run was told to end, if it was.
fn told_to_end(run: &ClaimedRun, now: Timestamp) -> Option<Interruption> {
    let has_passed = run.deadline_at.is_some_and(|deadline| deadline <= now);
    run.cancel_requested.then_some(Interruption::Canceled).or(has_passed.then_some(Interruption::Deadline))
}

/// Returns the end of a run that does not end by itself after this interruption.
fn interrupted_end(by: Interruption) -> RunEnd {
    match by {
        Interruption::Canceled => RunEnd::Canceled,
        Interruption::Deadline => deadline_end(Vec::new()),
    }
}

/// Returns the exit that a directive asks for, if it asks for one at once.
pub(super) fn directed_exit(directive: Directive) -> Option<Exit> {
    match directive {
        Directive::Continue | Directive::Drain => None,
        Directive::Abandon => Some(Exit::Released),
        Directive::Lost => Some(Exit::Lost),
    }
}

/// Returns the exit of a workflow that was polled, if it has returned.
pub(super) fn polled_exit(polled: Polled, interrupted: impl FnOnce() -> Option<Interrupted>) -> Option<Exit> {
    match polled {
        Polled::Pending => None,
        Polled::Ended(result) => Some(ended(result, interrupted())),
        Polled::Continued(input) => Some(Exit::Continued(input)),
    }
}

/// Returns the exit of a run that ends with this result.
pub(super) fn ended(result: Result<String, StoredError>, interrupted: Option<Interrupted>) -> Exit {
    let delivered = interrupted.filter(|interrupted| interrupted.delivered);
    Exit::Ended(result, delivered.map(|interrupted| interrupted.by))
}

/// Returns the exit of a workflow that has returned with `exit` and fits its history. A run that
/// was told to end does not continue as new.
pub(super) fn unless_told_to_end(exit: Exit, interrupted: Option<Interrupted>) -> Exit {
    match (&exit, interrupted) {
        (Exit::Continued(_), Some(Interrupted { by, delivered: true, .. })) => Exit::Ended(Err(by.error()), Some(by)),
        _ => exit,
    }
}

/// Returns the exit of a workflow that has returned with `exit` and left a part of its history
/// unasked.
pub(super) fn diverged(exit: &Exit, divergence: Divergence, grace_ends_at: Option<Timestamp>) -> Exit {
    let divergence = match exit {
        Exit::Ended(Err(error), _) => divergence.with_error(error),
        _ => divergence,
    };
    Exit::Diverged { divergence, grace_ends_at }
}

/// Returns the write that an exit asks for.
pub(super) fn after_drive(run: &ClaimedRun, exit: Exit, left: LeftBehind, now: Timestamp) -> Option<Write> {
    let end = |end| {
        let parent_run_id = run.parent_run_id;
        let LeftBehind { has_children, has_event_waits, .. } = left;
        Some(Write::End(EndWrite { claim: run.claim, parent_run_id, has_children, has_event_waits, end }))
    };
    let park_write = |wakes, until, until_deadline, error, reset_crashes| {
        let claim = run.claim;
        Some(Write::Park(ParkWrite { claim, wakes, until, until_deadline, error, reset_crashes }))
    };
    // Short waits leave the deadline out: one that has passed would make the run due at once.
    let park = |until, error, reset_crashes| park_write(run.wakes, until, false, error, reset_crashes);
    if let Some(delay) = exit.comes_back_after() {
        return park(now + delay, None, false);
    }
    match exit {
        Exit::Ended(result, interruption) => end(run_end(result, interruption)),
        Exit::Continued(input) => Some(Write::Continue(ContinueWrite { claim: run.claim, input })),
        Exit::GraceOver(by) => end(interrupted_end(by)),
        Exit::Retry(write) => Some(Write::Retry(*write)),
        Exit::Park { until, until_deadline, wakes } => park_write(wakes, until, until_deadline, None, true),
        Exit::Diverged { divergence, grace_ends_at } => {
            let until = (now + DIVERGENCE_DELAY).min(grace_ends_at.unwrap_or(Timestamp::FAR_FUTURE));
            park(until, Some(divergence.to_stored()), false)
        }
        Exit::Unreadable(error) => {
            // Keeps the text of an error that this program does not understand, for a worker that
            // does.
            let mut stored = unreadable(&error);
            stored.not_understood = run.error.as_ref().and_then(|error| error.not_understood.clone());
            park(now + DIVERGENCE_DELAY, Some(stored), false)
        }
        Exit::Released => park(now, None, false),
        Exit::HeldBack(_) | Exit::Blocked | Exit::Lost => None,
    }
}

/// Returns the error of a run whose history cannot be read.
pub(crate) fn unreadable(error: &DatabaseError) -> StoredError {
    // The text of an unreadable payload already says what to do.
    if let Some(unreadable) = error.source.downcast_ref::<UnreadablePayload>() {
        return StoredError::new(ErrorKind::Divergence, unreadable.to_string());
    }
    let mut stored = StoredError::from_error(ErrorKind::Divergence, error);
    stored.message = format!(
        "the run's history cannot be read ({}); use a worker of the release that wrote it, mend it, or terminate the run",
        stored.message
    );
    stored
}

/// Returns the end of a run whose workflow has returned. A canceled run may still succeed, or fail
/// with an error of its own. A run that has passed its deadline has failed, whatever it returned.
pub(super) fn run_end(result: Result<String, StoredError>, interruption: Option<Interruption>) -> RunEnd {
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
    let mut error = StoredError::deadline();
    error.causes = causes;
    RunEnd::Failed(error)
}
