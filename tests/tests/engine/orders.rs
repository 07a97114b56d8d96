//! Orders of an operator, and the audit rows that they leave.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use workflow_engine::store::Write;
use workflow_sdk::operate::{
    Action, AuditEntry, Cursor, Done, ForkRun, ListAudit, OperateError, OperateErrorCode, Order, OrderOutcome, Payload,
    StartRun,
};
use workflow_sdk::prelude::*;
use workflow_sdk::{
    DEFAULT_PAYLOAD_LIMIT, DatabaseErrorKind, Encryption, EncryptionKey, LimitRule, Priority, QueueLimits, Rate, RunId,
    Schedule, StepKind, Timestamp,
};
use workflow_tests::faulty::{Fault, FaultyStore};
use workflow_tests::{Live, LocalWorker, Probe, until};
use workflow_worker::Worker;

/// In every payload of these tests, and in no audit row.
const SECRET: &str = "xyzzy";

#[workflow]
async fn obey(ctx: &Ctx<Probe>, how: String) -> Result<String> {
    match how.as_str() {
        "fail" => {
            let work = ctx.step("work", async || Err::<String, _>(Error::msg("no luck")));
            work.retry(Retry::none()).await
        }
        "wait" => ok(ctx.signal::<String>("go").await?.unwrap_or_default()),
        "ask" => {
            let decision = ctx.approval("ship").await?;
            ok(decision.map(|decision| decision.by).unwrap_or_default())
        }
        "hold" => {
            let probe = ctx.state();
            let held = async || {
                probe.note("held");
                probe.pass("gate").await;
                Ok::<_, Error>(1)
            };
            ctx.step("held", held).await?;
            ok(ctx.step("after", async || Ok::<_, Error>("done".to_owned())).await?)
        }
        how => ok(how.to_owned()),
    }
}

async fn order(db: &Live, action: Action) -> Result<Done, OperateError> {
    db.client.operate().perform(Order::new(action).actor("ada").reason("because")).await
}

async fn done(db: &Live, action: Action) -> OrderOutcome {
    let what = format!("{action:?}");
    order(db, action).await.unwrap_or_else(|error| panic!("{what}: {error}")).outcome
}

async fn refused(db: &Live, action: Action) -> OperateErrorCode {
    let before = rows(db).await;
    let what = format!("{action:?}");
    let error = order(db, action).await.expect_err(&what);
    assert!(!error.message.is_empty() && !error.help.is_empty() && !error.message.contains("; "), "{error:?}");
    assert_eq!(rows(db).await, before, "{what}");
    error.code
}

/// Returns all audit rows, the oldest first.
async fn rows(db: &Live) -> Vec<AuditEntry> {
    let page = db.client.operate().audit(ListAudit::new().limit(1000)).await.unwrap();
    assert_eq!(page.next, None);
    assert!(!format!("{page:?}").contains(SECRET), "{page:?}");
    page.items.into_iter().rev().collect()
}

/// Returns verb, target and outcome of the last row.
async fn last(db: &Live) -> (String, String, String) {
    let row = rows(db).await.pop().expect("an audit row");
    assert_eq!((row.actor.as_deref(), row.reason.as_deref()), (Some("ada"), Some("because")));
    (row.verb, row.target, row.outcome)
}

fn row(verb: &str, target: &str, outcome: &str) -> (String, String, String) {
    (verb.into(), target.into(), outcome.into())
}

fn text(value: &str) -> Payload {
    Payload::from(json!(value))
}

async fn is(db: &Live, run: RunId, status: RunStatus) {
    until("the run has the status", async || (db.client.run(run).await.unwrap().status == status).then_some(())).await;
}

fn started(outcome: OrderOutcome) -> RunId {
    match outcome {
        OrderOutcome::Started { run } => run,
        other => panic!("expected a started run, got {other:?}"),
    }
}

