//! The times, keys and forms of `workflow runs start`.

use crate::common::{Shell, doubled, fails};
use serde_json::Value;
use workflow_tests::{Database, Live, LocalWorker};

async fn starts(database: Database) {
    let live = Live::new(database).await;
    let shells = [Shell::of(&live), Shell::over_http(&live).await];
    let working = LocalWorker::start(live.worker(()).register(doubled).register(fails));
    tokio::task::spawn_blocking(move || shells.iter().for_each(check_starts)).await.unwrap();
    working.stop().await;
    live.sweep().await;
}

fn check_starts(shell: &Shell) {
    let start = |more: &[&str]| -> Vec<String> {
        let start = ["runs", "start", "doubled", "--input", "4"];
        start.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let says = |more: &[&str]| {
        let arguments = start(more);
        shell.says(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let refused = |more: &[&str], says: &str| {
        let arguments = start(more);
        shell.check(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), 2, "", says);
    };
    // In a time that the test does not see, and at once.
    let later = says(&["--at", "2999-01-01T08:00+01:00", "--single", "nightly", "-o", "ids"]);
    let shown: Value = serde_json::from_str(&shell.says(&["runs", "show", &later, "--json"])).unwrap();
    assert_eq!((&shown["status"], &shown["available_at"]), (&"pending".into(), &32_472_169_200_000_000_i64.into()));
    assert_eq!(says(&["--at", "2020-01-01T00:00Z", "--wait", "1m"]), "8");
    // The run with the single key has not ended, so the start leads to it.
    assert_eq!(says(&["--single", "nightly", "-o", "ids"]), later);
    shell.says(&["runs", "cancel", &later]);
    let next = says(&["--single", "nightly", "-o", "ids"]);
    assert_ne!(next, later, "the key is free");
    assert_eq!(shell.says(&["runs", "result", &next, "--wait", "1m"]), "8");

    let followed = says(&["--follow", "-o", "jsonl"]);
    let last: Value = serde_json::from_str(followed.lines().last().unwrap()).unwrap();
    assert_eq!((&last["status"], &last["output"]["json"]), (&"succeeded".into(), &8.into()), "{followed}");
    let failing = ["runs", "start", "fails", "--input", "\"no card\"", "--follow"];
    shell.check(&failing, 5, "charge", "no card");

    refused(&["--at", "2999-01-01"], "write a time with its offset");
    refused(&["--at", "2999-01-01T08:00Z", "--in", "1h"], "cannot be used with");
    refused(&["--single", "a", "--key", "b"], "cannot be used with");
    refused(&["--follow", "--wait", "1m"], "cannot be used with");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_on_sqlite() {
    starts(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_on_postgres() {
    starts(Database::Postgres).await;
}
