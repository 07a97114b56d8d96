use std::time::Duration;

use crate::model::{
    Claim, Effect, Lane, NewRun, NewSignal, RunId, RunStatus, StartTime, StepAttempt, StoredError, Timestamp, WorkerId,
};

/// One change, to be committed in a batch with others.
#[derive(Clone, Debug)]
pub enum Write {
    /// Start a run.
    Start(NewRun),
    /// Record an attempt of a step: begun, failed or final.
    Attempt(AttemptWrite),
    /// Put a signal into the inbox of a run, and wake the run.
    Signal(NewSignal),
    /// End a run that is claimed.
    End(EndWrite),
    /// Park a claimed run, to be claimed again later.
    Park(ParkWrite),
    /// Release a claimed run that failed, to be tried again later.
    Retry(RetryWrite),
    /// Start a run with a copy of the beginning of another run's history.
    Fork(Box<ForkWrite>),
    /// Make a failed run due again.
    Revive(ReviveWrite),
    /// Keep a run from being claimed. A worker that holds the run is not stopped by this write
    /// alone: it learns of the pause when it renews its claims.
    Pause(RunId),
    /// Set what is known of the crashes of a claimed run.
    Crashes(CrashesWrite),
    /// Let a paused run be claimed again.
    Resume(RunId),
    /// Begin the next generation of a claimed run.
    Continue(ContinueWrite),
    /// Release every claim of this worker except the known ones: a claim whose reply was lost has
    /// no drive.
    ReleaseUnknown {
        /// The worker.
        worker: WorkerId,
        /// The claims that the worker knows of.
        known: Vec<Claim>,
    },
    /// Cancel a run: at once if no worker ever claimed it, else by a request that makes the run
    /// due, so that its function can clean up. The request is made once: a write that is applied
    /// again because its reply was lost changes nothing.
    Cancel(RunId),
    /// End a run as canceled at once, even while a worker holds it: the claim is lost.
    Terminate(RunId),
    /// Fail at most `limit` runs whose deadline has passed and that no worker holds.
    Expire {
        /// The largest number of runs.
        limit: u32,
        /// How long after its deadline a run that was claimed before is left to its workers,
        /// because its function may clean up.
        patience: Duration,
    },
    /// Claim due runs for a worker, from its lanes in turns. Runs started in the same batch may be
    /// claimed ahead of older due runs, but only if the claim has spare capacity. While claims keep
    /// coming back full, a run that became due late may be skipped for at most 500 ms.
    Claim(ClaimRequest),
}

impl Write {
    /// Returns the claim under which a worker writes; `None` for other writes.
    #[must_use]
    pub fn as_claim(&self) -> Option<&ClaimRequest> {
        match self {
            Self::Claim(request) => Some(request),
            _ => None,
        }
    }

    /// Returns the claim under which the write is sent: if that claim does not hold, the write
    /// changes nothing. `None`: the write needs no claim.
    #[must_use]
    pub fn fenced_by(&self) -> Option<Claim> {
        match self {
            Self::Attempt(write) => Some(write.claim),
            Self::End(write) => Some(write.claim),
            Self::Park(write) => Some(write.claim),
            Self::Continue(write) => Some(write.claim),
            Self::Retry(write) => Some(write.claim),
            Self::Crashes(write) => Some(write.claim),
            Self::Start(_) | Self::Fork(_) | Self::Signal(_) | Self::Revive(_) | Self::Pause(_) => None,
            Self::Resume(_) | Self::ReleaseUnknown { .. } | Self::Cancel(_) | Self::Terminate(_) => None,
            Self::Expire { .. } | Self::Claim(_) => None,
        }
    }

