//! The queue and the gate that the attribute of a workflow gives its starts.

use workflow_sdk::prelude::*;
use workflow_sdk::{
    CatchUp, Child, Explanation, InvalidSchedule, Occurrence, Overlap, Run, Schedule, ScheduleHandle, Start,
};
use workflow_tests::{Live, LocalWorker, until};
use workflow_worker::WorkerError;

use crate::schedules::{Moved, NOON, looked, runs};

const HOUR: Duration = Duration::from_secs(3600);

#[workflow(queue = "accounts", gate = |account: &String| account)]
async fn import(_ctx: &Ctx, account: String) -> Result<String> {
    Ok(account)
}

/// The queue and the gate of a run.
fn place(run: &Run) -> (&str, Option<&str>) {
    (&run.lane.queue, run.gate.as_deref())
}

async fn place_of<O: 'static>(start: Start<O>) -> (String, Option<String>) {
    let run = start.await.unwrap().run().await.unwrap();
    let (queue, gate) = place(&run);
    (queue.to_owned(), gate.map(str::to_owned))
}

fn at(queue: &str, gate: Option<&str>) -> (String, Option<String>) {
    (queue.to_owned(), gate.map(str::to_owned))
}

pub async fn a_start_takes_queue_and_gate_from_the_attribute(db: Live) {
    let start = || db.client.start(import, "acct-1".into());
    assert_eq!(place_of(start()).await, at("accounts", Some("acct-1")));
    assert_eq!(place_of(start().queue("other")).await, at("other", Some("acct-1")));
    assert_eq!(place_of(start().gate("acct-2")).await, at("accounts", Some("acct-2")));
    let by_name = || db.client.start_by_name("import", &"acct-1".into());
    assert_eq!(place_of(by_name()).await, at("default", None), "the attribute is a part of the code");
    assert_eq!(place_of(by_name().queue("accounts").gate("acct-1")).await, at("accounts", Some("acct-1")));

    let many = db.client.start_many(import, ["acct-3", "acct-4"].map(String::from)).await.unwrap();
    let mut gates = Vec::new();
    for handle in many {
        let run = handle.run().await.unwrap();
        assert_eq!(run.lane.queue, "accounts");
        gates.push(run.gate.unwrap());
    }
    assert_eq!(gates, ["acct-3", "acct-4"]);

    let delay = Duration::from_secs(3600);
    let debounced = |account: &str| db.client.start(import, account.into()).debounce("user-9", delay);
    debounced("acct-5").await.unwrap();
    assert_eq!(place_of(debounced("acct-6")).await, at("accounts", Some("acct-6")), "of the last input");
}

/// A worker that names its queues may be one of many kinds, each with its own queues.
pub async fn a_worker_that_names_no_queue_serves_those_of_its_workflows(db: Live) {
    let named = LocalWorker::start(db.worker(()).register(import).queues(["default"]));
    let run = db.client.start(import, "acct-1".into()).await.unwrap();
    let said = until("the worker has registered", async || {
        let said = run.explain().await.unwrap();
        matches!(&said, Explanation::Unserved { served, .. } if !served.is_empty()).then_some(said)
    })
    .await;
    let text = said.to_string();
    assert!(
        text.ends_with("no worker serves import version 1 in queue accounts; workers serve version 1 in queue default"),
        "{text}"
    );
    named.stop().await;

    let worker = LocalWorker::start(db.worker(()).register(import));
    assert_eq!(run.result().await.unwrap(), "acct-1");
    let default = db.client.start(import, "acct-2".into()).queue("default").await.unwrap();
    assert_eq!(default.result().await.unwrap(), "acct-2");
    worker.stop().await;
}

#[workflow(queue = "parents", gate = |_: &String| "parent")]
async fn parent(ctx: &Ctx, how: String) -> Result<RunId> {
    let child = || ctx.child(import, "acct-1".into());
    let child: Child<'_, String> = match how.as_str() {
        "default" => child(),
        "queue" => child().queue("other"),
        "gate" => child().gate("acct-2"),
        "plain" => return Ok(ctx.child(plain, ()).detach().await?.id()),
        _ => ctx.child(import, how),
    };
    Ok(child.detach().await?.id())
}