pub async fn each_order_about_a_run_does_what_it_says(db: Live) {
    let mut start = StartRun::new("obey", text("wait"));
    start.key = Some("order-1".into());
    start.tags.insert("customer".into(), SECRET.into());
    let start = Action::StartRun(Box::new(start));
    let run = started(done(&db, start.clone()).await);
    let of_run = format!("run:{run}");
    assert_eq!(last(&db).await, row("run.start", "workflow:obey", &format!("started {run}")));
    assert_eq!(done(&db, start).await, OrderOutcome::Existed { run });
    assert_eq!(rows(&db).await.len(), 1, "a run that existed leaves no row");

    assert_eq!(done(&db, Action::PauseRun { run }).await, OrderOutcome::Paused);
    assert_eq!(last(&db).await, row("run.pause", &of_run, "paused"));
    assert_eq!(done(&db, Action::ResumeRun { run }).await, OrderOutcome::Resumed);
    assert_eq!(last(&db).await, row("run.resume", &of_run, "resumed"));
    assert_eq!(done(&db, Action::ResumeRun { run }).await, OrderOutcome::NotPaused);

    let working = LocalWorker::start(db.worker(Probe::new()).register(obey));
    is(&db, run, RunStatus::Parked).await;
    let signal = Action::SignalRun { run, name: "go".into(), payload: text(SECRET), key: Some("one".into()) };
    assert_eq!(done(&db, signal.clone()).await, OrderOutcome::Signaled);
    assert_eq!(last(&db).await, row("run.signal", &of_run, "accepted"));
    is(&db, run, RunStatus::Succeeded).await;
    assert!(matches!(done(&db, signal).await, OrderOutcome::AlreadySignaled { .. }));
    let other = Action::SignalRun { run, name: "go".into(), payload: text("x"), key: None };
    assert_eq!(done(&db, other).await, OrderOutcome::AlreadyEnded { status: RunStatus::Succeeded });
    assert_eq!(last(&db).await.0, "run.signal");

    let failed = db.client.start(obey, "fail".into()).await.unwrap().id();
    is(&db, failed, RunStatus::Failed).await;
    assert_eq!(done(&db, Action::RetryRun { run: failed, deadline_ms: None }).await, OrderOutcome::Retried);
    assert_eq!(last(&db).await, row("run.retry", &format!("run:{failed}"), "applied"));
    is(&db, failed, RunStatus::Failed).await;
    let mut fork = ForkRun::new(failed);
    (fork.from, fork.input) = (Some("work".into()), Some(text("wait")));
    let forked = started(done(&db, Action::ForkRun(Box::new(fork))).await);
    assert_eq!(last(&db).await, row("run.fork", &format!("run:{failed}"), &format!("started {forked}")));
    assert_eq!(rows(&db).await.pop().unwrap().arguments, json!({ "from": "work" }));

    is(&db, forked, RunStatus::Parked).await;
    working.stop().await;
    assert_eq!(done(&db, Action::CancelRun { run: forked, only_ask: false }).await, OrderOutcome::CancelRequested);
    assert_eq!(last(&db).await, row("run.cancel", &format!("run:{forked}"), "requested"));
    let ask = Action::CancelRun { run: forked, only_ask: true };
    let count = rows(&db).await.len();
    let asked = order(&db, ask.clone()).await.unwrap();
    assert!(matches!(asked.outcome, OrderOutcome::AlreadyRequested { .. }), "{asked:?}");
    assert!(asked.message.contains("was asked to end before"), "{asked:?}");
    assert_eq!((rows(&db).await.len(), db.client.run(forked).await.unwrap().status), (count, RunStatus::Parked));
    assert_eq!(done(&db, Action::CancelRun { run: forked, only_ask: false }).await, OrderOutcome::Canceled);
    assert_eq!(last(&db).await, row("run.cancel", &format!("run:{forked}"), "canceled"));
    let ended = OrderOutcome::AlreadyEnded { status: RunStatus::Canceled };
    let count = rows(&db).await.len();
    for action in [ask, Action::CancelRun { run: forked, only_ask: false }, Action::TerminateRun { run: forked }] {
        assert_eq!(done(&db, action).await, ended);
    }
    for action in [Action::PauseRun { run: forked }, Action::ResumeRun { run: forked }] {
        assert_eq!(done(&db, action).await, ended);
    }
    assert_eq!(rows(&db).await.len(), count, "nothing was changed");
    let pending = db.client.start(obey, "x".into()).await.unwrap().id();
    assert_eq!(done(&db, Action::TerminateRun { run: pending }).await, OrderOutcome::Canceled);
    assert_eq!(last(&db).await, row("run.terminate", &format!("run:{pending}"), "canceled"));

    let deleted = order(&db, Action::DeleteRun { run }).await.unwrap();
    assert!(matches!(deleted.outcome, OrderOutcome::Deleted { attempts: 1, signals: 1 }), "{deleted:?}");
    assert_eq!(deleted.message, format!("run {run} is deleted, with 1 rows of history and 1 signals"));
    let of_run = db.client.operate().audit(ListAudit::new().target(of_run)).await.unwrap().items;
    let verbs: Vec<&str> = of_run.iter().map(|row| row.verb.as_str()).collect();
    assert_eq!(verbs, ["run.delete", "run.signal", "run.resume", "run.pause"]);

    let nobody = Action::EmitEvent { name: "paid".into(), key: "7".into(), payload: text(SECRET) };
    let count = rows(&db).await.len();
    assert_eq!(done(&db, nobody).await, OrderOutcome::Emitted { runs: 0 });
    assert_eq!(rows(&db).await.len(), count);
}

