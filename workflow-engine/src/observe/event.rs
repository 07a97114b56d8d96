use std::time::Duration;

use crate::model::{AttemptStatus, ErrorKind, RunId, RunStatus, StepKind, Timestamp, WorkerId};
use crate::store::{AttemptWrite, DatabaseError};

/// A run, as events name it.
#[derive(Clone, Copy, Debug)]
pub struct RunName<'a> {
    /// The run.
    pub id: RunId,
    /// Its workflow.
    pub workflow: &'a str,
    /// The version of its workflow.
    pub version: &'a str,
    /// Its queue.
    pub queue: &'a str,
}

/// An attempt of a step, as events name it.
#[derive(Clone, Copy, Debug)]
pub struct StepName<'a> {
    /// The run of the step.
    pub run_id: RunId,
    /// The key of the step: its name, with `:1`, `:2` and so on for repeats.
    pub key: &'a str,
    /// The kind of the step.
    pub kind: StepKind,
    /// The number of the attempt, from 1.
    pub attempt: i64,
}

/// Something that the engine did. Events hold ids, names, durations and counts, and never a
/// payload.
///
/// An event of a write is sent after its commit, so what an observer counts has happened. Events of
/// one run arrive in the order of its commits; events of different runs may arrive from different
/// threads.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A client started a run. A start that found a run with the same key sends no event.
    RunStarted {
        /// The run.
        run: RunName<'a>,
    },
    /// A worker claimed a run.
    RunClaimed {
        /// The run.
        run: RunName<'a>,
        /// The worker.
        worker: WorkerId,
        /// How often the run has been claimed.
        epoch: i64,
        /// The attempt of the run, from 1.
        attempt: i64,
    },
    /// A worker claimed a run that had been claimed before and was waiting: parked, given back, or
    /// tried again.
    RunWoken {
        /// The run.
        run: RunName<'a>,
        /// The worker.
        worker: WorkerId,
    },
    /// A worker claimed a run whose last worker died while it held the run, or whose lease ended.
    RunTakenOver {
        /// The run.
        run: RunName<'a>,
        /// The worker that has the run now.
        worker: WorkerId,
        /// How often the workers of this run have died since it last parked.
        crashes: i64,
    },
    /// A run waits without a worker.
    RunParked {
        /// The run.
        run: RunName<'a>,
        /// When it is due at the latest; `None` if it waits for a signal or a child alone.
        until: Option<Timestamp>,
    },
    /// The history of a run does not fit the code. The run is parked and will be tried again.
    RunDiverged {
        /// The run.
        run: RunName<'a>,
        /// The report: names, kinds and sizes of both sides.
        report: &'a str,
        /// `false` if the run was parked with an equal report before, and was tried again.
        is_new: bool,
    },
    /// A run failed, and its policy tries it again.
    RunRetried {
        /// The run.
        run: RunName<'a>,
        /// The attempt that failed, from 1.
        attempt: i64,
        /// The kind of its error.
        kind: ErrorKind,
        /// When the next attempt is due.
        until: Timestamp,
    },
    /// A run continued as new: it has a new input and an empty history.
    RunContinued {
        /// The run.
        run: RunName<'a>,
        /// How often it has continued as new.
        generation: i64,
    },
    /// A worker gave a run back unfinished: the worker stops, the run is paused, or the run waits
    /// until another run was driven alone.
    RunReleased {
        /// The run.
        run: RunName<'a>,
    },
    /// A run ended.
    RunEnded {
        /// The run.
        run: RunName<'a>,
        /// Its terminal status.
        status: RunStatus,
        /// The kind of its error, if it failed.
        kind: Option<ErrorKind>,
        /// The key of the step whose failure ended the run; `None` if the run did not fail, or
        /// failed outside of its steps.
        step: Option<&'a str>,
        /// The attempt of the run that ended, from 1.
        attempt: i64,
        /// The time since its first claim, or since the first claim of its present generation.
        duration: Duration,
    },
    /// The claim of a worker on a run is lost: the run was terminated, or another worker has
    /// claimed it.
    LeaseLost {
        /// The run.
        run: RunName<'a>,
        /// The worker that held the run.
        worker: WorkerId,
    },
    /// The body of a step begins.
    StepBegun {
        /// The attempt.
        step: StepName<'a>,
    },
    /// An attempt of a step failed, and its policy tries the step again.
    StepRetried {
        /// The attempt.
        step: StepName<'a>,
        /// The kind of its error, if it was recorded.
        error: Option<ErrorKind>,
        /// How long the attempt took.
        duration: Duration,
    },
    /// A step has its outcome.
    StepEnded {
        /// The last attempt.
        step: StepName<'a>,
        /// The kind of its error, if it failed.
        error: Option<ErrorKind>,
        /// How long the last attempt took.
        duration: Duration,
    },
    /// A worker has looked for ended runs that are older than workers keep them, and has deleted
    /// some.
    OldRunsDeleted {
        /// The worker.
        worker: WorkerId,
        /// How many runs were deleted.
        deleted: u64,
        /// How many were kept, because a parent still needs them or because they were tried again
        /// meanwhile.
        kept: u64,
        /// How long it took, with the rests between the batches.
        duration: Duration,
    },
    /// A worker has fired a schedule: each occurrence that was due has started a run, waits for the
    /// end of another run, or is left out.
    ScheduleFired {
        /// The schedule.
        schedule: &'a str,
        /// How many runs were started.
        started: u64,
        /// How many occurrences started no run because another run had not ended.
        skipped: u64,
        /// How many occurrences started no run because no worker was there in time.
        missed: u64,
        /// The time from the latest occurrence that started a run to the decision to start it,
        /// with the wait for another run. `None` if no run was started.
        lateness: Option<Duration>,
    },
    /// A worker asked for runs, and the commit of its claim was answered. Sent for claims that find
    /// nothing, too.
    ClaimAnswered {
        /// The worker.
        worker: WorkerId,
        /// How many runs it asked for.
        wanted: usize,
        /// How many runs it has claimed.
        claimed: usize,
        /// The time from the begin of the commit to its answer.
        duration: Duration,
    },
    /// The executor committed a batch.
    Committed {
        /// How many writes the batch had.
        writes: usize,
        /// The time from the begin of the commit to its answer.
        duration: Duration,
    },
    /// A commit of the executor failed.
    CommitFailed {
        /// How many writes the batch had.
        writes: usize,
        /// How often in a row.
        failures: u32,
        /// The delay before the executor tries again; `None` if it gives the batch up.
        retry_after: Option<Duration>,
        /// The database's error.
        error: &'a DatabaseError,
    },
    /// A worker started.
    WorkerStarted {
        /// The worker.
        worker: WorkerId,
        /// How many lanes it serves.
        lanes: usize,
        /// How many runs it drives at once.
        concurrency: u32,
    },
    /// A worker begins to stop: it claims nothing more, and lets running bodies end.
    WorkerStopping {
        /// The worker.
        worker: WorkerId,
        /// How many runs it holds.
        claims: usize,
    },
    /// A worker stopped.
    WorkerStopped {
        /// The worker.
        worker: WorkerId,
    },
    /// A worker found that another one is dead and made its runs due.
    WorkerDied {
        /// The dead worker.
        worker: WorkerId,
        /// How many runs it held.
        claims: u64,
    },
}