    /// Returns about how many bytes of payload the write carries.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Start(run) => run.input.len(),
            Self::Attempt(write) => {
                let child = match &write.effect {
                    Effect::Start(child) => child.input.len(),
                    Effect::None | Effect::Consume { .. } => 0,
                };
                write.row.output.as_ref().map_or(0, String::len) + child
            }
            Self::Signal(signal) => signal.payload.len(),
            Self::End(write) => match &write.end {
                RunEnd::Succeeded(output) => output.len(),
                RunEnd::Failed(_) | RunEnd::Canceled => 0,
            },
            Self::Continue(write) => write.input.len(),
            Self::Fork(write) => write.new.input.len(),
            Self::Retry(_)
            | Self::Revive(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Park(_)
            | Self::Crashes(_)
            | Self::ReleaseUnknown { .. }
            | Self::Cancel(_)
            | Self::Terminate(_)
            | Self::Expire { .. }
            | Self::Claim(_) => 0,
        }
    }

    /// `true` if a worker may find more to claim after this write.
    #[must_use]
    pub fn makes_due(&self) -> bool {
        match self {
            Self::Start(_)
            | Self::Fork(_)
            | Self::Signal(_)
            | Self::Park(_)
            | Self::Retry(_)
            | Self::ReleaseUnknown { .. } => true,
            Self::Continue(_)
            | Self::Revive(_)
            | Self::Resume(_)
            | Self::Cancel(_)
            | Self::Terminate(_)
            | Self::Expire { .. } => true,
            // A child is due from its start. An end makes a waiting parent due, and children that
            // end with it.
            Self::Attempt(write) => matches!(write.effect, Effect::Start(_)),
            Self::End(write) => write.has_family(),
            Self::Pause(_) | Self::Crashes(_) | Self::Claim(_) => false,
        }
    }

    /// `true` if this write may end a run.
    #[must_use]
    pub fn ends_runs(&self) -> bool {
        match self {
            Self::End(_) | Self::Cancel(_) | Self::Terminate(_) | Self::Expire { .. } => true,
            Self::Start(_)
            | Self::Attempt(_)
            | Self::Signal(_)
            | Self::Park(_)
            | Self::Continue(_)
            | Self::ReleaseUnknown { .. }
            | Self::Claim(_) => false,
            Self::Fork(_) | Self::Retry(_) | Self::Revive(_) | Self::Pause(_) | Self::Resume(_) => false,
            Self::Crashes(_) => false,
        }
    }
}

/// Writes the row (run, step key, attempt). A final row does not change again, and the outcome is
/// still [`Outcome::Applied`](super::Outcome::Applied): only the one drive of a claim writes its
/// rows, and it repeats a final row only if the reply to its commit was lost.
#[derive(Clone, Debug)]
pub struct AttemptWrite {
    /// The claim under which the worker writes. Its epoch goes into the row.
    pub claim: Claim,
    /// The row.
    pub row: StepAttempt,
    /// A further change in the same commit.
    pub effect: Effect,
}

/// Ends a run: sets status, output or error, and the time of completion, and ends the claim. The
/// same commit wakes the parent and cancels the children that end with the run: a child that was
/// never claimed ends at once, others are asked to end.
#[derive(Clone, Debug)]
pub struct EndWrite {
    /// The claim under which the worker writes.
    pub claim: Claim,
    /// The run's parent.
    pub parent_run_id: Option<RunId>,
    /// `true` if the run may have children. If `false`, the store does not search for them.
    pub has_children: bool,
    /// How the run ends.
    pub end: RunEnd,
}

