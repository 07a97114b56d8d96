//! Runs flows whose tools get secrets and tokens, tell them in every way that a tool has, and looks
//! for them everywhere else.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use workflow_flows::check::{Options, check};
use workflow_flows::graph::Flow;
use workflow_flows::token::Tokens;
use workflow_flows::{
    ErrorClass, FlowClient, FlowRuntime, FlowStart, FlowStore, Flows, KbStore, Model, ModelAnswer, ModelCall, Policy,
    SecretStore, Tool, ToolCall, ToolError, flow,
};
use workflow_http::{Access, Actor, Redact, router_with_flows};
use workflow_sdk::{Encryption, EncryptionKey, Run, RunHandle, RunStatus, Timestamp};
use workflow_tests::log_capture::log_lines;
use workflow_tests::{Live, LocalWorker, RawConnection, until};

use crate::common::{Calls, flow_with, step, steps, tool, with};
use crate::logs::texts;

/// The secret of tools.
const BANK: &str = "s3cret-of-the-bank-7f2c";
/// The secret of a webhook.
const HOOK: &str = "s3cret-of-the-hook-91ad";
/// The secret of tokens.
const KEY: &str = "s3cret-of-the-tokens, 32 bytes at least";
/// Is no secret, and so shows that the search finds what is there.
const SHOWN: &str = "shown-to-all-5b3e";
/// Lets requests in.
const BEARER: &str = "bearer-of-the-test-c0de";

const GUIDE: &str = include_str!("../../../docs/guide/flows.md");

/// A deployed flow with a webhook.
const HOOKED: &str = "flow: 1\nname: hooked\ndo:\n  - { id: s, tool: leak, args: { auth: \"{{secrets.bank}}\" } }\n\
                      triggers:\n  - webhook: { path: orders, secret: \"{{secrets.hook}}\" }\n";

/// The things that tools have seen.
#[derive(Clone, Default)]
struct Seen {
    /// The calls with the secret, by the name of the tool.
    calls: Calls,
    tokens: Arc<Mutex<BTreeSet<String>>>,
}

/// Does what its name says, and repeats its arguments and its token wherever it can.
struct Leaky {
    name: String,
    seen: Seen,
}

#[async_trait]
impl Tool for Leaky {
    fn name(&self) -> &str {
        &self.name
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let text = call.args.to_string();
        if text.contains(BANK) {
            self.seen.calls.count(&self.name);
        }
        let tokens = [call.token.as_deref(), call.args["data"]["token"].as_str()];
        self.seen.tokens.lock().unwrap().extend(tokens.into_iter().flatten().map(str::to_owned));
        let answer = format!("no answer to {text} with {:?}", call.token);
        match self.name.as_str() {
            "refuses" | "risky" | "tell" | "mail" => Err(ToolError::new(ErrorClass::Failed, answer)),
            "refuses_once" if self.seen.calls.count(&call.idempotency_key) == 1 => {
                Err(ToolError::new(ErrorClass::Unavailable, answer))
            }
            "panics" => panic!("{answer}"),
            "slow" => std::future::pending().await,
            _ => Ok(json!({
                "seen": call.args, (text): 1, "token": call.token, "text": answer, "status": 200, "documents": [],
                "body": { "id": 1, "done": true },
            })),
        }
    }
}

struct Rules;

impl Policy for Rules {
    fn may(&self, _actor: &str, tool: &str, _args: &Value) -> bool {
        tool != "forbidden"
    }
}

struct Oracle;

#[async_trait]
impl Model for Oracle {
    async fn complete(&self, _call: ModelCall) -> Result<ModelAnswer, ToolError> {
        Ok(ModelAnswer::new(json!({ "severity": "high", "answer": "a", "ok": true, "text": "t" })))
    }
}

fn args() -> Value {
    json!({ "auth": "Bearer {{secrets.bank}}", "n": "{{input.n}}" })
}

/// The flow that another one calls.
fn child() -> Flow {
    let mut flow = steps(json!([tool("c", "leak", args()), tool("d", "refuses", args())]));
    flow.name = "leaks".to_owned();
    flow
}

