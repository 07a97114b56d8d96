use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decode_error::unquoted;
use super::hidden::Hidden;
use super::{Run, RunId, RunStatus, StepAttempt, StepKind, StoredError, Timestamp};

/// A run and its whole history: everything that a replay needs, as a value and as a JSON document.
///
/// The document is `{"format": 1, "run": {..}, "steps": [..]}`, with the fields of [`RecordedRun`]
/// and [`StepAttempt`]. Times are microseconds since 1970. Each payload is a string that contains
/// JSON text, because a replay must see the bytes that were written, even if a program has
/// reformatted the document. Display writes the document and [`RunHistory::from_json`] reads it.
///
/// ```
/// use workflow_sdk::{HistoryError, RunHistory};
///
/// let json = r#"{
///     "format": 1,
///     "run": { "id": "018f0000-0000-7000-8000-000000000001", "queue": "default",
///              "workflow": "greet", "version": "1",
///              "status": "parked", "input": "\"Ada\"", "started_at": 1700000000000000 },
///     "steps": [
///         { "step_key": "compose", "attempt": 1, "kind": "step", "status": "succeeded",
///           "position": 1, "output": "\"hello, Ada\"", "error": null, "epoch": 1,
///           "started_at": 1700000000000000, "completed_at": 1700000000001000 }
///     ]
/// }"#;
/// let history = RunHistory::from_json(json)?;
/// assert_eq!(history.run.workflow, "greet");
/// assert_eq!(RunHistory::from_json(&history.to_json())?, history);
///
/// let newer = RunHistory::from_json(r#"{"format": 99}"#);
/// assert!(matches!(newer, Err(HistoryError::Format { found: 99 })));
/// # Ok::<(), HistoryError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunHistory {
    /// The run.
    pub run: RecordedRun,
    /// All attempts of all steps: outcomes in the order of their positions, then rows without a
    /// position.
    pub steps: Vec<StepAttempt>,
}

/// A run as a history describes it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedRun {
    /// The run's id. The run's random values are derived from it.
    pub id: RunId,
    /// The name of the run's queue.
    pub queue: String,
    /// The name of the run's workflow.
    pub workflow: String,
    /// The version of the run's workflow.
    pub version: String,
    /// The run's status.
    pub status: RunStatus,
    /// The input as JSON text.
    pub input: String,
    /// The output as JSON text, if the run succeeded.
    #[serde(default)]
    pub output: Option<String>,
    /// The error of a failed run, or the reason why a parked run could not continue.
    #[serde(default)]
    pub error: Option<StoredError>,
    /// The number of the run's attempt, from 1.
    #[serde(default = "first_attempt")]
    pub attempt: i64,
    /// How often the run has continued as new.
    #[serde(default)]
    pub generation: i64,
    /// The number of ancestors: 0 for a run without a parent.
    #[serde(default)]
    pub depth: i64,
    /// The tags that the engine has set, such as those of a schedule. Their names begin with
    /// `workflow.`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The time at which the run was created. If a document has none, a replay takes `started_at`.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// The time at which a worker first claimed the run, or its creation time if none has.
    pub started_at: Timestamp,
    /// Whether the payloads of the run and its steps are placeholders. See [`RunHistory::redact`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// Shows the sizes of payloads and the kind of the error, because Debug output is logged.
impl fmt::Debug for RecordedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedRun")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("workflow", &self.workflow)
            .field("version", &self.version)
            .field("status", &self.status)
            .field("input", &Hidden::new(&self.input))
            .field("output", &self.output.as_deref().map(Hidden::new))
            .field("error", &self.error.as_ref().map(|error| error.kind))
            .field("attempt", &self.attempt)
            .field("generation", &self.generation)
            .field("depth", &self.depth)
            .field("tags", &self.tags)
            .field("created_at", &self.created_at)
            .field("started_at", &self.started_at)
            .finish()
    }
}

fn first_attempt() -> i64 {
    1
}

