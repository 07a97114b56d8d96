use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ErrorClass, ToolError};

/// One question to a [`Model`]: one attempt of one recipe.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelCall {
    /// The model. `None`: the default of the implementation.
    pub model: Option<String>,
    /// The text that tells the model what it is for.
    pub system: Option<String>,
    /// The question.
    pub prompt: String,
    /// The JSON Schema of the answer. `None`: the answer is text.
    pub output: Option<Value>,
    /// The longest answer, in tokens. `None`: the limit of the implementation.
    pub max_tokens: Option<u32>,
    /// How often an answer that does not fit the schema is sent back with its errors. Default: 0.
    pub repair: u32,
    /// The account on whose behalf the run acts. Empty if none was given.
    pub actor: String,
    /// Identical in every attempt of this step, and in no other step.
    pub idempotency_key: String,
    /// The time that the attempt may take, with all repairs. `None`: no limit.
    pub timeout: Option<Duration>,
}

impl ModelCall {
    /// Creates a question whose answer is text.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            model: None,
            system: None,
            prompt: prompt.into(),
            output: None,
            max_tokens: None,
            repair: 0,
            actor: String::new(),
            idempotency_key: String::new(),
            timeout: None,
        }
    }
}

/// The answer of a [`Model`]. A step records its value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelAnswer {
    /// Text, or the JSON value that the model wrote.
    pub value: Value,
    /// The model that answered, in the words of its server.
    #[serde(default)]
    pub model: String,
    /// The tokens of all questions, with the repairs. 0 if the server does not say.
    #[serde(default)]
    pub input_tokens: u64,
    /// The tokens of all answers, with the repairs. 0 if the server does not say.
    #[serde(default)]
    pub output_tokens: u64,
    /// How often the model was asked: 1, and 1 more for each repair.
    #[serde(default)]
    pub calls: u32,
    /// Where the value does not fit the schema, after the last repair. Empty: it fits. A recipe
    /// fails with F260 if it is not empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl ModelAnswer {
    /// Creates an answer of one call that fits its schema, without numbers of tokens.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self { value, calls: 1, ..Self::default() }
    }
}

/// A language model, as the recipes of flows ask it.
///
/// # Cancel safety
/// The interpreter drops the future of [`complete`](Model::complete) at the step's timeout and when
/// the run is told to end.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Asks once, checks the answer against the schema of the call, and repairs as often as the
    /// call says.
    ///
    /// # Errors
    /// A [`ToolError`] if there is no answer. An answer that does not fit its schema is not an
    /// error: [`ModelAnswer::problems`] says why it does not fit.
    async fn complete(&self, call: ModelCall) -> Result<ModelAnswer, ToolError>;
}

/// A double for tests: gives the answers that it was made with, one after the other, and keeps the
/// calls.
///
/// ```
/// use serde_json::json;
/// use workflow_flows::{Model, ModelCall, ScriptedModel};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let model = ScriptedModel::new([json!({ "summary": "short" })]);
/// let answer = model.complete(ModelCall::new("Summarize.")).await.unwrap();
/// assert_eq!(answer.value["summary"], "short");
/// assert_eq!(model.calls()[0].prompt, "Summarize.");
/// assert!(model.complete(ModelCall::new("Once more.")).await.is_err());
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ScriptedModel {
    script: Mutex<Script>,
}

#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<Result<ModelAnswer, ToolError>>,
    calls: Vec<ModelCall>,
}

impl ScriptedModel {
    /// Creates a model that gives these values, then fails.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = Value>) -> Self {
        Self::with_answers(values.into_iter().map(|value| Ok(ModelAnswer::new(value))))
    }

    /// Creates a model that gives these answers and errors, then fails.
    #[must_use]
    pub fn with_answers(answers: impl IntoIterator<Item = Result<ModelAnswer, ToolError>>) -> Self {
        let script = Script { answers: answers.into_iter().collect(), calls: Vec::new() };
        Self { script: Mutex::new(script) }
    }

    /// Returns the calls so far, the first one first.
    #[must_use]
    pub fn calls(&self) -> Vec<ModelCall> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).calls.clone()
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn complete(&self, call: ModelCall) -> Result<ModelAnswer, ToolError> {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.calls.push(call);
        let none = || ToolError::new(ErrorClass::Invalid, "the script of the model has no further answer: add one");
        script.answers.pop_front().unwrap_or_else(|| Err(none()))
    }
}
