//! The interface over a real connection, on each database.

use std::sync::{Arc, Mutex};

use crate::common::{Server, beside};
use serde_json::{Value, json};
use workflow_http::{Access, Actor, Redact};
use workflow_sdk::prelude::*;
use workflow_sdk::{BegunSpan, Event, Observer, TraceContext};
use workflow_tests::{Database, Live, LocalWorker};

#[workflow]
async fn doubled(ctx: &Ctx, number: u64) -> Result<u64> {
    ctx.step("double", async || ok(number * 2)).await
}

#[workflow]
async fn greets(ctx: &Ctx) -> Result<Option<String>> {
    ctx.signal::<String>("greeting").await
}

#[workflow]
async fn fails(ctx: &Ctx, secret: String) -> Result<()> {
    ctx.step("charge", async || Err(Error::fatal(secret.clone()))).await
}

#[workflow]
async fn echoes(ctx: &Ctx, input: Box<serde_json::value::RawValue>) -> Result<Box<serde_json::value::RawValue>> {
    ctx.step("echo", async || ok(input.clone())).await
}

async fn an_application_starts_runs_and_operates(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(doubled).register(greets).register(fails));
    let server = Server::start(&live, Access::token("s3cr3t", Actor::admin("ci"))).await.with("s3cr3t");
    beside(move || {
        let started = json!({ "workflow": "doubled", "input": 21, "tags": { "region": "eu" } });
        let key = [("Content-Type", "application/json"), ("Idempotency-Key", "order-1")];
        let first = server.send("POST", "/api/v1/runs", &key, &started.to_string());
        let run = first.json()["run"].as_str().unwrap().to_owned();
        assert_eq!((first.status, first.json()["outcome"].as_str()), (201, Some("started")));
        assert_eq!(server.get(&first.location("/api/v1/runs")).json()["id"], run.as_str());
        let again = server.send("POST", "/api/v1/runs", &key, &started.to_string());
        assert_eq!((again.status, again.json()["run"].as_str()), (200, Some(run.as_str())));
        let ended = server.get(&format!("/api/v1/runs/{run}/result?wait=60s")).json();
        assert_eq!((ended["status"].as_str(), &ended["output"]["json"]), (Some("succeeded"), &json!(42)));
        let waited = server.post("/api/v1/runs?wait=60", &json!({ "workflow": "doubled", "input": 4 }));
        assert_eq!((waited.status, &waited.json()["output"]["json"]), (200, &json!(8)));
        assert_eq!(server.get(&waited.location("/api/v1/runs?wait=60")).json()["id"], waited.json()["id"]);

        let greeted = server.start_run(&json!({ "workflow": "greets", "input": null }));
        let waiting = server.get(&format!("/api/v1/runs/{greeted}/result"));
        assert_eq!(waiting.status, 202, "{}", waiting.text);
        let signal = json!({ "name": "greeting", "payload": "hello" });
        assert_eq!(server.post(&format!("/api/v1/runs/{greeted}/signals"), &signal).json()["outcome"], "signaled");
        let ended = server.get(&format!("/api/v1/runs/{greeted}/result?wait=60s")).json();
        assert_eq!(ended["output"]["json"], "hello");

        // Numbers keep their digits.
        let big = r#"{"workflow":"without_code","input":9223372036854775807.0000000001}"#;
        let big = server.send("POST", "/api/v1/runs", &[("Content-Type", "application/json")], big).json();
        let big = format!("/api/v1/runs/{}", big["run"].as_str().unwrap());
        assert!(server.get(&big).text.contains("9223372036854775807.0000000001"));
        let priority = |word| server.post(&format!("{big}/priority"), &json!({ "priority": word, "reason": "a test" }));
        assert_eq!(priority("high").json()["outcome"], "changed");
        priority("soon").refuses(400, "bad_input");
        let queue = |name| server.post(&format!("{big}/queue"), &json!({ "queue": name }));
        assert_eq!(queue("slow").json()["outcome"], "changed");
        assert_eq!(queue("slow").json()["outcome"], "unchanged");
        queue("").refuses(400, "bad_input");
        let placed = server.get(&big).json();
        assert_eq!((&placed["queue"], &placed["priority"]), (&json!("slow"), &json!("high")), "{placed}");
        let keyed = |body: Value| {
            let key = [("Content-Type", "application/json"), ("Idempotency-Key", "go-1")];
            server.send("POST", &format!("{big}/signals"), &key, &body.to_string())
        };
        let signal = json!({ "name": "go", "payload": 1 });
        assert_eq!(keyed(signal.clone()).json()["outcome"], "signaled");
        assert_eq!(keyed(signal).json()["outcome"], "already_signaled");
        keyed(json!({ "name": "go", "payload": 1, "key": "go-2" })).refuses(400, "bad_input");
        assert_eq!(server.send("POST", &format!("{big}/cancel?reason=a+test"), &[], "").json()["outcome"], "canceled");
        assert_eq!(server.send("DELETE", &big, &[], "").json()["outcome"], "deleted");
        server.get(&big).refuses(404, "not_found");

        let document = server.get("/api/v1/openapi.json");
        assert_eq!((document.status, document.json()["openapi"].as_str()), (200, Some("3.1.0")));
        let found = server.get(&format!("/api/v1/runs/find?id={}", &run[..20])).json();
        assert!(found.as_array().unwrap().iter().any(|one| one["id"] == run.as_str()), "{found}");
        let page = server.get("/api/v1/runs?query=tag.region:eu&limit=1").json();
        assert_eq!(page["items"][0]["id"], run.as_str());
        assert_eq!(server.get(&format!("/api/v1/runs/{run}/history")).json()["items"][0]["step"], "double");
        let of_step = |step| server.get(&format!("/api/v1/runs/{run}/history?step={step}")).json()["items"].clone();
        assert_eq!((of_step("double")[0]["step"].clone(), of_step("other")), (json!("double"), json!([])));
        assert_eq!(server.get(&format!("/api/v1/runs/{run}/timeline")).json()["rows"][0]["step"], "double");
        assert_eq!(server.get(&format!("/api/v1/runs/{run}/payload?of=input")).json()["json"], 21);
        let forking = format!("/api/v1/runs/{run}/fork");
        let key = [("Content-Type", "application/json"), ("Idempotency-Key", "fork-1")];
        let fork = server.send("POST", &forking, &key, &json!({ "input": 50 }).to_string());
        assert_eq!(fork.status, 201, "{}", fork.text);
        let again = server.send("POST", &forking, &key, &json!({ "input": 50 }).to_string());
        assert_eq!((again.status, &again.json()["run"]), (200, &fork.json()["run"]), "{}", again.text);
        let place = fork.location(&forking);
        assert_eq!(server.get(&place).json()["id"], fork.json()["run"]);
        assert_eq!(server.get(&format!("{place}/result?wait=60s")).json()["output"]["json"], 100);
        let order = json!({ "action": "pause_queue", "queue": "default", "reason": "a test" });
        assert_eq!(server.post("/api/v1/orders", &order).json()["outcome"], "changed");
        assert_eq!(server.get("/api/v1/queues").json()[0]["pause"]["reason"], "a test");
        let audit = server.get("/api/v1/audit?verb=queue.").json();
        assert_eq!((&audit["items"][0]["actor"], &audit["items"][0]["reason"]), (&json!("ci"), &json!("a test")));
        for path in [
            "stats",
            "failures",
            "counts",
            "limits",
            "system",
            "workers",
            "workflows",
            "schedules",
            "approvals",
            "queues/default/gates",
        ] {
            assert_eq!(server.get(&format!("/api/v1/{path}")).status, 200, "{path}");
        }
        let health = server.get("/healthz");
        assert!(health.status == 200 && health.head.contains("cache-control: no-store"), "{}", health.head);
        assert_eq!(server.get("/readyz").status, 200);
        check_bulk(&server);
        check_seats(&server);
        check_refusals(&server, &run);
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

fn check_seats(server: &Server) {
    let rule = json!({ "action": "set_limit", "limit": "llm", "rule": { "concurrency": 2 } });
    assert_eq!(server.post("/api/v1/orders", &rule).json()["outcome"], "changed");
    let page = server.get("/api/v1/limits/llm/seats?key=acct-42&limit=5");
    assert_eq!((page.status, page.json()), (200, json!({ "items": [] })));
    server.get("/api/v1/limits/lm/seats").refuses(404, "not_found");
    server.get("/api/v1/limits/llm/seats?limit=501").refuses(400, "bad_limit");
    server.get("/api/v1/limits/llm/seats?cursor=x").refuses(400, "bad_cursor");
    server.get("/api/v1/limits/llm/seats?keys=x").refuses(400, "bad_input");
}

fn check_bulk(server: &Server) {
    server.start_run(&json!({ "workflow": "without_code", "input": 1, "tags": { "region": "us" } }));
    let query = json!({ "query": "tag.region:us" });
    let preview = server.post("/api/v1/bulk/preview", &query).json();
    assert_eq!((&preview["runs"]["runs"], preview["examples"].as_array().unwrap().len()), (&json!(1), 1));
    let order = json!({ "query": "tag.region:us", "apply": { "action": "cancel_run" }, "reason": "a test" });
    let ordered = server.post("/api/v1/bulk", &order);
    assert_eq!((ordered.status, ordered.json()["outcome"].as_str()), (202, Some("bulk_started")), "{}", ordered.text);
    let bulk = format!("/api/v1/bulk/{}", ordered.json()["bulk"].as_str().unwrap());
    let view = loop {
        let view = server.get(&bulk).json();
        if view["status"] != "running" {
            break view;
        }
    };
    assert_eq!((&view["status"], &view["done"], &view["actor"]), (&json!("done"), &json!(1), &json!("ci")), "{view}");
    assert_eq!(server.send("POST", &format!("{bulk}/stop"), &[], "").json()["outcome"], "unchanged");
    assert_eq!(server.get("/api/v1/bulk?limit=1").json()["items"][0]["id"], view["id"]);
    server
        .post("/api/v1/bulk", &json!({ "query": "status:faild", "apply": { "action": "cancel_run" } }))
        .refuses(400, "bad_input");
    server.post("/api/v1/bulk", &json!({ "query": "", "apply": { "action": "fly" } })).refuses(400, "bad_input");
    server.get("/api/v1/bulk/01900000-0000-7000-8000-000000000000").refuses(404, "not_found");
    server.get("/api/v1/bulk?limit=0").refuses(400, "bad_limit");
}

fn check_refusals(server: &Server, run: &str) {
    let json = [("Content-Type", "application/json")];
    server.get("/api/v1/nothing").refuses(404, "not_found");
    server.send("PUT", "/api/v1/runs", &json, "{}").refuses(405, "method_not_allowed");
    server.get("/api/v1/runs/no-id").refuses(400, "bad_input");
    server.get("/api/v1/runs/01900000-0000-7000-8000-000000000000").refuses(404, "not_found");
    let problem = server.get("/api/v1/runs?query=status:faild").refuses(400, "bad_query");
    assert_eq!(problem["query"]["word"], "status:faild");
    server.get("/api/v1/runs?limit=0").refuses(400, "bad_limit");
    server.get("/api/v1/runs?limit=many").refuses(400, "bad_input");
    server.get("/api/v1/runs?cursor=nonsense").refuses(400, "bad_cursor");
    server.get("/api/v1/runs?page=2").refuses(400, "bad_input");
    server.get("/api/v1/stats?since=soon").refuses(400, "bad_input");
    server.get("/api/v1/stats?sinc=-1h").refuses(400, "bad_input");
    server.get("/api/v1/stats?since=now").refuses(400, "bad_input");
    server.get("/api/v1/failures?limit=0").refuses(400, "bad_limit");
    server.get(&format!("/api/v1/runs/{run}/payload?of=nothing")).refuses(400, "bad_input");
    server.get(&format!("/api/v1/runs/{run}/result?wait=soon")).refuses(400, "bad_input");
    let broken = server.send("POST", "/api/v1/runs", &json, "{\"workflow\": \"doubled\",\n \"input\" 1}");
    let problem = broken.refuses(400, "bad_input");
    assert!(problem["detail"].as_str().unwrap().contains("line 2 column 10"), "{problem}");
    server.send("POST", "/api/v1/runs", &[("Content-Type", "text/plain")], "{}").refuses(415, "unsupported_media_type");
    server
        .post("/api/v1/runs", &json!({ "workflow": "doubled", "input": 1, "priorty": "high" }))
        .refuses(400, "bad_input");
    server.post("/api/v1/runs", &json!({ "workflow": "", "input": 1 })).refuses(400, "bad_input");
    let large = "x".repeat(3 * 1024 * 1024);
    server.post("/api/v1/runs", &json!({ "workflow": "doubled", "input": large })).refuses(413, "too_large");
    server.send("POST", &format!("/api/v1/runs/{run}/retry"), &[], "").refuses(409, "conflict");
    server.send("POST", &format!("/api/v1/runs/{run}/explode"), &[], "").refuses(404, "not_found");
    server.post("/api/v1/orders", &json!({ "action": "explode" })).refuses(400, "bad_input");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_starts_runs_and_operates_on_sqlite() {
    an_application_starts_runs_and_operates(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_starts_runs_and_operates_on_postgres() {
    an_application_starts_runs_and_operates(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_let_in_by_its_token_alone() {
    let live = Live::new(Database::Sqlite).await;
    let server = Server::start(&live, Access::token("s3cr3t", Actor::viewer("ci"))).await;
    beside(move || {
        let refused = server.get("/api/v1/runs");
        refused.refuses(401, "unauthorized");
        assert!(refused.head.contains("www-authenticate: Bearer"), "{}", refused.head);
        assert!(!refused.text.contains("s3cr3t"));
        let server = server.with("s3cr3");
        server.get("/api/v1/runs").refuses(401, "unauthorized");
        let server = server.with("s3cr3t");
        assert_eq!(server.get("/api/v1/runs").status, 200);
        assert_eq!(server.get("/healthz").status, 200);
        // A viewer changes nothing.
        let start = json!({ "workflow": "doubled", "input": 1 });
        let problem = server.post("/api/v1/runs", &start).refuses(403, "forbidden");
        assert!(problem["detail"].as_str().unwrap().contains("Operator"), "{problem}");
        assert_eq!(server.get("/api/v1/runs").json()["items"], json!([]));
    })
    .await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_with_secrets_are_left_out_of_answers() {
    let live = Live::new(Database::Sqlite).await;
    let working = LocalWorker::start(live.worker(()).register(echoes));
    let server = Server::start(&live, Access::token("a", Actor::admin("ada"))).await.with("a");
    let all = Server::start(&live, Access::token("b", Actor::admin("ada")).redact(Redact::nothing())).await.with("b");
    beside(move || {
        let input = r#"{"workflow":"echoes","input":{"accessToken":{"of":"t0ken"},"amount":12345678901234567890.10}}"#;
        let json = [("Content-Type", "application/json")];
        let run = server.send("POST", "/api/v1/runs", &json, input).json()["run"].as_str().unwrap().to_owned();
        let ended = server.get(&format!("/api/v1/runs/{run}/result?wait=60s"));
        assert_eq!(ended.json()["status"], "succeeded");
        for path in ["", "/result", "/history", "/payload?of=input", "/payload?of=output", "/payload?of=step&step=echo"]
        {
            let path = format!("/api/v1/runs/{run}{path}");
            let (shown, whole) = (server.get(&path).text, all.get(&path).text);
            assert!(!shown.contains("t0ken") && shown.contains("[redacted]"), "{path}: {shown}");
            assert!(shown.contains("12345678901234567890.10"), "{path}: {shown}");
            assert!(whole.contains("t0ken") && !whole.contains("[redacted]"), "{path}: {whole}");
        }
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_change_nothing() {
    let live = Live::new(Database::Sqlite).await;
    let local = Server::start(&live, Access::local()).await;
    let read_only = Server::start(&live, Access::open().read_only()).await;
    beside(move || {
        let start = json!({ "workflow": "doubled", "input": 1 }).to_string();
        let send = |headers: &[(&str, &str)]| {
            let headers = [&[("Content-Type", "application/json")], headers].concat();
            local.send("POST", "/api/v1/runs", &headers, &start)
        };
        send(&[("Origin", "https://evil.example")]).refuses(403, "forbidden");
        send(&[("Sec-Fetch-Site", "cross-site")]).refuses(403, "forbidden");
        // A name that leads to this machine, as after a rebinding.
        local.send("GET", "/api/v1/runs", &[("Host", "evil.example")], "").refuses(401, "unauthorized");
        assert_eq!(send(&[("Sec-Fetch-Site", "same-origin")]).status, 201);
        assert_eq!(send(&[]).status, 201, "a program of this machine");
        let refused = read_only.post("/api/v1/runs", &json!({ "workflow": "doubled", "input": 1 }));
        refused.refuses(403, "forbidden");
        assert_eq!(read_only.get("/api/v1/runs").json()["items"].as_array().unwrap().len(), 2);
    })
    .await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_without_payloads_sees_sizes() {
    let live = Live::new(Database::Sqlite).await;
    let working = LocalWorker::start(live.worker(()).register(fails));
    let run = live.client.start(fails, "card 4711".to_owned()).await.unwrap();
    run.result().await.unwrap_err();
    // Its failure is counted then.
    working.stop().await;
    let access = Access::by(async |parts| {
        let name = parts.headers.get("x-user")?.to_str().ok()?;
        Some(Actor::viewer(name).without_payloads())
    });
    let server = Server::start(&live, access).await;
    let id = run.id();
    beside(move || {
        server.get("/api/v1/runs").refuses(401, "unauthorized");
        let get = |path: &str| server.send("GET", path, &[("X-User", "ada")], "");
        for path in ["", "/history", "/timeline", "/result"] {
            let response = get(&format!("/api/v1/runs/{id}{path}"));
            assert!(response.status == 200 && !response.text.contains("4711"), "{path}: {}", response.text);
        }
        let list = get("/api/v1/runs");
        assert!(list.text.contains("fails") && !list.text.contains("4711"), "{}", list.text);
        assert_eq!(get(&format!("/api/v1/runs/{id}")).json()["input"]["bytes"], 11);
        get(&format!("/api/v1/runs/{id}/payload?of=input")).refuses(403, "forbidden");
        let failures = get("/api/v1/failures?workflow=fails&since=-1h").json();
        assert_eq!((&failures["items"][0]["message"], &failures["items"][0]["count"]), (&json!("(hidden)"), &json!(1)));
        let stats = get("/api/v1/stats?since=-2h&by=workflow&step=hour").json();
        assert_eq!((&stats["groups"][0]["workflow"], &stats["step"]), (&json!("fails"), &json!("hour")), "{stats}");
        assert_eq!(stats["groups"][0]["total"]["failed"], 1);
    })
    .await;
    live.sweep().await;
}

/// Keeps the callers whose traces the orders belong to.
#[derive(Clone, Default)]
struct Callers(Arc<Mutex<Vec<Option<TraceContext>>>>);

impl Observer for Callers {
    fn event(&self, _: &Event<'_>) {}

    fn span_begun(&self, begun: &BegunSpan<'_>) -> Option<TraceContext> {
        if begun.span.metadata().is_some_and(|span| span.name() == "order") {
            self.0.lock().unwrap().push(begun.parent);
        }
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_passes_its_trace_on() {
    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut live = Live::new(Database::Sqlite).await;
    let callers = Callers::default();
    live.client = live.connect().observer(callers.clone()).await.unwrap();
    let server = Server::start(&live, Access::open()).await;
    beside(move || {
        let start = json!({ "workflow": "greets", "input": null }).to_string();
        let send = |path: &str, body: &str, traces: &[&str]| {
            let json = [("Content-Type", "application/json")].into_iter();
            let headers: Vec<_> = json.chain(traces.iter().map(|trace| ("Traceparent", *trace))).collect();
            server.send("POST", path, &headers, body)
        };
        let start = |traces: &[&str]| {
            let answer = send("/api/v1/runs", &start, traces);
            assert_eq!(answer.status, 201, "{}", answer.text);
            let run = answer.json()["run"].as_str().unwrap().to_owned();
            (server.get(&format!("/api/v1/runs/{run}")).json()["trace"].clone(), run)
        };
        let (trace, run) = start(&[CALLER]);
        let trace = trace.as_str().unwrap();
        assert_eq!(trace[..36], CALLER[..36], "the run belongs to the trace of the request");
        assert_ne!(trace, CALLER, "and stands below the span of the order");
        // A header that cannot be read, or that is there twice, is ignored; no request is refused.
        for traces in [&[][..], &["00-what"], &[CALLER, CALLER]] {
            assert_eq!(start(traces).0, Value::Null, "{traces:?}");
        }
        let signal = json!({ "name": "go", "payload": "hello" }).to_string();
        assert_eq!(send(&format!("/api/v1/runs/{run}/signals"), &signal, &[CALLER]).status, 200);
        let caller = Some(CALLER.parse().unwrap());
        assert_eq!(*callers.0.lock().unwrap(), [caller, None, None, None, caller]);
        let order = json!({ "action": "cancel_run", "run": run, "trace_parent": "00-what" });
        server.post("/api/v1/orders", &order).refuses(400, "bad_input");
    })
    .await;
    live.sweep().await;
}
