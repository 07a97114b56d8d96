//! The reads of an operator: one run, queues, workers and schedules.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use workflow_sdk::operate::{
    BarState, HistoryItem, ListApprovals, ListGates, ListHistory, ListSchedules, ListSeats, ListTimeline, MarkKind,
    OperateErrorCode, PayloadOf, RunDetail, SHOWN_BYTES, SeatState, SpanState, TimelineRow,
};
use workflow_sdk::prelude::*;
use workflow_sdk::{
    Encryption, EncryptionKey, Explanation, GateLimits, LimitRule, QueueLimits, RunId, Schedule, StepKind,
};
use workflow_tests::{Live, LocalWorker, Probe, until};
use workflow_worker::Worker;

#[workflow]
async fn double(ctx: &Ctx<Probe>, number: u64) -> Result<u64> {
    ctx.step("double", async || ok(2 * number)).await
}

/// A step that fails once, a child, a sleep, and a wait for a signal.
#[workflow]
async fn order(ctx: &Ctx<Probe>, text: String) -> Result<String> {
    let pay = async || if ctx.attempt() == 1 { Err(Error::msg("no luck")) } else { ok(text.len()) };
    ctx.step("pay", pay).retry(Retry::fixed(Duration::ZERO)).await?;
    ctx.child(double, 4).await?;
    ctx.sleep(Duration::from_millis(1)).await?;
    ctx.signal::<String>("go").await?;
    ok(text)
}

#[workflow]
async fn slow(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.step("first", async || ok(())).await?;
    let long = async || {
        ctx.state().note("long");
        ok(ctx.state().pass("long").await)
    };
    ctx.step("long", long).await?;
    ctx.step("last", async || ok(())).await
}

#[workflow]
async fn ask(ctx: &Ctx<Probe>) -> Result<bool> {
    ok(ctx.approval("ship").to("finance").await?.is_some())
}

/// Holds a seat until it may pass.
#[workflow]
async fn seated(ctx: &Ctx<Probe>, key: String) -> Result<()> {
    let body = async || ok(ctx.state().pass("seats").await);
    ctx.step("ask", body).limit("llm", &key).await
}

/// Answers are plain data: their JSON reads back as the same.
fn reads_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(answer: &T) {
    let json = serde_json::to_string(answer).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&json).unwrap(), answer, "{json}");
}

async fn detail(db: &Live, run: RunId) -> RunDetail {
    let detail = db.client.operate().run(run).await.unwrap();
    assert_eq!(detail.why, detail.explanation.to_string());
    reads_back(&detail);
    detail
}

async fn waits_for_the_signal(db: &Live, run: RunId) {
    until("the run waits for the signal", async || {
        let waits = matches!(&detail(db, run).await.explanation, Explanation::Waiting { on, .. }
            if on.iter().any(|step| step.kind == StepKind::Signal));
        waits.then_some(())
    })
    .await;
}

pub async fn a_run_is_read_with_its_payloads_and_its_reason(db: Live) {
    let exact: serde_json::Value = serde_json::from_str("[12345678901234567890, 0.1]").unwrap();
    let unserved = db.client.start_by_name("nothing knows it", &exact).await.unwrap();
    let read = detail(&db, unserved.id()).await;
    assert_eq!(read.input.unwrap().json.unwrap().as_str(), "[12345678901234567890,0.1]");
    assert!(matches!(read.explanation, Explanation::Unserved { .. }) && read.output.is_none(), "{}", read.why);

    let worker = LocalWorker::start(db.worker(Probe::new()).register(order).register(double));
    let large = "x".repeat(SHOWN_BYTES as usize);
    let run = db.client.start(order, large.clone()).await.unwrap();
    waits_for_the_signal(&db, run.id()).await;
    let read = detail(&db, run.id()).await;
    assert_eq!(read.input.map(|input| (input.bytes, input.json)), Some((u64::from(SHOWN_BYTES) + 2, None)));
    run.signal("go", &"now".to_owned()).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(detail(&db, run.id()).await.output.unwrap().json, None);
    for of in [PayloadOf::Input, PayloadOf::Output] {
        let whole = db.client.operate().payload(run.id(), of).await.unwrap();
        assert_eq!(whole.json.unwrap().as_str(), serde_json::to_string(&large).unwrap());
    }
    let step = |attempt| PayloadOf::Step { step: "pay".into(), attempt };
    let payload = async |of| db.client.operate().payload(run.id(), of).await;
    assert_eq!(payload(step(2)).await.unwrap().json.unwrap().as_str(), SHOWN_BYTES.to_string());
    assert_eq!(payload(step(1)).await.unwrap_err().code, OperateErrorCode::NotFound);
    worker.stop().await;

    let error = db.client.operate().run(RunId::generate()).await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::NotFound);
    assert!(error.help.contains("near ids are") && error.help.contains(&run.id().to_string()), "{error}");
}

