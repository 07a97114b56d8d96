//! Queues and gates that bound how many runs wait, over several clients.

use futures::future::join_all;
use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::{Connection, PgConnection, SqliteConnection};
use workflow_sdk::{ClientError, Explanation, FullQueue, GateLimits, QueueLimits, RunFilter, Single, Start};
use workflow_tests::{Database, Live, LocalWorker, Probe};
use workflow_worker::Queue;

use crate::gates::hold;

fn bound(runs: u32) -> QueueLimits {
    QueueLimits::none().max_waiting(runs)
}

fn in_mail(client: &Client, text: &str) -> Start<()> {
    client.start(hold, text.to_owned()).queue("mail")
}

/// Returns the queue and gate that refused a start.
fn full<T>(started: Result<T, ClientError>) -> FullQueue {
    match started.map(drop) {
        Err(ClientError::QueueFull(full)) => full,
        other => panic!("expected a full queue, got {other:?}"),
    }
}

pub async fn a_full_queue_refuses_starts_until_a_worker_has_begun_some(db: Live) {
    let probe = Probe::new();
    let mail = Queue::new("mail").concurrency(1).max_waiting(2);
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hold).queue(mail));
    let first = in_mail(&db.client, "first").await.unwrap();
    probe.noted("begun first").await;
    let second = in_mail(&db.client, "second").key("k").await.unwrap();
    let third = in_mail(&db.client, "third").await.unwrap();
    assert_eq!(db.client.queue("mail").waiting(10).await.unwrap(), 2);

    let refused = in_mail(&db.client, "fourth").await.unwrap_err();
    let text = refused.to_string();
    let expected =
        "queue \"mail\" takes no further run: its max_waiting is 2, and 2 runs wait to begin; start it again";
    assert!(text.starts_with(expected), "{text}");
    let FullQueue { queue, gate, max_waiting, .. } = full::<()>(Err(refused));
    assert_eq!((queue.as_str(), gate, max_waiting), ("mail", None, 2));
    let said = db.client.explain_start(in_mail(&db.client, "fourth")).await.unwrap();
    let Explanation::NoRoom { full: refused } = &said else { panic!("{said:?}") };
    assert_eq!(refused.max_waiting, 2);
    assert!(said.to_string().starts_with("the start would be refused: queue \"mail\" takes no further run"), "{said}");
    let again = in_mail(&db.client, "second").key("k").await.unwrap();
    assert_eq!((again.id(), again.existed()), (second.id(), true), "a start whose run exists is not refused");
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 3, "nothing else was written");

    probe.open("first");
    first.result().await.unwrap();
    probe.noted("begun second").await;
    let fourth = in_mail(&db.client, "fourth").await.unwrap();
    for (name, run) in [("second", second), ("third", third), ("fourth", fourth)] {
        probe.open(name);
        run.result().await.unwrap();
    }
    worker.stop().await;
}

pub async fn a_bound_that_an_operator_sets_holds_for_every_client_at_once(db: Live) {
    let second = db.second_client().await;
    let mail = second.queue("mail");
    let run = in_mail(&db.client, "first").single("s").await.unwrap();
    mail.set_limits(bound(2).per_gate(GateLimits::none().max_waiting(1))).await.unwrap();
    let record = db.client.queue("mail").record().await.unwrap().unwrap();
    assert_eq!((record.declared, record.limits().max_waiting), (None, Some(2)));

    let behind = |gate: &str| in_mail(&db.client, gate).gate(gate);
    behind("a").await.unwrap();
    let refused = full(behind("a").await);
    assert_eq!((refused.gate.as_deref(), refused.max_waiting), (Some("a"), 1));
    assert_eq!(db.client.queue("mail").waiting_behind("a", 10).await.unwrap(), 1);
    assert_eq!(full(behind("b").await).gate, None);
    let said = db.client.explain_start(behind("a")).await.unwrap();
    assert!(matches!(&said, Explanation::NoRoom { full } if full.gate.as_deref() == Some("a")), "{said:?}");

    assert_eq!(full(second.fork(run.id()).await).max_waiting, 2);
    let replacing = in_mail(&db.client, "second").single("s").on_conflict(Single::Replace);
    assert_eq!(full(replacing.await).max_waiting, 2);
    assert_eq!(run.status().await.unwrap(), RunStatus::Pending, "it goes on");

    // Of many inputs, those that find room are started.
    mail.set_limits(QueueLimits::none()).await.unwrap();
    db.client.queue("default").set_limits(bound(2)).await.unwrap();
    let many = db.client.start_many(hold, ["a", "b", "c", "d"].map(str::to_owned)).await;
    assert_eq!(full(many).queue, "default");
    assert_eq!(db.client.queue("default").waiting(10).await.unwrap(), 2);
    assert_eq!(mail.waiting(10).await.unwrap(), 2);
}

