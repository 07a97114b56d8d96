//! Each route with each fault that does not lie in its input: no token, another token, a role that
//! is too low, an interface that only reads, and a database that is away. On each database.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::{Response, Server, beside};
use serde_json::{Value, json};
use workflow_http::{Access, Actor, router};
use workflow_sdk::operate::Role;
use workflow_tests::{Database, Live, RawConnection};

const TOKEN: &str = "s3cr3t-token-of-the-test";
const OTHER_TOKEN: &str = "s3cr3t-token-of-another";

/// A request of the table. `{run}` in it stands for the id of a run.
struct Request {
    method: &'static str,
    path: &'static str,
    body: Value,
    /// The least role that may send it.
    role: Role,
}

impl Request {
    /// Sends it. No answer shows the token or where the database is.
    fn send(&self, server: &Server, run: &str, secrets: &[String]) -> Response {
        let answer = self.send_with(server, run, "");
        for secret in secrets {
            assert!(!answer.text.contains(secret), "{} {}: {}", self.method, self.path, answer.text);
        }
        answer
    }

    /// Sends it with this behind its path.
    fn send_with(&self, server: &Server, run: &str, parameter: &str) -> Response {
        let path = format!("/api/v1{}{parameter}", self.path.replace("{run}", run));
        match &self.body {
            Value::Null => server.send(self.method, &path, &[], ""),
            body => {
                let json = [("Content-Type", "application/json")];
                server.send(self.method, &path, &json, &body.to_string().replace("{run}", run))
            }
        }
    }

    /// Returns the names of the parameters behind the question mark that the document gives it.
    fn parameters<'d>(&self, document: &'d Value) -> BTreeSet<&'d str> {
        let paths = document["paths"].as_object().unwrap().iter();
        let method = self.method.to_lowercase();
        let of_path = paths.filter(|(path, methods)| methods.get(&method).is_some() && self.is_of(&method, path));
        let (_, methods) = of_path.min_by_key(|(path, _)| path.matches('{').count()).unwrap();
        names_in(&methods[&method])
    }

    /// Returns whether it is one of this operation of the document.
    fn is_of(&self, method: &str, template: &str) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        let (parts, wanted): (Vec<_>, Vec<_>) = (path.split('/').collect(), template.split('/').collect());
        let fits = |(part, wanted): (&&str, &&str)| wanted.starts_with('{') || part == wanted;
        self.method.eq_ignore_ascii_case(method) && parts.len() == wanted.len() && parts.iter().zip(&wanted).all(fits)
    }
}

/// Returns the names of an operation's parameters behind the question mark.
fn names_in(operation: &Value) -> BTreeSet<&str> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters
        .filter(|parameter| parameter["in"] == "query")
        .filter_map(|parameter| parameter["name"].as_str())
        .collect()
}

fn reads(path: &'static str) -> Request {
    Request { method: "GET", path, body: Value::Null, role: Role::Viewer }
}

fn posts(path: &'static str, body: Value, role: Role) -> Request {
    Request { method: "POST", path, body, role }
}