pub async fn orders_change_where_a_run_waits(db: Live) {
    let run = db.client.start(obey, "hold".into()).await.unwrap().id();
    let of_run = format!("run:{run}");
    let urgent = Action::SetPriority { run, priority: Priority::Urgent };
    assert_eq!(done(&db, urgent.clone()).await, OrderOutcome::Changed);
    assert_eq!(last(&db).await, row("run.set_priority", &of_run, "changed"));
    assert_eq!(rows(&db).await.pop().unwrap().arguments, json!({ "priority": "urgent" }));
    assert_eq!(done(&db, urgent.clone()).await, OrderOutcome::Unchanged);
    let to = |queue: &str| Action::MoveTo { run, queue: queue.into() };
    assert_eq!(done(&db, to("slow")).await, OrderOutcome::Changed);
    assert_eq!(last(&db).await, row("run.move_to", &of_run, "changed"));
    assert_eq!(rows(&db).await.pop().unwrap().arguments, json!({ "queue": "slow" }));
    assert_eq!(done(&db, to("slow")).await, OrderOutcome::Unchanged);
    assert_eq!(rows(&db).await.len(), 2, "what was so before leaves no row");

    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe.clone()).queues(["slow"]).register(obey));
    probe.noted("held").await;
    assert_eq!(refused(&db, to("fast")).await, OperateErrorCode::Conflict);
    assert_eq!(done(&db, urgent.clone()).await, OrderOutcome::HasBegun);
    done(&db, Action::PauseRun { run }).await;
    probe.open("gate");
    is(&db, run, RunStatus::Parked).await;
    assert_eq!(done(&db, to("fast")).await, OrderOutcome::Changed);
    assert_eq!(done(&db, Action::ResumeRun { run }).await, OrderOutcome::Resumed);
    let fast = LocalWorker::start(db.worker(probe.clone()).queues(["fast"]).register(obey));
    is(&db, run, RunStatus::Succeeded).await;
    assert_eq!(probe.times("held"), 1, "the finished step is not run again");
    assert_eq!(done(&db, to("slow")).await, OrderOutcome::AlreadyEnded { status: RunStatus::Succeeded });
    working.stop().await;
    fast.stop().await;
}