pub async fn processes_that_start_at_once_never_exceed_a_bound(db: Live) {
    const BOUND: u32 = 25;
    db.client.queue("mail").set_limits(bound(BOUND)).await.unwrap();
    let mut clients = vec![db.client.clone()];
    for _ in 0..3 {
        clients.push(db.second_client().await);
    }
    let starts = clients.iter().flat_map(|client| (0..20).map(move |_| in_mail(client, "any").into_future()));
    let started = join_all(starts).await;
    let (taken, refused): (Vec<_>, Vec<_>) = started.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (BOUND as usize, 4 * 20 - BOUND as usize));
    refused.into_iter().for_each(|refused| drop(full(refused)));
    assert_eq!(db.client.queue("mail").waiting(100).await.unwrap(), BOUND);
}

#[workflow]
async fn fan_out(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.child(hold, "attached".into()).queue("mail").await?;
    ctx.child(hold, "detached".into()).queue("mail").detach().await?;
    Ok(())
}

/// The run of the parent was accepted, and its author cannot do anything about a full queue.
pub async fn children_of_a_run_start_in_a_full_queue(db: Live) {
    let probe = Probe::new();
    ["attached", "detached"].iter().for_each(|name| probe.open(name));
    let worker = db.worker(probe).register(hold).register(fan_out).queues(["mail", "default"]);
    db.client.queue("mail").set_limits(bound(0)).await.unwrap();
    let worker = LocalWorker::start(worker);
    full(in_mail(&db.client, "refused").await);
    db.client.start(fan_out, ()).await.unwrap().result().await.unwrap();
    worker.stop().await;
}

pub async fn a_transaction_counts_its_own_starts(db: Live) {
    db.client.queue("mail").set_limits(bound(2)).await.unwrap();
    let start = || in_mail(&db.client, "any");
    start().await.unwrap();
    match db.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => {
            let mut connection = SqliteConnection::connect(&db.url()).await.unwrap();
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
            start().within(&mut transaction).await.unwrap();
            full(start().within(&mut transaction).await);
            transaction.commit().await.unwrap();
        }
        Database::Postgres => {
            let mut connection = PgConnection::connect(&db.url()).await.unwrap();
            let mut transaction = connection.begin().await.unwrap();
            start().within(&mut transaction).await.unwrap();
            full(start().within(&mut transaction).await);
            transaction.commit().await.unwrap();
        }
    }
    assert_eq!(db.client.queue("mail").waiting(10).await.unwrap(), 2, "the refusal leaves the transaction usable");
    full(start().await);
}

/// So open transactions may exceed the bound by what they start before they see each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_delays_no_start_in_its_bounded_queue() {
    let db = Live::new(Database::Postgres).await;
    db.client.queue("mail").set_limits(bound(1)).await.unwrap();
    let start = || in_mail(&db.client, "any");
    let mut connections = Vec::new();
    for _ in 0..2 {
        connections.push(PgConnection::connect(&db.url()).await.unwrap());
    }
    let mut transactions = Vec::new();
    for connection in &mut connections {
        let mut transaction = connection.begin().await.unwrap();
        start().within(&mut transaction).await.unwrap();
        transactions.push(transaction);
    }
    start().await.unwrap();
    full(start().await);
    for transaction in transactions {
        transaction.commit().await.unwrap();
    }
    assert_eq!(db.client.queue("mail").waiting(10).await.unwrap(), 3);
    full(start().await);
}
