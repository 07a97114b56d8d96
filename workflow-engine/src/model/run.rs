use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::hidden::Hidden;
use super::{
    MovedRun, NewSingle, Priority, Rank, RunId, SingleKey, StartTime, StoredError, Timestamp, TraceContext, WhenTaken,
    WorkerId,
};

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// The run was never claimed, waits for its start time or for a retry, or has continued as new.
    Pending,
    /// A worker has claimed the run.
    Running,
    /// The run waits without a worker.
    Parked,
    /// The run ended with an output.
    Succeeded,
    /// The run ended with an error.
    Failed,
    /// A cancel ended the run.
    Canceled,
}

impl RunStatus {
    /// All statuses, in the order of a run's life.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Parked, Self::Succeeded, Self::Failed, Self::Canceled];

    /// Returns the word that is stored in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    /// Returns the status whose [`RunStatus::as_str`] is `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Returns whether a run with this status has ended. A terminal status never changes, with one
    /// exception: a failed run can be retried on request.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Parked => false,
            Self::Succeeded | Self::Failed | Self::Canceled => true,
        }
    }

    /// Returns whether a run may go from this status to `next`.
    ///
    /// A running run may become running again if its lease ran out and another worker claimed it.
    /// It may become pending if it continued as new, or if it failed and is retried. A failed run
    /// may become pending only by `Client::retry`.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Pending | Self::Parked, Self::Running | Self::Failed | Self::Canceled)
            | (Self::Running, Self::Running | Self::Parked | Self::Succeeded | Self::Failed | Self::Canceled)
            | (Self::Running | Self::Failed, Self::Pending) => true,
            (Self::Pending | Self::Parked, _) | (Self::Succeeded | Self::Failed | Self::Canceled, _) => false,
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The queue, workflow and version of a run. A worker claims only from the lanes that it serves, so
/// runs in other lanes do not add to the cost of its claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lane {
    /// The name of the queue.
    pub queue: String,
    /// The name of the workflow.
    pub workflow: String,
    /// The version of the workflow.
    pub version: String,
}

/// Writes `checkout version 1 in queue default`.
impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, workflow, version } = self;
        write!(f, "{workflow} version {version} in queue {queue}")
    }
}

/// The fate of a child whose parent ends or is canceled before the child has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnParentEnd {
    /// The child is canceled.
    #[default]
    Cancel,
    /// The child continues.
    Abandon,
}

impl OnParentEnd {
    /// Returns the word that is stored in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Abandon => "abandon",
        }
    }

    /// Returns the policy whose [`OnParentEnd::as_str`] is `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Cancel, Self::Abandon].into_iter().find(|policy| policy.as_str() == word)
    }
}

/// The parent of a run, and the step of the parent that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Parent {
    /// The parent's id.
    pub run_id: RunId,
    /// The key of the parent's step.
    pub step_key: String,
    /// The fate of the child when the parent ends first.
    pub on_end: OnParentEnd,
}

/// The answer to a start whose idempotency key belongs to an ended run. A run that has not ended
/// keeps its key in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyReuse {
    /// The start returns that run, however it ended.
    #[default]
    Never,
    /// If that run failed or was canceled, the start creates a new run with the key, and the ended
    /// run has no key any more. A run that succeeded is returned.
    AfterFailure,
}

/// A run that is to be started.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The run's id, which the client generates.
    pub id: RunId,
    /// The lane in which the run waits for a worker.
    pub lane: Lane,
    /// The gate of its queue behind which the run waits. `None`: it waits behind no gate.
    pub gate: Option<String>,
    /// The input as JSON text.
    pub input: String,
    /// The idempotency key. It is unique per workflow name.
    pub key: Option<String>,
    /// Whether the run may take the key of an ended run.
    pub key_reuse: KeyReuse,
    /// A key that no other run of the workflow may have at the same time.
    pub single: Option<NewSingle>,
    /// How soon the run is claimed for the first time. `None`: see [`NewRun::rank`].
    pub priority: Option<Priority>,
    /// The time at which the run may start.
    pub start: StartTime,
    /// The time at which the run fails if it has not ended.
    pub deadline: Option<StartTime>,
    /// Labels by which the run can be found.
    pub tags: BTreeMap<String, String>,
    /// The run that starts this run. `None`: the application starts it.
    pub parent: Option<Parent>,
    /// The number of ancestors: 0 for a run without a parent.
    pub depth: i64,
    /// The span that is the parent of the run's spans. `None`: the run belongs to no trace.
    pub trace: Option<TraceContext>,
}

