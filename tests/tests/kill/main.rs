//! Real processes that are killed, stopped, cut off and asked to go. One list of cases, each run on each database; what
//! steps did is read from a ledger that the database under test has no part in.

use std::path::Path;

mod audit;
mod blocked;
mod crash_loop;
mod crowd;
mod point;
mod random;
mod scene;
mod shutdown;
mod start;
mod stopped;
mod takeover;

/// Makes a test of each case for each database, so that none can be forgotten.
macro_rules! cases {
    ($($noun:ident { $($case:ident,)+ })+) => {
        const LIST: &[(&str, &[&str])] = &[$((stringify!($noun), &[$(stringify!($case)),+])),+];

        cases! { @database sqlite Sqlite $($noun { $($case,)+ })+ }
        cases! { @database postgres Postgres $($noun { $($case,)+ })+ }
    };
    (@database $module:ident $database:ident $($noun:ident { $($case:ident,)+ })+) => {
        mod $module {
            $(mod $noun {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::$noun::$case(workflow_tests::Database::$database).await;
                })+
            })+
        }
    };
}

cases! {
    point {
        executor_before_commit,
        backend_in_transaction,
        executor_after_commit,
        record_before_commit,
        claim_after_commit,
        park_before_commit,
        park_after_commit,
        end_before_commit,
        end_after_commit,
        step_body,
    }
    start {
        an_acknowledged_start_outlives_its_process,
    }
    random {
        kills_lose_nothing,
    }
    crowd {
        three_processes_write_one_database,
    }
    stopped {
        a_stopped_worker_that_comes_back_writes_nothing,
        a_worker_stopped_before_its_commit_changes_nothing,
    }
    blocked {
        a_step_that_blocks_every_thread_keeps_its_lease,
    }
    takeover {
        runs_of_a_killed_worker_go_on_at_once,
        a_worker_cut_off_and_its_successor_never_both_commit,
    }
    shutdown {
        a_worker_that_ends_gives_every_run_back,
        a_second_signal_drops_a_step_that_hangs,
    }
    crash_loop {
        a_run_that_kills_its_workers_is_failed,
    }
}

#[test]
fn every_case_stands_in_the_list() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kill");
    let mut written = Vec::new();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let noun = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let Some(signature) = line.strip_prefix("pub async fn ")
                && signature.ends_with("(database: Database) {")
            {
                let case = signature.split('(').next().unwrap();
                written.push(format!("{noun}::{case}"));
            }
        }
    }
    let mut listed: Vec<String> =
        LIST.iter().flat_map(|(noun, cases)| cases.iter().map(move |case| format!("{noun}::{case}"))).collect();
    written.sort();
    listed.sort();
    assert_eq!(written, listed);
}
