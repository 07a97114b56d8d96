#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::{AssertSqlSafe, Row};

use super::fixture_tests::*;
use super::sql;

/// Indexes serve every read of an operator, and of runs only those of the asked kind are read.
#[tokio::test]
async fn what_operators_read_is_bounded_by_indexes() {
    let f = Fixture::file().await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    for (statement, expected) in [
        (
            sql::COUNT_RUNS,
            &[
                "SCAN workflow_runs USING COVERING INDEX workflow_runs_due",
                "SCAN workflow_runs USING INDEX workflow_runs_paused",
                "SCAN workflow_runs USING INDEX workflow_runs_stuck",
                "SCAN workflow_runs USING COVERING INDEX workflow_runs_running",
                "SCAN workflow_runs USING COVERING INDEX workflow_runs_failed",
                "SEARCH r USING PRIMARY KEY (id=?)",
                "SEARCH r USING COVERING INDEX workflow_runs_due (lane_id=? AND rank=? AND available_at<?)",
            ][..],
        ),
        (sql::COUNT_HELD_RUNS, &["SCAN workflow_runs USING COVERING INDEX workflow_runs_running"]),
        (sql::COUNT_SEATS, &["SEARCH r USING PRIMARY KEY (id=?)"]),
        (sql::LIST_GATES, &["SEARCH g USING INDEX sqlite_autoindex_workflow_gates_1 (queue=? AND gate>?)"]),
        (sql::LIST_LANES, &["SEARCH workflow_lanes USING INTEGER PRIMARY KEY (rowid>?)"]),
        (sql::FIND_OLDEST_DUE, &["SEARCH r USING COVERING INDEX workflow_runs_due (lane_id=? AND rank=?)"]),
        (
            sql::COUNT_DUE_BEFORE,
            &["SEARCH r USING COVERING INDEX workflow_runs_due (lane_id=? AND rank=? AND available_at<?)"],
        ),
        (sql::FIND_AWAITED_STEPS, &["SEARCH s USING PRIMARY KEY (run_id=?)"]),
        (sql::LIST_RUNNING, &["SEARCH r USING COVERING INDEX workflow_runs_running (lane_id<?)"]),
        (sql::LIST_RUNNING_BEHIND, &["SEARCH r USING COVERING INDEX workflow_runs_running (lane_id=?)"]),
        (sql::FIND_QUEUE, &["SEARCH workflow_lanes USING COVERING INDEX sqlite_autoindex_workflow_lanes_1 (queue=?)"]),
        (sql::READ_HISTORY_PAGE, &["SEARCH a USING PRIMARY KEY (run_id=? AND step_key=? AND attempt=?)"]),
        (sql::READ_STEPS, &["SEARCH a USING PRIMARY KEY (run_id=? AND step_key=? AND attempt>?)"]),
        (sql::READ_STEP_HISTORY, &["SEARCH r USING PRIMARY KEY (run_id=? AND step_key=? AND attempt>?)"]),
        (sql::READ_OPEN_STEPS, &["SEARCH a USING PRIMARY KEY (run_id=? AND step_key=? AND attempt=?)"]),
        (sql::READ_TAGS, &["SEARCH r USING PRIMARY KEY (id=?)"]),
        (sql::READ_HISTORY_ROW, &["SEARCH a USING PRIMARY KEY (run_id=? AND step_key=? AND attempt=?)"]),
    ] {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let rows = sqlx::query(explain).fetch_all(writer.connection().unwrap()).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        for step in expected {
            assert!(plan.iter().any(|line| line == step), "{step}\n{plan:#?}");
        }
        let bare = |line: &&String| {
            line.as_str() == "SCAN r" || line.as_str() == "SCAN workflow_runs" || line.as_str() == "SCAN a"
        };
        assert_eq!(plan.iter().find(bare), None, "{plan:#?}");
    }
}

/// However many outcomes, failed attempts and items of streams a run has, a read of its history
/// looks at as many of them as it is asked for. The instructions of SQLite's machine are counted:
/// less than one for each row of the run, so the read cannot have seen them all.
#[tokio::test]
async fn a_read_of_a_long_run_looks_at_a_bounded_part() {
    const ROWS: u64 = 50_000;
    let f = Fixture::file().await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let connection = writer.connection().unwrap();
    for (run, key, attempt, kind, status, position) in [
        ("long", "'step ' || n", "1", "step", "succeeded", "n"),
        ("failing", "'step ' || n", "1", "step", "failed", "NULL"),
        ("failing", "'step ' || n", "2", "step", "succeeded", "n"),
        ("failing", "'ask'", "n", "step", "failed", "NULL"),
        ("failing", "'emitted/log'", "n", "emitted", "succeeded", "NULL"),
    ] {
        let rows = format!(
            "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {ROWS})
             INSERT INTO step_attempts
                 (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, output)
             SELECT '{run}', {key}, {attempt}, '{kind}', '{status}', {position}, 1, n, n + 1, '7' FROM number"
        );
        sqlx::query(AssertSqlSafe(rows)).execute(&mut *connection).await.unwrap();
    }
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let step = move || counted.fetch_add(1, Ordering::Relaxed) < u64::MAX;
    connection.lock_handle().await.unwrap().set_progress_handler(1, step);
    for run in ["'long'", "'failing'"] {
        let (runs, last) = (run.replace('\'', "\""), "9223372036854775807");
        let runs = format!("'[{runs}]'");
        for (statement, values) in [
            (sql::READ_HISTORY_PAGE, &[run, "-1", "''", "-1", "''", "-1", "20", "65536"][..]),
            (sql::READ_HISTORY_PAGE, &[run, "40000", "'step 40000'", "1", "''", "-1", "20", "65536"]),
            (sql::READ_HISTORY_PAGE, &[run, last, "''", last, "'ask'", "500", "20", "65536"]),
            (sql::READ_STEPS, &[run, "0", "20", "3", "20", "8192"]),
            (sql::READ_STEPS, &[run, "40000", "20", "3", "20", "8192"]),
            (sql::READ_STEPS, &[run, "49990", "20", "3", "20", "8192"]),
            (sql::READ_OPEN_STEPS, &[run, "20", "20", "8192"]),
            (sql::READ_STEP_HISTORY, &[run, "'ask'", "500", "'ask:'", "-1", "'ask;'", "20", "65536"]),
            (sql::READ_HISTORY_ROW, &[run, "'ask'", "7", "65536"]),
            (sql::READ_EMITTED, &[run, "'emitted/log'", "7", "20"]),
            (sql::READ_PUBLISHED, &[run, "'published/progress'"]),
            (sql::FIND_AWAITED_STEPS, &[&*runs, "32", "3"]),
        ] {
            let mut text = statement.to_owned();
            for (place, value) in values.iter().enumerate().rev() {
                text = text.replace(&format!("?{}", place + 1), value);
            }
            count.store(0, Ordering::Relaxed);
            sqlx::query(AssertSqlSafe(text)).fetch_all(&mut *connection).await.unwrap();
            let read = count.load(Ordering::Relaxed);
            assert!(read < ROWS, "{read} instructions for {values:?} in\n{statement}");
        }
    }
}