pub async fn runs_are_found_by_either_end_of_their_ids(db: Live) {
    let mut runs = Vec::new();
    for number in 0..5 {
        runs.push(db.client.start_by_name("x", &number.into()).await.unwrap().id());
    }
    let find = async |id: String, limit| {
        let found = db.client.operate().find_runs(&id, limit).await.unwrap();
        found.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    for run in &runs {
        let digits = run.as_uuid().simple().to_string();
        assert_eq!(find(run.to_string(), 10).await, [*run]);
        assert_eq!(find(digits[..26].to_uppercase(), 10).await, [*run]);
        assert_eq!(find(digits[20..].to_owned(), 10).await, [*run]);
    }
    let newest: Vec<RunId> = runs.iter().rev().copied().collect();
    let common = runs[0].as_uuid().simple().to_string()[..6].to_owned();
    assert_eq!(find(common.clone(), 10).await, newest);
    assert_eq!(find(common, 2).await, newest[..2]);
    assert_eq!(find("ffffff".into(), 10).await, []);
    for (id, limit, code) in [
        ("01234", 5, OperateErrorCode::BadInput),
        ("no id", 5, OperateErrorCode::BadInput),
        ("012345", 0, OperateErrorCode::BadLimit),
        ("012345", 101, OperateErrorCode::BadLimit),
    ] {
        assert_eq!(db.client.operate().find_runs(id, limit).await.unwrap_err().code, code, "{id} {limit}");
    }
}

pub async fn a_history_is_read_in_pages(db: Live) {
    let worker = LocalWorker::start(db.worker(Probe::new()).register(order).register(double));
    let run = db.client.start(order, "abc".into()).await.unwrap();
    run.signal("go", &"now".to_owned()).await.unwrap();
    run.result().await.unwrap();
    worker.stop().await;
    let rows = run.history().await.unwrap();
    assert_eq!(rows.len(), 5);
    for limit in [1, 2, 5, 1_000] {
        let mut items: Vec<HistoryItem> = Vec::new();
        let mut list = ListHistory::new(run.id()).limit(limit);
        loop {
            let page = db.client.operate().history(list.clone()).await.unwrap();
            reads_back(&page);
            items.extend(page.items);
            let Some(next) = page.next else { break };
            list = list.cursor(next);
        }
        assert_eq!(items.len(), rows.len());
        for (item, row) in items.iter().zip(&rows) {
            assert_eq!((&item.step, item.attempt, item.position), (&row.step_key, row.attempt, row.position));
            let text = item.output.as_ref().and_then(|output| output.json.as_ref()).map(|json| json.as_str());
            assert_eq!((text, &item.error), (row.output.as_deref(), &row.error));
        }
    }
    let page = db.client.operate().history(ListHistory::new(run.id()).limit(1)).await.unwrap();
    let other = db.client.start_by_name("x", &1.into()).await.unwrap().id();
    let list = |run, limit| ListHistory::new(run).limit(limit);
    for (list, code) in [
        (list(other, 1).cursor(page.next.unwrap()), OperateErrorCode::BadCursor),
        (list(other, 0), OperateErrorCode::BadLimit),
        (list(other, 1_001), OperateErrorCode::BadLimit),
        (list(RunId::generate(), 1), OperateErrorCode::NotFound),
    ] {
        assert_eq!(db.client.operate().history(list).await.unwrap_err().code, code);
    }
    assert_eq!(db.client.operate().history(list(other, 1)).await.unwrap().items, []);

    let of_step = list(run.id(), 1).step("pay");
    let first = db.client.operate().history(of_step.clone()).await.unwrap();
    let cursor = first.next.unwrap();
    let second = db.client.operate().history(of_step.cursor(cursor.clone())).await.unwrap();
    let tries = first.items.iter().chain(&second.items).map(|item| (item.step.as_str(), item.attempt));
    assert_eq!(tries.collect::<Vec<_>>(), [("pay", 1), ("pay", 2)]);
    assert_eq!(second.next, None);
    let other_list = db.client.operate().history(list(run.id(), 1).cursor(cursor)).await;
    assert_eq!(other_list.unwrap_err().code, OperateErrorCode::BadCursor);
}

fn states(row: &TimelineRow) -> Vec<BarState> {
    row.bars.iter().map(|bar| bar.state).collect()
}

pub async fn a_timeline_shows_attempts_and_waits(db: Live) {
    let worker = LocalWorker::start(db.worker(Probe::new()).register(order).register(double).linger(Duration::ZERO));
    let run = db.client.start(order, "abc".into()).await.unwrap();
    waits_for_the_signal(&db, run.id()).await;
    until("the run is parked", async || (run.status().await.unwrap() == RunStatus::Parked).then_some(())).await;
    // Else the source lines could come between two reads that are compared.
    db.client.executor().write_statistics().await;
    let timeline = db.client.operate().timeline(run.id()).await.unwrap();
    reads_back(&timeline);
    let kinds: Vec<StepKind> = timeline.rows.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [StepKind::Step, StepKind::Child, StepKind::Sleep, StepKind::Signal]);
    let [pay, child, sleep, signal] = &timeline.rows[..] else { panic!("{timeline:?}") };
    assert!(states(pay).starts_with(&[BarState::Failed]) && states(pay).ends_with(&[BarState::Succeeded]));
    assert_eq!(pay.error.as_deref(), Some("no luck"));
    assert_eq!((states(sleep), states(signal)), (vec![BarState::Waited], vec![BarState::Waiting]));
    let child = db.client.run(child.child.expect("the child's id")).await.unwrap();
    assert_eq!((child.lane.workflow.as_str(), child.parent.unwrap().run_id), ("double", run.id()));
    assert_eq!(timeline.spans[0].state, SpanState::Queued);
    assert_eq!(timeline.spans.last().unwrap().state, SpanState::Parked);

    let window = async |from, limit| {
        let list = ListTimeline::new(run.id()).from(from).limit(limit);
        db.client.operate().timeline_window(list).await.unwrap()
    };
    let [start, end] = [window(0, 1).await, window(2, 2).await];
    assert_eq!((start.rows, start.complete, start.left_out), (timeline.rows[..1].to_vec(), false, 0));
    assert_eq!((end.rows, end.complete, end.left_out), (timeline.rows[2..].to_vec(), true, 2));
    let unknown = db.client.operate().timeline(RunId::generate()).await.unwrap_err();
    assert_eq!(unknown.code, OperateErrorCode::NotFound);
    run.signal("go", &"now".to_owned()).await.unwrap();
    run.result().await.unwrap();
    let ended = db.client.operate().timeline(run.id()).await.unwrap();
    assert_eq!(
        (ended.spans.last().unwrap().state, Some(ended.to)),
        (SpanState::Ran, run.run().await.unwrap().completed_at)
    );
    worker.stop().await;
}