impl EndWrite {
    /// `true` if the end concerns a parent or children.
    pub fn has_family(&self) -> bool {
        self.parent_run_id.is_some() || self.has_children
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// The run succeeded with this output, JSON text.
    Succeeded(String),
    /// The run failed with this error.
    Failed(StoredError),
    /// The run was canceled.
    Canceled,
}

impl RunEnd {
    /// Returns the status of the run after this end.
    #[must_use]
    pub const fn status(&self) -> RunStatus {
        match self {
            Self::Succeeded(_) => RunStatus::Succeeded,
            Self::Failed(_) => RunStatus::Failed,
            Self::Canceled => RunStatus::Canceled,
        }
    }
}

/// Parks a run. It becomes due at `until`, but not before now. It is due at once if its `wakes`
/// differs from the number that the writer has seen, because then something happened that the
/// writer has not looked at.
#[derive(Clone, Debug)]
pub struct ParkWrite {
    /// The claim under which the worker writes.
    pub claim: Claim,
    /// The run's `wakes` as the writer has seen it.
    pub wakes: i64,
    /// When the run is due again.
    pub until: Timestamp,
    /// `true` if the run is due at its deadline when that comes before `until`. `false` if the
    /// writer knows that the deadline has passed: the run would be due for ever.
    pub until_deadline: bool,
    /// Why the run could not go on, if this is not an ordinary wait. `None` clears an older error.
    pub error: Option<StoredError>,
    /// Sets `crashes` and `lone_crashes` to 0: the run reached a wait, so the code before it did
    /// not kill its worker.
    pub reset_crashes: bool,
}

/// Sets what is known of the crashes of a claimed run.
///
/// A run with a crash is cleared by its next outcome: the code before it did not kill the worker. A
/// run with many crashes is driven alone, and its worker writes that before it begins: if the
/// worker dies then, the run has killed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashesWrite {
    /// The claim under which the worker writes.
    pub claim: Claim,
    /// The number of crashes.
    pub crashes: i64,
    /// The number of crashes while the run was driven alone.
    pub lone_crashes: i64,
    /// `true` if the worker drives no other run from now on, until it writes this again or the
    /// claim ends.
    pub is_alone: bool,
}

/// Releases a claimed run whose function failed. The run becomes pending, its attempt rises by one,
/// and it is due at `until`, but not before now and not after its deadline. In the same commit the
/// outcomes of the steps to be attempted again lose their positions: the history then shows them as
/// failed attempts that another attempt follows.
#[derive(Clone, Debug)]
pub struct RetryWrite {
    /// The claim under which the worker writes.
    pub claim: Claim,
    /// When the next attempt begins.
    pub until: Timestamp,
    /// Keys of the steps whose failures are attempted again. An outcome that is not a failure does
    /// not change.
    pub again: Vec<String>,
    /// Why the run failed. It is stored, so that it can be seen while the run waits.
    pub error: StoredError,
}

/// Starts a run as [`Write::Start`] does. If that created the run, it copies the outcomes of
/// another run before a position, the failed attempts of the same steps, and the patches that the
/// other run has taken. The new run's epoch is then 1, as if the copied history had been written
/// under a claim of its own.
#[derive(Clone, Debug)]
pub struct ForkWrite {
    /// The run whose history is copied. It does not change.
    pub source: RunId,
    /// The run.
    pub new: NewRun,
    /// The first position that is not copied. If it is at most 1, nothing is copied.
    pub before: i64,
    /// Rows that replace those in the database, because a codec binds payloads to their run.
    pub kept: Option<Vec<StepAttempt>>,
}

/// Makes a failed run pending and due now. Its attempt rises by one; its error, crashes and cancel
/// requests are cleared; its failed steps are attempted again as by [`RetryWrite`].
#[derive(Clone, Debug)]
pub struct ReviveWrite {
    /// The run.
    pub run_id: RunId,
    /// The attempt of the run that failed. If the run is at another attempt, or has not failed,
    /// nothing changes.
    pub attempt: i64,
    /// Keys of the steps whose failures are attempted again.
    pub again: Vec<String>,
    /// A deadline that replaces the present one, counted from the commit.
    pub deadline: Option<StartTime>,
}

/// Ends the history of a claimed run and gives it a new input, in one step. Its steps are deleted,
/// and so are the signals that they consumed, except signals with a key, which identifies a
/// repetition. Published values, streams and waiting signals stay. The run is due at once, its
/// claim ends, `generation` rises by 1, and `crashes` and `started_at` are reset.
#[derive(Clone, Debug)]
pub struct ContinueWrite {
    /// The claim under which the worker writes.
    pub claim: Claim,
    /// The input of the next generation as JSON text.
    pub input: String,
}

/// Claims due runs of these lanes: one of each lane in turns, in the order of the lanes, and of
/// each lane the longest due first. Each claim adds 1 to the run's epoch and sets its lease. Claims
/// at most `limit` runs and skips runs that another transaction locks.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The worker that claims.
    pub worker: WorkerId,
    /// The lanes to claim from, in the order of their turns.
    pub lanes: Vec<Lane>,
    /// The largest number of runs.
    pub limit: u32,
    /// How long the claims last without a renewal.
    pub lease: Duration,
}
