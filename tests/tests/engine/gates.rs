//! Gates of queues, over several workers.

use std::collections::HashMap;
use std::sync::Arc;

use workflow_sdk::prelude::*;
use workflow_sdk::{Client, Explanation, QueueLimits, RunFilter};
use workflow_tests::{Gauge, Live, LocalWorker, Probe, until};
use workflow_worker::{GateLimits, Queue, Rate, Worker, WorkerError};

const LIMIT: usize = 2;
const GATES: [&str; 4] = ["acct-1", "acct-2", "acct-3", "acct-4"];

/// A gauge for each gate.
type Gauges = Arc<HashMap<String, Arc<Gauge>>>;

#[workflow]
async fn import(ctx: &Ctx<Gauges>, account: String) -> Result<()> {
    ctx.step("import", async || {
        let _inside = ctx.state()[&account].enter();
        ok(tokio::task::yield_now().await)
    })
    .await
}

fn imports(client: Client, gauges: &Gauges) -> Worker<Gauges> {
    let limits = GateLimits::none().concurrency(u32::try_from(LIMIT).unwrap());
    Worker::new(client, Arc::clone(gauges)).register(import).queue(Queue::new("imports").per_gate(limits))
}

pub async fn the_limit_of_each_gate_holds_over_workers(db: Live) {
    let gauges = Gauges::new(GATES.map(|gate| (gate.to_owned(), Arc::default())).into_iter().collect());
    let clients = [db.client.clone(), db.second_client().await];
    let workers = clients.map(|client| LocalWorker::start(imports(client, &gauges)));
    let mut runs = Vec::new();
    for number in 0..60 {
        let account = GATES[number % GATES.len()];
        runs.push(db.client.start(import, account.into()).queue("imports").gate(account).await.unwrap());
    }
    for run in &runs {
        run.result().await.unwrap();
    }
    for (gate, gauge) in gauges.iter() {
        assert!((1..=LIMIT).contains(&gauge.most()), "{gate}: {} bodies at once", gauge.most());
    }
    let imports = db.client.queue("imports").record().await.unwrap().unwrap();
    assert!(imports.has_gates);
    assert_eq!(imports.limits().per_gate, GateLimits::none().concurrency(2));
    for worker in workers {
        worker.stop().await;
    }
}

#[workflow]
pub(crate) async fn hold(ctx: &Ctx<Probe>, gate: String) -> Result<()> {
    ctx.step("hold", async || {
        ctx.state().note(format!("begun {gate}"));
        ok(ctx.state().pass(&gate).await)
    })
    .await
}

/// No worker has declared anything, and the queue has no gate when the worker starts.
pub async fn a_worker_finds_the_first_run_behind_a_gate_of_its_queue(db: Live) {
    let probe = Probe::new();
    probe.open("plain");
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hold));
    db.client.start(hold, "plain".into()).await.unwrap().result().await.unwrap();
    assert_eq!(db.client.queues().await.unwrap(), []);
    let gated = db.client.start(hold, "plain".into()).gate("acct-1").await.unwrap();
    gated.result().await.unwrap();
    assert_eq!(gated.run().await.unwrap().gate.as_deref(), Some("acct-1"));
    worker.stop().await;
}

/// An operator sets the limit, and another one later.
pub async fn a_run_behind_a_full_gate_says_so_and_begins_when_the_limit_rises(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hold));
    let queue = db.client.queue("default");
    queue.set_limits(QueueLimits::none().per_gate(GateLimits::none().concurrency(1))).await.unwrap();
    let first = db.client.start(hold, "first".into()).gate("acct-1").await.unwrap();
    probe.noted("begun first").await;
    let second = db.client.start(hold, "second".into()).gate("acct-1").await.unwrap();
    let said = until("it is held back", async || {
        let said = second.explain().await.unwrap();
        matches!(said, Explanation::GateFull { .. }).then_some(said)
    })
    .await;
    let text = said.to_string();
    let full = "but 1 of 1 runs behind gate acct-1 of queue default are under way";
    assert!(
        text.ends_with(&format!(", {full}: {}; no due run of its lane and gate is before it", first.id())),
        "{text}"
    );
    let Explanation::GateFull { running, held_by, ahead, .. } = &said else { panic!("{said:?}") };
    assert_eq!((running.map(|count| count.runs), held_by.as_slice()), (Some(1), &[first.id()][..]));
    assert_eq!(ahead.map(|count| (count.runs, count.at_least)), Some((0, false)));
    assert_eq!(queue.running_behind("acct-1").await.unwrap(), 1);

    let other = db.client.start(hold, "other".into()).gate("acct-2").await.unwrap();
    probe.open("other");
    other.result().await.unwrap();
    assert_eq!(probe.times("begun second"), 0, "the gate is full");

    queue.set_limits(QueueLimits::none().per_gate(GateLimits::none().concurrency(2))).await.unwrap();
    probe.noted("begun second").await;
    for (gate, run) in [("first", first), ("second", second)] {
        probe.open(gate);
        run.result().await.unwrap();
    }
    worker.stop().await;
}

#[workflow]
async fn parent(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.child(hold, "child".into()).gate("acct-1").await
}

/// A parked run holds no slot, so a parent cannot starve its child.
pub async fn a_parent_and_its_child_behind_a_gate_with_one_slot_both_end(db: Live) {
    let probe = Probe::new();
    probe.open("child");
    let queue = Queue::new("default").per_gate(GateLimits::none().concurrency(1));
    let worker = db.worker(probe).register(hold).register(parent).queue(queue);
    let worker = LocalWorker::start(worker.linger(Duration::ZERO));
    let runs = [(); 3].map(|()| db.client.start(parent, ()).gate("acct-1"));
    for run in runs {
        run.await.unwrap().result().await.unwrap();
    }
    assert_eq!(db.client.queue("default").running_behind("acct-1").await.unwrap(), 0);
    worker.stop().await;
}