#[workflow]
async fn plain(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

pub async fn a_child_takes_queue_and_gate_from_the_attribute(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(parent));
    let cases = [
        ("default", at("accounts", Some("acct-1"))),
        ("queue", at("other", Some("acct-1"))),
        ("gate", at("accounts", Some("acct-2"))),
        ("plain", at("parents", None)),
    ];
    for (how, expected) in cases {
        let child = db.client.start(parent, how.into()).await.unwrap().result().await.unwrap();
        let run = db.client.run(child).await.unwrap();
        assert_eq!(place(&run), (expected.0.as_str(), expected.1.as_deref()), "{how}");
    }
    let refused = db.client.start(parent, String::new()).await.unwrap().result().await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, ClientError::RunFailed { .. }), "{text}");
    assert!(text.contains("the attribute of workflow \"import\" computes a gate that is refused: gate \"\""), "{text}");
    worker.stop().await;
}

fn hourly(name: &str) -> Schedule {
    let all = CatchUp::All { window: 24 * HOUR, max: 1000 };
    Schedule::every(name, HOUR).overlap(Overlap::Allow).catch_up(all)
}

/// The queue and the gate of the first run of a schedule.
async fn first_place(client: &Client, schedule: &str) -> (String, Option<String>) {
    let (run, _) = runs(client, schedule).await.remove(0);
    let (queue, gate) = place(&run);
    at(queue, gate)
}

pub async fn a_schedule_takes_queue_and_gate_from_the_attribute(db: Live) {
    let moved = Moved::new(&db).await;
    let client = &moved.client;
    let create = async |schedule| client.create_schedule(schedule).await.unwrap();
    let fixed = |name| hourly(name).start(import, "acct-1".into());
    let schedules: [ScheduleHandle; 4] = [
        create(fixed("fixed")).await,
        create(hourly("early").queue("other").gate("acct-2").start(import, "acct-1".into())).await,
        create(fixed("late").queue("other").gate("acct-2")).await,
        create(fixed("by name").start_by_name("import", &"acct-1".into())).await,
    ];
    let of_day = |at: &Occurrence| at.date().to_owned();
    let computed = hourly("computed").start_with(import, of_day);
    let explicit = hourly("explicit").start_with(import, of_day).queue("other").gate("acct-2");
    let worker = LocalWorker::start(moved.worker().schedule(computed).schedule(explicit));
    until("the worker has declared them", async || client.schedule("explicit").describe().await.ok()).await;
    moved.clock.advance(HOUR);
    for schedule in schedules.iter().chain(&["computed", "explicit"].map(|name| client.schedule(name))) {
        looked(schedule, 1.0).await;
    }
    worker.stop().await;
    for (name, expected) in [
        ("fixed", at("accounts", Some("acct-1"))),
        ("early", at("other", Some("acct-2"))),
        ("late", at("other", Some("acct-2"))),
        ("by name", at("default", None)),
        ("computed", at("accounts", Some("2027-01-01"))),
        ("explicit", at("other", Some("acct-2"))),
    ] {
        assert_eq!(first_place(client, name).await, expected, "{name}");
    }

    let [fixed, ..] = schedules;
    let triggered = fixed.trigger().await.unwrap().run().await.unwrap();
    assert_eq!(place(&triggered), ("accounts", Some("acct-1")));
    let other = fixed.trigger().input(&"acct-7".to_owned()).gate("acct-7").await.unwrap().run().await.unwrap();
    assert_eq!(place(&other), ("accounts", Some("acct-7")));
    let forked = client.fork(other.id).gate("acct-8").await.unwrap().run().await.unwrap();
    assert_eq!(place(&forked), ("accounts", Some("acct-8")));
    let refused = fixed.trigger().gate("").await.unwrap_err().to_string();
    assert!(refused.contains("gate"), "{refused}");
    let day_before = fixed.backfill(NOON - 2 * HOUR, NOON - HOUR).gate_with(|at| format!("of {}", at.date()));
    assert_eq!(day_before.await.unwrap().started, 1);
    let filled = runs(client, "fixed").await.into_iter().find(|(_, at)| at.at == NOON - HOUR).unwrap().0;
    assert_eq!(place(&filled), ("accounts", Some("of 2027-01-01")));
    assert_eq!(fixed.backfill(NOON - HOUR, NOON).await.unwrap().started, 1);
    let filled = runs(client, "fixed").await.into_iter().find(|(_, at)| at.at == NOON).unwrap().0;
    assert_eq!(place(&filled), ("accounts", Some("acct-1")));
    fixed.update(hourly("fixed")).await.unwrap();
    let kept = fixed.describe().await.unwrap();
    assert_eq!((kept.declared.lane.queue.as_str(), kept.declared.gate.as_deref()), ("accounts", Some("acct-1")));
    fixed.update(hourly("fixed").gate("acct-9").queue("other")).await.unwrap();
    let changed = fixed.describe().await.unwrap();
    assert_eq!((changed.declared.lane.queue.as_str(), changed.declared.gate.as_deref()), ("other", Some("acct-9")));
    fixed.update(hourly("fixed").version("2")).await.unwrap();
    let lane = fixed.describe().await.unwrap().declared.lane;
    assert_eq!((lane.workflow.as_str(), lane.version.as_str(), lane.queue.as_str()), ("import", "2", "other"));
}

