//! The worker of a bulk operation is killed.

use std::collections::BTreeSet;

use futures::future::join_all;
use workflow_sdk::operate::{
    Action, BulkAction, BulkId, BulkStatus, BulkView, ListAudit, Order, OrderOutcome, StartBulk,
};
use workflow_tests::{Database, until};

use workflow_torture::testbed::Testbed;

const RUNS: usize = 5000;
const KILLS: u64 = 2;

/// A worker is killed twice in the middle of a bulk cancel. Each run is canceled, audited and
/// counted once.
pub async fn a_bulk_cancel_survives_kills_and_counts_each_run_once(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    // The operation of a killed worker goes on when its lease ends.
    settings.lease = Some(2000);
    for _ in 0..RUNS / 500 {
        let starts = (0..500).map(|n| testbed.client.start_by_name("unserved", &n.into()).into_future());
        join_all(starts).await.into_iter().for_each(|run| drop(run.expect("start a run")));
    }
    let query = "workflow:unserved".parse().expect("a query");
    let start = Action::StartBulk(Box::new(StartBulk::new(query, BulkAction::CancelRun)));
    let done = testbed.client.operate().perform(Order::new(start)).await.expect("order the operation");
    let OrderOutcome::BulkStarted { bulk } = done.outcome else { panic!("{done:?}") };

    let mut seen = 0;
    for kill in 0..KILLS {
        let mut worker = testbed.spawn(&format!("killed-{kill}"), &settings);
        let view = until("the worker has gone on", async || {
            let view = view(&testbed, bulk).await;
            (view.done > seen).then_some(view)
        })
        .await;
        worker.kill();
        assert_eq!(view.status, BulkStatus::Running, "it was killed too late: {view:?}");
        seen = self::view(&testbed, bulk).await.done;
    }
    let last = testbed.spawn("last", &settings);
    let view = until("the operation is done", async || {
        let view = view(&testbed, bulk).await;
        (view.status == BulkStatus::Done).then_some(view)
    })
    .await;
    assert!(seen > 0 && seen < RUNS as u64, "it was killed in the middle: {seen}");
    assert_eq!((view.done, view.skipped, view.failed), (RUNS as u64, 0, 0), "{view:?}");
    let mut targets = Vec::new();
    let mut list = ListAudit::new().verb("run.cancel").limit(ListAudit::MAX_LIMIT);
    loop {
        let page = testbed.client.operate().audit(list.clone()).await.expect("read audit rows");
        targets.extend(page.items.into_iter().map(|row| row.target));
        let Some(next) = page.next else { break };
        list = list.cursor(next);
    }
    assert_eq!(targets.len(), RUNS);
    assert_eq!(targets.into_iter().collect::<BTreeSet<_>>().len(), RUNS);
    let mut raw = testbed.raw().await;
    let canceled = raw.number("SELECT count(*) FROM workflow_runs WHERE status = 'canceled'").await;
    assert_eq!(usize::try_from(canceled).ok(), Some(RUNS));
    last.assert_no_errors();
    testbed.sweep().await;
}

async fn view(testbed: &Testbed, bulk: BulkId) -> BulkView {
    testbed.client.operate().bulk(bulk).await.expect("read the operation")
}
