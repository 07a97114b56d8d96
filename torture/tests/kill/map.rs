//! A process that dies in the middle of a map.

use std::collections::HashMap;

use workflow_tests::Database;
use workflow_torture::ledger::Fact;
use workflow_torture::workflows::PAGES_AT_ONCE;

use workflow_torture::testbed::Testbed;

/// Each worker dies later than the previous one, and the last one finishes the runs. No item with
/// an outcome runs again, and no process runs more items of a run at a time than the map allows.
pub async fn a_map_resumes_after_its_worker_was_killed(database: Database) {
    let testbed = Testbed::new(database).await;
    let runs = testbed.start_maps(4).await;
    let settings = testbed.settings();
    let mut dead = Vec::new();
    let mut recorded = Vec::new();
    for (name, lines) in [("first", 40), ("second", 160), ("third", 300)] {
        let mut worker = testbed.spawn(name, &settings);
        testbed.lines(lines).await;
        worker.kill();
        dead.push(worker);
        recorded.push(testbed.recorded(&runs).await);
        testbed.check_order(&recorded[recorded.len() - 1]);
    }
    let last = testbed.spawn("last", &settings);
    testbed.all_end(&runs).await;
    let pids: Vec<u32> = dead.iter().map(|worker| worker.pid()).collect();
    testbed.check(&runs, &pids).await;
    recorded.iter().for_each(|recorded| testbed.check_never_again(recorded));
    check_bound(&testbed);
    dead.iter().chain([&last]).for_each(|worker| worker.assert_no_errors());
    let recorded: Vec<usize> = recorded.iter().map(|recorded| recorded.count()).collect();
    println!("{database:?}: {recorded:?} outcomes before the kills");
    testbed.sweep().await;
}

fn check_bound(testbed: &Testbed) {
    let mut running: HashMap<(u32, String), usize> = HashMap::new();
    for line in testbed.ledger.lines() {
        let run = line.subject.split('/').next().expect("a run").to_owned();
        let running = running.entry((line.pid, run)).or_default();
        match line.fact {
            Fact::Begin => *running += 1,
            Fact::End => *running -= 1,
            _ => {}
        }
        assert!(*running <= PAGES_AT_ONCE, "{} bodies at once with {line:?}", running);
    }
}