/// One flow for each way in which a value of a tool is kept or told. Each ends by itself.
fn flows() -> Vec<(&'static str, Flow)> {
    let one = |step: Value| steps(json!([step]));
    let leak = |id: &str| tool(id, "leak", args());
    let refuses = |id: &str| tool(id, "refuses", args());
    let block = |step: Value| json!({ "do": [step] });
    let retry = json!({ "attempts": 2, "backoff": { "constant": { "delay": 5 } } });
    let told = tool("t", "leak", json!({ "message": "{{error.message}}", "auth": "{{secrets.bank}}" }));
    let each = json!({ "until": { "for": [1, 2] }, "max": 9, "concurrency": 2, "body": block(leak("in")) });
    let both = json!({ "branches": [["a", block(leak("x"))], ["b", block(refuses("y"))]], "mode": "settle" });
    let nap = step("nap", json!({ "wait": { "for": 3_600_000 } }));
    let first = json!({ "branches": [["a", block(leak("x"))], ["b", block(nap)]], "mode": "race" });
    vec![
        ("result", one(with(leak("s"), json!({ "output": { "auth": "{{result.seen.auth}}", "all": "{{result}}" } })))),
        ("error", one(refuses("s"))),
        ("panic", one(tool("s", "panics", args()))),
        ("timeout", one(with(tool("s", "slow", args()), json!({ "timeout": 20 })))),
        ("policy", one(tool("s", "forbidden", args()))),
        ("expression", one(tool("s", "leak", json!({ "auth": "{{secrets.bank + 1}}" })))),
        ("path", one(tool("s", "leak", json!({ "auth": "{{secrets.bank.x}}" })))),
        ("retry", one(with(tool("s", "refuses_once", args()), json!({ "retry": retry })))),
        ("on_error", one(with(refuses("s"), json!({ "on_error": { "do": block(told.clone()) } })))),
        ("undo", steps(json!([with(leak("a"), json!({ "undo": { "tool": "leak", "args": args() } })), refuses("b")]))),
        ("loop", one(step("s", json!({ "loop": each })))),
        ("branches", one(step("s", json!({ "parallel": both })))),
        ("race", one(step("s", json!({ "parallel": first })))),
        ("child", one(step("s", json!({ "flow": { "name": "leaks", "args": { "n": 1 } } })))),
        ("external", one(step("s", json!({ "tool": { "tool": "leak", "args": args(), "external": true } })))),
        (
            "approval",
            steps(json!([
                step("s", json!({ "approval": { "to": ["ops"], "title": "Ship?", "notify": ["tell"] } })),
                leak("a"),
            ])),
        ),
        ("handoff", one(step("s", json!({ "handoff": { "to": "ops", "text": "n is {{input.n}}", "via": ["tell"] } })))),
        (
            "emit",
            steps(json!([
                leak("a"),
                step("s", json!({ "emit": { "event": "e", "key": "k", "data": "{{steps.a}}" } }))
            ])),
        ),
        (
            "kb",
            steps(json!([
                leak("a"),
                step("s", json!({ "kb": { "base": "b", "title": "{{steps.a.seen.auth}}", "text": "{{steps.a}}" } })),
            ])),
        ),
        ("after", flow_with(block(refuses("s")), json!({ "on_error": block(told) }))),
    ]
}

/// The flows of the guide, each of whose tools gets the secret, and the names of these tools.
fn flows_of_the_guide() -> (Vec<Flow>, BTreeSet<String>) {
    let fences = GUIDE.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut tools = BTreeSet::new();
    let give = |source: &str| {
        let checked = check(source, &Options::default());
        let mut graph = serde_json::to_value(checked.flow.expect("the flows of the guide are valid")).unwrap();
        give_secret(&mut graph, &mut tools);
        serde_json::from_value::<Flow>(graph).unwrap()
    };
    let flows: Vec<Flow> = fences.filter(|text| text.contains("flow: 1")).map(give).collect();
    (flows, tools)
}

/// Adds the secret to the arguments of each tool.
fn give_secret(graph: &mut Value, tools: &mut BTreeSet<String>) {
    if let Some(name) = graph["tool"].as_str() {
        tools.insert(name.to_owned());
        if !graph["args"].is_object() {
            graph["args"] = json!({});
        }
        graph["args"]["auth"] = json!("Bearer {{secrets.bank}}");
    }
    match graph {
        Value::Array(items) => items.iter_mut().for_each(|item| give_secret(item, tools)),
        Value::Object(entries) => entries.values_mut().for_each(|value| give_secret(value, tools)),
        _ => {}
    }
}

