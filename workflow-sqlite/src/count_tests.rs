#![allow(clippy::unwrap_used)]

use sqlx::Row;

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
        (
            sql::READ_HISTORY_PAGE,
            &[
                "SEARCH r USING PRIMARY KEY (run_id=?)",
                "SEARCH a USING PRIMARY KEY (run_id=? AND step_key=? AND attempt=?)",
            ],
        ),
        (sql::READ_STEPS_BEGUN, &["SEARCH a USING PRIMARY KEY (run_id=? AND step_key=?)"]),
        (sql::READ_OPEN_STEPS, &["SEARCH a USING PRIMARY KEY (run_id=?)"]),
        (sql::READ_HISTORY_ROW, &["SEARCH a USING PRIMARY KEY (run_id=? AND step_key=? AND attempt=?)"]),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
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
