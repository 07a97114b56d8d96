use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hidden::Hidden;
use super::{StoredError, Timestamp};

/// An attempt that takes longer than this gets a `running` row, so that it can be seen while it runs. A shorter one costs
/// one row and one commit instead of two; nothing but the eye depends on the row.
pub const RUNNING_ROW_DELAY: Duration = Duration::from_millis(20);

/// What kind of durable operation a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepKind {
    /// A body that has an effect.
    Step,
    /// A wait until an instant.
    Sleep,
    /// A wait for a signal.
    Signal,
    /// A wait for somebody's decision.
    Approval,
    /// A run of its own, started by this one.
    Child,
    /// A body whose rows are committed together with its outcome.
    Transaction,
    /// A body that undoes a step of a run that failed or was canceled.
    Compensation,
    /// The moment at which the run was told to end: by a cancel, or by its deadline.
    Interruption,
    /// A change of the code that this run has taken.
    Patch,
    /// The last value that the run published under a name.
    Published,
    /// A value that the run appended to a stream.
    Emitted,
}

impl StepKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Step,
        Self::Sleep,
        Self::Signal,
        Self::Approval,
        Self::Child,
        Self::Transaction,
        Self::Compensation,
        Self::Interruption,
        Self::Patch,
        Self::Published,
        Self::Emitted,
    ];

    /// The word that stands in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Sleep => "sleep",
            Self::Signal => "signal",
            Self::Approval => "approval",
            Self::Child => "child",
            Self::Transaction => "transaction",
            Self::Compensation => "compensation",
            Self::Interruption => "interruption",
            Self::Patch => "patch",
            Self::Published => "published",
            Self::Emitted => "emitted",
        }
    }

    /// The step key of a patch, a published value or a stream: the run has one of this name, whatever its scopes.
    #[must_use]
    pub fn key_of(self, name: &str) -> String {
        format!("{self}/{name}")
    }

    /// The kind that [`StepKind::as_str`] wrote.
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

/// Where an attempt of a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptStatus {
    /// Begun, or waiting.
    Running,
    /// Ended with an output.
    Succeeded,
    /// Ended with an error.
    Failed,
}

impl AttemptStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Running, Self::Succeeded, Self::Failed];

    /// The word that stands in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }

    /// The status that [`AttemptStatus::as_str`] wrote.
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

/// One attempt of a step as it stands in the database: one row of a run's history.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct StepAttempt {
    /// The step's name, with `:1`, `:2`, ... for its repeats in the run.
    pub step_key: String,
    /// 1 for the first attempt.
    pub attempt: i64,
    /// What kind of operation it is.
    pub kind: StepKind,
    /// Where it is.
    pub status: AttemptStatus,
    /// The place of this outcome in the order in which outcomes were delivered. `None`: not final.
    pub position: Option<i64>,
    /// JSON text: the value of a step; from its beginning, what a wait waits for.
    pub output: Option<String>,
    /// Why it failed; and, if another attempt follows, what is left of the retry budget.
    pub error: Option<StoredError>,
    /// The epoch of the claim that wrote the row last.
    pub epoch: i64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

/// Without payloads: their sizes, and of the error its kind.
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
