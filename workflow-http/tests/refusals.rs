//! Each route with each fault that does not lie in its input: no token, a role that is too low, an
//! interface that only reads, and a database that is away. On each database.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{Response, Server, beside};
use serde_json::{Value, json};
use workflow_http::{Access, Actor, router};
use workflow_sdk::operate::Role;
use workflow_tests::{Database, Live};

const TOKEN: &str = "s3cr3t-token-of-the-test";

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
        let path = format!("/api/v1{}", self.path.replace("{run}", run));
        let answer = match &self.body {
            Value::Null => server.send(self.method, &path, &[], ""),
            body => {
                let json = [("Content-Type", "application/json")];
                server.send(self.method, &path, &json, &body.to_string().replace("{run}", run))
            }
        };
        for secret in secrets {
            assert!(!answer.text.contains(secret), "{} {path}: {}", self.method, answer.text);
        }
        answer
    }

    /// Returns whether it is one of this operation of the document.
    fn is_of(&self, method: &str, template: &str) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        let (parts, wanted): (Vec<_>, Vec<_>) = (path.split('/').collect(), template.split('/').collect());
        let fits = |(part, wanted): (&&str, &&str)| wanted.starts_with('{') || part == wanted;
        self.method.eq_ignore_ascii_case(method) && parts.len() == wanted.len() && parts.iter().zip(&wanted).all(fits)
    }
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

/// A route that is added later must not be forgotten. Those of flows have their own tests.
#[test]
fn the_table_has_every_route_of_the_document() {
    let document: Value = serde_json::from_str(include_str!("../openapi.json")).unwrap();
    let requests = requests();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let of_flows = ["/flows", "/events/", "/hooks/", "/steps/", "/gates/"];
        if of_flows.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            assert!(requests.iter().any(|request| request.is_of(method, path)), "{method} {path} is not tried");
        }
    }
}

async fn each_route_refuses_what_it_must_not_do(database: Database) {
    let live = Live::new(database).await;
    let admin = Access::token(TOKEN, Actor::admin("ada"));
    let unknown = Server::start(&live, admin.clone()).await;
    let by = async |actor| Server::start(&live, Access::token(TOKEN, actor)).await.with(TOKEN);
    let (viewer, operator) = (by(Actor::viewer("vera")).await, by(Actor::operator("otto")).await);
    let read_only = Server::start(&live, admin.read_only()).await.with(TOKEN);
    let away_client = live.connect().call_timeout(Duration::from_millis(300)).await.unwrap();
    let away = Server::serve(router(away_client.clone(), Access::open())).await;
    let run = live.client.start_by_name("without_code", &1.into()).await.unwrap().id().to_string();
    away_client.store().close().await;

    let secrets = [TOKEN.to_owned(), live.url()];
    let tried = run.clone();
    beside(move || {
        for request in requests() {
            let place = format!("{} {}", request.method, request.path);
            let refuses = |server: &Server, status, code| {
                let problem = request.send(server, &tried, &secrets).refuses(status, code);
                problem["detail"].as_str().unwrap_or_default().to_owned()
            };
            refuses(&unknown, 401, "unauthorized");
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
            if request.role == Role::Viewer {
                refuses(&away, 503, "unavailable");
            } else {
                // An order that was queued may still have its effect, which the answer says.
                let answer = request.send(&away, &tried, &secrets);
                let code = if answer.status == 504 { "timed_out" } else { "unavailable" };
                answer.refuses(if answer.status == 504 { 504 } else { 503 }, code);
            }
        }
        away.get("/readyz").refuses(503, "unavailable");
        assert_eq!(away.get("/healthz").status, 200, "the process is well");
    })
    .await;

    let mut raw = live.raw().await;
    assert_eq!(raw.number("SELECT count(*) FROM workflow_audit").await, 0, "an order had an effect");
    assert_eq!(raw.number("SELECT count(*) FROM workflow_runs").await, 1);
    assert_eq!(raw.number("SELECT count(*) FROM workflow_bulk").await, 0);
    assert_eq!(raw.number("SELECT count(*) FROM workflow_schedules").await, 0);
    drop(raw);
    let found = live.client.run(run.parse().unwrap()).await.unwrap();
    assert_eq!((found.status, found.paused_at), (workflow_sdk::RunStatus::Pending, None));
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
