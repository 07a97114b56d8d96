use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decode_error::unquoted;
use super::hidden::Hidden;
use super::{Run, RunId, RunStatus, StepAttempt, StepKind, StoredError, Timestamp};

/// A run with everything that is recorded of it: what a replay needs, as a value and as a JSON document.
///
/// The document is `{"format": 1, "run": {..}, "steps": [..]}`, with the fields of [`RecordedRun`] and [`StepAttempt`]. Times
/// are microseconds since 1970. A payload stands in it as a string that holds its JSON text, for a replay must see the bytes
/// that were written, whatever formats the document on its way. Display writes it, [`RunHistory::from_json`] reads it.
///
/// ```
/// use workflow_sdk::{HistoryError, RunHistory};
///
/// let json = r#"{
///     "format": 1,
///     "run": { "id": "018f0000-0000-7000-8000-000000000001", "queue": "default", "workflow": "greet", "version": "1",
///              "status": "parked", "input": "\"Ada\"", "started_at": 1700000000000000 },
///     "steps": [
///         { "step_key": "compose", "attempt": 1, "kind": "step", "status": "succeeded", "position": 1,
///           "output": "\"hello, Ada\"", "error": null, "epoch": 1,
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
    /// Every attempt of every step: outcomes by position, then what is not final.
    pub steps: Vec<StepAttempt>,
}

/// What a history says of its run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedRun {
    /// Its id: what the run draws at random follows from it.
    pub id: RunId,
    /// Its queue.
    pub queue: String,
    /// Its workflow.
    pub workflow: String,
    /// The version of its workflow.
    pub version: String,
    /// Where it was in its life.
    pub status: RunStatus,
    /// The input as JSON text.
    pub input: String,
    /// The output as JSON text, if it had succeeded.
    #[serde(default)]
    pub output: Option<String>,
    /// Why it had failed, or could not go on.
    #[serde(default)]
    pub error: Option<StoredError>,
    /// 1 for the first attempt of the run.
    #[serde(default = "first_attempt")]
    pub attempt: i64,
    /// How often it had continued as new.
    #[serde(default)]
    pub generation: i64,
    /// How many parents it has above it.
    #[serde(default)]
    pub depth: i64,
    /// When a worker first claimed it; before that, when it was created.
    pub started_at: Timestamp,
    /// Whether its payloads, and those of its steps, are not those of the run: see [`RunHistory::redact`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// Without payloads: their sizes, and of the error its kind.
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
            started_at: run.started_at.unwrap_or(run.created_at),
            redacted: false,
        }
    }
}

/// A document that is no history which this release can replay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// It is not JSON, or not of the form of a history.
    #[error("{place} of the history cannot be read: {source}; use a document as `client.export(run_id)` writes it")]
    Malformed {
        /// Which part: `the document`, `the run`, `steps[3]`.
        place: String,
        /// serde_json's error.
        source: serde_json::Error,
    },
    /// A later release has written it.
    #[error(
        "the history has format {found}, this release of workflow-sdk reads format {}; \
         replay it with the release that wrote it, or a later one",
        RunHistory::FORMAT
    )]
    Format {
        /// Its number.
        found: u64,
    },
    /// It holds a kind of step that this release does not know.
    #[error(
        "step {step_key:?} of the history is of kind {kind:?}, which this release of workflow-sdk does not know; \
         replay it with the release that wrote it, or a later one"
    )]
    UnknownKind {
        /// Its key.
        step_key: String,
        /// The word.
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

/// Steps are looked at one by one, so that the first that is not understood is named.
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
    /// The number of the format that this release reads and writes. A document with a field that it does not know is read
    /// without it.
    pub const FORMAT: u64 = 1;

    /// A run and its steps.
    #[must_use]
    pub fn new(run: impl Into<RecordedRun>, steps: Vec<StepAttempt>) -> Self {
        Self { run: run.into(), steps }
    }

    /// The document, indented.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.to_string()
    }

    /// The history in a document that [`RunHistory::to_json`] has written, in this release or an earlier one.
    ///
    /// # Errors
    /// [`HistoryError`].
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
        // Every part of it is plain data with text keys, which cannot fail to be written.
        f.write_str(&serde_json::to_string_pretty(&written).map_err(|_| fmt::Error)?)
    }
}

impl std::str::FromStr for RunHistory {
    type Err = HistoryError;

    fn from_str(json: &str) -> Result<Self, HistoryError> {
        Self::from_json(json)
    }
}
