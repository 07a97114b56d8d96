use std::time::Duration;

use crate::model::{
    Claim, Effect, Lane, NewRun, NewSignal, RunId, RunStatus, StartTime, StepAttempt, StoredError, Timestamp, WorkerId,
};

/// One change, to be committed with others.
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
    /// Give a claimed run back, to be claimed again later.
    Park(ParkWrite),
    /// Give a claimed run that failed back, to be tried again later.
    Retry(RetryWrite),
    /// Start a run with the beginning of another run's history.
    Fork(Box<ForkWrite>),
    /// Make a failed run due again.
    Revive(ReviveWrite),
    /// Keep a run from being claimed. A worker that holds it is not stopped by this alone: it hears of it by the renewal.
    Pause(RunId),
    /// Let a paused run be claimed again.
    Resume(RunId),
    /// Begin the next generation of a claimed run.
    Continue(ContinueWrite),
    /// Give back every claim of this worker but the known ones: a claim whose reply was lost is held by nobody.
    Disown {
        /// The worker.
        worker: WorkerId,
        /// The claims that it knows of.
        known: Vec<Claim>,
    },
    /// Cancel a run: at once if no worker ever claimed it, else by a request, and the run is due, so that its function can
    /// clean up. The request is made once: a write that is applied again, its reply having been lost, changes nothing.
    Cancel(RunId),
    /// End a run as canceled at once, whoever holds it: its claim is lost.
    Terminate(RunId),
    /// Fail the runs whose deadline has passed and that no worker holds, up to this many.
    Expire {
        /// At most so many.
        limit: u32,
        /// Runs that were claimed before are left so long after their deadline to the workers that know them: their
        /// functions clean up.
        patience: Duration,
    },
    /// Claim due runs for a worker, the longest due first; of those that its batch starts it takes some before others that are
    /// due, if it could take more than its batch starts. While claims find as many as they may, a run may be passed over for half a
    /// second that is due for longer than those and came later.
    Claim(ClaimRequest),
}

impl Write {
    /// The claim, if it is one.
    #[must_use]
    pub fn as_claim(&self) -> Option<&ClaimRequest> {
        match self {
            Self::Claim(request) => Some(request),
            _ => None,
        }
    }

    /// About how many bytes of payload it carries.
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
            | Self::Disown { .. }
            | Self::Cancel(_)
            | Self::Terminate(_)
            | Self::Expire { .. }
            | Self::Claim(_) => 0,
        }
    }

    /// Whether a worker may find more to claim after this write.
    #[must_use]
    pub fn makes_due(&self) -> bool {
        match self {
            Self::Start(_) | Self::Fork(_) | Self::Signal(_) | Self::Park(_) | Self::Retry(_) | Self::Disown { .. } => {
                true
            }
            Self::Continue(_)
            | Self::Revive(_)
            | Self::Resume(_)
            | Self::Cancel(_)
            | Self::Terminate(_)
            | Self::Expire { .. } => true,
            // A child is due from its start; an end makes a waiting parent due, and children that are to end with it.
            Self::Attempt(write) => matches!(write.effect, Effect::Start(_)),
            Self::End(write) => write.has_family(),
            Self::Pause(_) | Self::Claim(_) => false,
        }
    }

    /// Whether a run may have ended by this write.
    #[must_use]
    pub fn ends_runs(&self) -> bool {
        match self {
            Self::End(_) | Self::Cancel(_) | Self::Terminate(_) | Self::Expire { .. } => true,
            Self::Start(_)
            | Self::Attempt(_)
            | Self::Signal(_)
            | Self::Park(_)
            | Self::Continue(_)
            | Self::Disown { .. }
            | Self::Claim(_) => false,
            Self::Fork(_) | Self::Retry(_) | Self::Revive(_) | Self::Pause(_) | Self::Resume(_) => false,
        }
    }
}

/// Writes the row (run, step key, attempt). A row that is final is not changed again; the answer is the same, for only the
/// one drive of a claim writes its rows, and it writes a final row again only if the reply to its commit was lost.
#[derive(Clone, Debug)]
pub struct AttemptWrite {
    /// Who writes. Its epoch goes into the row.
    pub claim: Claim,
    /// The row.
    pub row: StepAttempt,
    /// What else the commit of the row does.
    pub effect: Effect,
}

/// Ends a run: status, output or error, time of completion. Its claim ends with it. In the same commit its parent is
/// woken, and its children that are to end with it are asked to: those that no worker ever claimed end at once.
#[derive(Clone, Debug)]
pub struct EndWrite {
    /// Who writes.
    pub claim: Claim,
    /// The run's parent.
    pub parent_run_id: Option<RunId>,
    /// Whether the run may have children: without, nobody looks for them.
    pub has_children: bool,
    /// How it ends.
    pub end: RunEnd,
}

