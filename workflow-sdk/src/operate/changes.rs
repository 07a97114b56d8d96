use std::time::Duration;

use serde::{Deserialize, Serialize};

use workflow_engine::model::{AttemptStatus, RunId, RunStatus, StepKind};

use super::{Cursor, OperateError, Query};

/// Asks what has changed since a place: see [`OperateChanges::changes`](super::OperateChanges).
///
/// ```
/// use workflow_sdk::operate::ListChanges;
///
/// let failed = ListChanges::of_runs("status:failed".parse()?);
/// let list = failed.wait(std::time::Duration::from_secs(5));
/// let text = serde_json::to_string(&list)?;
/// assert_eq!(text, r#"{"of":{"runs":"status:failed"},"limit":50,"wait_ms":5000}"#);
/// assert_eq!(serde_json::from_str::<ListChanges>(&text)?, list);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListChanges {
    /// The runs that are watched.
    pub of: ChangesOf,
    /// The place after which changes are returned: [`ChangePage::cursor`] of an answer to a request
    /// with these `of` and `limit`. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// How many runs of the query are watched. Default: 50. Range: 1 to
    /// [`ListChanges::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
    /// How long the call waits for a change, in milliseconds. Default: 0. A longer time than
    /// [`ListChanges::MAX_WAIT`] counts as that.
    #[serde(default)]
    pub wait_ms: u64,
}

/// The runs that [`ListChanges`] watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangesOf {
    /// The newest runs that a query finds, as the first page of a list shows them.
    Runs(Query),
    /// One run and its history.
    Run(RunId),
    /// Everything in the database.
    All,
}

const fn default_limit() -> u32 {
    50
}

impl ListChanges {
    /// The largest limit. It is bounded because the runs are read again at each change.
    pub const MAX_LIMIT: u32 = 200;
    /// The longest time that a call waits.
    pub const MAX_WAIT: Duration = Duration::from_secs(60);

    fn new(of: ChangesOf) -> Self {
        Self { of, cursor: None, limit: default_limit(), wait_ms: 0 }
    }

    /// Watches the newest runs that this query finds.
    #[must_use]
    pub fn of_runs(query: Query) -> Self {
        Self::new(ChangesOf::Runs(query))
    }

    /// Watches one run and its history.
    #[must_use]
    pub fn of_run(run: RunId) -> Self {
        Self::new(ChangesOf::Run(run))
    }

    /// Watches everything in the database.
    #[must_use]
    pub fn of_all() -> Self {
        Self::new(ChangesOf::All)
    }

    /// Returns the changes after this place. Default: those after now.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets how many runs of the query are watched. Default: 50. Range: 1 to
    /// [`ListChanges::MAX_LIMIT`]; another value is refused by the call.
    #[must_use]
    pub fn limit(mut self, runs: u32) -> Self {
        self.limit = runs;
        self
    }

    /// Sets how long the call waits for a change. Default: not at all. A longer time than
    /// [`ListChanges::MAX_WAIT`] counts as that.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Returns how long the call waits at most.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms).min(Self::MAX_WAIT)
    }

    /// Returns the text that identifies what is watched.
    pub(super) fn subject(&self) -> Result<String, OperateError> {
        OperateError::check_limit(self.limit, Self::MAX_LIMIT, "runs")?;
        Ok(match &self.of {
            ChangesOf::Runs(query) => format!("changes of {} runs of {query}", self.limit),
            ChangesOf::Run(run) => format!("changes of {run}"),
            ChangesOf::All => "changes of all".to_owned(),
        })
    }
}

/// The changes since a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ChangePage {
    /// The place after these changes.
    pub cursor: Cursor,
    /// `true` if changes after the place may be missing, because it is too old or of another
    /// process. Read again what is shown, then go on from `cursor`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// The changes, each thing once, in the order in which they were last seen. Empty if there was
    /// none in the time of the call.
    pub items: Vec<Change>,
}

/// One change. Changes of one thing that follow each other closely are one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// A transaction has committed. Only of [`ChangesOf::All`].
    Committed,
    /// A run is among the watched ones that was not: it was started, or matches now.
    Entered {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
    },
    /// A run has changed.
    Changed {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
    },
    /// A run is no longer among the watched ones: it was deleted, does not match any more, or newer
    /// ones have taken its place.
    Left {
        /// The run.
        run: RunId,
    },
    /// An attempt of a step was recorded, or has changed. Only of [`ChangesOf::Run`].
    Step {
        /// The run.
        run: RunId,
        /// The key of the step.
        step: String,
        /// The number of the attempt.
        attempt: i64,
        /// The kind of the operation.
        kind: StepKind,
        /// The status of the attempt.
        status: AttemptStatus,
        /// The position of the outcome. `None`: the attempt is no outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        position: Option<i64>,
    },
}
