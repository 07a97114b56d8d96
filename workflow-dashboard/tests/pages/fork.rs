//! A run and its copy name each other.

use workflow_dashboard::Access;
use workflow_sdk::operate::{Action, ForkRun, Operate, Order, OrderOutcome};
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::browser::{Browser, beside};
use crate::greets;

async fn a_run_and_its_copy_name_each_other(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(greets));
    let run = live.client.start(greets, 4).key("original").await.unwrap().id();
    until("the step", async || (!live.client.operate().timeline(run).await.ok()?.rows.is_empty()).then_some(())).await;
    // One by an order, with a step and a reason, and one by a program.
    let mut fork = ForkRun::new(run);
    fork.from = Some("double".to_owned());
    let order = Order::new(Action::ForkRun(Box::new(fork))).actor("ada").reason("a wrong rate");
    let OrderOutcome::Started { run: ordered } = live.client.perform(order).await.unwrap().outcome else {
        unreachable!();
    };
    let other = live.client.fork(run).key("by-program").await.unwrap().id();
    let lonely = live.client.start(greets, 5).await.unwrap().id();

    let browser = Browser::start(&live, Access::local()).await;
    beside(move || {
        let family = |run| browser.get(&format!("/runs/{run}?tab=family"));
        let source = family(run);
        source.is_page(200).shows(&format!("/runs/{ordered}\"")).shows("by-program").shows("from <b>double</b>");
        source.shows("by ada, ").shows("a wrong rate").hides("Copy of");
        family(ordered).is_page(200).shows("Copy of").shows("original").shows("No new run began");
        family(other).shows(&format!("/runs/{run}\""));
        let page = browser.get(&format!("/runs/{ordered}"));
        page.is_page(200).shows("<dt>Copy of</dt>").shows(&format!("/runs/{run}\"")).hides("workflow.forked_from");
        family(lonely).shows("No new run began with the history of this one").hides("Copy of");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_and_its_copy_name_each_other_on_sqlite() {
    a_run_and_its_copy_name_each_other(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_and_its_copy_name_each_other_on_postgres() {
    a_run_and_its_copy_name_each_other(Database::Postgres).await;
}
