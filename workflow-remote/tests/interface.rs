//! A server is asked as its database is: each check runs over both, and gets the same answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use serde_json::{Value, json};
use workflow_http::{Access, Actor, router};
use workflow_remote::Remote;
use workflow_sdk::Timestamp;
use workflow_sdk::operate::{
    Action, BackfillSchedule, Change, CreateSchedule, Cursor, ForkRun, ListApprovals, ListAudit, ListChanges,
    ListEmitted, ListGates, ListHistory, ListRuns, ListSchedules, ListSeats, ListTimeline, Operate, OperateBulk,
    OperateError, OperateErrorCode, Order, OrderOutcome, Payload, PayloadOf, RunId, StartRun,
};
use workflow_sdk::prelude::*;
use workflow_tests::{Database, Live, LocalWorker};

#[workflow]
async fn doubled(ctx: &Ctx, number: u64) -> Result<u64> {
    ctx.step("double", async || ok(number * 2)).await
}

#[workflow]
async fn asks(ctx: &Ctx) -> Result<bool> {
    Ok(ctx.approval("ship").to("ops").await?.is_some_and(|decision| decision.approved))
}

#[workflow]
async fn logs(ctx: &Ctx, items: u64) -> Result<()> {
    for item in 0..items {
        ctx.emit("a/b & c", &item)?;
    }
    ctx.publish("so far", &items)?;
    ctx.step("done", async || ok(())).await
}

/// Serves routes on a port of this machine, and returns their URL.
async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    format!("http://{address}")
}

/// Listens on a port of this machine, reads from each connection and closes it without an answer.
fn closing() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream.unwrap().read(&mut [0; 64 * 1024]));
        }
    });
    url
}

async fn remote_of(live: &Live) -> Remote {
    let access = Access::token("s3cr3t", Actor::admin("ada"));
    let url = serve(Router::new().nest("/workflows", router(live.client.clone(), access))).await;
    Remote::new(&format!("{url}/workflows/")).unwrap().token("s3cr3t").unwrap().timeout(Duration::MAX)
}

