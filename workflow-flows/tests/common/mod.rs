//! Flows, tools and an evaluator for the tests of the interpreter.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_flows::expression::{Evaluator, ExpressionError, Path, Scope};
use workflow_flows::graph::{Flow, MissingPath};
use workflow_flows::{
    ErrorClass, Evaluate, FlowError, FlowRuntime, FlowRuntimeBuilder, FlowStart, Tool, ToolCall, ToolError, flow,
};
use workflow_sdk::ClientError;
use workflow_testing::{TestEnv, TestError, TestRun, idempotent_effect};

/// Returns a flow with this body and these further keys.
pub fn flow_with(body: Value, further: Value) -> Flow {
    let mut document = json!({
        "language": 1, "name": "test", "input": true, "timeout": 86_400_000, "on_timeout": "fail", "body": body,
    });
    for (key, value) in further.as_object().into_iter().flatten() {
        document[key] = value.clone();
    }
    serde_json::from_value(document).expect("a flow of a test is well formed")
}

/// Returns a flow of these steps, one after the other.
pub fn steps(steps: Value) -> Flow {
    flow_with(json!({ "do": steps }), json!({}))
}

/// Returns a step that calls a tool.
pub fn tool(id: &str, name: &str, args: Value) -> Value {
    json!({ "id": id, "kind": { "tool": { "tool": name, "args": args } } })
}

/// Returns a step that calls the tool `echo`.
pub fn echo(id: &str, args: Value) -> Value {
    tool(id, "echo", args)
}

/// Returns a step of this kind.
pub fn step(id: &str, kind: Value) -> Value {
    json!({ "id": id, "kind": kind })
}

/// Adds keys to a step.
pub fn with(mut step: Value, further: Value) -> Value {
    for (key, value) in further.as_object().into_iter().flatten() {
        step[key] = value.clone();
    }
    step
}

/// Counts the calls of each tool.
#[derive(Debug, Clone, Default)]
pub struct Calls(Arc<Mutex<BTreeMap<String, u32>>>);

impl Calls {
    pub fn count(&self, key: &str) -> u32 {
        let mut calls = self.0.lock().unwrap();
        let count = calls.entry(key.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub fn of(&self, key: &str) -> u32 {
        self.0.lock().unwrap().get(key).copied().unwrap_or_default()
    }
}

/// Gives its arguments back, and marks an effect for the test kit.
pub struct Echo(pub Calls);

#[async_trait]
impl Tool for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        idempotent_effect("echo", &call.idempotency_key);
        self.0.count("echo");
        Ok(call.args)
    }
}

/// Returns a runtime with the tools of the tests:
/// * `echo` gives its arguments back
/// * `fail` fails with the class and the message of its arguments
/// * `flaky` fails so many `times` with the class `unavailable`, then gives its arguments
/// * `sleep` takes so many `ms`
pub fn runtime(calls: &Calls) -> FlowRuntimeBuilder {
    let (flaky, seen) = (calls.clone(), calls.clone());
    FlowRuntime::builder()
        .evaluator(Mini)
        .custom_tool(Echo(calls.clone()))
        .tool("fail", |args: Value, _call: ToolCall| async move {
            let class = serde_json::from_value(args["class"].clone()).unwrap_or(ErrorClass::Failed);
            Err::<Value, _>(ToolError::new(class, args["message"].as_str().unwrap_or("it fails")))
        })
        .tool("flaky", move |args: Value, call: ToolCall| {
            let calls = flaky.clone();
            async move {
                let count = calls.count(&format!("flaky {}", call.idempotency_key));
                match u64::from(count) <= args["times"].as_u64().unwrap_or(1) {
                    true => Err(ToolError::new(ErrorClass::Unavailable, "not yet")),
                    false => Ok(json!({ "count": count })),
                }
            }
        })
        .tool("sleep", |args: Value, _call: ToolCall| async move {
            tokio::time::sleep(std::time::Duration::from_millis(args["ms"].as_u64().unwrap_or(10))).await;
            Ok(args)
        })
        .tool("note", move |args: Value, _call: ToolCall| {
            let calls = seen.clone();
            async move {
                calls.count(args.as_str().unwrap_or_default());
                Ok(args)
            }
        })
}

/// Returns an env whose worker runs flows with the tools of the tests.
pub async fn env() -> TestEnv<FlowRuntime> {
    env_with(|calls| runtime(calls).build()).await.0
}

pub async fn env_with(build: impl Fn(&Calls) -> FlowRuntime + Send + Sync + 'static) -> (TestEnv<FlowRuntime>, Calls) {
    let calls = Calls::default();
    let shared = calls.clone();
    let env = TestEnv::with_state(move || build(&shared)).register(flow).await.expect("the env begins");
    (env, calls)
}

/// Runs a flow to its end.
pub async fn run(flow: Flow, input: Value) -> Result<Value, FlowError> {
    let env = env().await;
    finish(&env, flow, input).await.0
}

/// Runs a flow to its end in this env.
pub async fn finish(
    env: &TestEnv<FlowRuntime>,
    definition: Flow,
    input: Value,
) -> (Result<Value, FlowError>, TestRun<Value>) {
    let run = begin(env, definition, input).await;
    let result = match run.finish().await {
        Ok(value) => Ok(value),
        Err(TestError::Client(ClientError::RunFailed { error, .. })) => {
            Err(error.downcast().unwrap_or_else(|| panic!("{error:?}")))
        }
        Err(other) => panic!("{other}"),
    };
    (result, run)
}