pub async fn an_order_that_is_refused_changes_nothing_and_leaves_no_row(db: Live) {
    use OperateErrorCode::{BadInput, Conflict, NotFound, TooLarge};
    let unknown = RunId::generate();
    let open = db.client.start(obey, "wait".into()).key("k").await.unwrap().id();
    let signal = |run, payload| Action::SignalRun { run, name: "go".into(), payload, key: None };
    let large = text(&"x".repeat(DEFAULT_PAYLOAD_LIMIT));
    let start = |change: fn(&mut StartRun)| {
        let mut start = StartRun::new("obey", text("other"));
        change(&mut start);
        Action::StartRun(Box::new(start))
    };
    let mut fork = ForkRun::new(open);
    fork.from = Some("wrok".into());
    for (action, code) in [
        (Action::CancelRun { run: unknown, only_ask: false }, NotFound),
        (Action::TerminateRun { run: unknown }, NotFound),
        (Action::PauseRun { run: unknown }, NotFound),
        (Action::ResumeRun { run: unknown }, NotFound),
        (Action::SetPriority { run: unknown, priority: Priority::Low }, NotFound),
        (Action::MoveTo { run: unknown, queue: "slow".into() }, NotFound),
        (Action::MoveTo { run: open, queue: String::new() }, BadInput),
        (Action::MoveTo { run: open, queue: "x".repeat(300) }, BadInput),
        (Action::RetryRun { run: unknown, deadline_ms: None }, NotFound),
        (Action::RetryRun { run: open, deadline_ms: None }, Conflict),
        (Action::ForkRun(Box::new(ForkRun::new(unknown))), NotFound),
        (Action::ForkRun(Box::new(fork)), NotFound),
        (signal(unknown, text("x")), NotFound),
        (signal(open, large), TooLarge),
        (Action::SignalRun { run: open, name: String::new(), payload: text("x"), key: None }, BadInput),
        (Action::DecideApproval { run: open, step: "ship".into(), approve: true, note: None }, Conflict),
        (Action::DecideApproval { run: unknown, step: "ship".into(), approve: true, note: None }, NotFound),
        (Action::DeleteRun { run: unknown }, NotFound),
        (Action::DeleteRun { run: open }, Conflict),
        (start(|start| start.key = Some("k".into())), Conflict),
        (start(|start| start.queue = Some(String::new())), BadInput),
        (start(|start| (start.at, start.delay_ms) = (Some(Timestamp::FAR_FUTURE), Some(1))), BadInput),
        (Action::PauseQueue { queue: String::new() }, BadInput),
        (Action::WeighGate { queue: "mail".into(), gate: "\n".into(), weight: 1 }, BadInput),
        (Action::SetLimit { limit: String::new(), rule: LimitRule::none() }, BadInput),
        (Action::PauseSchedule { schedule: "none".into() }, NotFound),
        (Action::ResumeSchedule { schedule: "none".into() }, NotFound),
        (Action::TriggerSchedule { schedule: "none".into(), input: None }, NotFound),
        (Action::RevertSchedule { schedule: "none".into() }, NotFound),
        (Action::EmitEvent { name: String::new(), key: "k".into(), payload: text("x") }, BadInput),
    ] {
        let what = format!("{action:?}");
        assert_eq!(refused(&db, action).await, code, "{what}");
    }
    let rate = Rate::per(Duration::ZERO, 1);
    let limits = QueueLimits::none().rate(rate);
    assert_eq!(refused(&db, Action::SetQueueLimits { queue: "mail".into(), limits }).await, BadInput);
    for incomplete in [
        Order::new(Action::PauseQueue { queue: "mail".into() }),
        Order::new(Action::DecideApproval { run: open, step: "ship".into(), approve: true, note: None }),
        Order::new(Action::CancelRun { run: open, only_ask: false }).actor(""),
        Order::new(Action::CancelRun { run: open, only_ask: false }).reason("a\nb"),
    ] {
        assert_eq!(db.client.operate().perform(incomplete).await.unwrap_err().code, BadInput);
    }
    let unchanged = Action::DeleteSchedule { schedule: "none".into() };
    assert_eq!(done(&db, unchanged).await, OrderOutcome::Unchanged);
    assert_eq!((rows(&db).await, db.client.queues().await.unwrap()), (vec![], vec![]));
    assert_eq!(db.client.run(open).await.unwrap().status, RunStatus::Pending);
}

