//! Flows over a real connection, on each database: from the document to the answer of its gates.

use crate::common::{Server, beside, flow_store};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use workflow_flows::signature::Webhook;
use workflow_flows::token::{Gate, Tokens};
use workflow_flows::{FixedSecrets, FlowRuntime, FlowRuntimeBuilder, Flows, Policy, ToolCall, flow};
use workflow_http::{Access, Actor, router_with_flows};
use workflow_sdk::operate::{Action, Order, OrderOutcome, StartRun};
use workflow_sdk::prelude::*;
use workflow_tests::{Database, Live, LocalWorker};

const KEY: &[u8] = b"a secret of tokens, of 32 bytes at least";

async fn flows(live: &Live) -> Flows {
    Flows::new(live.client.clone(), flow_store(live).await).tokens(Tokens::new(KEY).unwrap())
}

/// Lets in each request with the role and the name that its token says, as `admin ann`.
fn by_token() -> Access {
    Access::by(async |parts| {
        let header = parts.headers.get("authorization")?.to_str().ok()?;
        let (role, name) = header.strip_prefix("Bearer ")?.split_once(' ')?;
        Some(match role {
            "admin" => Actor::admin(name),
            "operator" => Actor::operator(name),
            _ => Actor::viewer(name).without_payloads(),
        })
    })
}

async fn serve(live: &Live, access: Access) -> Server {
    Server::serve(router_with_flows(live.client.clone(), access, flows(live).await)).await
}

/// Tools that tell their actor and arguments.
fn tools() -> FlowRuntimeBuilder {
    let names = ["knowledge_add", "knowledge_search", "knowledge_get", "get_greeting", "pushover_send"];
    let says = |name: &'static str| {
        move |args: Value, call: ToolCall| async move { Ok(json!({ "tool": name, "args": args, "actor": call.actor })) }
    };
    let builder = names.iter().fold(FlowRuntime::builder(), |builder, name| builder.tool(*name, says(name)));
    builder.tool("is_admin", |_: Value, call: ToolCall| async move { Ok(call.actor == "root") })
}

/// Waits until the run waits for the step with this key, and returns its path.
fn waits_for(server: &Server, run: &str, what: &str) {
    loop {
        let page = server.get(&format!("/api/v1/runs/{run}/history"));
        let items = page.json()["items"].as_array().cloned().unwrap_or_default();
        let is_open = |item: &Value| item["step"] == what && item["status"] != "succeeded";
        if items.iter().any(is_open) {
            return;
        }
    }
}

/// Returns the gate of a visit in the first generation of a run.
fn gate_of(run: &str, key: &str, visit: u32) -> Gate {
    Gate { run: run.to_owned(), generation: 0, key: key.to_owned(), visit }
}

fn result(server: &Server, run: &str) -> Value {
    server.get(&format!("/api/v1/runs/{run}/result?wait=60s")).json()
}

fn start(server: &Server, body: &Value) -> String {
    let response = server.post("/api/v1/flows:run", body);
    assert_eq!(response.status, 201, "{}", response.text);
    response.json()["run"].as_str().unwrap().to_owned()
}

/// The maps of the implementation of the engine with two tables, as they stand there.
const MAPS: [(&str, &str); 3] = [
    ("branching", include_str!("../../../workflow-flows/tests/two_table/branching.json")),
    ("gate", include_str!("../../../workflow-flows/tests/two_table/gate.json")),
    ("research", include_str!("../../../workflow-flows/tests/two_table/research.json")),
];

