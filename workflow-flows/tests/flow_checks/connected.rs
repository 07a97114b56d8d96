//! Checks that ask the servers of tools, and the policy.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_flows::check::{Checked, Severity};
use workflow_flows::expression::Evaluator;
use workflow_flows::{
    ErrorClass, FlowDocument, FlowRuntime, FlowRuntimeBuilder, FlowStore, Policy, ScriptedModel, Tool, ToolCall,
    ToolError, ToolServer,
};

use crate::{found, told};

/// How a server of these tests answers.
enum Manner {
    Lists(BTreeMap<String, Value>),
    Refuses,
    Never,
}

struct Server {
    name: String,
    manner: Manner,
    asked: AtomicUsize,
    actors: Mutex<Vec<String>>,
}

impl Server {
    fn new(name: &str, manner: Manner) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), manner, asked: AtomicUsize::new(0), actors: Mutex::default() })
    }

    fn lists(name: &str, tools: &[(&str, Value)]) -> Arc<Self> {
        let tools = tools.iter().map(|(tool, schema)| (format!("{name}/{tool}"), schema.clone())).collect();
        Self::new(name, Manner::Lists(tools))
    }
}

#[async_trait]
impl ToolServer for Server {
    fn name(&self) -> &str {
        &self.name
    }

    async fn schemas(&self, actor: &str) -> Result<BTreeMap<String, Value>, ToolError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.actors.lock().unwrap().push(actor.to_owned());
        match &self.manner {
            Manner::Lists(tools) => Ok(tools.clone()),
            Manner::Refuses => Err(ToolError::new(ErrorClass::Connection, "the connection was refused")),
            Manner::Never => std::future::pending().await,
        }
    }
}

/// A tool of a server. A check never calls it.
struct Served {
    name: String,
    schema: Value,
    server: Arc<Server>,
}

#[async_trait]
impl Tool for Served {
    fn name(&self) -> &str {
        &self.name
    }

    fn input_schema(&self) -> Value {
        self.schema.clone()
    }

    fn server(&self) -> Option<Arc<dyn ToolServer>> {
        Some(Arc::clone(&self.server) as Arc<dyn ToolServer>)
    }

    async fn call(&self, _call: ToolCall) -> Result<Value, ToolError> {
        panic!("a check calls no tool");
    }
}

fn with_tool(builder: FlowRuntimeBuilder, server: &Arc<Server>, tool: &str, schema: Value) -> FlowRuntimeBuilder {
    builder.custom_tool(Served { name: format!("{}/{tool}", server.name), schema, server: Arc::clone(server) })
}

fn document(steps: &[&str]) -> FlowDocument {
    let steps: String = steps.iter().enumerate().map(|(at, step)| format!("  - {{ id: s{at}, {step} }}\n")).collect();
    FlowDocument::new(format!("flow: 1\nname: connected\ndo:\n{steps}"))
}

async fn check(builder: FlowRuntimeBuilder, steps: &[&str]) -> Checked {
    document(steps).check_connected(&builder.build(), "ann").await.unwrap()
}

