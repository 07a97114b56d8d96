use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use workflow_engine::model::{
    AttemptStatus, ErrorKind, FullQueue, Lane, QueuePause, Rate, Run, RunStatus, StepAttempt, StepKind, StoredError,
    Timestamp, WorkerId,
};
use workflow_engine::store::WorkerRecord;

use super::awaited::{Awaited, awaited, has_body};

#[cfg(test)]
#[path = "explanation_tests.rs"]
mod tests;

/// The time without a step after which a claimed run counts as stalled. It is the longest time for
/// which people wait without a doubt that something goes on (J. Nielsen, Response Times); a body is
/// recorded as begun within milliseconds.
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
            return Self::Due { since, workers: serving };
        }
        let lanes = live().flat_map(|worker| &worker.lanes).filter(|lane| lane.workflow == run.lane.workflow);
        let served: BTreeSet<Lane> = lanes.cloned().collect();
        Self::Unserved { since, lane: run.lane.clone(), served: served.into_iter().collect() }
    }
}

fn ends_at(row: &StepAttempt) -> Option<Timestamp> {
    serde_json::from_str(row.output.as_deref()?).ok()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { status: RunStatus::Canceled, at, .. } => write!(f, "the run was canceled at {at}"),
            Self::Ended { status, at, error } => {
                write!(f, "the run {status} at {at}")?;
                error.as_ref().map_or(Ok(()), |error| write!(f, ": {}", one_line(error)))
            }
            Self::Paused { since, worker: None } => {
                write!(f, "the run is paused since {since}; resume it to let it go on")
            }
            Self::Paused { since, worker: Some(worker) } => {
                write!(f, "the run is paused since {since}, and worker {worker} lets its running steps end")
            }
            Self::Running { worker, since, steps } => {
                write!(f, "the run is running on worker {worker}, first claimed at {since}")?;
                list(f, ", in ", " and ", steps)
            }
            Self::Stalled { worker, since } => write!(
                f,
                "the run is running on worker {worker}, but no step of it has begun or ended since {since}: its \
                 workflow awaits something that is not a call of its context, computes, or is in a transaction; \
                 the log of the worker says more"
            ),
            Self::Scheduled { at } => write!(f, "the run starts at {at}"),
            Self::Retrying { at, attempt, error } => {
                write!(f, "the run failed and is tried again at {at}, as attempt {attempt}: {}", one_line(error))
            }
            Self::Diverged { at, error } => {
                write!(f, "the run waits for other code and is tried again at {at}: {}", one_line(error))
            }
            Self::Waiting { until, on } => {
                f.write_str("the run waits")?;
                list(f, " for ", " or ", on)?;
                // A wait that names its end need not be followed by that end again.
                let unnamed = until.filter(|until| on.iter().all(|awaited| awaited.until != Some(*until)));
                unnamed.map_or(Ok(()), |until| write!(f, ", until {until}"))
            }
            Self::Suspected { at, crashes } => write!(
                f,
                "the run may be what killed its worker {crashes} times; it waits to be driven among fewer runs, \
                 until {at}"
            ),
            Self::Due { since, workers: 1 } => {
                write!(f, "the run is due since {since}; 1 worker serves it and takes it once it has room")
            }
            Self::Due { since, workers } => {
                write!(f, "the run is due since {since}; {workers} workers serve it, and the first with room takes it")
            }
            Self::QueuePaused { since, queue, pause } => write!(
                f,
                "the run is due since {since}, but queue {queue} is paused since {}: {}; resume the queue to let its \
                 runs go on",
                pause.since, pause.reason
            ),
            Self::QueueFull { since, queue, limit: 0 } => write!(
                f,
                "the run is due since {since}, but the limit of queue {queue} is 0, so none of its runs may go on"
            ),
            Self::QueueFull { since, queue, limit } => {
                write!(f, "the run is due since {since}, but {limit} of {limit} runs of queue {queue} are under way")
            }
            Self::QueueRate { since, queue, rate, next_at } => write!(
                f,
                "the run is due since {since}, but the rate of queue {queue} ({rate}) lets the next run begin at {next_at}"
            ),
            Self::GateFull { since, queue, gate, limit: 0 } => write!(
                f,
                "the run is due since {since}, but the limit of each gate of queue {queue} is 0, so no run behind gate \
                 {gate} may go on"
            ),
            Self::GateFull { since, queue, gate, limit } => write!(
                f,
                "the run is due since {since}, but {limit} of {limit} runs behind gate {gate} of queue {queue} are under way"
            ),
            Self::GateRate { since, queue, gate, rate, next_at } => write!(
                f,
                "the run is due since {since}, but the rate of gate {gate} of queue {queue} ({rate}) lets the next run \
                 begin at {next_at}"
            ),
            Self::WaitsForSeat { since, step, limit, key, concurrency, rate, begins_at, taken, ahead } => {
                write!(f, "step {step:?} waits since {since} for a seat of limit {limit} for key {key}: ")?;
                match (concurrency, rate) {
                    (Some(0), _) => f.write_str("the limit is 0, so no body may begin")?,
                    (Some(seats), _) => write!(f, "{taken} of {seats} are taken")?,
                    (None, Some(_)) => f.write_str("any number may be taken")?,
                    (None, None) => f.write_str("there is no limit any more")?,
                }
                if let (Some(rate), Some(begins_at)) = (rate, begins_at) {
                    write!(f, ", the rate ({rate}) lets it begin at {begins_at}")?;
                }
                match ahead {
                    0 => f.write_str(", and it is the next"),
                    1 => f.write_str(", and 1 step waits before it"),
                    ahead => write!(f, ", and {ahead} steps wait before it"),
                }
            }
            Self::NoRoom { full } => write!(f, "the start would be refused: {full}"),
            Self::Unserved { since, lane, served } => {
                write!(f, "the run is due since {since}, but no worker serves {lane}; ")?;
                if served.is_empty() {
                    return write!(f, "no worker knows {}", lane.workflow);
                }
                let names = served.iter().map(|other| match other.queue == lane.queue {
                    true => format!("version {}", other.version),
                    false => format!("version {} in queue {}", other.version, other.queue),
                });
                list(f, "workers serve ", " and ", &names.collect::<Vec<_>>())
            }
        }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, before: &str, between: &str, items: &[T]) -> fmt::Result {
    for (place, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if place == 0 { before } else { between })?;
    }
    Ok(())
}

/// Shortens a report of several lines to its first line and the difference. The whole report stands
/// in the run's error.
fn one_line(error: &StoredError) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    match lines.find_map(|line| line.strip_prefix("differs:")) {
        Some(difference) => format!("{first}: {}", difference.trim()),
        None => first.to_owned(),
    }
}
