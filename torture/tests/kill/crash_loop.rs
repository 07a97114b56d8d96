//! A run that kills its worker processes.

use workflow_sdk::{ErrorKind, RunStatus};
use workflow_tests::{Database, until};
use workflow_torture::workflows;
use workflow_worker::WorkerOptions;

use workflow_torture::testbed::{Started, Testbed};

pub async fn a_run_that_kills_its_workers_is_failed(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = testbed.settings();
    // Healthy runs that the same worker has claimed at every death.
    let mut neighbours = Vec::new();
    for n in 0..3 {
        neighbours.push(testbed.start_gated(n).await);
    }
    let run = testbed.client.start(workflows::aborter, 1).await.expect("start");
    let mut deaths = 0;
    let survivor = loop {
        let mut worker = testbed.spawn(&format!("worker-{deaths}"), &settings);
        let died = until("the worker dies or the run ends", async || {
            let status = worker.ended();
            let ended = run.status().await.expect("read a run").is_terminal();
            (status.is_some() || ended).then_some(status)
        })
        .await;
        let Some(status) = died else { break worker };
        assert!(!status.success(), "{status}");
        assert!(!worker.log().contains("panicked"), "{}", worker.log());
        deaths += 1;
    };
    let ended = run.run().await.expect("read a run");
    assert_eq!(ended.status, RunStatus::Failed);
    assert_eq!(ended.error.expect("a failed run has an error").kind, ErrorKind::CrashLoop);
    assert_eq!(deaths, 1 + WorkerOptions::DEFAULT_MAX_CRASHES);
    let begins = testbed.ledger.begins();
    let of_run = begins.iter().filter(|line| line.subject.starts_with(&run.id().to_string()));
    assert_eq!(of_run.count(), deaths as usize, "one body per death");
    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&neighbours).await;

    let begun = testbed.ledger.begins().len();
    let next = testbed.client.start(workflows::fan, 1).await.expect("start");
    let next = Started { id: next.id(), output: 15 };
    testbed.all_end(&[next]).await;
    assert!(testbed.ledger.begins().iter().skip(begun).all(|line| line.pid == survivor.pid()));
    testbed.sweep().await;
}
