use std::time::Duration;

use crate::model::{
    Claim, Effect, LimitChange, NewEmission, NewRun, NewSignal, QueueChange, RunId, RunStatus, SeatLine, StartTime,
    StepAttempt, StoredError, Timestamp, WorkerId,
};

use super::{AuditedWrite, BulkWrite, ClaimRequest, DeleteWrite, PlaceWrite, ScheduleWrite, StatisticsWrite};

/// One change, to be committed in a batch with others.
#[derive(Clone, Debug)]
pub enum Write {
    /// Change a schedule and start the runs of its occurrences.
    Schedule(Box<ScheduleWrite>),
    /// Start a run.
    Start(NewRun),
    /// Record an attempt of a step: begun, failed or final.
    Attempt(AttemptWrite),
    /// Put a signal into the inbox of a run, and wake the run.
    Signal(NewSignal),
    /// Deliver an event to every run that waits for it at this commit, and wake these runs.
    Emit(NewEmission),
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
    /// alone: it learns of the pause from a hint, or when it renews its claims.
    Pause(RunId),
    /// Set what is known of the crashes of a claimed run.
    Crashes(CrashesWrite),
    /// Let a paused run be claimed again.
    Resume(RunId),
    /// Change where a run waits to be claimed.
    Place(PlaceWrite),
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
    /// Delete an ended run, and everything that belongs to it.
    Delete(DeleteWrite),
    /// Fail at most `limit` runs whose deadline has passed and that no worker holds. A running run
    /// is one of them if its worker is not recorded any more; a claim on it is then lost. A run
    /// that was claimed before may have something to undo: its pause ends, and it fails only if no
    /// recorded worker serves its lane.
    Expire {
        /// The largest number of runs.
        limit: u32,
        /// How long after its deadline a run that was claimed before is left to its workers,
        /// because one may be about to come back. A running run is left to them for as long after
        /// its lease too: one that serves it claims it sooner.
        patience: Duration,
    },
    /// Change the limits of a queue, pause it or resume it.
    Queue(QueueWrite),
    /// Change the rule of a limit for steps.
    Limit(LimitWrite),
    /// Call the steps that may take the free seats of this line, and wake their runs.
    CallSeats(SeatLine),
    /// Claim due runs for a worker, from its lanes in turns. Runs started in the same batch may be
    /// claimed ahead of older due runs, but only if the claim has spare capacity. While claims keep
    /// coming back full, a run that became due late may be skipped for at most 500 ms.
    Claim(ClaimRequest),
    /// Change a bulk operation, or the runs of its next chunk.
    Bulk(Box<BulkWrite>),
    /// A write that leaves an audit row.
    Audited(Box<AuditedWrite>),
    /// Count runs, or fold old counts.
    Statistics(Box<StatisticsWrite>),
}

