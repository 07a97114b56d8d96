//! Queues with limits, over several workers.

use std::sync::Arc;

use workflow_sdk::prelude::*;
use workflow_sdk::{Client, Explanation, GateLimits, QueueLimits, Rate, RunFilter, RunStatus};
use workflow_tests::{Gauge, Live, LocalWorker, Probe, until};
use workflow_worker::{Queue, Worker, WorkerError};

use crate::gates::hold;

const LIMIT: u32 = 3;

#[workflow]
async fn send(ctx: &Ctx<Arc<Gauge>>, number: usize) -> Result<usize> {
    ctx.step("send", async || {
        let _inside = ctx.state().enter();
        tokio::task::yield_now().await;
        ok(number)
    })
    .await
}

fn mail(client: Client, gauge: &Arc<Gauge>) -> Worker<Arc<Gauge>> {
    Worker::new(client, Arc::clone(gauge)).register(send).queue(Queue::new("mail").concurrency(LIMIT))
}

pub async fn the_limit_of_a_queue_holds_over_workers(db: Live) {
    let gauge = Arc::new(Gauge::default());
    let clients = [db.client.clone(), db.second_client().await];
    let workers = clients.map(|client| LocalWorker::start(mail(client, &gauge)));
    let mut runs = Vec::new();
    for number in 0..60 {
        runs.push(db.client.start(send, number).queue("mail").await.unwrap());
    }
    for (number, run) in runs.iter().enumerate() {
        assert_eq!(run.result().await.unwrap(), number);
    }
    let most = gauge.most();
    assert!((1..=LIMIT as usize).contains(&most), "{most} bodies at once");
    let record = db.client.queue("mail").record().await.unwrap().unwrap();
    assert_eq!((record.declared, record.overridden), (Some(QueueLimits::none().concurrency(LIMIT)), None));
    for worker in workers {
        worker.stop().await;
    }
}

/// The queue has no limits when the worker starts: an operator sets them.
pub async fn limits_that_an_operator_sets_hold_without_a_restart(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hold).queues(["mail", "default"]));
    probe.open("other");
    let mail = db.client.queue("mail");
    assert_eq!(mail.record().await.unwrap(), None);
    let first = db.client.start(hold, "first".into()).queue("mail").await.unwrap();
    probe.noted("begun first").await;

    mail.set_limits(QueueLimits::none().concurrency(1)).await.unwrap();
    let mut tries = 0;
    let full = until("the worker knows of the limit", async || {
        tries += 1;
        let second = db.client.start(hold, format!("second {tries}")).queue("mail").await.unwrap();
        // A run of another queue, which is claimed in turns: once it has ended, the worker has
        // looked at the other one.
        db.client.start(hold, "other".into()).await.unwrap().result().await.unwrap();
        if second.status().await.unwrap() == RunStatus::Pending {
            return Some(second);
        }
        db.client.terminate(second.id()).await.unwrap();
        None
    })
    .await;
    let said = full.explain().await.unwrap();
    assert!(matches!(said, Explanation::QueueFull { limit: 1, .. }), "{said:?}");
    let text = format!(
        "but 1 of 1 runs of queue mail are under way: {}; no due run of its lane and gate is before it",
        first.id()
    );
    assert!(said.to_string().ends_with(&text), "{said}");
    let Explanation::QueueFull { held_by, .. } = &said else { panic!("{said:?}") };
    assert_eq!(held_by.as_slice(), [first.id()]);
    assert_eq!(mail.running(10).await.unwrap(), 1);
    probe.open("first");
    first.result().await.unwrap();
    probe.open(&format!("second {tries}"));
    full.result().await.unwrap();
    mail.clear_limits().await.unwrap();
    assert_eq!(mail.record().await.unwrap().unwrap().limits(), QueueLimits::none());
    worker.stop().await;
}

pub async fn a_paused_queue_drains_and_goes_on_when_it_is_resumed(db: Live) {
    let probe = Probe::new();
    let mail = db.client.queue("mail");
    mail.pause("the server moves").await.unwrap();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hold).queues(["mail", "default"]));
    let held = db.client.start(hold, "mail".into()).queue("mail").await.unwrap();
    let said = until("it is held back", async || {
        let said = held.explain().await.unwrap();
        matches!(said, Explanation::QueuePaused { .. }).then_some(said)
    })
    .await;
    let text = said.to_string();
    assert!(text.contains("but queue mail is paused since ") && text.contains(": the server moves; resume"), "{text}");

    // Another queue goes on, and so the worker has looked at this one.
    let other = db.client.start(hold, "other".into()).await.unwrap();
    probe.open("other");
    other.result().await.unwrap();
    assert_eq!(probe.times("begun mail"), 0);

    probe.open("mail");
    mail.resume().await.unwrap();
    held.result().await.unwrap();
    assert_eq!(db.client.queues().await.unwrap().len(), 1);
    worker.stop().await;
}