impl From<Run> for RecordedRun {
    fn from(run: Run) -> Self {
        Self {
            id: run.id,
            queue: run.lane.queue,
            workflow: run.lane.workflow,
            version: run.lane.version,
            status: run.status,
            input: run.input,
            output: run.output,
            error: run.error,
            attempt: run.attempt,
            generation: run.generation,
            depth: run.depth,
            tags: run.tags.into_iter().filter(|(name, _)| name.starts_with("workflow.")).collect(),
            created_at: Some(run.created_at),
            started_at: run.started_at.unwrap_or(run.created_at),
            redacted: false,
        }
    }
}

/// The reason why a document is not a history that this release can replay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The document is not JSON, or does not have the form of a history.
    #[error("{place} of the history cannot be read: {source}; use a document as `client.export(run_id)` writes it")]
    Malformed {
        /// The malformed part: `the document`, `the run` or `steps[3]`.
        place: String,
        /// The error of serde_json.
        source: serde_json::Error,
    },
    /// A later release wrote the document.
    #[error(
        "the history has format {found}, this release of workflow-sdk reads format {}; \
         replay it with the release that wrote it, or a later one",
        RunHistory::FORMAT
    )]
    Format {
        /// The document's format number.
        found: u64,
    },
    /// The document contains a kind of step that this release does not know.
    #[error(
        "step {step_key:?} of the history is of kind {kind:?}, which this release of workflow-sdk does not know; \
         replay it with the release that wrote it, or a later one"
    )]
    UnknownKind {
        /// The key of the step.
        step_key: String,
        /// The unknown kind.
        kind: String,
    },
}

impl HistoryError {
    fn malformed(place: impl Into<String>) -> impl FnOnce(serde_json::Error) -> Self {
        let place = place.into();
        move |source| Self::Malformed { place, source: unquoted(source) }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    format: u64,
    run: &'a RecordedRun,
    steps: &'a [StepAttempt],
}

/// Steps are decoded one by one, so that the error can name the first step that is not understood.
#[derive(Deserialize)]
struct Read {
    run: Value,
    steps: Vec<Value>,
}

#[derive(Deserialize)]
struct Header {
    format: u64,
}

impl RunHistory {
    /// The number of the format that this release reads and writes. Unknown fields of a document
    /// are ignored.
    pub const FORMAT: u64 = 1;

    /// Creates a history from a run and its steps.
    #[must_use]
    pub fn new(run: impl Into<RecordedRun>, steps: Vec<StepAttempt>) -> Self {
        Self { run: run.into(), steps }
    }

    /// Returns the document, indented.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.to_string()
    }

    /// Reads a document that [`RunHistory::to_json`] wrote in this release or an earlier one.
    ///
    /// # Errors
    /// [`HistoryError`] if the document is malformed or was written by a later release.
    pub fn from_json(json: &str) -> Result<Self, HistoryError> {
        let header: Header = serde_json::from_str(json).map_err(HistoryError::malformed("the document"))?;
        if header.format != Self::FORMAT {
            return Err(HistoryError::Format { found: header.format });
        }
        let read: Read = serde_json::from_str(json).map_err(HistoryError::malformed("the document"))?;
        let run = serde_json::from_value(read.run).map_err(HistoryError::malformed("the run"))?;
        let steps = read.steps.into_iter().enumerate().map(read_step).collect::<Result<_, _>>()?;
        Ok(Self { run, steps })
    }
}

fn read_step((index, step): (usize, Value)) -> Result<StepAttempt, HistoryError> {
    let word = |field: &str| step.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = word("kind");
    if !kind.is_empty() && StepKind::parse(&kind).is_none() {
        return Err(HistoryError::UnknownKind { step_key: word("step_key"), kind });
    }
    serde_json::from_value(step).map_err(HistoryError::malformed(format!("steps[{index}]")))
}

impl fmt::Display for RunHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = Written { format: Self::FORMAT, run: &self.run, steps: &self.steps };
        // Every part is plain data with text keys, which always serializes.
        f.write_str(&serde_json::to_string_pretty(&written).map_err(|_| fmt::Error)?)
    }
}

impl std::str::FromStr for RunHistory {
    type Err = HistoryError;

    fn from_str(json: &str) -> Result<Self, HistoryError> {
        Self::from_json(json)
    }
}