fn requests() -> Vec<Request> {
    let reading = [
        "/runs",
        "/runs/find?id=019000",
        "/runs/{run}",
        "/runs/{run}/payload?of=input",
        "/runs/{run}/history",
        "/runs/{run}/timeline",
        "/runs/{run}/result",
        "/runs/{run}/events",
        "/runs/{run}/stream/log",
        "/runs/{run}/emitted/log",
        "/runs/{run}/published/state",
        "/changes",
        "/events",
        "/counts",
        "/queues",
        "/queues/default/gates",
        "/limits",
        "/limits/llm/seats",
        "/workers",
        "/workflows",
        "/schedules",
        "/schedules/nightly",
        "/schedules/nightly/next?count=3",
        "/schedules/nightly/backfill?after=1&until=2",
        "/approvals",
        "/audit",
        "/stats",
        "/failures",
        "/system",
        "/bulk",
        "/bulk/{run}",
    ];
    let operating = [
        ("/runs", json!({ "workflow": "without_code", "input": 1 })),
        ("/runs/{run}/fork", json!({})),
        ("/runs/{run}/signals", json!({ "name": "go", "payload": 1 })),
        ("/runs/{run}/priority", json!({ "priority": "high" })),
        ("/runs/{run}/queue", json!({ "queue": "slow" })),
        ("/runs/{run}/approvals/ok", json!({ "approve": true })),
        ("/runs/{run}/cancel", Value::Null),
        ("/runs/{run}/pause", Value::Null),
        ("/orders", json!({ "action": "pause_queue", "queue": "default", "reason": "a test" })),
        (
            "/orders",
            json!({ "action": "backfill_schedule", "schedule": "nightly", "after": 1_767_225_600_000_000_i64,
                    "until": 1_767_830_400_000_000_i64 }),
        ),
        ("/bulk", json!({ "query": "", "apply": { "action": "cancel_run" } })),
        ("/bulk/{run}/stop", Value::Null),
    ];
    let administering = [
        ("/bulk", json!({ "query": "", "apply": { "action": "delete_run" } })),
        ("/orders", json!({ "action": "delete_run", "run": "{run}" })),
        (
            "/orders",
            json!({ "action": "create_schedule", "schedule": "weekly", "workflow": "report", "input": {},
                    "settings": { "cron": ["0 7 * * MON"] } }),
        ),
        ("/orders", json!({ "action": "update_schedule", "schedule": "nightly", "settings": { "every_ms": 60_000 } })),
        ("/orders", json!({ "action": "delete_schedule", "schedule": "nightly" })),
        ("/orders", json!({ "action": "revert_schedule", "schedule": "nightly" })),
        ("/orders", json!({ "action": "set_queue_limits", "queue": "default", "limits": { "concurrency": 1 } })),
        ("/orders", json!({ "action": "clear_queue_limits", "queue": "default" })),
        ("/orders", json!({ "action": "weigh_gate", "queue": "default", "gate": "acct-42", "weight": 2 })),
        ("/orders", json!({ "action": "set_limit", "limit": "llm", "rule": { "concurrency": 2 } })),
        ("/orders", json!({ "action": "clear_limit", "limit": "llm" })),
    ];
    let mut requests: Vec<Request> = reading.map(reads).into();
    requests.push(posts("/bulk/preview", json!({ "query": "" }), Role::Viewer));
    requests.extend(operating.map(|(path, body)| posts(path, body, Role::Operator)));
    requests.extend(administering.map(|(path, body)| posts(path, body, Role::Admin)));
    let role = Role::Admin;
    requests.push(Request { method: "DELETE", path: "/runs/{run}", body: Value::Null, role });
    requests
}

/// The requests to the routes of flows. Each is valid, so only its caller is refused.
fn requests_of_flows() -> Vec<Request> {
    let document = json!({ "document": "flow: 1\nname: order\ndo:\n  - { id: say, set: { id: 1 } }\n" });
    let reading = ["/flows", "/flows/order", "/flows/order/versions", "/flows/order/diagram"];
    let operating = [
        ("/flows:run", document.clone()),
        ("/events/shipped", json!({ "key": "order-1" })),
        ("/steps/{run}/ship/ready", json!({})),
        ("/steps/{run}/ship/done", json!({ "result": 1 })),
    ];
    let mut requests: Vec<Request> = reading.map(reads).into();
    requests.push(posts("/flows:check", document.clone(), Role::Viewer));
    requests.extend(operating.map(|(path, body)| posts(path, body, Role::Operator)));
    requests.push(Request { method: "PUT", path: "/flows/order", body: document, role: Role::Admin });
    requests
}

/// The routes that the bearer of a token or of a signature asks, without an actor. `deploys.rs` has
/// their refusals.
const OPEN: [&str; 2] = ["/gates/", "/hooks/"];

/// A route that is added later must not be forgotten.
#[test]
fn the_table_has_every_route_of_the_document() {
    let document: Value = serde_json::from_str(include_str!("../../openapi.json")).unwrap();
    let requests: Vec<Request> = requests().into_iter().chain(requests_of_flows()).collect();
    for (path, methods) in document["paths"].as_object().unwrap() {
        if OPEN.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            assert!(requests.iter().any(|request| request.is_of(method, path)), "{method} {path} is not tried");
        }
    }
}

/// A parameter that is dropped without a word leaves out a reason, a wait or a part of a query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_refuses_the_parameters_of_other_routes() {
    let live = Live::new(Database::Sqlite).await;
    let server = serve(&live, Access::open()).await;
    let run = live.client.start_by_name("without_code", &1.into()).await.unwrap().id().to_string();
    beside(move || {
        let document: Value = serde_json::from_str(include_str!("../../openapi.json")).unwrap();
        let operations = document["paths"].as_object().unwrap().values().filter_map(Value::as_object);
        let all: BTreeSet<&str> = operations.flat_map(|methods| methods.values()).flat_map(names_in).collect();
        assert!(all.contains("direction") && all.contains("wait"), "{all:?}");
        let of_flows = if cfg!(feature = "flows") { requests_of_flows() } else { Vec::new() };
        for request in requests().into_iter().chain(of_flows) {
            let known = request.parameters(&document);
            // A route without any reads none.
            let others = all.iter().chain(&["nonsense"]).filter(|name| !known.is_empty() && !known.contains(*name));
            for name in others {
                let mark = if request.path.contains('?') { '&' } else { '?' };
                let answer = request.send_with(&server, &run, &format!("{mark}{name}=1"));
                assert_eq!(answer.status, 400, "{} {} {name}: {}", request.method, request.path, answer.text);
                answer.refuses(400, "bad_input");
            }
        }
    })
    .await;
    live.sweep().await;
}

