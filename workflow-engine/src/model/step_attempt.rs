use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hidden::Hidden;
use super::{StoredError, Timestamp};

/// The running time after which an attempt gets a `running` row, so that it can be seen while it
/// runs. A shorter attempt costs one row and one commit instead of two. Nothing in the engine
/// depends on this row.
pub const RUNNING_ROW_DELAY: Duration = Duration::from_millis(20);

/// The kind of a durable operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepKind {
    /// A body that has an effect.
    Step,
    /// A wait until a given time.
    Sleep,
    /// A wait for a signal.
    Signal,
    /// A wait for a person's decision.
    Approval,
    /// A wait for an event.
    Event,
    /// A run of its own that this run started.
    Child,
    /// A body whose rows are committed together with its outcome.
    Transaction,
    /// A body that undoes a step of a run that failed or was canceled.
    Compensation,
    /// The moment at which the run was told to end, by a cancel or by its deadline.
    Interruption,
    /// A patch of the code that this run has taken.
    Patch,
    /// The last value that the run published under a name.
    Published,
    /// A value that the run appended to a stream.
    Emitted,
}

impl StepKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Step,
        Self::Sleep,
        Self::Signal,
        Self::Approval,
        Self::Event,
        Self::Child,
        Self::Transaction,
        Self::Compensation,
        Self::Interruption,
        Self::Patch,
        Self::Published,
        Self::Emitted,
    ];

    /// Returns the word that is stored in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Sleep => "sleep",
            Self::Signal => "signal",
            Self::Approval => "approval",
            Self::Event => "event",
            Self::Child => "child",
            Self::Transaction => "transaction",
            Self::Compensation => "compensation",
            Self::Interruption => "interruption",
            Self::Patch => "patch",
            Self::Published => "published",
            Self::Emitted => "emitted",
        }
    }

    /// Returns the step key of a patch, a published value or a stream. A run has one of each name,
    /// independent of scopes.
    #[must_use]
    pub fn key_of(self, name: &str) -> String {
        format!("{self}/{name}")
    }

    /// Returns whether rows of this kind record a call whose outcome the workflow waits for.
    pub(super) const fn is_call(self) -> bool {
        match self {
            Self::Step | Self::Sleep | Self::Signal | Self::Approval | Self::Event => true,
            Self::Child | Self::Transaction => true,
            Self::Compensation | Self::Interruption | Self::Patch | Self::Published | Self::Emitted => false,
        }
    }

    /// Returns the kind whose [`StepKind::as_str`] is `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status of an attempt of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptStatus {
    /// The attempt has begun, or the call waits.
    Running,
    /// The attempt ended with an output.
    Succeeded,
    /// The attempt ended with an error.
    Failed,
}

impl AttemptStatus {
    /// All statuses.
    pub const ALL: [Self; 3] = [Self::Running, Self::Succeeded, Self::Failed];

    /// Returns the word that is stored in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }

    /// Returns the status whose [`AttemptStatus::as_str`] is `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl fmt::Display for AttemptStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One attempt of a step as it is stored: one row of a run's history.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct StepAttempt {
    /// The step's name. Repeats of a name in the run have `:1`, `:2`, ... appended.
    pub step_key: String,
    /// The number of the attempt, from 1.
    pub attempt: i64,
    /// The kind of the operation.
    pub kind: StepKind,
    /// The status of the attempt.
    pub status: AttemptStatus,
    /// The position of the outcome in the order in which outcomes were delivered. `None`: the
    /// attempt has no final outcome.
    pub position: Option<i64>,
    /// JSON text: the value of a step, or the condition of a wait, which is stored when the wait
    /// begins.
    pub output: Option<String>,
    /// The error of a failed attempt. If another attempt follows, it also holds the rest of the
    /// retry budget.
    pub error: Option<StoredError>,
    /// The epoch of the claim that last wrote the row.
    pub epoch: i64,
    /// The time at which the attempt began.
    pub started_at: Timestamp,
    /// The time at which the attempt ended.
    pub completed_at: Option<Timestamp>,
}

/// Shows the sizes of payloads and the kind of the error, because Debug output is logged.
impl fmt::Debug for StepAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepAttempt")
            .field("step_key", &self.step_key)
            .field("attempt", &self.attempt)
            .field("kind", &self.kind)
            .field("status", &self.status)
            .field("position", &self.position)
            .field("output", &self.output.as_deref().map(Hidden::new))
            .field("error", &self.error.as_ref().map(|error| error.kind))
            .field("epoch", &self.epoch)
            .field("started_at", &self.started_at)
            .field("completed_at", &self.completed_at)
            .finish()
    }
}
