//! A short form of each kind of campaign, with a fixed seed. The program `campaign` runs the long
//! forms.

use std::path::Path;
use std::sync::Arc;

use workflow_tests::Database;
use workflow_torture::campaign::{self, Part, Plan, Round, RoundOptions};

/// Fails with the report, which says how to repeat the campaign.
pub(crate) async fn slice(kind: &str, database: Database, count: usize) {
    let kind = campaign::kind(kind).expect("a kind of campaign");
    let report = campaign::run(kind, Plan::new(1, count, database)).await;
    println!("{report}");
    // A slice has too few faults to ask for a share of them that meet running work. At least one
    // must.
    assert!(report.violations.is_empty() && report.done == count, "{report}");
    assert!(report.delivered > 0 || report.faults == 0, "{report}");
    assert_eq!(report.ended, report.runs, "{report}");
}

pub async fn workers_die(database: Database) {
    slice("kill", database, 8).await;
}

pub async fn zombies_come_back(database: Database) {
    slice("zombie", database, 3).await;
}

pub async fn a_stopped_machine_goes_on(database: Database) {
    slice("stops", database, 2).await;
}

pub async fn hung_runs_are_taken_over(database: Database) {
    slice("hang", database, 1).await;
}

pub async fn bombs_fail_and_no_other_run(database: Database) {
    slice("bombs", database, 1).await;
}

pub async fn nothing_is_acknowledged_while_a_file_is_away(database: Database) {
    if database == Database::Sqlite {
        slice("files", database, 2).await;
    }
}

pub async fn a_pooler_dies_and_one_that_lends_is_refused(database: Database) {
    if database == Database::Postgres {
        slice("pooler", database, 3).await;
    }
}

pub async fn a_limit_holds_while_workers_die(database: Database) {
    slice("limits", database, 10).await;
}

pub async fn events_are_heard_once_while_workers_die(database: Database) {
    slice("events", database, 8).await;
}

pub async fn seats_hold_while_workers_die(database: Database) {
    slice("seats", database, 10).await;
}

pub async fn schedules_start_one_run_per_occurrence(database: Database) {
    slice("schedules", database, 75).await;
}

pub async fn programs_return_the_predicted_results(database: Database) {
    slice("programs", database, 60).await;
}

pub async fn clients_race(database: Database) {
    slice("races", database, 24).await;
}

/// A round that gives up reads no evidence, and leaves no process that would work on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_that_gives_up_ends_at_once_with_its_violation() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = Plan { directory: Some(directory.path().to_owned()), ..Plan::new(1, 1, Database::Sqlite) };
    let part = Part { plan: Arc::new(plan), seed: 1, count: 1, server: None };
    let mut round = Round::begin(part, "files", RoundOptions { workers: 1, ..RoundOptions::default() }).await;
    let process = format!("/proc/{}", round.workers[0].pid());
    round.violation("I-Ack", "a start was lost".to_owned());
    let report = round.give_up();
    let found: Vec<&str> = report.violations.iter().map(|found| found.violation.what.as_str()).collect();
    assert_eq!((found, report.runs), (vec!["a start was lost"], 0), "{report}");
    assert!(!Path::new(&process).exists(), "{process} lives");
}