/// A signal, a fork and a retry come from a client that knows nothing of gates.
pub async fn a_fork_waits_behind_the_gate_of_its_source(db: Live) {
    let probe = Probe::new();
    probe.open("first");
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hold));
    let first = db.client.start(hold, "first".into()).gate("acct-1").await.unwrap();
    first.result().await.unwrap();
    let fork = db.client.fork(first.id()).await.unwrap();
    assert_eq!(db.client.run(fork.id()).await.unwrap().gate.as_deref(), Some("acct-1"));
    until("the fork has ended", async || db.client.run(fork.id()).await.unwrap().completed_at).await;
    worker.stop().await;
}

pub async fn a_debounced_start_moves_its_run_behind_another_gate(db: Live) {
    let probe = Probe::new();
    probe.open("first");
    let delay = Duration::from_millis(200);
    let start = |gate: &str| db.client.start(hold, "first".into()).debounce("user-9", delay).gate(gate);
    let first = start("acct-1").await.unwrap();
    let second = start("acct-2").await.unwrap();
    assert_eq!(first.id(), second.id());
    assert_eq!(db.client.run(first.id()).await.unwrap().gate.as_deref(), Some("acct-2"));
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hold));
    first.result().await.unwrap();
    worker.stop().await;
}

pub async fn names_of_gates_are_checked(db: Live) {
    let long = "g".repeat(256);
    for (gate, says) in
        [("", "gate \"\" is empty"), ("a\nb", "gate \"a\\nb\" has the control character"), (&long, "255 bytes")]
    {
        let refused = db.client.start(hold, "first".into()).gate(gate).await.unwrap_err();
        assert!(matches!(refused, ClientError::Name(_)) && refused.to_string().contains(says), "{refused}");
        let refused = db.client.queue("default").weigh(gate, 3).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
    }
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 0);
    assert_eq!(db.client.queues().await.unwrap(), [], "nothing was written");
    db.client.queue("default").weigh("acct-1", 3).await.unwrap();
    assert!(db.client.queues().await.unwrap()[0].has_gates);
}

pub async fn a_used_up_rate_of_a_gate_is_explained(db: Live) {
    let probe = Probe::new();
    ["first", "other"].iter().for_each(|gate| probe.open(gate));
    let of_hour = GateLimits::none().rate(Rate::per(Duration::from_secs(3600), 1));
    let worker = LocalWorker::start(db.worker(probe).register(hold).queue(Queue::new("default").per_gate(of_hour)));
    let start = async |what: &str, gate: &str| db.client.start(hold, what.into()).gate(gate).await.unwrap();
    start("first", "acct-1").await.result().await.unwrap();
    let second = start("second", "acct-1").await;
    let said = until("the rate of the gate is used up", async || {
        let said = second.explain().await.unwrap();
        matches!(said, Explanation::GateRate { .. }).then_some(said)
    })
    .await;
    let Explanation::GateRate { since, queue, gate, rate, next_at } = &said else { panic!("{said:?}") };
    assert_eq!((queue.as_str(), gate.as_str(), rate.to_string().as_str()), ("default", "acct-1", "1 per 3600 s"));
    let wait = next_at.since(*since);
    assert!((Duration::from_secs(3500)..=Duration::from_secs(3600)).contains(&wait), "{wait:?}");
    let text = said.to_string();
    let end = format!("the rate of gate acct-1 of queue default (1 per 3600 s) lets the next run begin at {next_at}");
    assert!(text.ends_with(&end), "{text}");
    start("other", "acct-2").await.result().await.unwrap();
    worker.stop().await;
}

pub async fn a_rate_out_of_range_is_refused_and_a_used_up_one_is_explained(db: Live) {
    let queue = db.client.queue("default");
    let refused = queue.set_limits(QueueLimits::none().rate(Rate::per_second(0))).await.unwrap_err();
    assert!(
        matches!(refused, ClientError::Rate(_)) && refused.to_string().contains("0 per 1 s cannot be used"),
        "{refused}"
    );
    let none = GateLimits::none().rate(Rate::per_minute(5).burst(0));
    let worker = db.worker(Probe::new()).register(hold).queue(Queue::new("default").per_gate(none));
    assert!(matches!(worker.run_until(std::future::pending()).await, Err(WorkerError::Rate(_))));
    assert_eq!(db.client.queues().await.unwrap(), [], "nothing was written");

    let probe = Probe::new();
    probe.open("first");
    let of_hour = Queue::new("default").rate(Rate::per(Duration::from_secs(3600), 1));
    let worker = LocalWorker::start(db.worker(probe).register(hold).queue(of_hour));
    db.client.start(hold, "first".into()).await.unwrap().result().await.unwrap();
    let second = db.client.start(hold, "second".into()).await.unwrap();
    let said = until("the rate is used up", async || {
        let said = second.explain().await.unwrap();
        matches!(said, Explanation::QueueRate { .. }).then_some(said)
    })
    .await;
    let Explanation::QueueRate { next_at, .. } = said else { panic!("{said:?}") };
    let text = said.to_string();
    assert!(text.ends_with(&format!("(1 per 3600 s) lets the next run begin at {next_at}")), "{text}");
    worker.stop().await;
}