pub async fn a_timeline_shows_a_crash(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(slow));
    let run = db.client.start(slow, ()).await.unwrap();
    let row = async |key: &str| {
        let rows = db.client.operate().timeline(run.id()).await.unwrap().rows;
        rows.into_iter().find(|row| row.step == key)
    };
    let running = until("the body is seen", async || row("long").await).await;
    assert_eq!(states(&running), [BarState::Running]);
    worker.abort().await;
    probe.open("long");
    let worker = LocalWorker::start(db.worker(probe.clone()).register(slow));
    run.result().await.unwrap();
    worker.stop().await;
    assert_eq!(probe.times("long"), 2);
    let timeline = db.client.operate().timeline(run.id()).await.unwrap();
    let kinds: Vec<MarkKind> = timeline.marks.iter().map(|mark| mark.kind).collect();
    assert_eq!(kinds, [MarkKind::Crashed, MarkKind::Resumed], "{timeline:?}");
    let repeated: Vec<bool> = timeline.rows.iter().map(|row| row.bars[0].repeated).collect();
    assert_eq!(repeated, [false, true, false], "{timeline:?}");
    assert!(timeline.spans.iter().any(|span| span.state == SpanState::Lost));
}

pub async fn counts_and_queues_are_read(db: Live) {
    let later = db.client.start(double, 1).delay(Duration::from_secs(3600)).queue("mail").await.unwrap();
    let gated = db.client.start(double, 2).queue("mail").gate("acct-42").await.unwrap();
    db.client.start(double, 3).queue("mail").gate("acct-7").await.unwrap();
    let canceled = db.client.start(double, 4).await.unwrap();
    canceled.cancel().await.unwrap();
    db.client.pause(later.id()).await.unwrap();
    let limits = QueueLimits::none().concurrency(3).per_gate(GateLimits::none().concurrency(1));
    db.client.queue("mail").set_limits(limits).await.unwrap();
    db.client.queue("mail").pause("provider down").await.unwrap();
    db.client.queue("mail").weigh("acct-42", 3).await.unwrap();

    let counts = db.client.operate().counts().await.unwrap();
    reads_back(&counts);
    let [pending, due, delayed, paused, canceled, failed] =
        [counts.pending, counts.due, counts.delayed, counts.paused, counts.canceled, counts.failed]
            .map(|count| count.runs);
    assert_eq!((pending, due, delayed, paused, canceled, failed), (3, 2, 1, 1, 1, 0));
    assert!(!counts.pending.at_least);

    let queues = db.client.operate().queues().await.unwrap();
    reads_back(&queues);
    let [default, mail] = &queues[..] else { panic!("{queues:?}") };
    assert_eq!((default.name.as_str(), default.waiting.runs, default.oldest_due), ("default", 0, None));
    assert_eq!((mail.waiting.runs, mail.running.runs, mail.workers), (2, 0, 0));
    assert_eq!((mail.declared, mail.overridden, mail.limits), (None, Some(limits), limits));
    assert_eq!(mail.pause.as_ref().unwrap().reason, "provider down");
    assert_eq!(mail.oldest_due, Some(gated.run().await.unwrap().available_at));

    let first = db.client.operate().gates(ListGates::new("mail").limit(1)).await.unwrap();
    assert_eq!((first.items[0].name.as_str(), first.items[0].weight, first.items[0].waiting.runs), ("acct-42", 3, 1));
    let next = ListGates::new("mail").limit(1).cursor(first.next.clone().unwrap());
    let second = db.client.operate().gates(next).await.unwrap();
    assert_eq!((second.items[0].name.as_str(), second.next), ("acct-7", None));
    assert_eq!(db.client.operate().gates(ListGates::new("default")).await.unwrap().items, []);
    let unknown = db.client.operate().gates(ListGates::new("mial")).await.unwrap_err();
    assert_eq!((unknown.code, unknown.help.as_str()), (OperateErrorCode::NotFound, r#"did you mean "mail"?"#));
    let other = ListGates::new("default").cursor(first.next.unwrap());
    assert_eq!(db.client.operate().gates(other).await.unwrap_err().code, OperateErrorCode::BadCursor);
}

pub async fn the_seats_of_a_limit_are_read_page_by_page(db: Live) {
    let operate = db.client.operate();
    db.client.limit("llm").set(LimitRule::none().concurrency(1)).await.unwrap();
    db.client.limit("none").set(LimitRule::none().concurrency(1)).await.unwrap();
    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe.clone()).register(seated));
    let mut runs = Vec::new();
    for key in ["a", "a", "b", "a"] {
        runs.push(db.client.start(seated, key.into()).await.unwrap());
        until("the step has asked", async || {
            (operate.seats(ListSeats::new("llm")).await.unwrap().items.len() == runs.len()).then_some(())
        })
        .await;
    }
    let all = operate.seats(ListSeats::new("llm")).await.unwrap();
    reads_back(&all);
    let found: Vec<_> = all.items.iter().map(|seat| (seat.key.as_str(), seat.run, seat.state)).collect();
    let (held, waiting) = (SeatState::Held, SeatState::Waiting);
    let expected = [
        ("a", runs[0].id(), held),
        ("b", runs[2].id(), held),
        ("a", runs[1].id(), waiting),
        ("a", runs[3].id(), waiting),
    ];
    assert_eq!(found, expected);
    assert!(all.items.iter().all(|seat| (seat.workflow.as_str(), seat.step.as_str()) == ("seated", "ask")));

    for limit in 1..4 {
        let (mut list, mut items) = (ListSeats::new("llm").limit(limit), Vec::new());
        loop {
            let page = operate.seats(list.clone()).await.unwrap();
            assert!(!page.items.is_empty() && page.items.len() <= limit as usize);
            items.extend(page.items);
            let Some(next) = page.next else { break };
            list = list.cursor(next);
        }
        assert_eq!(items, all.items, "pages of {limit}");
    }
    let of_b = operate.seats(ListSeats::new("llm").key("b")).await.unwrap();
    assert_eq!((of_b.items.as_slice(), of_b.next), (&all.items[1..2], None));
    let first_of_a = operate.seats(ListSeats::new("llm").key("a").limit(2)).await.unwrap();
    let rest = ListSeats::new("llm").key("a").cursor(first_of_a.next.unwrap());
    assert_eq!(operate.seats(rest.clone()).await.unwrap().items, all.items[3..]);
    assert_eq!(operate.seats(ListSeats::new("none")).await.unwrap().items, []);

    let refused = async |list| operate.seats(list).await.unwrap_err();
    let unknown = refused(ListSeats::new("lm")).await;
    assert_eq!((unknown.code, unknown.help.as_str()), (OperateErrorCode::NotFound, "did you mean \"llm\"?"));
    assert_eq!(refused(rest.key("b")).await.code, OperateErrorCode::BadCursor);
    for limit in [0, ListSeats::MAX_LIMIT + 1] {
        assert_eq!(refused(ListSeats::new("llm").limit(limit)).await.code, OperateErrorCode::BadLimit);
    }
    probe.open("seats");
    for run in &runs {
        run.result().await.unwrap();
    }
    assert_eq!(operate.seats(ListSeats::new("llm")).await.unwrap().items, []);
    working.stop().await;
}

