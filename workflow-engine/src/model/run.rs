use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::hidden::Hidden;
use super::{RunId, StartTime, StoredError, Timestamp, WorkerId};

/// Where a run is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// Never claimed, or waiting for its start time or a retry, or continued as new.
    Pending,
    /// Claimed by a worker.
    Running,
    /// Waiting without a worker.
    Parked,
    /// Ended with an output.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended by a cancel.
    Canceled,
}

impl RunStatus {
    /// Every status, in the order of a run's life.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Parked, Self::Succeeded, Self::Failed, Self::Canceled];

    /// The word that stands in the database.
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

    /// The status that [`RunStatus::as_str`] wrote.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether the run has ended. Such a status is never overwritten, but for a failed run that somebody asks to be tried
    /// again.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Parked => false,
            Self::Succeeded | Self::Failed | Self::Canceled => true,
        }
    }

    /// Whether a run may go from this status to `next`. A running run may go to running: its lease ran out and another
    /// worker claimed it; and to pending: it continued as new, or failed and is tried again. A failed run may go back to pending, by
    /// [`Client::retry`](crate::Client::retry) alone.
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

/// What a worker must know to take a run: it claims only from the lanes that it serves, so runs of other workflows,
/// versions and queues cost its claims nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lane {
    /// Name of the queue.
    pub queue: String,
    /// Name of the workflow.
    pub workflow: String,
    /// Version of the workflow.
    pub version: String,
}

/// What becomes of a child when its parent ends or is canceled before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum OnParentEnd {
    /// It is canceled.
    #[default]
    Cancel,
    /// It goes on.
    Abandon,
}

impl OnParentEnd {
    /// The word that stands in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Abandon => "abandon",
        }
    }

    /// What [`OnParentEnd::as_str`] wrote.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Cancel, Self::Abandon].into_iter().find(|policy| policy.as_str() == word)
    }
}

/// The run that started a run, and the step by which it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parent {
    /// The run.
    pub run_id: RunId,
    /// The key of its step.
    pub step_key: String,
    /// What becomes of the child when the parent ends first.
    pub on_end: OnParentEnd,
}

/// A run that is to be started.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id, made by the client.
    pub id: RunId,
    /// Where it waits for a worker.
    pub lane: Lane,
    /// The input as JSON text.
    pub input: String,
    /// Idempotency key, unique for the workflow's name.
    pub key: Option<String>,
    /// When it may start, counted from the commit. `None`: at once.
    pub start: StartTime,
    /// When it fails if it has not ended.
    pub deadline: Option<StartTime>,
    /// Labels to find it by.
    pub tags: BTreeMap<String, String>,
    /// The run that starts it; `None` if the application does.
    pub parent: Option<Parent>,
    /// How many parents it has above it.
    pub depth: i64,
}

/// A run as it stands in the database.
#[derive(Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its queue, workflow and version.
    #[serde(flatten)]
    pub lane: Lane,
    /// Where it is in its life.
    pub status: RunStatus,
    /// The input as JSON text.
    pub input: String,
    /// The output as JSON text, once succeeded.
    pub output: Option<String>,
    /// Why it failed; of a parked run, why it could not go on.
    pub error: Option<StoredError>,
    /// Idempotency key.
    pub key: Option<String>,
    /// When it can next be claimed: its start time, wake time, retry time, or the end of its lease.
    pub available_at: Timestamp,
    /// The worker that holds it.
    pub worker_id: Option<WorkerId>,
    /// How often it was claimed.
    pub epoch: i64,
    /// How often something asked it to wake.
    pub wakes: i64,
    /// How often its worker died while it ran, since it last parked.
    pub crashes: i64,
    /// 1 for the first attempt of the run.
    pub attempt: i64,
    /// How often it continued as new.
    pub generation: i64,
    /// How many parents it has above it.
    pub depth: i64,
    /// The run that started it; `None` if the application did.
    pub parent: Option<Parent>,
    /// When it fails if it has not ended.
    pub deadline_at: Option<Timestamp>,
    /// When somebody asked to cancel it.
    pub cancel_requested_at: Option<Timestamp>,
    /// Since when no worker may claim it.
    pub paused_at: Option<Timestamp>,
    /// When it was started by the application.
    pub created_at: Timestamp,
    /// When a worker first claimed it; of a run that continued as new, its present generation.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Labels to find it by.
    pub tags: BTreeMap<String, String>,
}

impl Run {
    /// Returns a run that waits for its first claim. A store then sets the fields that its row holds.
    #[doc(hidden)]
    #[must_use]
    pub fn pending(id: RunId, lane: Lane, input: String, available_at: Timestamp, created_at: Timestamp) -> Self {
        Self {
            id,
            lane,
            status: RunStatus::Pending,
            input,
            output: None,
            error: None,
            key: None,
            available_at,
            worker_id: None,
            epoch: 0,
            wakes: 0,
            crashes: 0,
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
        }
    }
}

/// Without payloads: their sizes, and of the error its kind.
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("id", &self.id)
            .field("lane", &self.lane)
            .field("status", &self.status)
            .field("input", &Hidden::new(&self.input))
            .field("output", &self.output.as_deref().map(Hidden::new))
            .field("error", &self.error.as_ref().map(|error| error.kind))
            .field("key", &self.key)
            .field("available_at", &self.available_at)
            .field("worker_id", &self.worker_id)
            .field("epoch", &self.epoch)
            .field("wakes", &self.wakes)
            .field("crashes", &self.crashes)
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
            .finish()
    }
}