/// Serves all routes that are compiled in.
#[cfg(feature = "flows")]
async fn serve(live: &Live, access: Access) -> Server {
    let flows = workflow_flows::Flows::new(live.client.clone(), crate::common::flow_store(live).await);
    Server::serve(workflow_http::router_with_flows(live.client.clone(), access, flows)).await
}

/// Serves all routes that are compiled in.
#[cfg(not(feature = "flows"))]
async fn serve(live: &Live, access: Access) -> Server {
    Server::start(live, access).await
}

/// Reads every row of every table. The counts of runs are left out: the client that started a run
/// writes them a moment later.
async fn rows(raw: &mut RawConnection) -> BTreeMap<String, Vec<String>> {
    let mut rows = BTreeMap::new();
    for table in raw.table_names().await {
        if table != "workflow_stats" {
            let columns = raw.column_names(&table).await;
            let of_table = raw.rows_as_text(&table, &columns).await;
            rows.insert(table, of_table);
        }
    }
    rows
}

async fn each_route_refuses_what_it_must_not_do(database: Database) {
    let live = Live::new(database).await;
    let admin = Access::token(TOKEN, Actor::admin("ada"));
    let unknown = serve(&live, admin.clone()).await;
    let mistaken = serve(&live, admin.clone()).await.with(OTHER_TOKEN);
    let by = async |actor| serve(&live, Access::token(TOKEN, actor)).await.with(TOKEN);
    let (viewer, operator) = (by(Actor::viewer("vera")).await, by(Actor::operator("otto")).await);
    let read_only = serve(&live, admin.read_only()).await.with(TOKEN);
    let away_client = live.connect().call_timeout(Duration::from_millis(300)).await.unwrap();
    let away = Server::serve(router(away_client.clone(), Access::open())).await;
    let run = live.client.start_by_name("without_code", &1.into()).await.unwrap().id().to_string();
    away_client.store().close().await;
    let mut raw = live.raw().await;
    let before = rows(&mut raw).await;
    assert_eq!(before["workflow_runs"].len(), 1);

    let secrets = [TOKEN, OTHER_TOKEN].map(str::to_owned).into_iter().chain([live.url()]).collect::<Vec<_>>();
    beside(move || {
        let of_flows = if cfg!(feature = "flows") { requests_of_flows() } else { Vec::new() };
        for request in requests().into_iter().chain(of_flows) {
            let place = format!("{} {}", request.method, request.path);
            let refuses = |server: &Server, status, code| {
                let problem = request.send(server, &run, &secrets).refuses(status, code);
                problem["detail"].as_str().unwrap_or_default().to_owned()
            };
            refuses(&unknown, 401, "unauthorized");
            refuses(&mistaken, 401, "unauthorized");
            for (server, role, name) in [(&viewer, Role::Viewer, "vera"), (&operator, Role::Operator, "otto")] {
                if request.role > role {
                    let detail = refuses(server, 403, "forbidden");
                    let needed = format!("needs the role {:?}", request.role);
                    assert!(detail.contains(&needed) && detail.contains(name), "{place}: {detail}");
                }
            }
            if request.method != "GET" {
                refuses(&read_only, 403, "forbidden");
            }
        }
        for request in requests() {
            let answer = request.send(&away, &run, &secrets);
            // An order that was queued may still have its effect, which the answer says.
            let is_late = request.role > Role::Viewer && answer.status == 504;
            let (status, code) = if is_late { (504, "timed_out") } else { (503, "unavailable") };
            answer.refuses(status, code);
        }
        away.get("/readyz").refuses(503, "unavailable");
        assert_eq!(away.get("/healthz").status, 200, "the process is well");
    })
    .await;

    assert_eq!(rows(&mut raw).await, before, "a request that was refused has changed something");
    drop(raw);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_refuses_what_it_must_not_do_on_sqlite() {
    each_route_refuses_what_it_must_not_do(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_refuses_what_it_must_not_do_on_postgres() {
    each_route_refuses_what_it_must_not_do(Database::Postgres).await;
}
