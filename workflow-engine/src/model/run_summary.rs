use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::hidden::Hidden;
use super::{AwaitedStep, ErrorKind, Lane, Parent, Priority, Run, RunId, RunStatus, Timestamp, TraceContext, WorkerId};

/// A run in a list: its row without payloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct RunSummary {
    /// The run's id.
    pub id: RunId,
    /// The run's queue, workflow and version.
    #[serde(flatten)]
    pub lane: Lane,
    /// The gate of its queue behind which the run waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The run's status.
    pub status: RunStatus,
    /// The run's present state, as far as its row shows it.
    pub now: RunNow,
    /// Steps that a parked run waits for, at most three. Only pages of runs have them, and not for
    /// every run with a long history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<AwaitedStep>,
    /// The idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The priority with which the run waits for its first claim. `None` once a worker has claimed
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The number of the run's attempt, from 1.
    pub attempt: i64,
    /// How often the run has continued as new.
    pub generation: i64,
    /// How often a worker died while it drove the run, since the run last recorded an outcome.
    pub crashes: i64,
    /// The run that started this run. `None`: the application started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The number of ancestors: 0 for a run without a parent.
    pub depth: i64,
    /// The time at which the run can next be claimed: its start time, its wake time, its retry
    /// time, or the end of its lease.
    pub available_at: Timestamp,
    /// The error of a failed run, or the reason why a parked run could not continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSummary>,
    /// The time at which the start of the run was committed.
    pub created_at: Timestamp,
    /// The time at which a worker first claimed the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The time at which the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The time at which the run fails if it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// The time at which a cancel of the run was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<Timestamp>,
    /// The time since which the run is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// Labels by which the run can be found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The place in a distributed trace at which the run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The columns of the row that this program does not understand, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

/// The present state of a run, as far as its row shows it. The explanation of a run says more,
/// and reads more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunNow {
    /// The run waits for a worker, and may be claimed since this time.
    Due {
        /// The time.
        since: Timestamp,
    },
    /// The run waits until a time: for its start, the next attempt of the run, a sleep or a
    /// timeout.
    WaitsUntil {
        /// The time.
        until: Timestamp,
    },
    /// The run is parked until something happens: a signal, an event or the end of a child.
    Waits,
    /// A worker drives the run.
    Running {
        /// The worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<WorkerId>,
        /// The end of the lease. If it has passed, the worker has died or is stuck.
        lease_until: Timestamp,
    },
    /// The run is paused.
    Paused {
        /// Since when.
        since: Timestamp,
    },
    /// The run is parked with an error, and waits for code or an operator.
    Stuck,
    /// The run has ended.
    Ended {
        /// The time. `None` if the row lacks it.
        at: Option<Timestamp>,
    },
}

/// The beginning of an error. Its `Debug` output shows the size of the text, because errors of
/// authors are payloads.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ErrorSummary {
    /// The cause of the error.
    pub kind: ErrorKind,
    /// The error's own text, cut after [`ErrorSummary::MAX_CHARS`].
    pub message: String,
    /// The key of the step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_key: Option<String>,
}

impl ErrorSummary {
    /// The longest message, in characters.
    pub const MAX_CHARS: usize = 200;
    /// The longest stored error that a list reads, in bytes. Of a longer one it shows no text.
    pub const MAX_STORED_BYTES: i64 = 8 * 1024;
}

impl fmt::Debug for ErrorSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorSummary")
            .field("kind", &self.kind)
            .field("message", &Hidden::new(&self.message))
            .field("step_key", &self.step_key)
            .finish()
    }
}

impl RunSummary {
    /// Returns the summary of a run, read at `now`.
    #[doc(hidden)]
    #[must_use]
    pub fn of(run: Run, now: Timestamp) -> Self {
        let error = run.error.as_ref().map(|error| ErrorSummary {
            kind: error.kind,
            message: error.message.chars().take(ErrorSummary::MAX_CHARS).collect(),
            step_key: error.step_key.clone(),
        });
        Self {
            now: RunNow::of(&run, now),
            awaits: Vec::new(),
            id: run.id,
            lane: run.lane,
            gate: run.gate,
            status: run.status,
            key: run.key,
            priority: run.priority,
            attempt: run.attempt,
            generation: run.generation,
            crashes: run.crashes,
            parent: run.parent,
            depth: run.depth,
            available_at: run.available_at,
            error,
            created_at: run.created_at,
            started_at: run.started_at,
            completed_at: run.completed_at,
            deadline_at: run.deadline_at,
            cancel_requested_at: run.cancel_requested_at,
            paused_at: run.paused_at,
            tags: run.tags,
            trace: run.trace,
            unreadable: run.unreadable,
        }
    }

    /// Returns the steps that the run waits for as a phrase, such as `signal "approve" or child
    /// "ship"`. `None` if none is known.
    #[must_use]
    pub fn awaited(&self) -> Option<String> {
        let steps: Vec<String> = self.awaits.iter().map(ToString::to_string).collect();
        (!steps.is_empty()).then(|| steps.join(" or "))
    }
}

impl RunNow {
    /// Returns the state of a run, read at `now`.
    fn of(run: &Run, now: Timestamp) -> Self {
        match (run.status, run.paused_at) {
            (RunStatus::Succeeded | RunStatus::Failed | RunStatus::Canceled, _) => Self::Ended { at: run.completed_at },
            (_, Some(since)) => Self::Paused { since },
            (RunStatus::Running, None) => Self::Running { worker: run.worker_id, lease_until: run.available_at },
            (RunStatus::Pending | RunStatus::Parked, None) if run.available_at <= now => {
                Self::Due { since: run.available_at }
            }
            (RunStatus::Parked, None) if run.error.is_some() => Self::Stuck,
            (RunStatus::Pending | RunStatus::Parked, None) if run.available_at >= Timestamp::FAR_FUTURE => Self::Waits,
            (RunStatus::Pending | RunStatus::Parked, None) => Self::WaitsUntil { until: run.available_at },
        }
    }
}