pub async fn workers_workflows_and_limits_are_read(db: Live) {
    let probe = Probe::new();
    db.client.limit("llm").set(LimitRule::none().concurrency(2)).await.unwrap();
    db.client.start_by_name("nothing knows it", &1.into()).version("7").await.unwrap();
    let run = db.client.start(slow, ()).await.unwrap();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(slow));
    probe.noted("long").await;
    let workers = db.client.operate().workers().await.unwrap();
    reads_back(&workers);
    let [seen] = &workers[..] else { panic!("{workers:?}") };
    assert!(seen.live && seen.lanes.iter().any(|lane| lane.workflow == "slow"));
    assert_eq!((seen.runs.runs, seen.runs.at_least), (1, false));
    assert_eq!(db.client.operate().queues().await.unwrap()[0].workers, 1);
    assert_eq!(db.client.operate().counts().await.unwrap().running.runs, 1);

    let workflows = db.client.operate().workflows().await.unwrap();
    reads_back(&workflows);
    let [unknown, slow] = &workflows[..] else { panic!("{workflows:?}") };
    let version = &unknown.versions[0];
    assert_eq!((unknown.name.as_str(), version.version.as_str()), ("nothing knows it", "7"));
    assert!(version.unserved && version.workers.is_empty());
    assert!(slow.versions[0].workers == [seen.id] && !slow.versions[0].unserved);

    let limits = db.client.operate().limits().await.unwrap();
    reads_back(&limits);
    assert_eq!((limits[0].name.as_str(), limits[0].declared, limits[0].held.runs), ("llm", None, 0));
    assert_eq!(limits[0].rule, Some(LimitRule::none().concurrency(2)));
    probe.open("long");
    run.result().await.unwrap();
    worker.stop().await;
}