async fn the_two_table_maps_run(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(tools().build()).register(flow));
    let james = serve(&live, by_token()).await.with("admin james");
    let root = serve(&live, by_token()).await.with("operator root");
    beside(move || {
        for (name, map) in MAPS {
            let deployed = james.put(&format!("/api/v1/flows/{name}"), &json!({ "document": map }));
            assert_eq!((deployed.status, &deployed.json()["version"]), (201, &json!("1")), "{}", deployed.text);
        }
        let research = json!({ "flow": "research", "input": { "topic": "AI safety" } });
        let run = start(&james, &research);
        assert_eq!(
            result(&james, &run)["output"]["json"],
            json!({ "tool": "pushover_send", "args": { "message": "Research complete" }, "actor": "james" })
        );
        for (server, tool) in [(&root, "knowledge_add"), (&james, "get_greeting")] {
            let run = start(server, &json!({ "flow": "branching" }));
            assert_eq!(result(server, &run)["output"]["json"]["tool"], tool);
        }
        let run = start(&james, &json!({ "flow": "gate", "input": { "title": "T", "body": "B" } }));
        waits_for(&james, &run, "start");
        let waiting = james.get(&format!("/api/v1/approvals?run={run}")).json();
        assert_eq!((&waiting["items"][0]["key"], &waiting["items"][0]["to"]), (&json!("start"), &json!("james")));
        let ready = format!("/api/v1/steps/{run}/start/ready");
        assert_eq!(root.post(&ready, &json!({ "note": "fine" })).json()["outcome"], "decided");
        let again = james.post(&ready, &json!({ "approved": false })).json();
        assert_eq!((&again["outcome"], &again["by"]), (&json!("already_decided"), &json!("root")));
        let output = result(&james, &run)["output"]["json"].clone();
        assert_eq!(output, json!({ "tool": "knowledge_add", "args": { "title": "T", "body": "B" }, "actor": "james" }));
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_table_maps_run_on_sqlite() {
    the_two_table_maps_run(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_table_maps_run_on_postgres() {
    the_two_table_maps_run(Database::Postgres).await;
}

const ORDER: &str = "flow: 1\nname: order\ndescription: Ships.\ninput: { type: object, required: [id] }\n\
                     do:\n  - { id: say, set: { id: \"{{input.id}}\" } }\n";

async fn a_document_is_deployed_whole_or_not_at_all(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(tools().build()).register(flow));
    let admin = serve(&live, by_token()).await.with("admin ann");
    let viewer = serve(&live, by_token()).await.with("viewer vic");
    beside(move || {
        let broken = ORDER.replace("say,", "say, tols: 1,");
        let checked = admin.post("/api/v1/flows:check", &json!({ "document": broken })).json();
        assert_eq!((&checked["valid"], &checked["findings"][0]["code"]), (&json!(false), &json!("F010")), "{checked}");
        let valid = json!({ "document": ORDER, "input": {} });
        let checked = viewer.post("/api/v1/flows:check", &valid).json();
        assert_eq!((&checked["valid"], &checked["findings"][0]["code"]), (&json!(false), &json!("F060")), "{checked}");
        let path = "/api/v1/flows/order";
        let problem = admin.put(path, &json!({ "document": broken })).refuses(422, "invalid_flow");
        assert_eq!((&problem["findings"][0]["code"], &problem["findings"][0]["line"]), (&json!("F010"), &json!(6)));
        assert_eq!(admin.get("/api/v1/flows").json(), json!([]), "nothing was deployed");
        viewer.put(path, &json!({ "document": ORDER })).refuses(403, "forbidden");
        admin.put("/api/v1/flows/other", &json!({ "document": ORDER })).refuses(400, "bad_input");
        admin.put(path, &json!({ "document": ORDER, "version": "a b" })).refuses(400, "bad_input");
        admin.put(path, &json!({ "document": ORDER, "verson": "1" })).refuses(400, "bad_input");
        admin.put(path, &json!({ "document": "x".repeat(4 * 1024 * 1024) })).refuses(413, "too_large");

        let first = admin.put(path, &json!({ "document": ORDER, "version": "1.0" }));
        assert_eq!((first.status, &first.json()["is_new"]), (201, &json!(true)), "{}", first.text);
        let again = admin.put(path, &json!({ "document": format!("# the same\n{ORDER}") }));
        assert_eq!(
            (again.status, &again.json()["version"], &again.json()["is_new"]),
            (200, &json!("1.0"), &json!(false))
        );
        let later = ORDER.replace("Ships.", "Ships it.");
        let problem = admin.put(path, &json!({ "document": later, "version": "1.0" })).refuses(409, "conflict");
        assert!(problem["detail"].as_str().unwrap().starts_with("F310"), "{problem}");
        assert_eq!(admin.put(path, &json!({ "document": later })).json()["version"], "2");

        let list = viewer.get("/api/v1/flows").json();
        assert_eq!((&list[0]["version"], &list[0]["description"]), (&json!("2"), &json!("Ships it.")));
        let versions = viewer.get("/api/v1/flows/order/versions").json();
        assert_eq!((&versions[0]["version"], &versions[1]["version"]), (&json!("2"), &json!("1.0")));
        let detail = admin.get("/api/v1/flows/order?version=1.0").json();
        assert_eq!((&detail["created_by"], &detail["definition"]["name"]), (&json!("ann"), &json!("order")));
        assert!(viewer.get(path).json().get("definition").is_none(), "the actor sees no payloads");
        viewer.get("/api/v1/flows/order/diagram").refuses(403, "forbidden");
        let diagram = admin.get("/api/v1/flows/order/diagram").json();
        assert_eq!(diagram["levels"], json!([["say"]]));
        assert!(diagram["mermaid"].as_str().unwrap().starts_with("flowchart"), "{diagram}");
        for path in ["/api/v1/flows/none", "/api/v1/flows/none/versions", "/api/v1/flows/order/diagram?version=9"] {
            admin.get(path).refuses(404, "not_found");
        }
        check_starts(&admin, &viewer);
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

fn check_starts(admin: &Server, viewer: &Server) {
    let run = "/api/v1/flows:run";
    let input = json!({ "id": 7 });
    viewer.post(run, &json!({ "flow": "order", "input": input })).refuses(403, "forbidden");
    admin.post(run, &json!({ "flow": "none", "input": input })).refuses(404, "not_found");
    admin.post(run, &json!({ "flow": "order", "version": "9", "input": input })).refuses(404, "not_found");
    let problem = admin.post(run, &json!({ "flow": "order", "input": {} })).refuses(400, "bad_input");
    assert!(problem["detail"].as_str().unwrap().contains("F060"), "{problem}");
    for both in [
        json!({ "flow": "order", "document": ORDER }),
        json!({}),
        json!({ "document": ORDER, "version": "1" }),
        json!({ "flow": "order", "name": "order", "input": input }),
        json!({ "document": ORDER, "name": "other", "input": input }),
    ] {
        admin.post(run, &both).refuses(400, "bad_input");
    }
    admin.post(run, &json!({ "document": "flow: 1" })).refuses(422, "invalid_flow");
    assert_eq!(admin.get("/api/v1/runs").json()["items"], json!([]), "nothing was started");

    let body = json!({ "flow": "order", "version": "1.0", "input": input, "key": "o-7", "tags": { "of": "shop" } });
    let first = start(admin, &body);
    let again = admin.post(run, &body);
    assert_eq!((again.status, &again.json()["run"]), (200, &json!(first)));
    assert_eq!(admin.get(&again.location(run)).json()["id"], first.as_str());
    admin.post(run, &json!({ "flow": "order", "input": { "id": 8 }, "key": "o-7" })).refuses(409, "conflict");
    let detail = result(admin, &first);
    assert_eq!(detail["output"]["json"], json!({ "id": 7 }));
    assert_eq!(
        (&detail["tags"], &detail["key"]),
        (&json!({ "flow": "order", "flow_version": "1.0", "of": "shop" }), &json!("order/o-7")),
        "{detail}"
    );
    assert_eq!(
        (&detail["input"]["json"]["version"], &detail["input"]["json"]["actor"]),
        (&json!("1.0"), &json!("ann"))
    );
    let inline = json!({ "document": ORDER.replace("name: order", "name: other"), "input": { "id": 1 }, "key": "o-7" });
    let inline = start(admin, &inline);
    assert_ne!(inline, first, "a key belongs to its flow");
    let named = start(admin, &json!({ "document": MAPS[1].1, "name": "gate-of-map", "input": {} }));
    assert_eq!(admin.get(&format!("/api/v1/runs/{named}")).json()["tags"]["flow"], "gate-of-map");
    let waited = admin.post("/api/v1/flows:run?wait=60s", &json!({ "flow": "order", "input": { "id": 3 } }));
    assert_eq!((waited.status, &waited.json()["output"]["json"]), (200, &json!({ "id": 3 })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_is_deployed_whole_or_not_at_all_on_sqlite() {
    a_document_is_deployed_whole_or_not_at_all(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_is_deployed_whole_or_not_at_all_on_postgres() {
    a_document_is_deployed_whole_or_not_at_all(Database::Postgres).await;
}

const GATES: &str = "flow: 1\nname: gates\ndo:\n  - { id: ship, approval: { to: ops, title: Ship?, show: { kg: 3 } } }\n  \
                     - { id: triage, decision: { prompt: Which?, options: { resolve: a, escalate: b } } }\n  \
                     - { id: free, decision: { prompt: What? } }\n\
                     output: { ship: \"{{steps.ship.by}}\", triage: \"{{steps.triage}}\", free: \"{{steps.free.choice}}\" }\n";

async fn a_gate_is_answered_once(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(tools().build()).register(flow));
    let operator = serve(&live, by_token()).await.with("operator olga");
    let viewer = serve(&live, by_token()).await.with("viewer vic");
    let bearer = serve(&live, by_token()).await;
    let read_only = serve(&live, Access::open().read_only()).await;
    let plain = Server::start(&live, Access::open()).await;
    beside(move || {
        let run = start(&operator, &json!({ "document": GATES }));
        waits_for(&operator, &run, "ship");
        let tokens = Tokens::new(KEY).unwrap();
        let token = |key: &str, visit| tokens.issue(&gate_of(&run, key, visit));
        let gate = |token: &str| format!("/api/v1/gates/{token}");
        let (ship, yes) = (token("ship", 0), json!({}));

        // Nothing of this decides anything.
        viewer.post(&format!("/api/v1/steps/{run}/ship/ready"), &yes).refuses(403, "forbidden");
        bearer.post(&format!("/api/v1/steps/{run}/ship/ready"), &yes).refuses(401, "unauthorized");
        read_only.post(&gate(&ship), &yes).refuses(403, "forbidden");
        let forged = Tokens::new(b"another secret of 32 bytes or more, 1").unwrap();
        let forged = forged.issue(&gate_of(&run, "ship", 0));
        for bad in [forged.as_str(), "st_", "x", &ship[..ship.len() - 1]] {
            bearer.post(&gate(bad), &yes).refuses(404, "not_found");
            bearer.get(&gate(bad)).refuses(404, "not_found");
        }
        for reader in [&bearer, &read_only] {
            let asked = reader.get(&gate(&ship)).json();
            let expected = json!({ "kind": "approval", "prompt": "Ship?", "to": "ops", "show": { "kg": 3 } });
            assert_eq!(asked, expected);
        }
        plain.get(&gate(&ship)).refuses(404, "not_found");
        bearer.get(&gate(&token("ship", 1))).refuses(409, "conflict");
        let problem = bearer.get(&gate(&token("other", 0))).refuses(409, "conflict");
        assert!(!problem.to_string().contains("ship"), "it tells of no other gate: {problem}");
        plain.post(&gate(&ship), &yes).refuses(404, "not_found");
        let problem = bearer.post(&gate(&token("other", 0)), &yes).refuses(409, "conflict");
        assert!(!problem.to_string().contains("ship"), "it tells of no other gate: {problem}");
        bearer.post(&gate(&token("ship", 1)), &yes).refuses(409, "conflict");
        bearer.post(&gate(&ship), &json!({ "choice": "resolve" })).refuses(409, "conflict");
        bearer.post(&gate(&ship), &json!({ "approve": true })).refuses(400, "bad_input");
        operator.post(&format!("/api/v1/steps/{run}/ship/done"), &json!({ "result": 1 })).refuses(409, "conflict");
        let unknown = "/api/v1/steps/01900000-0000-7000-8000-000000000000/ship";
        operator.post(&format!("{unknown}/ready"), &yes).refuses(404, "not_found");
        operator.post(&format!("{unknown}/done"), &json!({ "result": 1 })).refuses(404, "not_found");
        assert_eq!(operator.get(&format!("/api/v1/approvals?run={run}")).json()["items"][0]["key"], "ship");

        let decided = bearer.post(&gate(&ship), &json!({ "by": "ann", "note": "fine" })).json();
        assert_eq!(decided["outcome"], "decided", "{decided}");
        let again = bearer.post(&gate(&ship), &json!({ "approved": false }));
        assert_eq!((again.status, &again.json()["outcome"]), (200, &json!("already_decided")));
        assert!(!again.text.contains("ann"), "the bearer may be anybody: {}", again.text);

        waits_for(&operator, &run, "decision:triage");
        bearer.get(&gate(&ship)).refuses(409, "conflict");
        let asked = bearer.get(&gate(&token("triage", 0))).json();
        let options = json!({ "resolve": "a", "escalate": "b" });
        assert_eq!(asked, json!({ "kind": "decision", "prompt": "Which?", "options": options }));
        let triage = format!("/api/v1/steps/{run}/triage/ready");
        let problem = operator.post(&triage, &json!({ "choice": "guess" })).refuses(400, "bad_input");
        assert!(problem["help"].as_str().unwrap().contains("resolve"), "{problem}");
        operator.post(&triage, &json!({})).refuses(400, "bad_input");
        assert_eq!(operator.post(&triage, &json!({ "choice": "escalate" })).json()["outcome"], "signaled");

        waits_for(&operator, &run, "decision:free");
        operator.post(&triage, &json!({ "choice": "resolve" })).refuses(409, "conflict");
        let free = format!("/api/v1/steps/{run}/free/done");
        operator.post(&free, &json!({})).refuses(400, "bad_input");
        operator.post(&free, &json!({ "result": 1, "error": { "message": "x" } })).refuses(400, "bad_input");
        assert_eq!(operator.post(&free, &json!({ "result": null })).json()["outcome"], "signaled");
        let detail = result(&operator, &run);
        let expected = json!({
            "ship": "link: ann", "free": null,
            "triage": { "choice": "escalate", "by": "olga", "note": null },
        });
        assert_eq!(detail["output"]["json"], expected, "{detail}");
        let late = bearer.post(&gate(&ship), &yes).json();
        assert_eq!(late["outcome"], "already_decided", "{late}");
        bearer.post(&gate(&token("triage", 0)), &json!({ "choice": "resolve" })).refuses(409, "conflict");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_is_answered_once_on_sqlite() {
    a_gate_is_answered_once(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_is_answered_once_on_postgres() {
    a_gate_is_answered_once(Database::Postgres).await;
}

/// The first visit of the approval fails before it waits, so its waits have smaller numbers than
/// its visits.
const SIGNS: &str = "flow: 1\nname: signs\ngraph:\n  \
                     start: { set: { n: 0 }, next: sign }\n  \
                     sign: { approval: { to: ops, title: \"Sign {{10 / vars.n}}?\" }, max_visits: 9, \
                     on_error: { goto: one }, branch: [ { if: vars.n == 2, then: end } ], else: one }\n  \
                     one: { set: { n: 1 }, max_visits: 9, next: sign }\n  \
                     end: { set: { fine: true }, done: true }\n";

async fn a_late_token_decides_no_later_visit(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(tools().build()).register(flow));
    let operator = serve(&live, by_token()).await.with("operator olga");
    let bearer = serve(&live, by_token()).await;
    beside(move || {
        let run = start(&operator, &json!({ "document": SIGNS }));
        let tokens = Tokens::new(KEY).unwrap();
        let gate = |visit| {
            let token = tokens.issue(&gate_of(&run, "sign", visit));
            format!("/api/v1/gates/{token}")
        };
        waits_for(&operator, &run, "sign");
        assert_eq!(bearer.post(&gate(1), &json!({})).json()["outcome"], "decided");
        waits_for(&operator, &run, "sign:1");
        bearer.post(&gate(1), &json!({ "approved": false })).refuses(409, "conflict");
        assert_eq!(operator.get(&format!("/api/v1/approvals?run={run}")).json()["items"][0]["key"], "sign:1");
        assert_eq!(bearer.post(&gate(2), &json!({})).json()["outcome"], "decided");
        waits_for(&operator, &run, "sign:2");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_token_decides_no_later_visit_on_sqlite() {
    a_late_token_decides_no_later_visit(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_token_decides_no_later_visit_on_postgres() {
    a_late_token_decides_no_later_visit(Database::Postgres).await;
}

const OUTSIDE: &str = "flow: 1\nname: outside\ndo:\n  - { id: print, tool: hand_over, external: true, args: { page: 1 }, retry: { attempts: 2, delay: 1ms, jitter: false } }\n  \
                       - { id: bind, tool: hand_over, external: true, output: { bound: \"{{result.pages}}\" } }\n";

async fn a_step_is_done_outside(database: Database) {
    let live = Live::new(database).await;
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&told);
    let hand_over = move |args: Value, call: ToolCall| {
        seen.lock().unwrap().push(call.token.unwrap());
        async move { Ok(args) }
    };
    let tools = tools().tokens(Tokens::new(KEY).unwrap()).tool("hand_over", hand_over).build();
    let working = LocalWorker::start(live.worker(tools).register(flow));
    let operator = serve(&live, by_token()).await.with("operator olga");
    let bearer = serve(&live, by_token()).await;
    beside(move || {
        let run = start(&operator, &json!({ "document": OUTSIDE }));
        let done = |key: &str| format!("/api/v1/steps/{run}/{key}/done");
        waits_for(&operator, &run, "done:print");
        operator.post(&done("bind"), &json!({ "result": 1 })).refuses(409, "conflict");
        operator.post(&format!("/api/v1/steps/{run}/print/ready"), &json!({})).refuses(409, "conflict");
        let failed = json!({ "error": { "message": "no paper", "class": "unavailable" } });
        assert_eq!(operator.post(&done("print"), &failed).json()["outcome"], "signaled");
        // The second attempt hands it over again.
        waits_for(&operator, &run, "done:print:1");
        let old = format!("/api/v1/gates/{}", told.lock().unwrap()[0]);
        let report = json!({ "report": { "result": 1 } });
        bearer.post(&old, &report).refuses(409, "conflict");
        assert_eq!(operator.post(&done("print"), &json!({ "result": null })).json()["outcome"], "signaled");
        waits_for(&operator, &run, "done:bind");
        let token = told.lock().unwrap().last().unwrap().clone();
        let gate = format!("/api/v1/gates/{token}");
        let report = json!({ "report": { "result": { "pages": 7 } } });
        assert_eq!(bearer.post(&gate, &report).json()["outcome"], "signaled");
        let detail = result(&operator, &run);
        assert_eq!(detail["output"]["json"], json!({ "bound": 7 }), "{detail}");
        assert_eq!(told.lock().unwrap().len(), 3);
        bearer.post(&gate, &report).refuses(409, "conflict");
        let history = operator.get(&format!("/api/v1/runs/{run}/history")).text;
        assert!(!history.contains("st_"), "{history}");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_done_outside_on_sqlite() {
    a_step_is_done_outside(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_done_outside_on_postgres() {
    a_step_is_done_outside(Database::Postgres).await;
}

const HOOKED: &str = "flow: 1\nname: hooked\ninput: { type: object, required: [id] }\n\
                      do:\n  - { id: say, tool: get_greeting, args: { id: \"{{input.id}}\" } }\n\
                      triggers:\n  - webhook: { path: orders, secret: \"{{secrets.hook}}\", key: \"{{body.id}}\" }\n  \
                      - webhook: { path: open }\n  \
                      - webhook: { path: standard, secret: \"{{secrets.standard}}\" }\n  \
                      - webhook: { path: guess, secret: \"{{secrets.none ?? 'guess'}}\" }\n  \
                      - event: { name: order.created, match: event.total > 0, key: \"{{event.id}}\" }\n";

fn signed(secret: &[u8], id: &str, at: u64, body: &str) -> [(&'static str, String); 4] {
    let webhook = Webhook { id, timestamp: at, body: body.as_bytes() };
    [
        ("Content-Type", "application/json".to_owned()),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", webhook.sign(secret)),
    ]
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

async fn a_webhook_starts_one_run_per_key(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(tools().build()).register(flow));
    let secrets = || FixedSecrets::default().with("hook", "wh-s3cret").with("standard", STANDARD_SECRET);
    let hooks = flows(&live).await.secrets(secrets());
    let admin = Server::serve(router_with_flows(live.client.clone(), by_token(), hooks)).await.with("admin ann");
    let stranger = serve(&live, by_token()).await;
    let sender =
        Server::serve(router_with_flows(live.client.clone(), by_token(), flows(&live).await.secrets(secrets()))).await;
    beside(move || {
        let path = "/api/v1/hooks/orders";
        let send = |server: &Server, headers: &[(&str, String)], body: &str| {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            server.send("POST", path, &headers, body)
        };
        let body = r#"{ "id": "o-1", "total": 5 }"#;
        let good = signed(b"wh-s3cret", "m-1", now(), body);
        send(&sender, &good, body).refuses(404, "not_found");
        assert_eq!(admin.put("/api/v1/flows/hooked", &json!({ "document": HOOKED })).status, 201);
        let other = HOOKED.replace("name: hooked", "name: other");
        admin.put("/api/v1/flows/other", &json!({ "document": other })).refuses(409, "conflict");

        // Forged, old, changed, unsigned, and a program that lacks the secret.
        let old = signed(b"wh-s3cret", "m-1", now() - 3_600, body);
        for (headers, body) in [
            (signed(b"other", "m-1", now(), body).to_vec(), body),
            (old.to_vec(), body),
            (good.to_vec(), r#"{ "id": "o-2", "total": 5 }"#),
            (good[..1].to_vec(), body),
            (vec![("x-hub-signature-256", "sha256=00".to_owned())], body),
        ] {
            let refused = send(&sender, &headers, body);
            refused.refuses(401, "unauthorized");
            assert!(!refused.text.contains("wh-s3cret"), "{}", refused.text);
        }
        send(&stranger, &good, body).refuses(503, "unavailable");
        // The text in the place of a secret that is missing stands in the document.
        let guessed = signed(b"guess", "m-5", now(), body);
        let guessed: Vec<(&str, &str)> = guessed.iter().map(|(name, value)| (*name, value.as_str())).collect();
        sender.send("POST", "/api/v1/hooks/guess", &guessed, body).refuses(503, "unavailable");
        let broken = "{ \"id\": ";
        send(&sender, &signed(b"wh-s3cret", "m-2", now(), broken), broken).refuses(400, "bad_input");
        let keyless = r#"{ "total": 1 }"#;
        send(&sender, &signed(b"wh-s3cret", "m-3", now(), keyless), keyless).refuses(400, "bad_input");
        let large = format!("\"{}\"", "x".repeat(1024 * 1024));
        send(&sender, &signed(b"wh-s3cret", "m-4", now(), &large), &large).refuses(413, "too_large");
        sender.post("/api/v1/hooks/open", &json!({ "id": 1 })).refuses(401, "unauthorized");
        assert_eq!(admin.get("/api/v1/runs").json()["items"], json!([]), "nothing was started");

        let first = send(&sender, &good, body);
        assert_eq!(first.status, 201, "{}", first.text);
        let run = first.json()["run"].as_str().unwrap().to_owned();
        assert_eq!(admin.get(&first.location(path)).json()["id"], run.as_str());
        let detail = result(&admin, &run);
        let expected = json!({ "tool": "get_greeting", "args": { "id": "o-1" }, "actor": "ann" });
        assert_eq!(detail["output"]["json"], expected, "the run acts for the account that deployed the flow");
        // Another version does not start it again.
        let changed = HOOKED.replace("tool: get_greeting", "tool: knowledge_get");
        assert_eq!(admin.put("/api/v1/flows/hooked", &json!({ "document": changed })).json()["version"], "2");
        let again = send(&sender, &signed(b"wh-s3cret", "m-9", now(), body), body);
        assert_eq!((again.status, &again.json()["run"]), (200, &json!(run)));
        assert_eq!(admin.post("/api/v1/hooks/open", &json!({ "id": 1 })).status, 201);
        check_standard_secret(&sender);
        check_events(&admin);
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

/// A secret as the senders of Standard Webhooks show it.
const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A webhook takes the signatures of the key in its secret, and those of the secret as a text.
fn check_standard_secret(sender: &Server) {
    let base64 = STANDARD_SECRET.strip_prefix("whsec_").unwrap();
    let key = STANDARD.decode(base64).unwrap();
    let body = r#"{ "id": "s-1" }"#;
    for (key, id, status) in [
        (&key[..], "s-1", 201),
        (&key[..], "s-1", 200),
        (STANDARD_SECRET.as_bytes(), "s-2", 201),
        (base64.as_bytes(), "s-3", 401),
    ] {
        let headers = signed(key, id, now(), body);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = sender.send("POST", "/api/v1/hooks/standard", &headers, body);
        assert_eq!(answer.status, status, "{id}: {}", answer.text);
    }
}

/// An event starts the flows whose trigger fits, once per key.
fn check_events(admin: &Server) {
    let path = "/api/v1/events/order.created";
    admin.post(path, &json!({ "data": { "id": "e-1", "total": 1 } })).refuses(400, "bad_input");
    admin.post(path, &json!({ "key": "", "data": { "id": "e-1", "total": 1 } })).refuses(400, "bad_input");
    let none = admin.post(path, &json!({ "key": "k", "data": { "id": "e-1", "total": 0 } })).json();
    assert_eq!((&none["outcome"], &none["started"]), (&json!("emitted"), &json!([])), "{none}");
    let unfit = admin.post(path, &json!({ "key": "k", "data": { "total": 1 } })).json();
    assert_eq!(unfit["started"], json!([]), "{unfit}");
    let event = json!({ "key": "k", "data": { "id": "e-1", "total": 1 } });
    let first = admin.post(path, &event).json();
    let run = first["started"][0].as_str().unwrap().to_owned();
    assert_eq!(result(admin, &run)["output"]["json"]["args"], json!({ "id": "e-1" }));
    assert_eq!(admin.post(path, &event).json()["started"], first["started"], "the key has a run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_starts_one_run_per_key_on_sqlite() {
    a_webhook_starts_one_run_per_key(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_starts_one_run_per_key_on_postgres() {
    a_webhook_starts_one_run_per_key(Database::Postgres).await;
}

/// A start that is sent again leads to its run, whatever was deployed since, and whichever account
/// sends it.
async fn a_key_has_one_run_over_all_versions(database: Database) {
    let live = Live::new(database).await;
    let flows = &flows(&live).await;
    let admin = serve(&live, by_token()).await.with("admin ann");
    let other = serve(&live, by_token()).await.with("operator bob");
    beside(move || {
        let (path, run) = ("/api/v1/flows/order", "/api/v1/flows:run");
        assert_eq!(admin.put(path, &json!({ "document": ORDER })).status, 201);
        let body = json!({ "flow": "order", "input": { "id": 0.1 }, "key": "o-1" });
        let first = start(&admin, &body);
        let leads_to_it = |server: &Server| {
            let again = server.post(run, &body);
            let expected = (200, &json!("existed"), &json!(first));
            assert_eq!((again.status, &again.json()["outcome"], &again.json()["run"]), expected, "{}", again.text);
        };
        leads_to_it(&other);
        // The later version does not take this input.
        let later = ORDER.replace("required: [id]", "required: [id, kg]");
        assert_eq!(admin.put(path, &json!({ "document": later })).json()["version"], "2");
        leads_to_it(&admin);
        leads_to_it(&other);
        let changed = json!({ "flow": "order", "input": { "id": 0.1, "kg": 3 }, "key": "o-1" });
        let problem = admin.post(run, &changed).refuses(409, "conflict");
        assert!(problem["help"].as_str().unwrap().contains(&first), "{problem}");
        assert_eq!(admin.get("/api/v1/runs").json()["items"].as_array().map(Vec::len), Some(1));
    })
    .await;

    // The request of another account comes in between.
    let operate = live.client.operate();
    let begin = async |run: StartRun| operate.perform(Order::new(Action::StartRun(Box::new(run)))).await;
    let begin = &begin;
    let start = async |actor: &str| {
        let found = flows.find("order", Some("1")).await.unwrap();
        found.into_start().input(json!({ "id": 2 })).actor(actor)
    };
    let rival = start("bob").await.into_run(Some("o-2")).unwrap();
    let perform = |run: StartRun| async move {
        begin(rival).await?;
        begin(run).await
    };
    let done = flows.start(start("ann").await, Some("o-2"), perform).await.unwrap();
    assert!(matches!(done.outcome, OrderOutcome::Existed { .. }), "{done:?}");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_has_one_run_over_all_versions_on_sqlite() {
    a_key_has_one_run_over_all_versions(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_has_one_run_over_all_versions_on_postgres() {
    a_key_has_one_run_over_all_versions(Database::Postgres).await;
}

#[workflow]
async fn measures(ctx: &Ctx) -> Result<Option<Box<RawValue>>> {
    ctx.event::<Box<RawValue>>("measured").key("k").await
}

/// An event keeps the digits that no float has, and starts the flows that wait for it.
async fn an_event_keeps_all_digits(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(measures));
    let admin = serve(&live, by_token()).await.with("admin ann");
    beside(move || {
        let document = "flow: 1\nname: measured\ndo: [ { id: a, set: { x: 1 } } ]\n\
                        triggers: [ { event: { name: measured, match: event.n > 5.0 } } ]\n";
        assert_eq!(admin.put("/api/v1/flows/measured", &json!({ "document": document })).status, 201);
        let run = admin.start_run(&json!({ "workflow": "measures", "input": null }));
        waits_for(&admin, &run, "measured");
        let event = r#"{"key":"k","data":{"n":12345678901234567890123,"f":1.10}}"#;
        let emitted = admin.send("POST", "/api/v1/events/measured", &[("Content-Type", "application/json")], event);
        let emitted = emitted.json();
        assert_eq!((&emitted["runs"], emitted["started"].as_array().map(Vec::len)), (&json!(1), Some(1)), "{emitted}");
        let detail = admin.get(&format!("/api/v1/runs/{run}/result?wait=60s")).text;
        assert!(detail.contains(r#"{"n":12345678901234567890123,"f":1.10}"#), "{detail}");
        let none = admin.post("/api/v1/events/measured", &json!({ "key": "other" })).json();
        assert_eq!((&none["outcome"], &none["started"]), (&json!("emitted"), &json!([])), "{none}");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_keeps_all_digits_on_sqlite() {
    an_event_keeps_all_digits(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_keeps_all_digits_on_postgres() {
    an_event_keeps_all_digits(Database::Postgres).await;
}

/// No input lets a run of a flow act for another account than that of the request.
async fn a_run_acts_for_the_account_of_the_request(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(tools().build()).register(flow));
    let flows = flows(&live).await;
    let admin = serve(&live, by_token()).await.with("admin ann");
    let eve = serve(&live, by_token()).await.with("operator eve");
    let document = json!({ "document": "flow: 1\nname: hello\ndo: [ { id: a, tool: get_greeting } ]\n\
                                        triggers: [ { cron: \"0 8 1 1 *\" } ]\n" });
    let admin = beside(move || {
        assert_eq!(admin.put("/api/v1/flows/hello", &document).status, 201);
        admin
    })
    .await;
    let start = serde_json::to_value(flows.find("hello", None).await.unwrap().into_start().actor("root")).unwrap();
    beside(move || {
        let acts_for = |response: &crate::common::Response| {
            assert_eq!(response.status / 100, 2, "{}", response.text);
            result(&eve, response.json()["run"].as_str().unwrap())["output"]["json"]["actor"].clone()
        };
        let orders = |order: &Value| eve.post("/api/v1/orders", order);
        let new = json!({ "workflow": "flow", "input": start });
        let first = eve.post("/api/v1/runs", &new);
        assert_eq!(acts_for(&first), "eve");
        assert_eq!(acts_for(&orders(&json!({ "action": "start_run", "workflow": "flow", "input": start }))), "eve");
        let of_admin = admin.post("/api/v1/flows:run", &json!({ "flow": "hello" }));
        assert_eq!(acts_for(&of_admin), "ann");
        let run = of_admin.json()["run"].clone();
        assert_eq!(acts_for(&orders(&json!({ "action": "fork_run", "run": run, "input": start }))), "eve");
        assert_eq!(acts_for(&orders(&json!({ "action": "fork_run", "run": run }))), "ann", "it repeats that run");
        let schedules = eve.get("/api/v1/schedules").json();
        let schedule = &schedules["items"][0]["name"];
        let trigger = |more: Value| {
            let mut order = json!({ "action": "trigger_schedule", "schedule": schedule });
            order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            acts_for(&orders(&order))
        };
        assert_eq!(trigger(json!({ "input": start })), "eve");
        assert_eq!(trigger(json!({})), "ann", "it acts for the account that deployed the flow");
        let create = json!({ "action": "create_schedule", "schedule": "by hand", "workflow": "flow", "input": start,
                             "settings": { "every_ms": 86_400_000 } });
        assert_eq!(admin.post("/api/v1/orders", &create).status, 200);
        let by_hand = json!({ "action": "trigger_schedule", "schedule": "by hand" });
        assert_eq!(acts_for(&orders(&by_hand)), "ann", "an admin names no other account");
        let update = json!({ "action": "update_schedule", "schedule": "by hand", "input": start });
        assert_eq!(admin.with("admin max").post("/api/v1/orders", &update).status, 200);
        assert_eq!(acts_for(&orders(&by_hand)), "max");
        let parent = json!({ "flow": 1, "name": "outer", "do": [{ "id": "c", "workflow": "flow", "args": start }] });
        let outer = eve.post("/api/v1/flows:run", &json!({ "document": parent.to_string() }));
        assert_eq!(acts_for(&outer), "eve", "a child acts for the account of its parent");
        let in_order = json!([start["definition"], start["digest"], "hello", "", "root"]);
        eve.post("/api/v1/runs", &json!({ "workflow": "flow", "input": in_order })).refuses(400, "bad_input");
        check_decisions(&eve);
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

const WAY: &str = "flow: 1\nname: way\n\
                   do: [ { id: way, decision: { prompt: Which?, options: { post: p, van: v } } } ]\n\
                   output: { choice: \"{{steps.way.choice}}\", by: \"{{steps.way.by}}\" }\n";

/// No signal decides in another name, not even one of a bulk operation.
fn check_decisions(eve: &Server) {
    let signal = json!({ "name": "decision:way", "payload": { "choice": "van", "by": "root" } });
    for number in 0..2 {
        let run = start(eve, &json!({ "document": WAY, "tags": { "case": format!("forged-{number}") } }));
        waits_for(eve, &run, "decision:way");
        let signals = format!("/api/v1/runs/{run}/signals");
        let in_order = json!({ "name": "decision:way", "payload": ["van", "root"] });
        eve.post(&signals, &in_order).refuses(400, "bad_input");
        let sent = if number == 0 {
            eve.post(&signals, &signal)
        } else {
            let mut apply = signal.clone();
            apply["action"] = json!("signal_run");
            eve.post("/api/v1/bulk", &json!({ "query": "tag.case:forged-1", "apply": apply }))
        };
        assert_eq!(sent.status / 100, 2, "{}", sent.text);
        assert_eq!(result(eve, &run)["output"]["json"], json!({ "choice": "van", "by": "eve" }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_acts_for_the_account_of_the_request_on_sqlite() {
    a_run_acts_for_the_account_of_the_request(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_acts_for_the_account_of_the_request_on_postgres() {
    a_run_acts_for_the_account_of_the_request(Database::Postgres).await;
}

/// Lets one account call tools.
struct OnlyRoot;

impl Policy for OnlyRoot {
    fn may(&self, actor: &str, _tool: &str, _args: &Value) -> bool {
        actor == "root"
    }
}

async fn a_check_asks_the_tools_of_the_program(database: Database) {
    let live = Live::new(database).await;
    let flows = flows(&live).await;
    let runtime = tools().policy(OnlyRoot).flows(flows.store().clone()).build();
    let access = by_token();
    let server = Server::serve(router_with_flows(live.client.clone(), access, flows.runtime(runtime))).await;
    let plain = serve(&live, by_token()).await.with("operator ann");
    let document = json!({ "document": "flow: 1\nname: asked\ndo: [ { id: a, tool: is_admin } ]\n" });
    beside(move || {
        let at = |path: &str| format!("/api/v1/flows{path}");
        let refused = plain.post(&at(":check?connect=true"), &document);
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("bad_input")), "{}", refused.text);
        let viewer = server.with("viewer ann");
        assert_eq!(viewer.post(&at(":check?connect=true"), &document).status, 403);
        assert_eq!(viewer.post(&at(":check?connect=maybe"), &document).status, 400);
        assert_eq!(viewer.post(&at(":check?conect=true"), &document).status, 400);
        assert_eq!(viewer.post(&at(":check"), &document).json()["valid"], true);
        let ann = viewer.with("admin ann");
        let checked = ann.post(&at(":check?connect=true"), &document).json();
        assert_eq!((&checked["valid"], &checked["findings"][0]["code"]), (&json!(false), &json!("F072")), "{checked}");
        let refused = ann.put(&at("/asked?connect=true"), &document);
        assert_eq!((refused.status, &refused.json()["findings"][0]["code"]), (422, &json!("F072")), "{}", refused.text);
        assert_eq!(ann.get(&at("/asked")).status, 404, "nothing was deployed");
        let root = ann.with("admin root");
        let calls_itself = json!({ "document": "flow: 1\nname: other\ndo: [ { id: a, flow: asked } ]\n" });
        let checked = root.post(&at(":check?connect=true"), &calls_itself).json();
        assert_eq!(checked["findings"][0]["code"], "F040", "{checked}");
        assert_eq!(root.put(&at("/asked?connect=true"), &document).status, 201);
        let checked = root.post(&at(":check?connect=true"), &calls_itself).json();
        assert_eq!(checked["valid"], true, "the flow is deployed now: {checked}");
    })
    .await;
    live.sweep().await;
}

#[tokio::test]
async fn a_check_asks_the_tools_of_the_program_on_sqlite() {
    a_check_asks_the_tools_of_the_program(Database::Sqlite).await;
}

#[tokio::test]
async fn a_check_asks_the_tools_of_the_program_on_postgres() {
    a_check_asks_the_tools_of_the_program(Database::Postgres).await;
}
