use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::hidden::Hidden;
use super::{RunId, Timestamp, WorkerId};

/// The id of a bulk operation: a UUIDv7, so ids sort by the time at which the operations were
/// ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct BulkId(Uuid);

impl BulkId {
    /// The id after all others, which no operation has.
    #[doc(hidden)]
    pub const LAST: Self = Self(Uuid::max());

    /// Generates a new id, which sorts after every id generated before it in this process.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Returns the id as a UUID.
    #[must_use]
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for BulkId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl FromStr for BulkId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for BulkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a bulk operation is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BulkStatus {
    /// A worker executes it, or the next free one will.
    Running,
    /// Every run that the query found was dealt with.
    Done,
    /// An operator has stopped it. The runs that were dealt with before stay as they are.
    Stopped,
}

impl BulkStatus {
    /// Returns the word for the status, as it is stored and serialized.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
        }
    }

    /// Returns the status of this word; `None` for another word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Stopped].into_iter().find(|status| status.as_str() == word)
    }

    /// `true` if the operation changes no further run.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        !matches!(self, Self::Running)
    }
}

impl fmt::Display for BulkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A run that a bulk operation could not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BulkFailure {
    /// The run.
    pub run: RunId,
    /// Why, in one sentence. Never a payload.
    pub reason: String,
}

impl BulkFailure {
    /// The longest stored reason, in characters. A longer one is cut.
    pub const MAX_CHARS: usize = 300;

    /// Returns the failure of a run with this reason.
    #[must_use]
    pub fn new(run: RunId, reason: impl Into<String>) -> Self {
        Self { run, reason: reason.into().chars().take(Self::MAX_CHARS).collect() }
    }
}

/// A bulk operation as it was ordered: what is done to which runs. It never changes.
#[derive(Clone, PartialEq, Eq)]
pub struct NewBulk {
    /// Identifies the operation. However often it is committed, there is one.
    pub id: BulkId,
    /// The verb of the single order, such as `run.cancel`.
    pub verb: String,
    /// The query, in its usual form.
    pub query: String,
    /// The action as JSON text, without its payload.
    pub action: String,
    /// The payload of the action as JSON text, if it has one.
    pub payload: Option<String>,
    /// On whose behalf the operation was ordered, if that is known.
    pub actor: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// Only runs with ids before this one are changed.
    pub upto: RunId,
    /// The number of runs that matched when the operation was ordered. `None`: more than were
    /// counted.
    pub matched: Option<i64>,
}

/// How far a bulk operation has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkProgress {
    /// The status.
    pub status: BulkStatus,
    /// Only runs with ids before this one are left.
    pub cursor: RunId,
    /// The number of runs that were changed.
    pub done: i64,
    /// The number of runs at which there was nothing to change.
    pub skipped: i64,
    /// The number of runs that could not be changed.
    pub failed: i64,
    /// The first of them, at most [`BulkProgress::MOST_FAILURES`].
    pub failures: Vec<BulkFailure>,
    /// When a worker may claim the operation: the end of the lease, if one holds it.
    pub available_at: Timestamp,
    /// The worker that claimed it last.
    pub worker: Option<WorkerId>,
    /// Rises with each claim.
    pub epoch: i64,
    /// When the operation ended.
    pub ended_at: Option<Timestamp>,
}

impl BulkProgress {
    /// The number of failures that are kept.
    pub const MOST_FAILURES: usize = 100;

    /// Adds the outcomes of a chunk.
    pub fn add(&mut self, counted: BulkCounts) {
        let BulkCounts { done, skipped, failures } = counted;
        self.done += done;
        self.skipped += skipped;
        self.failed += i64::try_from(failures.len()).unwrap_or(i64::MAX);
        let room = Self::MOST_FAILURES.saturating_sub(self.failures.len());
        self.failures.extend(failures.into_iter().take(room));
    }
}

/// The outcomes of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkCounts {
    /// The number of runs that were changed.
    pub done: i64,
    /// The number of runs at which there was nothing to change.
    pub skipped: i64,
    /// The runs that could not be changed.
    pub failures: Vec<BulkFailure>,
}

/// The row of a bulk operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRecord {
    /// The operation as it was ordered.
    pub order: NewBulk,
    /// When the order was committed, by the clock of the store.
    pub created_at: Timestamp,
    /// How far it has come.
    pub progress: BulkProgress,
}

impl BulkRecord {
    /// Returns the row of an operation that was ordered now. It is due at once.
    #[must_use]
    pub fn new(order: NewBulk, now: Timestamp) -> Self {
        let progress = BulkProgress {
            status: BulkStatus::Running,
            cursor: order.upto,
            done: 0,
            skipped: 0,
            failed: 0,
            failures: Vec::new(),
            available_at: now,
            worker: None,
            epoch: 0,
            ended_at: None,
        };
        Self { order, created_at: now, progress }
    }

    /// Returns `true` if a worker may claim the operation now.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        !self.progress.status.has_ended() && self.progress.available_at <= now
    }
}

/// Shows the size of the payload, because Debug output is logged.
impl fmt::Debug for NewBulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewBulk")
            .field("id", &self.id)
            .field("verb", &self.verb)
            .field("query", &self.query)
            .field("action", &self.action)
            .field("payload", &self.payload.as_deref().map(Hidden::new))
            .field("actor", &self.actor)
            .field("reason", &self.reason)
            .field("upto", &self.upto)
            .field("matched", &self.matched)
            .finish()
    }
}