pub async fn a_gate_that_an_attribute_computes_is_checked(db: Live) {
    let long = "g".repeat(256);
    for (gate, says) in [("", "is empty"), ("a\nb", "has the control character"), (&long, "is 256 bytes long")] {
        let names_both = |text: &str| {
            text.contains("the attribute of workflow \"import\"") && text.contains(says) && text.contains("255 bytes")
        };
        let refused = db.client.start(import, gate.into()).await.unwrap_err();
        assert!(matches!(refused, ClientError::Gate(_)) && names_both(&refused.to_string()), "{refused}");
        let refused = db.client.start_many(import, ["acct-1".into(), gate.into()]).await.unwrap_err();
        assert!(matches!(refused, ClientError::Gate(_)) && names_both(&refused.to_string()), "{refused}");
        let schedule = || hourly("refused").start(import, gate.into());
        let refused = db.client.create_schedule(schedule()).await.unwrap_err();
        assert!(matches!(refused, ClientError::Schedule(InvalidSchedule::Gate(_))), "{refused}");
        assert!(names_both(&refused.to_string()), "{refused}");
        let refused = db.worker(()).register(import).schedule(schedule()).run_until(async {}).await.unwrap_err();
        assert!(matches!(refused, WorkerError::Schedule(InvalidSchedule::Gate(_))), "{refused}");
        let refused = db.client.create_schedule(schedule().gate(gate)).await.unwrap_err();
        assert!(matches!(refused, ClientError::Schedule(InvalidSchedule::Name(_))), "{refused}");
    }
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 0, "nothing was started");
    let explicit = db.client.start(import, String::new()).gate("acct-1").await.unwrap();
    assert_eq!(explicit.run().await.unwrap().gate.as_deref(), Some("acct-1"), "the other gate is not asked for");

    let moved = Moved::new(&db).await;
    let schedule = hourly("computed").start_with(import, |_| String::new());
    let worker = LocalWorker::start(moved.worker().schedule(schedule));
    let computed = moved.client.schedule("computed");
    until("the worker has declared it", async || computed.describe().await.ok()).await;
    moved.clock.advance(HOUR);
    let pause = until("it is paused", async || computed.describe().await.unwrap().state.paused).await;
    assert!(pause.reason.contains("the attribute of workflow \"import\""), "{}", pause.reason);
    worker.stop().await;
}