pub async fn a_started_run_gets_the_very_text_of_its_input(db: Live) {
    let input = r#"{"n": 12345678901234567890123456789, "f":1.10,"a":[ ]}"#;
    let order = format!(
        r#"{{"action":"start_run","workflow":"exact","input":{input},"queue":"slow","priority":"high",
            "delay_ms":3600000,"deadline_ms":7200000,"tags":{{"region":"eu"}},"actor":"ada"}}"#
    );
    let order: Order = serde_json::from_str(&order).unwrap();
    assert_eq!(serde_json::from_str::<Order>(&serde_json::to_string(&order).unwrap()).unwrap(), order);
    let run = started(db.client.operate().perform(order).await.unwrap().outcome);
    let row = db.client.run(run).await.unwrap();
    assert_eq!((row.input.as_str(), row.lane.queue.as_str(), row.tags["region"].as_str()), (input, "slow", "eu"));
    assert!(row.deadline_at.is_some() && row.available_at > row.created_at);
    let audit = rows(&db).await.pop().unwrap();
    let arguments = json!({ "queue": "slow", "priority": "high", "delay_ms": 3_600_000, "deadline_ms": 7_200_000 });
    assert_eq!((audit.arguments, audit.reason), (arguments, None));
}

pub async fn a_person_decides_about_an_approval_once(db: Live) {
    let run = db.client.start(obey, "ask".into()).await.unwrap();
    let working = LocalWorker::start(db.worker(Probe::new()).register(obey));
    is(&db, run.id(), RunStatus::Parked).await;
    let decide = |approve| Action::DecideApproval {
        run: run.id(),
        step: "ship".into(),
        approve,
        note: Some(format!("note {SECRET}")),
    };
    assert_eq!(done(&db, decide(true)).await, OrderOutcome::Decided);
    assert_eq!(last(&db).await, row("run.decide", &format!("run:{}", run.id()), "accepted"));
    assert_eq!(run.result().await.unwrap(), "ada");
    let again = order(&db, decide(false)).await.unwrap();
    let OrderOutcome::AlreadyDecided { approved, by, .. } = &again.outcome else { panic!("{again:?}") };
    assert_eq!((*approved, by.as_deref()), (Some(true), Some("ada")));
    assert!(again.message.starts_with("this was approved by ada at "), "{again:?}");
    assert_eq!(rows(&db).await.len(), 1);
    let history = run.history().await.unwrap();
    assert!(history.iter().any(|row| row.kind == StepKind::Approval && row.step_key == "ship"));
    working.stop().await;
}

pub async fn orders_change_queues_gates_and_limits(db: Live) {
    let queue = || "mail".to_owned();
    let limits = QueueLimits::none().concurrency(3);
    let rule = LimitRule::none().concurrency(2);
    for (action, expected, arguments) in [
        (Action::PauseQueue { queue: queue() }, ("queue.pause", "queue:mail"), json!({})),
        (Action::ResumeQueue { queue: queue() }, ("queue.resume", "queue:mail"), json!({})),
        (
            Action::SetQueueLimits { queue: queue(), limits },
            ("queue.set_limits", "queue:mail"),
            json!({ "limits": { "concurrency": 3 } }),
        ),
        (
            Action::WeighGate { queue: queue(), gate: "acct-1".into(), weight: 7 },
            ("gate.weigh", "gate:mail/acct-1"),
            json!({ "weight": 7 }),
        ),
        (
            Action::SetLimit { limit: "llm".into(), rule },
            ("limit.set", "limit:llm"),
            json!({ "rule": { "concurrency": 2 } }),
        ),
    ] {
        assert_eq!(done(&db, action.clone()).await, OrderOutcome::Changed);
        assert_eq!(last(&db).await, row(expected.0, expected.1, "applied"));
        assert_eq!(rows(&db).await.pop().unwrap().arguments, arguments);
        let pause = db.client.queue("mail").record().await.unwrap().unwrap().pause;
        let is_pause = matches!(action, Action::PauseQueue { .. });
        assert_eq!(pause.map(|pause| pause.reason), is_pause.then(|| "because".to_owned()));
    }
    assert_eq!(db.client.queue("mail").record().await.unwrap().unwrap().overridden, Some(limits));
    assert_eq!(db.client.limit("llm").record().await.unwrap().unwrap().overridden, Some(rule));
    assert_eq!(done(&db, Action::ClearQueueLimits { queue: queue() }).await, OrderOutcome::Changed);
    assert_eq!(last(&db).await, row("queue.clear_limits", "queue:mail", "applied"));
    assert_eq!(done(&db, Action::ClearLimit { limit: "llm".into() }).await, OrderOutcome::Changed);
    assert_eq!(last(&db).await, row("limit.clear", "limit:llm", "applied"));
    assert_eq!(db.client.queue("mail").record().await.unwrap().unwrap().overridden, None);
    assert_eq!(db.client.limit("llm").record().await.unwrap().unwrap().overridden, None);
    let count = rows(&db).await.len();
    for (action, outcome) in [
        (Action::ResumeQueue { queue: queue() }, OrderOutcome::NotPaused),
        (Action::ClearQueueLimits { queue: queue() }, OrderOutcome::Unchanged),
        (Action::ClearLimit { limit: "llm".into() }, OrderOutcome::Unchanged),
    ] {
        assert_eq!(done(&db, action).await, outcome);
    }
    assert_eq!(rows(&db).await.len(), count, "nothing was changed");
}