#[workflow]
async fn parent(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.child(hold, "child".into()).await
}

/// A parked run holds no slot, so a parent cannot starve its child.
pub async fn a_parent_and_its_child_in_a_queue_with_one_slot_both_end(db: Live) {
    let probe = Probe::new();
    probe.open("child");
    let worker = db.worker(probe).register(hold).register(parent).queue(Queue::new("mail").concurrency(1));
    let worker = LocalWorker::start(worker.linger(Duration::ZERO));
    let runs = [(); 3].map(|()| db.client.start(parent, ()).queue("mail"));
    for run in runs {
        run.await.unwrap().result().await.unwrap();
    }
    assert_eq!(db.client.queue("mail").running(10).await.unwrap(), 0);
    worker.stop().await;
}

/// The answers are those of `explain` for a run that is started instead.
pub async fn a_start_is_explained_before_it_is_made(db: Live) {
    let start = |gate: &str| db.client.start(hold, "second".into()).queue("mail").gate(gate);
    let said = async |gate| db.client.explain_start(start(gate)).await.unwrap();
    assert!(matches!(said("acct-1").await, Explanation::Unserved { .. }));

    let probe = Probe::new();
    let of_hour = Rate::per(Duration::from_secs(3600), 1);
    let (none, gates) = (QueueLimits::none(), GateLimits::none());
    let mail = Queue::new("mail").rate(of_hour).per_gate(gates.rate(of_hour));
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hold).queue(mail));
    let first = db.client.start(hold, "first".into()).queue("mail").gate("acct-1").await.unwrap();
    probe.noted("begun first").await;

    let mail = db.client.queue("mail");
    let full = none.concurrency(1).rate(of_hour).per_gate(gates.concurrency(1).rate(of_hour));
    mail.pause("audit").await.unwrap();
    mail.set_limits(full).await.unwrap();
    let Explanation::QueuePaused { pause, .. } = said("acct-1").await else { panic!("the queue is paused") };
    assert_eq!(pause.reason, "audit");
    mail.resume().await.unwrap();
    let Explanation::GateFull { queue, gate, limit, .. } = said("acct-1").await else { panic!("the gate is full") };
    assert_eq!((queue.as_str(), gate.as_str(), limit), ("mail", "acct-1", 1));
    mail.set_limits(none.concurrency(1).rate(of_hour).per_gate(gates.rate(of_hour))).await.unwrap();
    let Explanation::GateRate { gate, rate, since, next_at, .. } = said("acct-1").await else { panic!("its rate") };
    assert_eq!((gate.as_str(), rate), ("acct-1", of_hour));
    assert!(next_at > since, "{next_at} is not after {since}");
    let Explanation::QueueRate { rate, .. } = said("acct-2").await else { panic!("the rate of the queue") };
    assert_eq!(rate, of_hour);
    mail.set_limits(none.concurrency(1)).await.unwrap();
    let explained = said("acct-2").await;
    let Explanation::QueueFull { limit, .. } = explained else { panic!("{explained:?}") };
    assert_eq!(limit, 1);
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 1, "nothing was started");

    let second = start("acct-2").await.unwrap();
    let run = second.explain().await.unwrap();
    assert!(matches!(run, Explanation::QueueFull { limit: 1, .. }), "{run:?}");
    second.cancel().await.unwrap();
    mail.set_limits(none).await.unwrap();
    assert!(matches!(said("acct-1").await, Explanation::Due { workers: 1, .. }));
    let later = db.client.explain_start(start("acct-1").delay(Duration::from_secs(60))).await.unwrap();
    assert!(matches!(later, Explanation::Scheduled { .. }), "{later:?}");
    let refused = db.client.explain_start(start("")).await.unwrap_err();
    assert!(matches!(refused, ClientError::Name(_)), "{refused}");
    probe.open("first");
    first.result().await.unwrap();
    worker.stop().await;
}

pub async fn names_of_queues_are_checked(db: Live) {
    let refused = |result: Result<(), ClientError>| result.unwrap_err().to_string();
    let text = refused(db.client.queue("a\nb").pause("why").await);
    assert!(text.contains("queue name \"a\\nb\" has the control character"), "{text}");
    let text = refused(db.client.queue("mail").pause("").await);
    assert!(text.contains("reason \"\" is empty"), "{text}");
    let worker = db.worker(Probe::new()).register(hold).queue(Queue::new("").concurrency(1));
    assert!(matches!(worker.run_until(std::future::pending()).await, Err(WorkerError::Name(_))));
    assert_eq!(db.client.queues().await.unwrap(), [], "nothing was written");
    let worker = LocalWorker::start(db.worker(Probe::new()).register(hold).queue(Queue::new("mail")));
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 0);
    assert_eq!(db.client.queues().await.unwrap(), [], "a queue without limits needs no record");
    worker.stop().await;
}