/// The errors, as `CODE at LINE`. The first step stands in line 4.
fn errors(checked: &Checked) -> Vec<String> {
    let found = found(checked, Severity::Error);
    found.iter().map(|found| found.split(':').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_server_is_asked_once_for_the_account() {
    let query = json!({ "properties": { "query": { "type": "string" } }, "required": ["query"] });
    let memory = Server::lists("memory", &[("search", query.clone()), ("write", json!({}))]);
    let unused = Server::lists("unused", &[]);
    let mut runtime = FlowRuntime::builder();
    for tool in ["search", "write", "forget"] {
        runtime = with_tool(runtime, &memory, tool, json!({}));
    }
    runtime = with_tool(runtime, &unused, "any", json!({}));
    let steps = ["tool: memory/search, args: { query: \"{{input.q}}\" }", "tool: memory/write"];
    let checked = check(runtime, &steps).await;
    assert!(checked.is_valid() && checked.findings.is_empty(), "{}", told(&checked));
    assert_eq!(*memory.actors.lock().unwrap(), ["ann"]);
    assert_eq!(unused.asked.load(Ordering::Relaxed), 0, "no step calls its tool");

    let steps = ["tool: memory/forget", "tool: memory/search, args: { quary: 1 }", "tool: memory/serch"];
    let runtime = ["search", "forget"]
        .into_iter()
        .fold(FlowRuntime::builder(), |runtime, tool| with_tool(runtime, &memory, tool, json!({ "type": "object" })));
    let checked = check(runtime, &steps).await;
    assert_eq!(errors(&checked), ["F071 at 4", "F071 at 5", "F040 at 6"], "{}", told(&checked));
    assert!(checked.flow.is_none());
}

#[tokio::test]
async fn a_schema_that_the_worker_never_asked_for_has_not_changed() {
    let memory = Server::lists("memory", &[("search", json!({ "required": ["query"] }))]);
    let runtime = with_tool(FlowRuntime::builder(), &memory, "search", Value::Bool(true));
    let checked = check(runtime, &["tool: memory/search, args: { quary: 1 }"]).await;
    assert_eq!(errors(&checked), ["F041 at 4"], "{}", told(&checked));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_one_finding() {
    let (silent, broken) = (Server::new("silent", Manner::Never), Server::new("broken", Manner::Refuses));
    let mut runtime = FlowRuntime::builder();
    for tool in ["a", "b"] {
        runtime = with_tool(runtime, &silent, tool, json!({}));
        runtime = with_tool(runtime, &broken, tool, json!({}));
    }
    let steps = ["tool: silent/a", "tool: silent/b", "tool: broken/a", "tool: broken/b"];
    let begun = tokio::time::Instant::now();
    let checked = check(runtime, &steps).await;
    assert!(begun.elapsed() < std::time::Duration::from_secs(16), "{:?}", begun.elapsed());
    assert_eq!(errors(&checked), ["F070 at 4", "F070 at 6"], "{}", told(&checked));
    let texts = told(&checked);
    assert!(texts.contains("did not answer within 15s") && texts.contains("the connection was refused"), "{texts}");
}

/// Schemas of strangers cost little.
#[tokio::test]
async fn schemas_of_servers_are_bounded() {
    let large: Value = (0..10_000).map(|at| (format!("p{at}"), json!({ "type": "string" }))).collect();
    for schema in [
        json!({ "properties": large, "additionalProperties": false }),
        json!({ "$ref": "#" }),
        json!({ "type": "nothing" }),
    ] {
        let server = Server::lists("hostile", &[("a", schema)]);
        let runtime = with_tool(FlowRuntime::builder(), &server, "a", json!({}));
        let checked = check(runtime, &["tool: hostile/a, args: { x: 1 }"]).await;
        assert!(checked.findings.is_empty(), "{}", told(&checked));
    }
}

#[tokio::test]
async fn what_the_runtime_lacks_is_found() {
    let steps = [
        "recipe: { prompt: Say hello. }",
        "recipe: summarize",
        "kb: { base: support, title: a, text: b }",
        "flow: refund",
        "workflow: refund-rust",
    ];
    let flows = || FlowRuntime::builder().flows(FlowStore::in_memory());
    let checked = check(flows(), &steps).await;
    let expected = ["F040 at 4", "F040 at 5", "F040 at 5", "F040 at 6", "F040 at 7"];
    assert_eq!(errors(&checked), expected, "{}", told(&checked));
    let checked = check(flows().model(ScriptedModel::new([])), &steps[..1]).await;
    assert!(checked.is_valid(), "{}", told(&checked));
    let checked = check(FlowRuntime::builder(), &steps[3..]).await;
    assert!(checked.is_valid(), "without a store, flows are not known: {}", told(&checked));
}

#[tokio::test]
async fn the_input_of_a_flow_is_that_of_the_version_which_is_called() {
    let store = FlowStore::in_memory();
    for (name, field) in [("sub", "a"), ("sub", "b"), ("connected", "old")] {
        let source =
            format!("flow: 1\nname: {name}\ninput: {{ required: [{field}] }}\ndo: [ {{ id: s, set: {{ x: 1 }} }} ]\n");
        let flow = workflow_flows::check::check(&source, &workflow_flows::check::Options::default()).flow.unwrap();
        store.deploy(&flow, "ann", None).await.unwrap();
    }
    let steps = [
        "flow: sub, args: { b: \"{{input.b}}\" }",
        "flow: sub, args: { a: 1 }",
        "flow: sub@1, args: { a: 1 }",
        "flow: sub@1, args: { b: 1 }",
        // The schema of the document counts, and not that of the version before it.
        "flow: connected, args: { new: 1 }",
    ];
    let checked = check(FlowRuntime::builder().flows(store.clone()), &steps).await;
    assert_eq!(errors(&checked), ["F041 at 5", "F041 at 7"], "{}", told(&checked));
    let checked = check(FlowRuntime::builder().flows(store), &["flow: sub@9", "flow: connected@9"]).await;
    assert_eq!(errors(&checked), ["F040 at 4", "F040 at 5"], "{}", told(&checked));
    assert!(told(&checked).contains("the flow \"sub\" has no version \"9\" in this worker"), "{}", told(&checked));
}

#[tokio::test]
async fn a_flow_that_calls_itself_can_be_deployed_the_first_time() {
    let flows = || FlowRuntime::builder().flows(FlowStore::in_memory());
    let checked = check(flows(), &["flow: connected"]).await;
    assert!(checked.is_valid(), "{}", told(&checked));
    assert_eq!(errors(&check(flows(), &["flow: connected@1"]).await), ["F040 at 4"]);
}

#[tokio::test]
async fn the_servers_of_channels_are_asked() {
    let memory = Server::lists("memory", &[("write", json!({}))]);
    let runtime = ["write", "tell"]
        .into_iter()
        .fold(FlowRuntime::builder(), |runtime, tool| with_tool(runtime, &memory, tool, Value::Bool(true)));
    let steps = ["approval: { notify: [memory/write, memory/tell] }", "handoff: { to: a, text: b, via: [pigeon] }"];
    let checked = check(runtime, &steps).await;
    assert_eq!(errors(&checked), ["F071 at 4", "F040 at 5"], "{}", told(&checked));
}

#[tokio::test]
async fn a_worker_that_cannot_run_jq_is_found_before_the_start() {
    let steps = ["set: { a: 1 }", "jq: \".input.a\"", "jq: \".input.b\""];
    // The main of this program does not begin with `jq_helper`.
    let checked = check(FlowRuntime::builder(), &steps).await;
    assert_eq!(errors(&checked), ["F040 at 5"], "{}", told(&checked));
    assert!(told(&checked).contains("this worker cannot run jq: jq needs "), "{}", told(&checked));
    let each = "loop: { for: { jq: \".input.items\" } }, do: [ { id: note, set: { b: \"{{item}}\" } } ]";
    assert_eq!(errors(&check(FlowRuntime::builder(), &[each]).await), ["F040 at 4"]);
    let checked = check(FlowRuntime::builder(), &steps[..1]).await;
    assert!(checked.is_valid(), "it needs no jq: {}", told(&checked));
    if cfg!(target_os = "linux") {
        let evaluator = Evaluator::builder().helper("/usr/bin/helper").build();
        let checked = check(FlowRuntime::builder().evaluator(evaluator), &steps).await;
        assert!(checked.is_valid(), "{}", told(&checked));
    }
}

/// Lets an account write to one base, and call no tool.
struct OnlyWrites;

impl Policy for OnlyWrites {
    fn may(&self, _actor: &str, tool: &str, args: &Value) -> bool {
        tool == "kb.write" && args["base"] == "support"
    }
}

#[tokio::test]
async fn the_policy_is_asked_with_the_arguments_of_the_document() {
    let steps = ["tool: shell, args: { x: 1 }", "kb: { base: other, title: a, text: b }"];
    let shell = |_args: Value, _call: ToolCall| async move { Ok(()) };
    let runtime = || FlowRuntime::builder().policy(OnlyWrites).tool("shell", shell);
    let checked = check(runtime(), &steps).await;
    assert_eq!(errors(&checked), ["F072 at 4", "F040 at 5", "F072 at 5"], "{}", told(&checked));
    let checked = check(runtime(), &["kb: { base: support, title: a, text: b }"]).await;
    assert_eq!(errors(&checked), ["F040 at 4"], "{}", told(&checked));
}