/// An input that fits all flows of the guide.
fn input() -> Value {
    json!({
        "shown": SHOWN, "n": 3, "xs": [{ "name": "a" }], "a": "x", "b": "y", "priority": 9, "account": "acc",
        "order": { "id": "o-1", "total": 5 }, "topic": "t", "total": 20_000, "severity": "critical", "url": "u",
        "items": [{ "name": "i", "active": true }], "lead": "l", "id": "t-1", "owner": "ann", "subject": "s",
        "text": "x", "customer": "c", "receivers": ["r@example.test"], "nick": "n",
    })
}

/// Serves the interface with all fields of payloads.
async fn serve(db: &Live, flows: Flows) -> SocketAddr {
    let access = Access::token(BEARER, Actor::admin("ann")).redact(Redact::nothing());
    let app = axum::Router::new().nest("/workflows", router_with_flows(db.client.clone(), access, flows));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// Asks by HTTP/1.0, so that the answer ends with the connection. Returns its head and its body.
async fn ask(address: SocketAddr, request: String, header: String, body: String) -> String {
    let (method, path) = request.split_once(' ').unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} /workflows/api/v1{path} HTTP/1.0\r\nHost: {address}\r\n{header}\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Asks as an admin.
fn ask_as_admin(address: SocketAddr, request: String, body: &Value) -> impl Future<Output = String> + Send + use<> {
    ask(address, request, format!("Authorization: Bearer {BEARER}"), body.to_string())
}

/// Returns the columns of all tables that hold a text.
async fn columns_with(db: &Live, text: &str) -> Vec<String> {
    let mut raw = db.raw().await;
    let mut found = Vec::new();
    for table in raw.table_names().await {
        for column in raw.column_names(&table).await {
            let holds = match raw {
                RawConnection::Sqlite(_) => format!("instr(CAST(\"{column}\" AS BLOB), CAST('{text}' AS BLOB)) > 0"),
                RawConnection::Postgres(_) => format!("position('{text}' in CAST(\"{column}\" AS text)) > 0"),
            };
            if raw.number(format!("SELECT COUNT(*) FROM {table} WHERE {holds}")).await > 0 {
                found.push(format!("{table}.{column}"));
            }
        }
    }
    found
}

async fn start(db: &Live, flow: Flow) -> RunHandle<Value> {
    db.client.start_definition(FlowStart::new(flow).input(input()).actor("ann")).await.unwrap()
}

/// Approves what the run asks for. Returns the run, or `None` if it asked for something.
async fn answered(db: &Live, run: &RunHandle<Value>) -> Option<Run> {
    let asked = db.client.approvals_of(run.id()).await.unwrap();
    for gate in &asked {
        db.client.approve(run.id(), &gate.key, "ops").await.unwrap();
    }
    if asked.is_empty() { Some(run.run().await.unwrap()) } else { None }
}

/// Returns whether a run has ended, or waits for more than a moment.
fn rests(run: &Run) -> bool {
    let soon = Timestamp::from(SystemTime::now() + Duration::from_secs(1));
    run.status.is_terminal() || run.status == RunStatus::Parked && run.available_at > soon
}

pub async fn no_secret_of_a_flow_is_kept_or_told(db: Live) {
    let store = FlowStore::connect(&db.url_of_tables()).await.unwrap();
    store.deploy(&child(), "ann", None).await.unwrap();
    let kb = KbStore::connect(&db.url_of_tables()).await.unwrap();
    let key = EncryptionKey::new("k1", [7; 32]).unwrap();
    let secrets = SecretStore::connect(&db.url_of_tables(), Encryption::new(key)).await.unwrap();
    for (actor, name, value) in [("ann", "bank", BANK), ("", "hook", HOOK)] {
        secrets.set(actor, name, value).await.unwrap();
    }
    let tokens = Tokens::new(KEY).unwrap();
    let seen = Seen::default();
    let (of_guide, mut names) = flows_of_the_guide();
    let own = ["leak", "refuses", "refuses_once", "panics", "slow", "forbidden", "tell", "mail", "in-app"];
    names.extend(own.map(str::to_owned));
    let recipe = serde_json::from_value(json!({ "prompt": "Sum up.", "output": {} })).unwrap();
    let builder = FlowRuntime::builder()
        .secrets(secrets.clone())
        .tokens(tokens.clone())
        .policy(Rules)
        .model(Oracle)
        .recipe("summarize-v2", recipe)
        .flows(store.clone())
        .knowledge_base(kb);
    let tools = names.into_iter().map(|name| Arc::new(Leaky { name, seen: seen.clone() }) as Arc<dyn Tool>);
    let working = LocalWorker::start(db.worker(builder.tools(tools).build()).register(flow));
    let server = serve(&db, Flows::new(db.client.clone(), store).secrets(secrets).tokens(tokens)).await;

    let (mut runs, mut streams) = (Vec::new(), Vec::new());
    for (name, flow) in flows() {
        let run = start(&db, flow).await;
        let events = format!("GET /runs/{}/events", run.id());
        streams.push(tokio::spawn(ask_as_admin(server, events, &Value::Null)));
        if name == "external" {
            run.signal("done:s", &json!({ "result": 1 })).await.unwrap();
        }
        let ends = async || answered(&db, &run).await.filter(|run| run.status.is_terminal()).map(drop);
        until(&format!("the end of {name}"), ends).await;
        runs.push(run);
    }
    for flow in of_guide {
        let name = flow.name.clone();
        let run = start(&db, flow).await;
        let waits = async || answered(&db, &run).await.filter(rests).map(drop);
        until(&format!("{name} ends or waits for time or an event"), waits).await;
        run.cancel().await.unwrap();
        runs.push(run);
    }

    let deploy = json!({ "document": HOOKED });
    let mut told = ask_as_admin(server, "PUT /flows/hooked".into(), &deploy).await;
    let started = ask_as_admin(server, "POST /flows:run?wait=20s".into(), &json!({ "flow": "hooked" })).await;
    assert!(started.contains(" 200 ") || started.contains(" 201 "), "{started}");
    let forged = "webhook-id: m-1\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,AAAA".to_owned();
    let refused = ask(server, "POST /hooks/orders".into(), forged, "{}".into()).await;
    assert!(refused.contains(" 401 "), "{refused}");
    told.extend([started, refused]);
    for run in &runs {
        if let Err(error) = run.result().await {
            told += &texts(&error);
        }
        told += &db.client.explain(run.id()).await.unwrap().to_string();
        told += &db.client.export(run.id()).await.unwrap().to_json();
        for part in ["", "/history", "/timeline", "/result", "/events"] {
            told += &ask_as_admin(server, format!("GET /runs/{}{part}", run.id()), &Value::Null).await;
        }
    }
    for path in ["/runs", "/flows", "/flows/hooked", "/flows/hooked/diagram", "/audit", "/failures"] {
        told += &ask_as_admin(server, format!("GET {path}"), &Value::Null).await;
    }
    let mut streamed = String::new();
    for stream in streams {
        streamed += &stream.await.unwrap();
    }
    working.stop().await;

    for tool in ["leak", "refuses", "refuses_once", "panics", "slow"] {
        assert!(seen.calls.of(tool) > 0, "{tool} got no secret");
    }
    let of_tools = ["log", "http", "kb.search", "work", "risky", "page"];
    let without: Vec<&str> = of_tools.into_iter().filter(|tool| seen.calls.of(tool) == 0).collect();
    assert!(without.is_empty(), "tools of the guide that got no secret: {without:?}");
    assert!(told.contains("[secret bank]") && streamed.contains("event: end"), "{streamed}");
    assert!(columns_with(&db, "bank").await.contains(&"workflow_flow_secrets.name".to_owned()));
    assert!(told.contains(SHOWN) && columns_with(&db, SHOWN).await.contains(&"workflow_runs.input".to_owned()));

    let tokens = seen.tokens.lock().unwrap().clone();
    assert!(tokens.iter().filter(|token| token.starts_with("st_")).count() >= 2, "{tokens:?}");
    for mark in tokens.iter().map(String::as_str).chain([BANK, HOOK, KEY]) {
        for (place, text) in [("an answer or an error", &told), ("a stream", &streamed)] {
            let at = text.find(mark).map(|at| text[..at].chars().rev().take(200).collect::<Vec<_>>());
            let before = at.map(|before| before.into_iter().rev().collect::<String>());
            assert_eq!(before, None, "{place} has the secret behind this");
        }
        let lines = log_lines(&[mark]);
        assert!(lines.is_empty(), "{} lines of the log; the first: {}", lines.len(), lines[0]);
        assert_eq!(columns_with(&db, mark).await, Vec::<String>::new());
    }
}