impl Write {
    /// Returns the write itself, or the one that leaves an audit row.
    #[must_use]
    pub fn inner(&self) -> &Self {
        match self {
            Self::Audited(audited) => audited.write.inner(),
            write => write,
        }
    }

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
            Self::Schedule(_) | Self::Start(_) | Self::Fork(_) | Self::Signal(_) | Self::Emit(_) => None,
            Self::Revive(_) | Self::Pause(_) | Self::Place(_) => None,
            Self::Resume(_) | Self::ReleaseUnknown { .. } | Self::Cancel(_) | Self::Terminate(_) => None,
            Self::Delete(_) | Self::Bulk(_) | Self::Statistics(_) => None,
            Self::Audited(audited) => audited.write.fenced_by(),
            Self::Expire { .. } | Self::Claim(_) | Self::Queue(_) | Self::Limit(_) | Self::CallSeats(_) => None,
        }
    }

    /// Returns the runs that the write starts: itself, as a fork, as a child of its run, for a
    /// schedule, or as the forks of a chunk.
    pub fn new_runs(&self) -> impl Iterator<Item = &NewRun> {
        let (one, many): (Option<&NewRun>, &[NewRun]) = match self.inner() {
            Self::Start(run) => (Some(run), &[]),
            Self::Fork(write) => (Some(&write.new), &[]),
            Self::Attempt(AttemptWrite { effect: Effect::Start(child), .. }) => (Some(child), &[]),
            Self::Schedule(write) => (None, &write.starts),
            _ => (None, &[]),
        };
        one.into_iter().chain(many).chain(self.forks_of_chunk())
    }

    /// Returns about how many bytes of payload the write carries.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Start(run) => run.input.len() + run.moved().map_or(0, |moved| moved.input.len()),
            Self::Schedule(write) => {
                let starts: usize = write.starts.iter().map(|run| run.input.len()).sum();
                let row = write.next.as_ref();
                starts + row.map_or(0, |row| row.record.len() + row.input.as_ref().map_or(0, String::len))
            }
            Self::Attempt(write) => {
                let child = match &write.effect {
                    Effect::Start(child) => child.input.len(),
                    Effect::None | Effect::Consume { .. } | Effect::AwaitEvent(_) | Effect::LeaveEvent(_) => 0,
                    Effect::TakeSeat(_) | Effect::LeaveSeat(_) => 0,
                };
                write.row.output.as_ref().map_or(0, String::len) + child
            }
            Self::Signal(signal) => signal.payload.len(),
            Self::Emit(emission) => emission.payload.len(),
            Self::End(write) => match &write.end {
                RunEnd::Succeeded(output) => output.len(),
                RunEnd::Failed(_) | RunEnd::Canceled => 0,
            },
            Self::Continue(write) => write.input.len(),
            Self::Audited(audited) => audited.write.payload_bytes(),
            Self::Bulk(_) => self.chunk().map(Self::payload_bytes).sum(),
            Self::Fork(write) => write.new.input.len(),
            Self::Retry(_) | Self::Revive(_) | Self::Pause(_) | Self::Resume(_) | Self::Park(_) | Self::Crashes(_) => 0,
            Self::Place(_) => 0,
            Self::ReleaseUnknown { .. } | Self::Cancel(_) | Self::Terminate(_) | Self::Delete(_) => 0,
            Self::Expire { .. } | Self::Queue(_) | Self::Limit(_) | Self::CallSeats(_) => 0,
            Self::Statistics(_) | Self::Claim(_) => 0,
        }
    }

    /// `true` if a worker may find more to claim after this write.
    #[must_use]
    pub fn makes_due(&self) -> bool {
        match self {
            Self::Start(_)
            | Self::Fork(_)
            | Self::Signal(_)
            | Self::Emit(_)
            | Self::Park(_)
            | Self::Retry(_)
            | Self::ReleaseUnknown { .. } => true,
            Self::Continue(_)
            | Self::Revive(_)
            | Self::Resume(_)
            | Self::Place(_)
            | Self::Cancel(_)
            | Self::Terminate(_)
            | Self::Expire { .. }
            | Self::Queue(_)
            | Self::CallSeats(_) => true,
            // A child is due from its start. An end makes a waiting parent due, and children that
            // end with it.
            Self::Attempt(write) => matches!(write.effect, Effect::Start(_)),
            Self::Schedule(write) => !write.starts.is_empty(),
            Self::End(write) => write.has_family(),
            Self::Audited(audited) => audited.write.makes_due(),
            Self::Bulk(_) => self.chunk().any(Self::makes_due),
            Self::Pause(_) | Self::Crashes(_) | Self::Limit(_) | Self::Delete(_) => false,
            Self::Statistics(_) | Self::Claim(_) => false,
        }
    }

    /// `true` if this write may end a run.
    #[must_use]
    pub fn ends_runs(&self) -> bool {
        match self {
            Self::End(_) | Self::Cancel(_) | Self::Terminate(_) | Self::Expire { .. } => true,
            Self::Start(run) => run.may_replace(),
            Self::Audited(audited) => audited.write.ends_runs(),
            Self::Bulk(_) => self.chunk().any(Self::ends_runs),
            Self::Schedule(_)
            | Self::Attempt(_)
            | Self::Signal(_)
            | Self::Emit(_)
            | Self::Park(_)
            | Self::Continue(_)
            | Self::ReleaseUnknown { .. }
            | Self::Statistics(_)
            | Self::Claim(_) => false,
            Self::Fork(_) | Self::Retry(_) | Self::Revive(_) | Self::Pause(_) | Self::Resume(_) => false,
            Self::Crashes(_) | Self::Queue(_) | Self::Limit(_) | Self::CallSeats(_) | Self::Delete(_) => false,
            Self::Place(_) => false,
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
    /// `true` if the run may have open waits for events, or seats. If `false`, the store does not
    /// search for them.
    pub has_event_waits: bool,
    /// How the run ends.
    pub end: RunEnd,
}

impl EndWrite {
    /// `true` if the end changes nothing but its run.
    pub fn is_alone(&self) -> bool {
        !self.has_family() && !self.has_event_waits
    }

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
    /// not change. Open waits and sleeps end without an outcome, whatever their keys.
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

impl ForkWrite {
    /// Returns the run whose history the write needs; `None` if it copies nothing.
    #[must_use]
    pub fn copied_source(&self) -> Option<RunId> {
        (self.before > 1).then_some(self.source)
    }
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

/// Changes the record of a queue. A queue without one gets it.
#[derive(Clone, Debug)]
pub struct QueueWrite {
    /// The name of the queue.
    pub queue: String,
    /// The change.
    pub change: QueueChange,
}

/// Changes the rule of a limit for steps. A limit without a record gets it.
#[derive(Clone, Debug)]
pub struct LimitWrite {
    /// The name of the limit.
    pub limit: String,
    /// The change.
    pub change: LimitChange,
}