impl<'a> Event<'a> {
    /// Returns the event of a recorded attempt: the outcome of its step, or a failure that another
    /// attempt follows. `None` for a body that has begun, a patch and a published value.
    #[must_use]
    pub fn of_attempt(write: &'a AttemptWrite) -> Option<Self> {
        let row = &write.row;
        let step = StepName { run_id: write.claim.run_id, key: &row.step_key, kind: row.kind, attempt: row.attempt };
        let error = row.error.as_ref().map(|error| error.kind);
        let duration = row.completed_at.map_or(Duration::ZERO, |at| at.since(row.started_at));
        match (row.status, row.position) {
            (AttemptStatus::Running, _) => None,
            (_, Some(_)) => Some(Self::StepEnded { step, error, duration }),
            // An attempt that was dropped has no next one.
            (AttemptStatus::Failed, None) if row.error.as_ref()?.next_attempt_at.is_some() => {
                Some(Self::StepRetried { step, error, duration })
            }
            (_, None) => None,
        }
    }
}

impl Event<'_> {
    /// The stable name of the event, as logs and metrics show it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RunStarted { .. } => "run_started",
            Self::RunClaimed { .. } => "run_claimed",
            Self::RunWoken { .. } => "run_woken",
            Self::RunTakenOver { .. } => "run_taken_over",
            Self::RunParked { .. } => "run_parked",
            Self::RunDiverged { .. } => "run_diverged",
            Self::RunRetried { .. } => "run_retried",
            Self::RunContinued { .. } => "run_continued",
            Self::RunReleased { .. } => "run_released",
            Self::RunEnded { .. } => "run_ended",
            Self::LeaseLost { .. } => "lease_lost",
            Self::StepBegun { .. } => "step_begun",
            Self::StepRetried { .. } => "step_retried",
            Self::StepEnded { .. } => "step_ended",
            Self::ScheduleFired { .. } => "schedule_fired",
            Self::ClaimAnswered { .. } => "claim_answered",
            Self::Committed { .. } => "committed",
            Self::CommitFailed { .. } => "commit_failed",
            Self::WorkerStarted { .. } => "worker_started",
            Self::WorkerStopping { .. } => "worker_stopping",
            Self::WorkerStopped { .. } => "worker_stopped",
            Self::WorkerDied { .. } => "worker_died",
            Self::OldRunsDeleted { .. } => "old_runs_deleted",
        }
    }
}
