//! Signals, children and approvals of runs whose workers are killed.

use workflow_sdk::prelude::*;
use workflow_sdk::{RunFilter, SignalOutcome};
use workflow_tests::Database;
use workflow_tests::until;
use workflow_torture::worker_process::WorkerSettings;
use workflow_torture::workflows::{NUMBERS, announce, collect, event_key, gatekeeper, in_order, listen, parent};

use workflow_torture::testbed::{Started, Testbed};

const RUNS: u64 = 4;

/// The points at which workers die: around every commit of a wait.
const POINTS: [&str; 8] = [
    "executor.before_commit@3",
    "store.in_transaction@4",
    "executor.after_commit@3",
    "record.before_commit@2",
    "record.before_commit@5",
    "park.before_commit@2",
    "park.after_commit@2",
    "step.body@3",
];

fn settings(testbed: &Testbed) -> WorkerSettings {
    let mut settings = testbed.settings();
    settings.linger = 0;
    // Random kills may hit the same run every time.
    settings.max_crashes = Some(100);
    settings
}

/// Each worker dies at another point or at a random moment, while signals arrive. Each signal is
/// taken once, in order.
pub async fn signals_are_taken_once_and_in_order(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = settings(&testbed);
    let handles = testbed.client.start_many(collect, 0..RUNS).await.expect("start runs");
    let output = |n| (0..NUMBERS).fold(n, in_order);
    let runs: Vec<Started> =
        handles.iter().zip(0..).map(|(run, n)| Started { id: run.id(), output: output(n) }).collect();
    let mut dead = Vec::new();
    let mut numbers = 0..NUMBERS;
    let mut send = async |count: usize| {
        for number in numbers.by_ref().take(count) {
            for run in &runs {
                let sent = testbed.client.signal(run.id, "number", &number).await.expect("send a signal");
                assert_eq!(sent, SignalOutcome::Accepted);
            }
        }
    };
    for (number, point) in POINTS.iter().enumerate() {
        let mut worker = testbed.spawn_to_die(&format!("worker-{number}"), &settings, point);
        // One signal before the worker is ready, and one while it works.
        send(1).await;
        worker.ready().await;
        send(1).await;
        worker.end_by_kill().await;
        dead.push(worker);
    }
    let recorded = testbed.recorded(&runs).await;
    testbed.check_order(&recorded);
    let mut worker = testbed.spawn("random", &settings);
    let lines = testbed.ledger.lines().len();
    send(2).await;
    testbed.lines(lines + fastrand::usize(1..10)).await;
    worker.kill();
    dead.push(worker);
    let last = testbed.spawn("last", &settings);
    send(2).await;
    testbed.all_end(&runs).await;
    let pids: Vec<u32> = dead.iter().map(|worker| worker.pid()).collect();
    testbed.check(&runs, &pids).await;
    testbed.check_never_again(&recorded);
    for run in &runs {
        let taken = format!(
            "SELECT payload || ' ' || consumed_by AS taken FROM workflow_signals WHERE run_id = '{}' ORDER BY seq",
            run.id
        );
        let expected = (0..NUMBERS).map(|n| if n == 0 { "0 number".into() } else { format!("{n} number:{n}") });
        assert_eq!(testbed.raw().await.lines(taken, "taken").await, expected.collect::<Vec<String>>());
    }
    dead.iter().chain([&last]).for_each(|worker| worker.assert_no_errors());
    testbed.sweep().await;
}