/// Starts a flow in this env.
pub async fn begin(env: &TestEnv<FlowRuntime>, definition: Flow, input: Value) -> TestRun<Value> {
    env.start(flow, FlowStart::new(definition).input(input).actor("ann")).await.expect("the run starts")
}

/// Evaluates what the tests of the interpreter need: paths, literals, and one operator between two
/// of them. The expressions of workers have tests of their own.
#[derive(Debug, Clone, Copy)]
pub struct Mini;

const OPERATORS: [&str; 7] = [" == ", " != ", " <= ", " >= ", " < ", " > ", " + "];

fn operand(text: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
    let text = text.trim();
    if let Some(text) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return Ok(text.into());
    }
    if let Ok(literal) = serde_json::from_str::<Value>(text) {
        return Ok(literal);
    }
    let path = Path::parse(text).ok_or_else(|| ExpressionError::Failed(format!("{text:?} is no path")))?;
    match (path.resolve(scope), missing) {
        (Err(ExpressionError::Missing { .. }), MissingPath::Empty) => Ok("".into()),
        (found, _) => found.cloned(),
    }
}

fn evaluate(source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
    let Some((operator, (left, right))) = OPERATORS.iter().find_map(|op| Some((*op, source.split_once(op)?))) else {
        return operand(source, scope, missing);
    };
    let (left, right) = (operand(left, scope, missing)?, operand(right, scope, missing)?);
    let number = |value: &Value| value.as_i64().ok_or_else(|| ExpressionError::Failed("it is no number".to_owned()));
    Ok(match operator {
        " == " => json!(left == right),
        " != " => json!(left != right),
        " <= " => json!(number(&left)? <= number(&right)?),
        " >= " => json!(number(&left)? >= number(&right)?),
        " < " => json!(number(&left)? < number(&right)?),
        " > " => json!(number(&left)? > number(&right)?),
        _ => json!(number(&left)?.wrapping_add(number(&right)?)),
    })
}

pub fn render_mini(template: &Value, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
    Ok(match template {
        Value::String(text) => {
            if let Some(whole) = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"))
                && !whole.contains("{{")
            {
                return evaluate(whole, scope, missing);
            }
            let (mut rendered, mut rest) = (String::new(), text.as_str());
            while let Some((before, after)) = rest.split_once("{{") {
                let (inner, after) = after.split_once("}}").expect("a template of a test ends");
                rendered.push_str(before);
                match evaluate(inner, scope, missing)? {
                    Value::String(text) => rendered.push_str(&text),
                    other => rendered.push_str(&other.to_string()),
                }
                rest = after;
            }
            (rendered + rest).into()
        }
        Value::Array(items) => items.iter().map(|item| render_mini(item, scope, missing)).collect::<Result<_, _>>()?,
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| Ok((key.clone(), render_mini(value, scope, missing)?)))
            .collect::<Result<_, ExpressionError>>()?,
        other => other.clone(),
    })
}

pub fn value_mini(source: &str, scope: &Scope) -> Result<Value, ExpressionError> {
    evaluate(source, scope, MissingPath::Error)
}

#[async_trait]
impl Evaluate for Mini {
    async fn render(&self, template: &Value, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        render_mini(template, scope, missing)
    }

    async fn value(&self, source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        evaluate(source, scope, missing)
    }

    async fn jq(&self, program: &str, input: &Value) -> Result<Vec<Value>, ExpressionError> {
        let pointer = program.trim_start_matches('.').replace('.', "/");
        let found = input.pointer(&format!("/{}", pointer.trim_end_matches("[]")));
        let found = found.cloned().ok_or_else(|| ExpressionError::Failed("nothing is there".to_owned()))?;
        Ok(match found {
            Value::Array(items) if program.ends_with("[]") => items,
            other => vec![other],
        })
    }
}

/// The evaluator of workers on the thread of the caller, which stops virtual time meanwhile. jq is
/// that of [`Mini`], because the helper processes need a program of their own.
#[derive(Debug, Clone, Default)]
pub struct InPlace(pub Evaluator);

impl InPlace {
    pub fn render_now(&self, template: &Value, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        block_on(self.0.render(template, scope, missing))
    }

    pub fn value_now(&self, source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        block_on(self.0.value(source, scope, missing))
    }
}

#[async_trait]
impl Evaluate for InPlace {
    async fn render(&self, template: &Value, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        self.render_now(template, scope, missing)
    }

    async fn value(&self, source: &str, scope: &Scope, missing: MissingPath) -> Result<Value, ExpressionError> {
        self.value_now(source, scope, missing)
    }

    async fn jq(&self, program: &str, input: &Value) -> Result<Vec<Value>, ExpressionError> {
        Mini.jq(program, input).await
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which does nothing else meanwhile.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Refuses to evaluate anything.
#[derive(Debug, Clone, Copy)]
pub struct Panics;

#[async_trait]
impl Evaluate for Panics {
    async fn render(&self, _: &Value, _: &Scope, _: MissingPath) -> Result<Value, ExpressionError> {
        panic!("a template was rendered in a replay");
    }

    async fn value(&self, _: &str, _: &Scope, _: MissingPath) -> Result<Value, ExpressionError> {
        panic!("an expression was evaluated in a replay");
    }

    async fn jq(&self, _: &str, _: &Value) -> Result<Vec<Value>, ExpressionError> {
        panic!("a jq program ran in a replay");
    }
}
