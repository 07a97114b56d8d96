use std::fmt;
use std::sync::Arc;

use crate::ctx::{Entry, Misfit, Replayed, dry_replay};
use crate::workflow::RunsWith;
use workflow_engine::model::{HistoryError, RunHistory};
use workflow_engine::runtime::DEFAULT_PAYLOAD_LIMIT;

/// The reason why a history cannot be replayed, or does not fit the code. `Debug` prints the same
/// text as `Display`, because `unwrap` shows it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The document is not a history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The history belongs to another workflow or version.
    #[error(
        "the history belongs to a run of {found}, but the workflow is {expected}; \
         a run stays on the version that it was started with: replay it on that code"
    )]
    OtherWorkflow {
        /// Name and version of the given workflow.
        expected: String,
        /// Name and version in the history.
        found: String,
    },
    /// The code does not fit the history.
    #[error("{0}")]
    Misfit(Misfit),
    /// The code does not fit the history. But the history is [redacted](crate::RunHistory::redact),
    /// so the code saw other values than the run did.
    #[error(
        "{0}\n  note:     the payloads of this history are redacted: the code saw placeholders and may have taken another \
         path only because of them; export it with .redact_with(..) and keep the values that the code decides by"
    )]
    Redacted(Misfit),
}

impl fmt::Debug for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Replays a stored history, as [`Client::export`](crate::Client::export) writes it, on the current
/// code of the workflow. Nothing is written and no body begins. Neither a runtime nor a database is
/// needed. `state` is the state that a worker would be given: `()` for a workflow without state.
///
/// # Errors
/// [`ReplayError::Misfit`] if the run would diverge or fail under this code, or if the run has
/// ended and the code ends it differently. [`ReplayError::Redacted`] in place of `Misfit` if the
/// history is [redacted](crate::RunHistory::redact): the code then sees placeholders, and the end
/// of the run is not compared. [`ReplayError::History`] if the document is not a history.
/// [`ReplayError::OtherWorkflow`] if it belongs to another workflow or version.
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_sdk::testing::{ReplayError, replay};
///
/// #[workflow]
/// async fn greet(ctx: &Ctx, name: String) -> Result<String> {
///     ctx.step("compose", async || Ok::<_, Error>(format!("hello, {name}"))).await
/// }
///
/// // In a test of yours: include_str!("histories/greet-ada.json")
/// let history = r#"{
///     "format": 1,
///     "run": { "id": "018f0000-0000-7000-8000-000000000001", "queue": "default",
///              "workflow": "greet", "version": "1", "status": "succeeded", "input": "\"Ada\"",
///              "output": "\"hello, Ada\"", "started_at": 1700000000000000 },
///     "steps": [
///         { "step_key": "compose", "attempt": 1, "kind": "step", "status": "succeeded",
///           "position": 1, "output": "\"hello, Ada\"", "error": null, "epoch": 1,
///           "started_at": 1700000000000000, "completed_at": 1700000000001000 }
///     ]
/// }"#;
/// replay(greet, (), history)?;
///
/// let renamed = replay(greet, (), &history.replace("compose", "write"));
/// assert!(renamed.unwrap_err().to_string().contains("nothing asks for step \"write\""));
/// # Ok::<(), ReplayError>(())
/// ```
pub fn replay<S, W: RunsWith<S>>(workflow: W, state: S, history: &str) -> Result<Replayed, ReplayError> {
    let _ = workflow;
    let mut history = RunHistory::from_json(history)?;
    let named = |name: &str, version: &str| format!("{name:?} version {version:?}");
    let (expected, found) = (named(W::NAME, W::VERSION), named(&history.run.workflow, &history.run.version));
    if expected != found {
        return Err(ReplayError::OtherWorkflow { expected, found });
    }
    let entry = Entry::new::<S, W>(&Arc::new(state));
    let misfit = if history.run.redacted { ReplayError::Redacted } else { ReplayError::Misfit };
    if history.run.redacted {
        // From placeholders, the code computes another result than the run did from its values.
        (history.run.output, history.run.error) = (None, None);
    }
    dry_replay(&entry, &history, DEFAULT_PAYLOAD_LIMIT).map_err(misfit)
}
