use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use workflow_engine::model::{
    AttemptStatus, ErrorKind, FullQueue, Lane, QueuePause, Rate, Run, RunId, RunStatus, StepAttempt, StepKind,
    StoredError, Timestamp, WorkerId,
};
use workflow_engine::store::WorkerRecord;

use crate::operate::Count;

use super::awaited::{Awaited, awaited, has_body};

mod text;

#[cfg(test)]
#[path = "explanation_tests.rs"]
mod tests;

/// The time without a step after which a claimed run counts as stalled. It is about the longest
/// time that people wait before they doubt that something happens (J. Nielsen, Response Times). The
/// begin of a body is recorded within milliseconds.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// The reason why a run waits, as far as the database shows it. Made by
/// [`Client::explain`](crate::Client::explain), and by
/// [`Client::explain_start`](crate::Client::explain_start) for a run that does not exist yet.
///
/// `Display` gives one sentence for people; its wording may change. Programs match on the variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Explanation {
    /// The run has ended.
    Ended {
        /// Its terminal status.
        status: RunStatus,
        /// When it ended.
        at: Timestamp,
        /// Its error, if it failed.
        error: Option<StoredError>,
    },
    /// The run is paused.
    Paused {
        /// When it was paused.
        since: Timestamp,
        /// The worker that lets the running steps end, if one still holds the run.
        worker: Option<WorkerId>,
    },
    /// A worker is running its steps.
    Running {
        /// The worker.
        worker: WorkerId,
        /// When the run was first claimed.
        since: Timestamp,
        /// The steps whose bodies run. A body appears after it has run for a moment.
        steps: Vec<Awaited>,
    },
    /// A worker holds the run, and for more than ten seconds no step of it has begun or ended. Its
    /// workflow awaits something that is not a call of its context, computes, or is in a
    /// transaction. A run that a worker has just claimed looks like this for a moment.
    Stalled {
        /// The worker.
        worker: WorkerId,
        /// When a step last began or ended.
        since: Timestamp,
    },
    /// The run waits for its start time.
    Scheduled {
        /// The start time.
        at: Timestamp,
    },
    /// The run failed and waits for its next attempt: see
    /// [`Workflow::RETRY`](crate::Workflow::RETRY).
    Retrying {
        /// When the attempt begins.
        at: Timestamp,
        /// The number of the attempt.
        attempt: i64,
        /// The error of the last attempt.
        error: StoredError,
    },
    /// The history of the run does not fit the code of its workers, or cannot be read. The run
    /// waits for other code.
    Diverged {
        /// When a worker tries the run again.
        at: Timestamp,
        /// How history and code differ.
        error: StoredError,
    },
    /// The run waits for a sleep, a signal, a decision, an event, a child, or the next attempt of a
    /// step.
    Waiting {
        /// When the run looks again at the latest; `None` if only an event wakes it. A run that
        /// waits for a child looks once per hour.
        until: Option<Timestamp>,
        /// The steps that it waits for.
        on: Vec<Awaited>,
    },
    /// The worker of the run died several times while the run was in flight, without an outcome in
    /// between. The run waits to be driven among fewer runs, and in the end alone.
    Suspected {
        /// When a worker tries the run again.
        at: Timestamp,
        /// How often the worker died.
        crashes: i64,
    },
    /// The run is due and waits for a worker with room.
    Due {
        /// Since when the run is due.
        since: Timestamp,
        /// How many live workers serve the run.
        workers: usize,
        /// How many due runs of its lane, behind its gate, are claimed before it; counted to 1,000.
        /// `None` for a run whose worker died, which is claimed at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ahead: Option<Count>,
    },
    /// The run is due, but its queue is paused.
    QueuePaused {
        /// Since when the run is due.
        since: Timestamp,
        /// The name of the queue.
        queue: String,
        /// Since when the queue is paused, and why.
        pause: QueuePause,
    },
    /// The run is due, but as many runs of its queue are under way as its limit allows.
    QueueFull {
        /// Since when the run is due.
        since: Timestamp,
        /// The name of the queue.
        queue: String,
        /// The largest number of runs.
        limit: u32,
        /// How many runs of the queue are under way: more than the limit, if that was lowered.
        /// `None` in the answer of an older release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        running: Option<Count>,
        /// At most three of these runs, those with the smallest ids.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        held_by: Vec<RunId>,
        /// How many due runs of its lane, behind its gate, are claimed before it: see
        /// [`Explanation::Due`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ahead: Option<Count>,
    },
    /// The run is due and has not begun, but the rate of its queue is used up.
    QueueRate {
        /// Since when the run is due.
        since: Timestamp,
        /// The name of the queue.
        queue: String,
        /// The rate.
        rate: Rate,
        /// When the next run of the queue may begin, which is not necessarily this one.
        next_at: Timestamp,
    },
    /// The run is due, but as many runs behind its gate are under way as their limit allows.
    GateFull {
        /// Since when the run is due.
        since: Timestamp,
        /// The name of the queue.
        queue: String,
        /// The name of the gate.
        gate: String,
        /// The largest number of runs.
        limit: u32,
        /// How many runs behind the gate are under way: more than the limit, if that was lowered.
        /// `None` in the answer of an older release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        running: Option<Count>,
        /// At most three of these runs, those with the smallest ids.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        held_by: Vec<RunId>,
        /// How many due runs of its lane, behind its gate, are claimed before it: see
        /// [`Explanation::Due`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ahead: Option<Count>,
    },
    /// The run is due and has not begun, but the rate of its gate is used up.
    GateRate {
        /// Since when the run is due.
        since: Timestamp,
        /// The name of the queue.
        queue: String,
        /// The name of the gate.
        gate: String,
        /// The rate.
        rate: Rate,
        /// When the next run behind the gate may begin, which is not necessarily this one.
        next_at: Timestamp,
    },
    /// A step of the run waits for a seat of its limit.
    WaitsForSeat {
        /// Since when the step waits.
        since: Timestamp,
        /// The key of the step.
        step: String,
        /// The name of the limit.
        limit: String,
        /// The key under which the step counts.
        key: String,
        /// The number of seats; `None` for any number, or if there is no limit any more.
        concurrency: Option<u32>,
        /// The rate at which bodies begin; `None` for any rate.
        rate: Option<Rate>,
        /// When the rate lets the body begin, if the steps before it begin as early as they may.
        /// `None` without a rate, or if the step waits for a seat too: when one is free is unknown.
        begins_at: Option<Timestamp>,
        /// How many seats are taken.
        taken: u32,
        /// How many steps wait before this one; counted to 1,000.
        ahead: u32,
    },
    /// A start would be refused with [`ClientError::QueueFull`](crate::ClientError::QueueFull).
    /// Only [`Client::explain_start`](crate::Client::explain_start) answers this.
    NoRoom {
        /// The queue, the gate if that is full, and the bound.
        full: FullQueue,
    },
    /// The run is due, but no live worker serves its lane.
    Unserved {
        /// Since when the run is due.
        since: Timestamp,
        /// The queue, workflow and version of the run.
        lane: Lane,
        /// The lanes in which live workers serve the same workflow.
        served: Vec<Lane>,
    },
}

