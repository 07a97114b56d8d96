//! Runs that emit items and continue as new, in processes that die.

use futures::StreamExt;
use futures::future::join_all;
use workflow_sdk::prelude::*;
use workflow_tests::Database;
use workflow_torture::workflows::{self, GENERATIONS, PAGES};

use workflow_torture::testbed::{Started, Testbed};

const RUNS: u64 = 4;

pub async fn streams_and_generations_survive_a_kill_before_a_continue(database: Database) {
    die_at(database, "continue.before_commit", &[1, 2, 7]).await;
}

pub async fn streams_and_generations_survive_a_kill_after_a_continue(database: Database) {
    die_at(database, "continue.after_commit", &[1, 2, 7]).await;
}

pub async fn streams_and_generations_survive_a_kill_in_a_transaction(database: Database) {
    die_at(database, "store.in_transaction", &[1, 3, 8]).await;
}

pub async fn streams_and_generations_survive_a_kill_before_a_commit(database: Database) {
    die_at(database, "executor.before_commit", &[3, 8, 20]).await;
}

pub async fn streams_and_generations_survive_a_kill_after_a_commit(database: Database) {
    die_at(database, "executor.after_commit", &[3, 8, 20]).await;
}

async fn die_at(database: Database, point: &str, hits: &[u32]) {
    join_all(hits.iter().map(|hit| die_once(database, format!("{point}@{hit}")))).await;
}

async fn die_once(database: Database, failpoint: String) {
    let testbed = Testbed::new(database).await;
    let handles = testbed.client.start_many(workflows::emitter, [0; RUNS as usize]).await.expect("start runs");
    let runs: Vec<_> = handles.iter().map(|run| Started { id: run.id(), output: GENERATIONS * PAGES }).collect();
    // A follower from the beginning and a late reader must see the same items.
    let followers = handles.iter().map(|run| {
        let stream = run.stream::<(u64, u64)>("news");
        tokio::spawn(stream.map(|item| item.expect("an item")).collect::<Vec<_>>())
    });
    let followers: Vec<_> = followers.collect();
    let settings = testbed.settings();
    let mut first = testbed.spawn_to_die("first", &settings, &failpoint);
    first.end_by_kill().await;
    let second = testbed.spawn("second", &settings);
    testbed.all_end(&runs).await;

    let violations = testbed.raw().await.lines(workflow_torture::audit::VIOLATIONS, "violation").await;
    assert_eq!(violations, Vec::<String>::new(), "violations that the triggers of the database recorded");
    let mut expected: Vec<(u64, u64)> =
        (0..GENERATIONS).flat_map(|generation| (0..PAGES).map(move |page| (generation, page))).collect();
    expected.push((GENERATIONS, GENERATIONS * PAGES));
    for (run, follower) in handles.iter().zip(followers) {
        let row = run.run().await.expect("an acknowledged start is never lost");
        assert_eq!((row.status, row.generation), (RunStatus::Succeeded, GENERATIONS as i64 - 1), "{row:?}");
        assert_eq!(run.result().await.expect("a success"), GENERATIONS * PAGES);
        assert_eq!(follower.await.expect("a follower"), expected, "{failpoint}");
        let late: Vec<_> = run.stream("news").map(Result::<(u64, u64), _>::unwrap).collect().await;
        assert_eq!(late, expected, "{failpoint}");
        assert_eq!(run.state::<u64>("told").await.expect("read"), Some(GENERATIONS * PAGES));
        check_bodies(&testbed, run.id(), first.pid());
    }
    first.assert_no_errors();
    second.assert_no_errors();
    testbed.sweep().await;
}

/// Checks that each step of each generation has its own key. Its body began once, or a second time
/// after the kill.
fn check_bodies(testbed: &Testbed, id: workflow_sdk::RunId, killed: u32) {
    let begins = testbed.ledger.begins();
    for generation in 0..GENERATIONS {
        for page in 0..PAGES {
            let run = if generation == 0 { id.to_string() } else { format!("{id}.{generation}") };
            let key = if page == 0 { format!("{run}/page") } else { format!("{run}/page:{page}") };
            let pids: Vec<u32> = begins.iter().filter(|line| line.subject == key).map(|line| line.pid).collect();
            let once_each = pids.len() == 1 || pids.len() == 2 && pids[0] == killed && pids[1] != killed;
            assert!(once_each, "{key} began in {pids:?}, and {killed} was killed");
        }
    }
}