async fn start(operate: &dyn Operate, workflow: &str, input: &str) -> RunId {
    let mut start = StartRun::new(workflow, Payload::new(input).unwrap());
    start.tags.insert("customer".into(), "a/b & c".into());
    start.gate = Some("acct/4 2".into());
    let done = operate.perform(Order::new(Action::StartRun(Box::new(start))).reason("a test")).await.unwrap();
    match done.outcome {
        OrderOutcome::Started { run } => run,
        other => panic!("{other:?}"),
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, OperateError>) -> OperateErrorCode {
    let error = result.unwrap_err();
    assert!(!error.message.is_empty() && !error.help.is_empty(), "{error:?}");
    error.code
}

/// Operates by one interface, and compares its answers with those of the database.
async fn operates(operate: &dyn Operate, database: &dyn Operate) {
    let run = start(operate, "doubled", "21").await;
    let ended = operate.ended(run, Duration::from_secs(60)).await.unwrap();
    assert_eq!(ended.output.as_ref().unwrap().json.as_ref().unwrap().as_str(), "42");
    assert_eq!(operate.run(run).await.unwrap(), database.run(run).await.unwrap());
    let query: workflow_sdk::operate::Query = "tag.customer:\"a/b & c\"".parse().unwrap();
    let list = ListRuns::new(query).limit(1);
    let page = operate.runs(list.clone()).await.unwrap();
    assert_eq!(page, database.runs(list.clone()).await.unwrap());
    assert_eq!(page.items[0].id, run);
    if let Some(next) = page.next {
        operate.runs(list.cursor(next)).await.unwrap();
    }
    let id = run.to_string();
    assert_eq!(operate.find_runs(&id, 5).await.unwrap(), database.find_runs(&id, 5).await.unwrap());
    let history = ListHistory::new(run);
    assert_eq!(operate.history(history.clone()).await.unwrap(), database.history(history.clone()).await.unwrap());
    for (step, attempts) in [("double", 1), ("a/b & c", 0)] {
        let page = operate.history(history.clone().step(step)).await.unwrap();
        assert_eq!(page.items.len(), attempts, "{page:?}");
    }
    let window = ListTimeline::new(run).limit(5);
    // Else it could come between the two reads.
    workflow_tests::until("the source line of the step", async || {
        database.timeline_window(window.clone()).await.unwrap().rows.first()?.source_line.clone()
    })
    .await;
    assert_eq!(operate.timeline_window(window.clone()).await.unwrap(), database.timeline_window(window).await.unwrap());
    for of in [PayloadOf::Input, PayloadOf::Output, PayloadOf::Step { step: "double".into(), attempt: 1 }] {
        assert_eq!(operate.payload(run, of.clone()).await.unwrap(), database.payload(run, of).await.unwrap());
    }
    let gates = ListGates::new("default");
    assert_eq!(operate.gates(gates.clone()).await.unwrap(), database.gates(gates).await.unwrap());
    assert_eq!(operate.limits().await.unwrap(), database.limits().await.unwrap());
    let seats = ListSeats::new("no such/limit").key("a&b").limit(3);
    assert_eq!(operate.seats(seats.clone()).await.unwrap_err(), database.seats(seats).await.unwrap_err());
    assert_eq!(operate.counts().await.unwrap().failed, database.counts().await.unwrap().failed);
    let (there, here) = (operate.system().await.unwrap(), database.system().await.unwrap());
    assert_eq!((&there.release, &there.database.version), (&here.release, &here.database.version));
    let levels = |view: &workflow_sdk::operate::SystemView| (view.database.schema_level, view.database.known_level);
    assert_eq!(levels(&there), levels(&here));
    assert_eq!(there.database.sqlite.is_some(), here.database.sqlite.is_some());
    assert!(there.database.bytes.is_some_and(|bytes| bytes > 0) && there.database.refused.is_empty());
    assert_eq!(operate.queues().await.unwrap()[0].name, "default");
    assert!(operate.workers().await.unwrap()[0].live);
    assert_eq!(operate.workflows().await.unwrap().len(), database.workflows().await.unwrap().len());
    assert_eq!(operate.schedules(ListSchedules::new()).await.unwrap().items.len(), 0);

    // A name with every mark of an address.
    let name = "yearly/?&=%+ ü";
    let mut create = CreateSchedule::new(name, "unserved", Payload::new(r#"{"amount": 1.10}"#).unwrap());
    create.settings.cron = Some(vec!["0 7 1 1 *".into()]);
    let create = Order::new(Action::CreateSchedule(Box::new(create)));
    assert_eq!(operate.perform(create).await.unwrap().outcome, OrderOutcome::Changed);
    let next = operate.next_occurrences(name, 2).await.unwrap();
    assert_eq!(next, database.next_occurrences(name, 2).await.unwrap());
    let [after, until] = [1_704_067_200_000_000, 1_767_225_600_000_000].map(Timestamp::from_micros);
    let backfill = BackfillSchedule::new(name, after, until);
    let preview = operate.backfill_preview(backfill.clone()).await.unwrap();
    assert_eq!((next.len(), preview.count), (2, 2));
    assert_eq!(preview, database.backfill_preview(backfill).await.unwrap());
    let delete = Order::new(Action::DeleteSchedule { schedule: name.into() });
    assert_eq!(operate.perform(delete).await.unwrap().outcome, OrderOutcome::Changed);

    // Numbers keep their digits on both ways.
    let exact = r#"{"amount": 9223372036854775807.0000000001, "of": [1.10]}"#;
    let unserved = start(operate, "unserved", exact).await;
    let input = operate.run(unserved).await.unwrap().input.unwrap();
    assert_eq!(input.json.unwrap().as_str(), exact);
    let short = operate.ended(unserved, Duration::from_millis(1)).await.unwrap();
    assert!(!short.summary.status.is_terminal());
    let cancel = Order::new(Action::CancelRun { run: unserved, only_ask: false }).reason("a test");
    assert_eq!(operate.perform(cancel.clone()).await.unwrap().outcome, OrderOutcome::Canceled);
    let again = operate.perform(cancel).await.unwrap();
    assert!(matches!(again.outcome, OrderOutcome::AlreadyEnded { .. }), "{again:?}");
    let audit = ListAudit::new().verb("run.cancel").target(format!("run:{unserved}"));
    let rows = operate.audit(audit.clone()).await.unwrap();
    assert_eq!((&rows, rows.items[0].reason.as_deref()), (&database.audit(audit).await.unwrap(), Some("a test")));

    let approval = start(operate, "asks", "null").await;
    let waiting = async || operate.approvals(ListApprovals::new().run(approval)).await.unwrap();
    workflow_tests::until("the run asks", async || (!waiting().await.items.is_empty()).then_some(())).await;
    let decide = Action::DecideApproval { run: approval, step: "ship".into(), approve: true, note: None };
    operate.perform(Order::new(decide).actor("ada")).await.unwrap();
    let ended = operate.ended(approval, Duration::from_secs(60)).await.unwrap();
    assert_eq!(ended.output.unwrap().json.unwrap().as_str(), "true");
    refuses(operate, run).await;
    follows(operate).await;
}

/// Follows a run that hands something out, by the cursor alone.
async fn follows(operate: &dyn Operate) {
    let list = ListChanges::of_runs("workflow:logs".parse().unwrap()).wait(Duration::from_secs(20));
    let mut cursor = operate.changes(list.clone().wait(Duration::ZERO)).await.unwrap().cursor;
    let run = start(operate, "logs", "3").await;
    let mut seen = Vec::new();
    let ended = Change::Changed { run, status: workflow_sdk::RunStatus::Succeeded };
    let entered = Change::Entered { run, status: workflow_sdk::RunStatus::Succeeded };
    while !seen.contains(&ended) && !seen.contains(&entered) {
        let page = operate.changes(list.clone().cursor(cursor)).await.unwrap();
        assert!(!page.reset && !page.items.is_empty(), "{page:?}");
        (cursor, seen) = (page.cursor, [seen, page.items].concat());
    }
    let items = ListEmitted::new(run, "a/b & c");
    let page = operate.emitted(items.clone().limit(2)).await.unwrap();
    assert_eq!((page.items.len(), page.complete), (2, false));
    let rest = operate.emitted(items.after(2).wait(Duration::from_secs(20))).await.unwrap();
    assert_eq!((rest.items[0].number, rest.complete), (3, true));
    assert_eq!(operate.published(run, "so far").await.unwrap().json.unwrap().as_str(), "3");
    assert_eq!(code(operate.published(run, "nothing").await), OperateErrorCode::NotFound);
    let of_run = ListChanges::of_run(run);
    assert!(operate.changes(of_run).await.unwrap().items.is_empty());
    assert_eq!(code(operate.changes(list.clone().limit(0)).await), OperateErrorCode::BadLimit);
    assert!(operate.changes(ListChanges::of_all()).await.is_ok());
    assert_eq!(code(operate.changes(list.cursor(Cursor::new("x"))).await), OperateErrorCode::BadCursor);
}

/// The refusals of the database, by their codes.
async fn refuses(operate: &dyn Operate, run: RunId) {
    use OperateErrorCode as Code;
    let list = || ListRuns::new("status:failed".parse().unwrap());
    assert_eq!(code(operate.run(RunId::generate()).await), Code::NotFound);
    assert_eq!(code(operate.runs(list().limit(0)).await), Code::BadLimit);
    assert_eq!(code(operate.runs(list().cursor(Cursor::new("nonsense"))).await), Code::BadCursor);
    assert_eq!(code(operate.find_runs("0?&", 5).await), Code::BadInput);
    assert_eq!(code(operate.gates(ListGates::new("no/such queue")).await), Code::NotFound);
    assert_eq!(code(operate.schedule("no such").await), Code::NotFound);
    assert_eq!(code(operate.next_occurrences("no/such", 2).await), Code::NotFound);
    assert_eq!(code(operate.perform(Order::new(Action::RetryRun { run, deadline_ms: None })).await), Code::Conflict);
    let mut fork = ForkRun::new(run);
    fork.from = Some("duoble".into());
    let error = operate.perform(Order::new(Action::ForkRun(Box::new(fork)))).await.unwrap_err();
    assert_eq!((error.code, error.help.as_str()), (Code::NotFound, "did you mean \"double\"?"));
    let large = Payload::new(format!("\"{}\"", "x".repeat(3 * 1024 * 1024))).unwrap();
    let large = Order::new(Action::StartRun(Box::new(StartRun::new("doubled", large))));
    assert_eq!(code(operate.perform(large).await), Code::TooLarge);
}

async fn the_answers_are_those_of_the_database(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(doubled).register(asks).register(logs));
    operates(live.client.operate(), live.client.operate()).await;
    operates(&remote_of(&live).await, live.client.operate()).await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_are_those_of_the_database_on_sqlite() {
    the_answers_are_those_of_the_database(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_are_those_of_the_database_on_postgres() {
    the_answers_are_those_of_the_database(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_or_is_away_is_told_apart() {
    let live = Live::new(Database::Sqlite).await;
    let remote = remote_of(&live).await;
    let wrong = remote.clone().token("wrong").unwrap();
    let error = wrong.counts().await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::Unauthorized);
    assert!(error.help.contains("Bearer") && !format!("{error:?}").contains("wrong"), "{error:?}");

    let viewer = router(live.client.clone(), Access::token("v", Actor::viewer("eve")));
    let viewer = Remote::new(&serve(viewer).await).unwrap().token("v").unwrap();
    viewer.counts().await.unwrap();
    let pause = Order::new(Action::PauseQueue { queue: "default".into() });
    assert_eq!(code(viewer.perform(pause).await), OperateErrorCode::Forbidden);

    // A port on which nothing listens any more.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = Remote::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let error = away.counts().await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::Unavailable);
    assert!(error.message.contains("cannot be reached"), "{error}");
    let error = away.perform(Order::new(Action::ResumeQueue { queue: "default".into() })).await.unwrap_err();
    assert!(error.message.contains("cannot be reached") && error.help.contains("the URL"), "{error}");

    // Servers that may have carried a change out.
    let hanging = serve(Router::new().fallback(std::future::pending::<&str>)).await;
    let proxy = serve(Router::new().fallback(async || (StatusCode::BAD_GATEWAY, "<html>"))).await;
    for (url, millis, code, says) in [
        (closing(), 60_000, OperateErrorCode::Unavailable, "was lost before its answer"),
        (hanging, 200, OperateErrorCode::TimedOut, "did not answer within"),
        (proxy, 60_000, OperateErrorCode::Unavailable, "answered 502"),
    ] {
        let remote = Remote::new(&url).unwrap().timeout(Duration::from_millis(millis));
        let resume = Order::new(Action::ResumeQueue { queue: "default".into() });
        let query: workflow_sdk::operate::Query = "".parse().unwrap();
        for (error, is_change) in [
            (remote.perform(resume).await.unwrap_err(), true),
            (remote.start_flow(&json!({})).await.unwrap_err(), true),
            (remote.deploy_flow::<Value>("order", &json!({})).await.unwrap_err(), true),
            (remote.counts().await.unwrap_err(), false),
            (remote.bulk_preview(&query).await.unwrap_err(), false),
            (remote.check_flow::<Value>(&json!({}), false).await.unwrap_err(), false),
        ] {
            assert!(error.code == code && error.message.contains(says), "{error:?}");
            assert_eq!(error.help.contains("look whether it took effect"), is_change, "{error:?}");
        }
    }
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_kind_is_told_apart() {
    let page = serve(Router::new().fallback(async || "<html>hello</html>")).await;
    let empty = serve(Router::new()).await;
    for url in [page, empty] {
        let error = Remote::new(&url).unwrap().counts().await.unwrap_err();
        assert_eq!(error.code, OperateErrorCode::Unavailable);
        assert!(error.message.contains("not as a server of workflows"), "{error}");
        assert!(error.help.contains("prefix"), "{error}");
    }
    // Another program that answers with JSON.
    let other = serve(Router::new().fallback(async || "{}")).await;
    let error = Remote::new(&other).unwrap().counts().await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::Unreadable, "{error}");
    let silent = serve(Router::new().fallback(std::future::pending::<&str>)).await;
    let silent = Remote::new(&silent).unwrap().timeout(Duration::from_millis(200));
    assert_eq!(code(silent.counts().await), OperateErrorCode::TimedOut);
}
