//! The runtime of a dry run: every tool, model and other run is a stub that keeps its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::executor::block_on;
use serde::Serialize;
use serde_json::{Value, json};
use workflow_flows::expression::{Evaluator, ExpressionError, Scope};
use workflow_flows::graph::{Flow, Kind, MissingPath, Recipe, ToolUse};
use workflow_flows::{
    ErrorClass, Evaluate, FlowRuntime, Model, ModelAnswer, ModelCall, Secrets, Tool, ToolCall, ToolError,
};

use super::example::{Placeholders, of_schema};
use super::stub::{Stubs, step_id};

/// The time that a stub takes which never answers. The limit of the step or of the flow ends it.
const NEVER: Duration = Duration::from_secs(20 * 365 * 86_400);

/// The beginning of the name of a stub that takes the documents for a knowledge base.
const KB: &str = "kb ";

/// Carries the messages of a flow that names no channel.
const CHANNEL: &str = "channel";

/// One call of a stub.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Call {
    /// The key of the step's record.
    pub(crate) step: String,
    pub(crate) tool: String,
    pub(crate) args: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The stubs of one dry run and the calls that they got.
#[derive(Debug)]
pub(crate) struct Desk {
    stubs: Stubs,
    placeholders: Placeholders,
    /// Whether a call without a stub fails.
    is_strict: bool,
    calls: Mutex<Vec<Call>>,
    counts: Mutex<BTreeMap<String, usize>>,
}

impl Desk {
    pub(crate) fn new(flow: &Flow, stubs: Stubs, is_strict: bool) -> Self {
        let placeholders = Placeholders::of(flow);
        Self { stubs, placeholders, is_strict, calls: Mutex::default(), counts: Mutex::default() }
    }

