//! The events of claims and of the last writes of drives.

use workflow_engine::executor::Statistics;
use workflow_engine::model::WorkerId;
use workflow_engine::observe::{Event, Observers, RunName};
use workflow_engine::store::{ClaimedRun, RunEnd, Write};
use workflow_sdk::{ErrorKind, RunStatus, StoredError, Timestamp};

/// Returns the names of a claimed run.
pub(crate) fn name_of(run: &ClaimedRun) -> RunName<'_> {
    let lane = &run.lane;
    RunName { id: run.claim.run_id, workflow: &lane.workflow, version: &lane.version, queue: &lane.queue }
}

/// Sends the events of a claim: the claim itself, and what the run was before it.
pub(crate) fn send_claimed(observers: &Observers, run: &ClaimedRun, worker: WorkerId) {
    let name = name_of(run);
    let epoch = run.claim.epoch;
    observers.event(&Event::RunClaimed { run: name, worker, epoch, attempt: run.attempt });
    if run.taken_over {
        observers.event(&Event::RunTakenOver { run: name, worker, crashes: run.crashes });
    } else if epoch > 1 {
        observers.event(&Event::RunWoken { run: name, worker });
    }
}

/// The change of a run by the last write of its drive. It is made before the write is sent, and
/// reported after the commit.
#[derive(Debug)]
pub(super) enum LastChange {
    Ended { status: RunStatus, error: Option<Box<StoredError>> },
    Parked { until: Option<Timestamp> },
    Diverged { report: String },
    Retried { kind: ErrorKind, until: Timestamp },
    Continued,
    Released,
}

impl LastChange {
    /// Returns the change of a write. `is_release` is `true` if the drive gives the run back
    /// unfinished.
    pub(super) fn of(write: &Write, is_release: bool) -> Option<Self> {
        match write {
            Write::End(write) => {
                let error = match &write.end {
                    RunEnd::Failed(error) => Some(Box::new(error.clone())),
                    RunEnd::Succeeded(_) | RunEnd::Canceled => None,
                };
                Some(Self::Ended { status: write.end.status(), error })
            }
            Write::Park(_) if is_release => Some(Self::Released),
            Write::Park(write) => Some(match &write.error {
                Some(error) if error.kind == ErrorKind::Divergence => Self::Diverged { report: error.message.clone() },
                _ => Self::Parked { until: (write.until != Timestamp::FAR_FUTURE).then_some(write.until) },
            }),
            Write::Retry(write) => Some(Self::Retried { kind: write.error.kind, until: write.until }),
            Write::Continue(_) => Some(Self::Continued),
            _ => None,
        }
    }

    /// Counts the end or the retry of the run.
    pub(super) fn count(&self, statistics: &Statistics, run: &ClaimedRun, now: Timestamp) {
        match self {
            Self::Ended { status, error } => {
                statistics.ended(&run.lane, *status, now.since(run.started_at));
                if let Some(error) = error {
                    statistics.failed(&run.lane, run.claim.run_id, error);
                }
            }
            Self::Retried { .. } => statistics.retried(&run.lane),
            Self::Parked { .. } | Self::Diverged { .. } | Self::Continued | Self::Released => {}
        }
    }

    /// Sends the event of the change.
    pub(super) fn send(&self, observers: &Observers, run: &ClaimedRun, now: Timestamp) {
        let name = name_of(run);
        observers.event(&match self {
            Self::Ended { status, error } => {
                let (kind, duration) = (error.as_ref().map(|error| error.kind), now.since(run.started_at));
                let step = error.as_ref().and_then(|error| error.step_key.as_deref());
                Event::RunEnded { run: name, status: *status, kind, step, attempt: run.attempt, duration }
            }
            Self::Parked { until } => Event::RunParked { run: name, until: *until },
            Self::Diverged { report } => {
                let is_new = run.error.as_ref().is_none_or(|before| before.message != *report);
                Event::RunDiverged { run: name, report, is_new }
            }
            Self::Retried { kind, until } => {
                Event::RunRetried { run: name, attempt: run.attempt, kind: *kind, until: *until }
            }
            Self::Continued => Event::RunContinued { run: name, generation: run.generation + 1 },
            Self::Released => Event::RunReleased { run: name },
        });
    }
}