impl EndWrite {
    /// Whether others are told of the end: a parent, or children.
    pub fn has_family(&self) -> bool {
        self.parent_run_id.is_some() || self.has_children
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// With this output, JSON text.
    Succeeded(String),
    /// With this error.
    Failed(StoredError),
    /// By a cancel.
    Canceled,
}

impl RunEnd {
    /// The status that the run gets.
    #[must_use]
    pub const fn status(&self) -> RunStatus {
        match self {
            Self::Succeeded(_) => RunStatus::Succeeded,
            Self::Failed(_) => RunStatus::Failed,
            Self::Canceled => RunStatus::Canceled,
        }
    }
}

/// Parks a run. It becomes due at `until`, but not before now; at once if its `wakes` is no longer the number that the
/// writer has seen, for then something happened that it has not looked at.
#[derive(Clone, Debug)]
pub struct ParkWrite {
    /// Who writes.
    pub claim: Claim,
    /// The run's `wakes` as the writer knows it.
    pub wakes: i64,
    /// When the run is due again.
    pub until: Timestamp,
    /// Whether it is due at its deadline if that comes before `until`. Not where the writer knows that it has passed: the
    /// run would be due for ever.
    pub until_deadline: bool,
    /// Why it could not go on, where it is not an ordinary wait. `None` clears what stood there.
    pub error: Option<StoredError>,
    /// Sets `crashes` to 0: the run reached a wait, so what it ran before did not kill its worker.
    pub reset_crashes: bool,
}

/// Gives a claimed run back whose function failed: it is pending, its attempt one higher, due at `until` but not before now
/// and not after its deadline. The outcomes of the steps that are to be attempted again lose their positions, in the same
/// commit: the history then says of them what it says of any failed attempt that another one follows.
#[derive(Clone, Debug)]
pub struct RetryWrite {
    /// Who writes.
    pub claim: Claim,
    /// When the next attempt begins.
    pub until: Timestamp,
    /// Keys of the steps whose failures are attempted again. An outcome that is no failure stays as it is.
    pub again: Vec<String>,
    /// Why the run failed: kept, so that it can be seen while the run waits.
    pub error: StoredError,
}

/// Starts a run as [`Write::Start`] does and, if that made it, copies the outcomes of another run before a position, with the
/// failed attempts of the same steps, and the changes of the code that the other run has taken. The new run's epoch is then
/// 1, as if the copied history had been written under a claim of its own.
#[derive(Clone, Debug)]
pub struct ForkWrite {
    /// The run whose history is copied. It stays as it is.
    pub source: RunId,
    /// The run.
    pub new: NewRun,
    /// The first position that is not copied; at most 1: nothing is copied.
    pub before: i64,
    /// The rows in the place of those that the database would copy: theirs are bound to the other run by a codec.
    pub kept: Option<Vec<StepAttempt>>,
}

/// Makes a failed run pending and due now, its attempt one higher, its error, crashes and cancel requests forgotten, its
/// failed steps to be attempted again as by [`RetryWrite`].
#[derive(Clone, Debug)]
pub struct ReviveWrite {
    /// The run.
    pub run_id: RunId,
    /// The attempt of the run that failed. If the run has another one, or has not failed, nothing is changed.
    pub attempt: i64,
    /// Keys of the steps whose failures are attempted again.
    pub again: Vec<String>,
    /// A deadline in place of the one that it has, counted from the commit.
    pub deadline: Option<StartTime>,
}

/// Ends the history of a claimed run and gives it a new input, in one: its steps are deleted, and the signals that they
/// received (but for those with a key, which tells a repetition); published values, streams and waiting signals stay. The run
/// is due at once, its claim ends, `generation` rises by 1, `crashes` and `started_at` begin anew.
#[derive(Clone, Debug)]
pub struct ContinueWrite {
    /// Who writes.
    pub claim: Claim,
    /// The input of the next generation as JSON text.
    pub input: String,
}

/// Claims due runs, the longest due first, over all lanes. Each claim adds 1 to the run's epoch, sets its lease, and,
/// where the run was still `running`, adds 1 to its crashes. Never more than `limit`; skips runs that another
/// transaction holds.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who claims.
    pub worker: WorkerId,
    /// From where.
    pub lanes: Vec<Lane>,
    /// At most so many runs.
    pub limit: u32,
    /// How long the claims last without a renewal.
    pub lease: Duration,
}