    pub(crate) fn stubs(&self) -> &Stubs {
        &self.stubs
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Returns the result of a step that has no stub.
    pub(crate) fn placeholder(&self, id: &str) -> Value {
        self.placeholders.of_step(id)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        lock(&self.calls).clone()
    }

    /// Counts from 0 how often this was asked for.
    pub(crate) fn count(&self, name: String) -> usize {
        let mut counts = lock(&self.counts);
        let count = counts.entry(name).or_default();
        *count += 1;
        *count - 1
    }

    /// Answers one call, after the virtual time that its stub takes. Without a stub it gives the
    /// example; without that too, it fails.
    async fn answer(&self, key: &str, tool: &str, args: Value, example: Option<Value>) -> Result<Value, ToolError> {
        // The key begins with the id of the run.
        let step = key.split_once('/').map_or(key, |(_, step)| step).to_owned();
        let of_step = self.stubs.of_step(&step, self.count(format!("step {step}")));
        let found = of_step.or_else(|| self.stubs.of_tool(tool, self.count(format!("tool {tool}"))));
        // A call that its step gives up stays in the list, without an outcome.
        let number = self.begin(Call { step: step.clone(), tool: tool.to_owned(), args, result: None, error: None });
        let outcome = match found {
            Some(answer) => {
                tokio::time::sleep(answer.delay().unwrap_or(NEVER)).await;
                answer.outcome()
            }
            None => example.ok_or_else(|| no_stub(&step, tool)),
        };
        self.end(number, &outcome);
        outcome
    }

    /// Adds a call to the list, and returns its number.
    fn begin(&self, call: Call) -> usize {
        let mut calls = lock(&self.calls);
        calls.push(call);
        calls.len() - 1
    }

    fn end(&self, number: usize, outcome: &Result<Value, ToolError>) {
        if let Some(call) = lock(&self.calls).get_mut(number) {
            call.result = outcome.as_ref().ok().cloned();
            call.error = outcome.as_ref().err().map(ToString::to_string);
        }
    }

    /// Keeps the answer of a person or an event.
    pub(crate) fn note(&self, step: String, kind: &str, answer: &Value) {
        let call = Call { step, tool: kind.to_owned(), args: Value::Null, result: Some(answer.clone()), error: None };
        lock(&self.calls).push(call);
    }
}

fn no_stub(step: &str, tool: &str) -> ToolError {
    let message = format!("no stub answers {tool:?} here; add it to tools, or {:?} to steps", step_id(step));
    ToolError::new(ErrorClass::Invalid, message)
}

/// Returns the flow with a stub in the place of each other run and each write to a knowledge base.
pub(crate) fn with_stubs(mut flow: Flow) -> Flow {
    flow.for_each_step_mut(|step| {
        let stand_in = match &step.kind {
            Kind::Flow(call) => {
                let kind = if call.is_workflow { "workflow" } else { "flow" };
                ToolUse {
                    tool: format!("{kind} {}", call.name),
                    args: call.args.clone(),
                    external: false,
                    texts: false,
                }
            }
            Kind::Kb(write) => {
                let args = json!({ "title": write.title, "text": write.text, "key": write.key, "tags": write.tags });
                ToolUse { tool: format!("{KB}{}", write.base), args, external: false, texts: false }
            }
            // The message that ends a step from outside is the answer of its stub.
            Kind::Tool(call) if call.external => ToolUse { external: false, ..call.clone() },
            _ => return,
        };
        step.kind = Kind::Tool(stand_in);
    });
    flow
}

/// Returns the runtime in which a flow runs that [`with_stubs`] has made.
pub(crate) fn stub_runtime(flow: &Flow, desk: &Arc<Desk>) -> FlowRuntime {
    let mut builder = FlowRuntime::builder().evaluator(InPlace(Evaluator::new())).model(StubModel(Arc::clone(desk)));
    let (mut tools, mut recipes) = (BTreeSet::new(), BTreeSet::new());
    let mut channels = BTreeSet::from([CHANNEL.to_owned()]);
    flow.for_each_step(|step| {
        match &step.kind {
            Kind::Tool(call) => drop(tools.insert(call.tool.clone())),
            Kind::Handoff(handoff) => channels.extend(handoff.via.iter().cloned()),
            Kind::Approval(approval) => channels.extend(approval.notify.iter().cloned()),
            Kind::Recipe(recipe) => recipes.extend(recipe.name.clone()),
            _ => {}
        }
        tools.extend(step.undo.as_ref().map(|undo| undo.tool.clone()));
    });
    for name in channels.difference(&tools).chain(&tools) {
        let is_channel = !tools.contains(name);
        builder = builder.custom_tool(StubTool { name: name.clone(), is_channel, desk: Arc::clone(desk) });
    }
    for name in recipes {
        let prompt = format!("the recipe {name} with {{{{args}}}}");
        // The recipe's schema is known to the worker alone, so its answer may be any value here.
        let output = Some(Value::Bool(true));
        builder = builder.recipe(name, Recipe { prompt: Some(prompt), output, ..Recipe::default() });
    }
    builder.channel(CHANNEL).secrets(StubSecrets).build()
}

struct StubTool {
    name: String,
    /// Whether the flow uses the tool only to send messages, so that nothing reads its results.
    is_channel: bool,
    desk: Arc<Desk>,
}

#[async_trait]
impl Tool for StubTool {
    fn name(&self) -> &str {
        &self.name
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let key = &call.idempotency_key;
        let placeholder = || self.desk.placeholder(step_id(key));
        let example = match (self.is_channel, self.desk.is_strict) {
            (true, _) => Some(Value::Null),
            (false, strict) => (!strict).then(placeholder),
        };
        let mut args = call.args;
        if self.name.starts_with(KB) {
            flatten_tags(&mut args);
        }
        self.desk.answer(key, &self.name, args, example).await
    }
}

/// Makes the tags of a document a list of texts, as a run does: a list among them stands for its
/// items.
fn flatten_tags(args: &mut Value) {
    let Some(tags) = args.get_mut("tags").and_then(Value::as_array_mut) else { return };
    let flat = std::mem::take(tags).into_iter().flat_map(|tag| match tag {
        Value::Array(items) => items,
        tag => vec![tag],
    });
    *tags = flat.map(|tag| if tag.is_string() { tag } else { tag.to_string().into() }).collect();
}

struct StubModel(Arc<Desk>);

#[async_trait]
impl Model for StubModel {
    async fn complete(&self, call: ModelCall) -> Result<ModelAnswer, ToolError> {
        let text = || self.0.placeholder(step_id(&call.idempotency_key));
        let schema = call.output.as_ref().filter(|schema| !schema.is_boolean());
        let example = (!self.0.is_strict).then(|| schema.map_or_else(text, of_schema));
        let answer = self.0.answer(&call.idempotency_key, "model", json!({ "prompt": call.prompt }), example).await;
        answer.map(ModelAnswer::new)
    }
}

/// Gives the name of a secret in place of the secret, so that none is printed.
struct StubSecrets;

#[async_trait]
impl Secrets for StubSecrets {
    async fn get(&self, _actor: &str, name: &str) -> Result<Option<String>, ToolError> {
        Ok(Some(format!("[secret {name}]")))
    }
}

/// Evaluates on the thread of the caller, which stops virtual time meanwhile.
#[derive(Debug)]
struct InPlace(Evaluator);

#[async_trait]
impl Evaluate for InPlace {
    async fn render(&self, template: &Value, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        block_on(self.0.render(template, scope, missing))
    }

    async fn value(&self, source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        block_on(self.0.value(source, scope, missing))
    }

    async fn jq(&self, program: &str, input: &Value) -> Result<Vec<Value>, ExpressionError> {
        block_on(self.0.jq(program, input))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