/// A queue may be limited before its first worker begins, so an unknown name is not refused.
pub async fn an_order_about_an_unknown_queue_or_limit_is_carried_out_with_a_warning(db: Live) {
    let warning = async |action| order(&db, action).await.unwrap().warning;
    let (limits, rule) = (QueueLimits::none().concurrency(3), LimitRule::none().concurrency(2));
    let limit_queue = |queue: &str| Action::SetQueueLimits { queue: queue.into(), limits };
    let set_limit = |limit: &str| Action::SetLimit { limit: limit.into(), rule };
    let unknown = r#"queue "mail" was not known before: the change holds from its first use on"#;
    let first = order(&db, limit_queue("mail")).await.unwrap();
    assert_eq!((first.outcome, first.warning.as_deref()), (OrderOutcome::Changed, Some(unknown)));
    assert_eq!(first.message, format!("queue mail is changed; {unknown}"));
    assert_eq!(warning(limit_queue("mail")).await, None, "it is set");
    let mistyped = r#"queue "mial" was not known before: did you mean "mail"?"#;
    assert_eq!(warning(Action::PauseQueue { queue: "mial".into() }).await.as_deref(), Some(mistyped));
    assert!(db.client.queue("mial").record().await.unwrap().unwrap().pause.is_some(), "it is paused all the same");

    db.client.start(obey, "now".into()).queue("runs").await.unwrap();
    assert_eq!(warning(limit_queue("runs")).await, None, "a run waits in it");
    let worker = LocalWorker::start(db.worker(Probe::new()).register(obey).queues(["served"]));
    until("the worker is recorded", async || {
        let workers = db.client.store().workers().await.unwrap();
        workers.iter().any(|worker| worker.lanes.iter().any(|lane| lane.queue == "served")).then_some(())
    })
    .await;
    let weigh = Action::WeighGate { queue: "served".into(), gate: "acct-1".into(), weight: 2 };
    assert_eq!(warning(weigh).await, None, "a worker serves it");
    worker.stop().await;

    assert!(warning(set_limit("llm")).await.unwrap().starts_with(r#"limit "llm" was not known before"#));
    assert_eq!(warning(set_limit("llm")).await, None);
    let mistyped = r#"limit "lmm" was not known before: did you mean "llm"?"#;
    assert_eq!(warning(set_limit("lmm")).await.as_deref(), Some(mistyped));
}

/// An order that only takes something back has nothing to do there.
pub async fn nothing_is_taken_back_from_an_unknown_queue_or_limit(db: Live) {
    let (limits, rule) = (QueueLimits::none().concurrency(3), LimitRule::none().concurrency(2));
    done(&db, Action::SetQueueLimits { queue: "mail".into(), limits }).await;
    done(&db, Action::SetLimit { limit: "llm".into(), rule }).await;
    for (action, message, help) in [
        (Action::ResumeQueue { queue: "mial".into() }, r#"queue "mial""#, r#"did you mean "mail"?"#),
        (Action::ClearQueueLimits { queue: "mial".into() }, r#"queue "mial""#, r#"did you mean "mail"?"#),
        (Action::ClearLimit { limit: "lmm".into() }, r#"limit "lmm""#, r#"did you mean "llm"?"#),
    ] {
        let error = order(&db, action).await.unwrap_err();
        assert_eq!(error.code, OperateErrorCode::NotFound);
        assert_eq!((error.message, error.help.as_str()), (format!("there is no {message}"), help));
    }
    assert_eq!(rows(&db).await.len(), 2);
    assert_eq!(db.client.queue("mial").record().await.unwrap(), None);
    assert_eq!(db.client.limit("lmm").record().await.unwrap(), None);
    db.client.start(obey, "now".into()).queue("runs").await.unwrap();
    assert_eq!(done(&db, Action::ResumeQueue { queue: "runs".into() }).await, OrderOutcome::NotPaused);
}

pub async fn orders_change_schedules(db: Live) {
    let name = || "daily".to_owned();
    let day = Duration::from_secs(86_400);
    let daily = |every| Schedule::every("daily", every).start_by_name("unserved", &json!({ "a": SECRET }));
    let schedule = db.client.create_schedule(daily(day)).await.unwrap();
    let run = started(done(&db, Action::TriggerSchedule { schedule: name(), input: None }).await);
    assert_eq!(last(&db).await, row("schedule.trigger", "schedule:daily", &format!("started {run}")));
    assert_eq!(db.client.run(run).await.unwrap().input, format!(r#"{{"a":"{SECRET}"}}"#));
    let exact = Payload::new(r#"{"a": 1.10}"#).unwrap();
    let run = started(done(&db, Action::TriggerSchedule { schedule: name(), input: Some(exact) }).await);
    assert_eq!(db.client.run(run).await.unwrap().input, r#"{"a": 1.10}"#);

    assert_eq!(done(&db, Action::PauseSchedule { schedule: name() }).await, OrderOutcome::Changed);
    assert_eq!(last(&db).await, row("schedule.pause", "schedule:daily", "applied"));
    assert_eq!(schedule.describe().await.unwrap().state.paused.unwrap().reason, "because");
    assert_eq!(done(&db, Action::ResumeSchedule { schedule: name() }).await, OrderOutcome::Changed);
    assert_eq!(last(&db).await, row("schedule.resume", "schedule:daily", "applied"));
    let count = rows(&db).await.len();
    assert_eq!(done(&db, Action::ResumeSchedule { schedule: name() }).await, OrderOutcome::NotPaused);
    assert_eq!(done(&db, Action::RevertSchedule { schedule: name() }).await, OrderOutcome::Unchanged);
    assert_eq!(rows(&db).await.len(), count, "nothing was changed");
    let coded = Schedule::every("coded", day).start_by_name("unserved", &1.into());
    db.worker(Probe::new()).register(obey).schedule(coded).run_until(async {}).await.unwrap();
    db.client.schedule("coded").update(Schedule::every("coded", 2 * day)).await.unwrap();
    assert_eq!(done(&db, Action::RevertSchedule { schedule: "coded".into() }).await, OrderOutcome::Changed);
    assert_eq!(last(&db).await, row("schedule.revert", "schedule:coded", "applied"));
    db.client.schedule("coded").delete().await.unwrap();
    let deleted = order(&db, Action::DeleteSchedule { schedule: name() }).await.unwrap();
    assert_eq!((deleted.outcome, deleted.message.as_str()), (OrderOutcome::Changed, "schedule daily is deleted"));
    assert_eq!(last(&db).await, row("schedule.delete", "schedule:daily", "applied"));
    assert!(db.client.schedules().await.unwrap().is_empty());
}

pub async fn an_order_whose_reply_was_lost_leaves_one_row(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let ended = db.client.start(obey, "x".into()).await.unwrap();
    ended.cancel().await.unwrap();
    let open = db.client.start(obey, "x".into()).await.unwrap().id();
    let name = "nightly".to_owned();
    let nightly = Schedule::every(&name, Duration::from_secs(86_400)).start_by_name("unserved", &1.into());
    db.client.create_schedule(nightly).await.unwrap();
    for (action, outcome) in [
        (Action::StartRun(Box::new(StartRun::new("obey", text("x")))), None),
        (Action::PauseRun { run: open }, Some(OrderOutcome::Paused)),
        (
            Action::SignalRun { run: open, name: "go".into(), payload: text("x"), key: None },
            Some(OrderOutcome::Signaled),
        ),
        (Action::PauseQueue { queue: "mail".into() }, Some(OrderOutcome::Changed)),
        (Action::PauseSchedule { schedule: name.clone() }, Some(OrderOutcome::Changed)),
        (Action::TriggerSchedule { schedule: name, input: None }, None),
        // The second commit finds what the first one did.
        (
            Action::CancelRun { run: open, only_ask: false },
            Some(OrderOutcome::AlreadyEnded { status: RunStatus::Canceled }),
        ),
    ] {
        let before = rows(&db).await.len();
        let lost = Fault::After(DatabaseErrorKind::Unreachable);
        store.fail_next(|write| matches!(write, Write::Audited(_)), lost);
        let order = Order::new(action.clone()).reason("because");
        let done = client.operate().perform(order).await.unwrap();
        assert_eq!(store.faults_left(), 0);
        assert!(outcome.is_none_or(|outcome| outcome == done.outcome), "{done:?}");
        assert_eq!(rows(&db).await.len(), before + 1, "{action:?}");
    }
    store.fail_next(|write| matches!(write, Write::Audited(_)), Fault::After(DatabaseErrorKind::Unreachable));
    let error = client.operate().perform(Order::new(Action::DeleteRun { run: ended.id() })).await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::NotFound, "the second commit finds no run");
    let row = rows(&db).await.pop().unwrap();
    assert_eq!((row.verb.as_str(), row.outcome.as_str(), row.actor), ("run.delete", "deleted", None));
}

pub async fn pages_of_audit_rows_follow_each_other(db: Live) {
    for number in 0..5 {
        let rule = LimitRule::none().concurrency(2);
        done(&db, Action::SetLimit { limit: format!("l{number}"), rule }).await;
    }
    let operate = db.client.operate();
    let (mut list, mut found) = (ListAudit::new().limit(2), Vec::new());
    loop {
        let page = operate.audit(list.clone()).await.unwrap();
        found.extend(page.items.into_iter().map(|row| row.target));
        let Some(next) = page.next else { break };
        list = list.cursor(next);
    }
    assert_eq!(found, ["limit:l4", "limit:l3", "limit:l2", "limit:l1", "limit:l0"]);
    let cursor = list.cursor.clone().unwrap();
    let code = async |list| operate.audit(list).await.unwrap_err().code;
    assert_eq!(code(ListAudit::new().actor("ada").cursor(cursor)).await, OperateErrorCode::BadCursor);
    assert_eq!(code(ListAudit::new().cursor(Cursor::new("x"))).await, OperateErrorCode::BadCursor);
    assert_eq!(code(ListAudit::new().limit(0)).await, OperateErrorCode::BadLimit);
    let bob = operate.audit(ListAudit::new().actor("bob")).await.unwrap();
    assert_eq!((bob.items, bob.next), (vec![], None));
}

pub async fn the_payloads_of_orders_are_encoded(db: Live) {
    let encryption = Encryption::new(EncryptionKey::new("k1", [7; 32]).unwrap());
    let client = db.connect().codec(encryption).await.unwrap();
    let perform = async |action| client.operate().perform(Order::new(action)).await.unwrap().outcome;
    let run = started(perform(Action::StartRun(Box::new(StartRun::new("obey", text(SECRET))))).await);
    let signal = Action::SignalRun { run, name: "go".into(), payload: text(SECRET), key: None };
    assert_eq!(perform(signal).await, OrderOutcome::Signaled);
    let working = LocalWorker::start(Worker::new(client.clone(), Probe::new()).register(obey));
    is(&db, run, RunStatus::Succeeded).await;
    working.stop().await;
    let fork = started(perform(Action::ForkRun(Box::new(ForkRun::new(run)))).await);
    assert_eq!(client.run(fork).await.unwrap().input, format!("{SECRET:?}"));
    assert_eq!(rows(&db).await.len(), 3);
    let mut raw = db.raw().await;
    for (table, column) in [("workflow_runs", "input"), ("workflow_signals", "payload")] {
        let stored = raw.lines(format!("SELECT {column} FROM {table}"), column).await;
        assert!(!stored.is_empty() && stored.iter().all(|text| text.starts_with("coded:1:k1:")), "{stored:?}");
    }
    client.store().close().await;
}
