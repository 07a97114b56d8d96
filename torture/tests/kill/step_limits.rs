//! A limit for steps while its workers are killed.

use std::collections::{HashMap, HashSet};

use workflow_sdk::LimitRule;
use workflow_tests::Database;
use workflow_tests::log_secrets::SMALLEST_SECRET;
use workflow_torture::ledger::{Fact, Line};
use workflow_torture::testbed::{Started, Testbed};
use workflow_torture::workflows::limited::{KEY, LIMIT, limited};

const SEATS: usize = 3;
const RUNS: u64 = 30;
const KILLS: usize = 8;

/// Three processes work on runs of which all steps share three seats. Eight times, one of the
/// processes is killed and replaced. At no moment do more bodies run in living processes than there
/// are seats, and every run ends: no seat is lost with its process.
pub async fn a_limit_for_steps_holds_while_workers_are_killed(database: Database) {
    let testbed = Testbed::new(database).await;
    let rule = LimitRule::none().concurrency(u32::try_from(SEATS).expect("a small number"));
    testbed.client.limit(LIMIT).set(rule).await.expect("set the limit");
    let mut settings = testbed.settings();
    settings.concurrency = 10;
    settings.linger = 20;
    settings.pause = 10;
    settings.max_crashes = Some(100);
    let mut workers: Vec<_> = (0..3).map(|n| testbed.spawn(&format!("worker-{n}"), &settings)).collect();
    let inputs = SMALLEST_SECRET..SMALLEST_SECRET + RUNS;
    let handles = testbed.client.start_many(limited, inputs.clone()).await.expect("start runs");
    let runs: Vec<Started> =
        handles.iter().zip(inputs).map(|(run, n)| Started { id: run.id(), output: 4 * n + 6 }).collect();
    // A process counts as dead from a line of the ledger on. Its claims hold for longer than that.
    let (mut dead, mut killed_at) = (Vec::new(), HashMap::new());
    for kill in 0..KILLS {
        let before = testbed.ledger.lines().len();
        testbed.lines(before + fastrand::usize(1..20)).await;
        let lines = testbed.ledger.lines();
        let busy = lines.last().and_then(|line| workers.iter().position(|worker| worker.pid() == line.pid));
        let mut victim = workers.swap_remove(busy.unwrap_or(0));
        killed_at.insert(victim.pid(), lines.len());
        victim.kill();
        dead.push(victim);
        workers.push(testbed.spawn(&format!("replacement-{kill}"), &settings));
    }
    testbed.all_end(&runs).await;
    let pids: Vec<u32> = dead.iter().map(|worker| worker.pid()).collect();
    testbed.check(&runs, &pids).await;
    dead.iter().chain(&workers).for_each(|worker| worker.assert_no_errors());
    let most = most_at_once(&testbed.ledger.lines(), &killed_at);
    println!("{database:?}: {KILLS} kills, {most} bodies at once");
    assert!((1..=SEATS).contains(&most), "{most} bodies ran at once, of {SEATS}");
    assert_eq!(testbed.client.store().waiting_lines(None, 10).await.expect("lines"), [], "nothing waits for {KEY}");
    testbed.sweep().await;
}

/// Returns how many bodies ran at once at most, without those of processes that were killed.
fn most_at_once(lines: &[Line], killed_at: &HashMap<u32, usize>) -> usize {
    let (mut running, mut most): (HashSet<(u32, &str, u32)>, usize) = (HashSet::new(), 0);
    for (place, line) in lines.iter().enumerate() {
        running.retain(|(pid, ..)| killed_at.get(pid).is_none_or(|at| place < *at));
        let body = (line.pid, line.subject.as_str(), line.attempt);
        let is_dead = killed_at.get(&line.pid).is_some_and(|at| place >= *at);
        match line.fact {
            Fact::Begin if !is_dead => drop(running.insert(body)),
            Fact::End => drop(running.remove(&body)),
            _ => {}
        }
        most = most.max(running.len());
    }
    most
}
