//! A small slice of each campaign of faults around processes: the wire, the disk, the power, clocks, releases. The long ones
//! are run by the program `campaign`.

use workflow_tests::Database;
use workflow_tests::campaign::{self, Plan};

/// The same in every run of the suite.
const SEED: u64 = 5;

async fn slice(kind: &str, database: Database, count: usize) {
    let kind = campaign::kind(kind).expect("a kind");
    if let Some(why) = campaign::refusal(kind) {
        eprintln!("{} is not tested here: {why}", kind.name);
        return;
    }
    let report = campaign::run(kind, Plan::new(SEED, count, database)).await;
    println!("{report}");
    // So few faults say nothing about how many hit work; that any did must be so.
    assert!(report.violations.is_empty() && report.done == count && report.delivered > 0, "{report}");
    assert_eq!(report.ended, report.runs, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wire_that_is_cut_loses_nothing() {
    slice("wire", Database::Postgres, 16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing() {
    slice("disk", Database::Sqlite, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_loses_nothing_on_sqlite() {
    slice("power", Database::Sqlite, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_loses_nothing_on_postgres() {
    slice("power", Database::Postgres, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_of_workers_do_not_matter_to_postgres() {
    slice("skew", Database::Postgres, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_and_forth_loses_nothing_on_sqlite() {
    slice("skew", Database::Sqlite, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_releases_work_side_by_side_on_sqlite() {
    slice("rolling", Database::Sqlite, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_releases_work_side_by_side_on_postgres() {
    slice("rolling", Database::Postgres, 3).await;
}