/// Each worker dies at another point or at a random moment, while the application and other runs
/// emit events. Each wait receives its event once, and the counts of the emissions add up to the
/// waits.
pub async fn events_reach_each_wait_once(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = settings(&testbed);
    let output = |n| (0..NUMBERS).fold(n, in_order);
    let handles = testbed.client.start_many(listen, 0..RUNS).await.expect("start runs");
    let runs: Vec<Started> =
        handles.iter().zip(0..).map(|(run, n)| Started { id: run.id(), output: output(n) }).collect();
    // Runs of one half hear the application, runs of the other half hear another run.
    let announcers = testbed.client.start_many(announce, RUNS / 2..RUNS).await.expect("start runs");
    let client = testbed.client.clone();
    let application = tokio::spawn(async move {
        let mut reached = 0;
        for number in 0..NUMBERS {
            for n in 0..RUNS / 2 {
                loop {
                    let runs = client.emit("number", event_key(n, number), &number).await.expect("emit");
                    reached += runs;
                    if runs > 0 {
                        break;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
        }
        reached
    });
    let mut dead = Vec::new();
    for (number, point) in POINTS.iter().enumerate() {
        let mut worker = testbed.spawn_to_die(&format!("worker-{number}"), &settings, point);
        worker.ready().await;
        worker.end_by_kill().await;
        dead.push(worker);
    }
    let mut worker = testbed.spawn("random", &settings);
    let lines = testbed.ledger.lines().len();
    testbed.lines(lines + fastrand::usize(1..4)).await;
    worker.kill();
    dead.push(worker);
    let last = testbed.spawn("last", &settings);
    testbed.all_end(&runs).await;
    // Their steps have no body of the ledger.
    for run in &announcers {
        assert_eq!(run.result().await.expect("an announcer ends"), NUMBERS);
    }
    assert_eq!(application.await.expect("the application"), NUMBERS * (RUNS / 2));
    let pids: Vec<u32> = dead.iter().map(|worker| worker.pid()).collect();
    testbed.check(&runs, &pids).await;
    assert_eq!(testbed.raw().await.number("SELECT count(*) FROM workflow_event_waits").await, 0);
    dead.iter().chain([&last]).for_each(|worker| worker.assert_no_errors());
    testbed.sweep().await;
}

/// Any live worker may drive the parents and the children. Each worker dies later than the previous
/// one.
pub async fn a_parent_and_its_children_survive_their_workers(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = settings(&testbed);
    settings.concurrency = 6;
    settings.pause = 5;
    let handles = testbed.client.start_many(parent, 0..RUNS).await.expect("start parents");
    let mut runs: Vec<Started> =
        handles.iter().zip(0..).map(|(run, n)| Started { id: run.id(), output: 10 * n + 45 }).collect();
    let mut dead = Vec::new();
    let beside = testbed.spawn("beside", &settings);
    for (number, lines) in [3, 20, 45, 70].into_iter().enumerate() {
        let mut worker = testbed.spawn(&format!("worker-{number}"), &settings);
        testbed.lines(lines).await;
        worker.kill();
        dead.push(worker);
    }
    for (number, point) in ["end.before_commit@2", "end.after_commit@1"].into_iter().enumerate() {
        let mut worker = testbed.spawn_to_die(&format!("point-{number}"), &settings, point);
        worker.ready().await;
        let more = testbed.client.start_many(parent, [100]).await.expect("start a parent");
        runs.push(Started { id: more[0].id(), output: 1045 });
        testbed.all_end(&runs).await;
        // The other worker may have finished the runs first.
        if worker.ended().is_none() {
            worker.kill();
        }
        dead.push(worker);
    }
    let children =
        testbed.client.list(&RunFilter::new().workflow("leaf").page_size(1000)).await.expect("list children");
    assert_eq!(children.len(), 10 * runs.len(), "each child was started once");
    for child in children {
        let run = testbed.client.run(child.id).await.expect("read a child");
        runs.push(Started { id: run.id, output: run.input.parse().expect("a number") });
    }
    let pids: Vec<u32> = dead.iter().map(|worker| worker.pid()).collect();
    testbed.check(&runs, &pids).await;
    dead.iter().chain([&beside]).for_each(|worker| worker.assert_no_errors());
    testbed.sweep().await;
}

pub async fn an_approval_is_decided_while_no_worker_lives(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = settings(&testbed);
    let run = testbed.client.start(gatekeeper, 7).await.expect("start a run");
    let mut first = testbed.spawn("first", &settings);
    let asked = until("the approval is requested", async || {
        testbed.client.approvals_of(run.id()).await.expect("list approvals").into_iter().next()
    })
    .await;
    first.kill();
    let decided = testbed.client.approve(run.id(), &asked.key, "ann").await.expect("approve");
    assert_eq!(decided, SignalOutcome::Accepted);
    let decided = testbed.client.reject(run.id(), &asked.key, "bob").await.expect("reject");
    let SignalOutcome::Repeated(earlier) = decided else { panic!("the first decision counts, not {decided:?}") };
    assert_eq!(earlier.decision().expect("a decision").by, "ann");
    assert_ne!(run.status().await.expect("read the run"), RunStatus::Succeeded);
    let second = testbed.spawn("second", &settings);
    let runs = [Started { id: run.id(), output: 7 }];
    testbed.all_end(&runs).await;
    testbed.check(&runs, &[first.pid()]).await;
    second.assert_no_errors();
    testbed.sweep().await;
}