pub async fn schedules_and_approvals_are_read(db: Live) {
    for name in ["b", "a", "nightly"] {
        let schedule = Schedule::every(name, Duration::from_secs(3600)).start_by_name("clean_up", &1.into());
        db.client.create_schedule(schedule).await.unwrap();
    }
    db.client.schedule("b").pause("holidays").await.unwrap();
    let first = db.client.operate().schedules(ListSchedules::new().limit(2)).await.unwrap();
    reads_back(&first);
    let [a, b] = &first.items[..] else { panic!("{first:?}") };
    assert_eq!((a.name.as_str(), a.next.len(), a.next.first().copied()), ("a", 5, a.state.next_at));
    assert_eq!((b.next.len(), b.state.paused.as_ref().unwrap().reason.as_str()), (0, "holidays"));
    let rest = db.client.operate().schedules(ListSchedules::new().cursor(first.next.unwrap())).await.unwrap();
    assert_eq!((rest.items[0].name.as_str(), rest.items.len(), rest.next), ("nightly", 1, None));
    assert_eq!(db.client.operate().schedule("nightly").await.unwrap(), rest.items[0]);
    let unknown = db.client.operate().schedule("nightli").await.unwrap_err();
    assert_eq!((unknown.code, unknown.help.as_str()), (OperateErrorCode::NotFound, r#"did you mean "nightly"?"#));

    let worker = LocalWorker::start(db.worker(Probe::new()).register(ask));
    let (one, other) = (db.client.start(ask, ()).await.unwrap(), db.client.start(ask, ()).await.unwrap());
    let approvals = async |list| db.client.operate().approvals(list).await.unwrap();
    let all = until("both ask", async || {
        let page = approvals(ListApprovals::new()).await;
        (page.items.len() == 2).then_some(page)
    })
    .await;
    reads_back(&all);
    assert!(all.complete && all.next.is_none());
    let first = approvals(ListApprovals::new().limit(1)).await;
    reads_back(&first);
    assert!(!first.complete);
    let next = first.next.clone().unwrap();
    let rest = approvals(ListApprovals::new().limit(1).cursor(next.clone())).await;
    assert_eq!((rest.complete, &rest.next), (true, &None));
    assert_eq!([first.items, rest.items].concat(), all.items);
    let of_other = db.client.operate().approvals(ListApprovals::new().run(one.id()).cursor(next)).await.unwrap_err();
    assert_eq!(of_other.code, OperateErrorCode::BadCursor);
    let of_one = approvals(ListApprovals::new().run(one.id())).await;
    assert_eq!((of_one.items[0].run_id, of_one.items[0].to.as_deref()), (one.id(), Some("finance")));
    let row = db.client.operate().timeline(other.id()).await.unwrap().rows.remove(0);
    assert_eq!(row.asks.as_deref(), Some("finance"));
    db.client.approve(one.id(), "ship", "ann").await.unwrap();
    one.result().await.unwrap();
    assert_eq!(approvals(ListApprovals::new().run(one.id())).await.items, []);
    let unknown = db.client.operate().approvals(ListApprovals::new().run(RunId::generate())).await.unwrap_err();
    assert_eq!(unknown.code, OperateErrorCode::NotFound);
    worker.stop().await;
}

pub async fn encoded_payloads_are_shown_to_a_client_with_the_key(db: Live) {
    let key = EncryptionKey::new("k1", [7; 32]).unwrap();
    let knows = db.connect().codec(Encryption::new(key)).await.unwrap();
    let worker = LocalWorker::start(Worker::new(knows.clone(), Probe::new()).register(double));
    let run = knows.start(double, 21).await.unwrap();
    run.result().await.unwrap();
    worker.stop().await;
    let output = async |client: &Client| {
        let detail = client.operate().run(run.id()).await.unwrap();
        let item = client.operate().history(ListHistory::new(run.id())).await.unwrap().items.remove(0);
        let of = PayloadOf::Step { step: "double".into(), attempt: 1 };
        let whole = client.operate().payload(run.id(), of).await.unwrap();
        assert_eq!(item.output.as_ref(), Some(&whole));
        [detail.output.unwrap(), whole]
    };
    for shown in output(&knows).await {
        assert_eq!((shown.bytes, shown.json.unwrap().as_str()), (2, "42"));
    }
    for hidden in output(&db.client).await {
        assert!(hidden.json.is_none() && hidden.unreadable.is_some_and(|why| why.contains("k1")));
    }
}