impl NewRun {
    /// Returns the lane of the run, and the gate behind which it waits.
    #[must_use]
    pub fn place(&self) -> (&Lane, Option<&str>) {
        (&self.lane, self.gate.as_deref())
    }

    /// Whether the start may take its key away from an ended run.
    #[must_use]
    pub fn may_take_key(&self) -> bool {
        self.key.is_some() && self.key_reuse == KeyReuse::AfterFailure
    }

    /// Whether the start may cancel another run.
    #[must_use]
    pub fn may_replace(&self) -> bool {
        self.single.as_ref().is_some_and(|single| single.taken == WhenTaken::Replace)
    }

    /// Returns the run that the start may move instead.
    #[must_use]
    pub fn moved(&self) -> Option<&MovedRun> {
        match &self.single.as_ref()?.taken {
            WhenTaken::Move(moved) => Some(moved),
            WhenTaken::Keep | WhenTaken::Replace => None,
        }
    }

    /// Returns the rank with which the run is started. Without a priority it is that of a normal
    /// one. But a child that ends with its parent is a part of what is under way, so it is urgent:
    /// it has the head start of a run that has begun, and still takes of the rates of its queue.
    #[must_use]
    pub fn rank(&self) -> Rank {
        let is_part = self.parent.as_ref().is_some_and(|parent| parent.on_end == OnParentEnd::Cancel);
        let default = if is_part { Priority::Urgent } else { Priority::Normal };
        Rank::New(self.priority.unwrap_or(default))
    }
}

/// A run as it is stored in the database.
#[derive(Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// The run's id.
    pub id: RunId,
    /// The run's queue, workflow and version.
    #[serde(flatten)]
    pub lane: Lane,
    /// The gate of its queue behind which the run waits: see [`GateLimits`](super::GateLimits).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The run's status.
    pub status: RunStatus,
    /// The input as JSON text.
    pub input: String,
    /// The output as JSON text, once the run has succeeded.
    pub output: Option<String>,
    /// The error of a failed run, or the reason why a parked run could not continue.
    pub error: Option<StoredError>,
    /// The idempotency key.
    pub key: Option<String>,
    /// The single key. A run that has given it up keeps it here, except one that was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single: Option<SingleKey>,
    /// The time at which the run can next be claimed: its start time, its wake time, its retry
    /// time, or the end of its lease.
    pub available_at: Timestamp,
    /// The priority with which the run waits for its first claim; `None` once a worker has claimed
    /// it. A child that ends with its parent is urgent unless it names another one.
    pub priority: Option<Priority>,
    /// The worker that has claimed the run.
    pub worker_id: Option<WorkerId>,
    /// How often the run was claimed.
    pub epoch: i64,
    /// How often the run was asked to wake.
    pub wakes: i64,
    /// How often a worker died while it drove the run, since the run last recorded an outcome or
    /// parked.
    pub crashes: i64,
    /// How often a worker died while it drove the run and no other one, since then. These deaths
    /// are blamed on the run.
    pub lone_crashes: i64,
    /// The number of the run's attempt, from 1.
    pub attempt: i64,
    /// How often the run has continued as new.
    pub generation: i64,
    /// The number of ancestors: 0 for a run without a parent.
    pub depth: i64,
    /// The run that started this run. `None`: the application started it.
    pub parent: Option<Parent>,
    /// The time at which the run fails if it has not ended.
    pub deadline_at: Option<Timestamp>,
    /// The time at which a cancel of the run was requested.
    pub cancel_requested_at: Option<Timestamp>,
    /// The time since which the run is paused, so that no worker may claim it.
    pub paused_at: Option<Timestamp>,
    /// The time at which the application started the run.
    pub created_at: Timestamp,
    /// The time at which a worker first claimed the run, or the present generation of a run that
    /// has continued as new.
    pub started_at: Option<Timestamp>,
    /// The time at which the run ended.
    pub completed_at: Option<Timestamp>,
    /// Labels by which the run can be found.
    pub tags: BTreeMap<String, String>,
    /// The place in a distributed trace at which the run was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The columns of the row that this program does not understand, each with the reason. The
    /// fields of these columns have their default values; a status that is not understood reads as
    /// parked. Empty for a run that is understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