impl Explanation {
    /// Explains what this run waits for at this time.
    pub(super) fn of(run: &Run, history: &[StepAttempt], workers: &[WorkerRecord], now: Timestamp) -> Self {
        if run.status.is_terminal() {
            let at = run.completed_at.unwrap_or(run.available_at);
            return Self::Ended { status: run.status, at, error: run.error.clone() };
        }
        if let Some(since) = run.paused_at {
            return Self::Paused { since, worker: run.worker_id };
        }
        if run.available_at <= now {
            return Self::due(run, workers);
        }
        if let Some(worker) = run.worker_id {
            return Self::held(run, worker, history, now);
        }
        let at = run.available_at;
        match (&run.error, run.status) {
            (Some(error), RunStatus::Pending) => Self::Retrying { at, attempt: run.attempt, error: error.clone() },
            (Some(error), _) if matches!(error.kind, ErrorKind::Divergence | ErrorKind::Unknown) => {
                Self::Diverged { at, error: error.clone() }
            }
            (_, RunStatus::Pending) => Self::Scheduled { at },
            // A park for a wait clears the crashes.
            _ if run.crashes > 1 => Self::Suspected { at, crashes: run.crashes },
            _ => {
                let on = awaited(history, |row| match row.kind {
                    StepKind::Sleep => ends_at(row).is_some_and(|end| end >= at),
                    // An attempt that was dropped has no next one.
                    kind if has_body(kind) => row.error.as_ref().is_some_and(|error| error.next_attempt_at.is_some()),
                    _ => row.status == AttemptStatus::Running,
                });
                Self::Waiting { until: (at < Timestamp::FAR_FUTURE).then_some(at), on }
            }
        }
    }

    fn held(run: &Run, worker: WorkerId, history: &[StepAttempt], now: Timestamp) -> Self {
        let begun = run.started_at.unwrap_or(run.created_at);
        let moved = history.iter().map(|row| row.completed_at.unwrap_or(row.started_at)).fold(begun, Timestamp::max);
        // A run with crashes may wait for its turn to be driven alone.
        if run.crashes <= 1 && now.since(moved) > STALLED_AFTER && awaited(history, |_| true).is_empty() {
            return Self::Stalled { worker, since: moved };
        }
        let steps = awaited(history, |row| row.status == AttemptStatus::Running && has_body(row.kind));
        Self::Running { worker, since: begun, steps }
    }

    fn due(run: &Run, workers: &[WorkerRecord]) -> Self {
        let live = || workers.iter().filter(|worker| worker.live);
        let since = run.available_at;
        let serving = live().filter(|worker| worker.lanes.contains(&run.lane)).count();
        if serving > 0 {
            return Self::Due { since, workers: serving, ahead: None };
        }
        let lanes = live().flat_map(|worker| &worker.lanes).filter(|lane| lane.workflow == run.lane.workflow);
        let served: BTreeSet<Lane> = lanes.cloned().collect();
        Self::Unserved { since, lane: run.lane.clone(), served: served.into_iter().collect() }
    }
}

fn ends_at(row: &StepAttempt) -> Option<Timestamp> {
    serde_json::from_str(row.output.as_deref()?).ok()
}
