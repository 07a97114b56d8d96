use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_sdk::Timestamp;

use crate::graph::Flow;

/// The input of a run of a flow. It carries the whole flow, so a run keeps its definition whatever
/// is deployed later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FlowStart {
    /// The flow.
    pub definition: Flow,
    /// The [digest](Flow::digest) of the flow.
    pub digest: String,
    /// The name of the flow.
    pub name: String,
    /// The version under which the flow was deployed. Empty: the start brought its definition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The account on whose behalf the run acts. Empty if none was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// The input of the flow.
    #[serde(default)]
    pub input: Value,
    /// Where a run goes on that continued as new. Only the interpreter sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Box<Resume>>,
}

impl FlowStart {
    /// Creates the start of a flow that was not deployed, without input and actor.
    #[must_use]
    pub fn new(definition: Flow) -> Self {
        let digest = definition.digest();
        Self::with_digest(definition, digest)
    }

    pub(crate) fn with_digest(definition: Flow, digest: String) -> Self {
        Self {
            name: definition.name.clone(),
            definition,
            digest,
            version: String::new(),
            actor: String::new(),
            input: Value::Null,
            resume: None,
        }
    }

    /// Sets the input of the flow. Default: null.
    #[must_use]
    pub fn input(self, input: impl Into<Value>) -> Self {
        Self { input: input.into(), ..self }
    }

    /// Sets the account on whose behalf the run acts. Default: empty.
    #[must_use]
    pub fn actor(self, actor: impl Into<String>) -> Self {
        Self { actor: actor.into(), ..self }
    }
}

/// The state of a flow between two generations of its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// The results of the steps.
    pub(super) steps: BTreeMap<String, Value>,
    /// The variables.
    pub(super) vars: Value,
    /// Where it goes on.
    pub(super) at: Position,
    /// The state of the loop at that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) turn: Option<Turn>,
    /// Whether the timeout of the flow has paused or canceled the run. It does so once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_timed_out: bool,
}

/// A step of the flow's own block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Position {
    /// The step with this number, from 0.
    Do(usize),
    /// The step with this id.
    Graph {
        /// The id.
        id: String,
        /// How often each step was visited before.
        visits: BTreeMap<String, u32>,
        /// The error of the step from which an `on_error` led here.
        #[serde(default)]
        error: Value,
    },
}

/// A loop between two turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Turn {
    /// The number of the next turn, from 0.
    pub(super) number: u32,
    /// The result of the last turn.
    pub(super) last: Value,
    /// The attempt of the loop.
    #[serde(default, skip_serializing_if = "Attempt::is_default")]
    pub(super) attempt: Attempt,
}

/// An attempt of a step whose kind has no attempts of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attempt {
    /// Its number, from 1.
    pub(super) number: u32,
    /// The time at which the step's timeout ends it.
    pub(super) deadline: Option<Timestamp>,
}

impl Default for Attempt {
    fn default() -> Self {
        Self { number: 1, deadline: None }
    }
}

impl Attempt {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