impl Run {
    /// Returns a run that waits for its first claim. A store then sets the fields that its row
    /// holds.
    #[doc(hidden)]
    #[must_use]
    pub fn pending(id: RunId, lane: Lane, input: String, available_at: Timestamp, created_at: Timestamp) -> Self {
        Self {
            id,
            lane,
            gate: None,
            status: RunStatus::Pending,
            input,
            output: None,
            error: None,
            key: None,
            single: None,
            available_at,
            priority: Some(Priority::Normal),
            worker_id: None,
            epoch: 0,
            wakes: 0,
            crashes: 0,
            lone_crashes: 0,
            attempt: 1,
            generation: 0,
            depth: 0,
            parent: None,
            deadline_at: None,
            cancel_requested_at: None,
            paused_at: None,
            created_at,
            started_at: None,
            completed_at: None,
            tags: BTreeMap::new(),
            trace: None,
            unreadable: Vec::new(),
        }
    }

    /// Returns the value that was read of a column, or this default value together with a note of
    /// the reason. One bad row must not hide the others of a list.
    #[doc(hidden)]
    pub fn read_or<T>(&mut self, column: &str, read: Result<T, impl fmt::Display>, default: T) -> T {
        read.unwrap_or_else(|why| {
            self.unreadable.push(format!("{column}: {why}"));
            default
        })
    }

    /// Returns the run as a list has it: without input and output, and without a long error.
    #[doc(hidden)]
    #[must_use]
    pub fn without_payloads(&self) -> Self {
        let is_long = |error: &StoredError| {
            let bytes = serde_json::to_string(error).map_or(0, |text| text.len());
            i64::try_from(bytes).is_ok_and(|bytes| bytes > super::ErrorSummary::MAX_STORED_BYTES)
        };
        let error = self.error.as_ref().map(|error| match is_long(error) {
            true => StoredError::too_long_for_a_list(),
            false => error.clone(),
        });
        let without = Self { input: String::new(), output: None, error: None, ..self.clone() };
        Self { error, ..without }
    }

    /// Reads the stored error, and notes the reason if it is not understood.
    #[doc(hidden)]
    pub fn read_error(&mut self, text: Option<&str>) {
        self.error = text.map(StoredError::from_stored);
        let why = self.error.as_ref().and_then(StoredError::why_not_understood);
        self.unreadable.extend(why.map(|why| format!("error: {why}")));
    }
}

/// Shows the sizes of payloads and the kind of the error, because Debug output is logged.
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("id", &self.id)
            .field("lane", &self.lane)
            .field("gate", &self.gate)
            .field("status", &self.status)
            .field("input", &Hidden::new(&self.input))
            .field("output", &self.output.as_deref().map(Hidden::new))
            .field("error", &self.error.as_ref().map(|error| error.kind))
            .field("key", &self.key)
            .field("single", &self.single)
            .field("available_at", &self.available_at)
            .field("priority", &self.priority)
            .field("worker_id", &self.worker_id)
            .field("epoch", &self.epoch)
            .field("wakes", &self.wakes)
            .field("crashes", &self.crashes)
            .field("lone_crashes", &self.lone_crashes)
            .field("attempt", &self.attempt)
            .field("generation", &self.generation)
            .field("depth", &self.depth)
            .field("parent", &self.parent)
            .field("deadline_at", &self.deadline_at)
            .field("cancel_requested_at", &self.cancel_requested_at)
            .field("paused_at", &self.paused_at)
            .field("created_at", &self.created_at)
            .field("started_at", &self.started_at)
            .field("completed_at", &self.completed_at)
            .field("tags", &self.tags)
            .field("trace", &self.trace)
            .field("unreadable", &self.unreadable)
            .finish()
    }
}
