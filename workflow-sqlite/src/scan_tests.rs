#![allow(clippy::unwrap_used)]

use sqlx::Row;

use super::fixture_tests::*;
use super::sql::{self, ScanStatements};

/// Each source is read by its index, in the order of the list and no further than needed. Only the
/// pending and the running runs and those of a key, which are few, are sorted.
#[tokio::test]
async fn a_list_reads_only_its_source() {
    let f = Fixture::file().await;
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                INSERT INTO workflow_runs (id, workflow_name, lane_id, status, available_at, created_at, input, tags)
                SELECT printf('01900000-0000-7000-8000-%012x', i), 'checkout', 1,
                       CASE i % 2 WHEN 0 THEN 'succeeded' ELSE 'parked' END, i, i, '7', '{\"a\":\"b\"}' FROM n;
                ANALYZE;";
    for is_filled in [false, true] {
        let mut writer = f.store.database.writer.lock().await.unwrap();
        if is_filled {
            sqlx::raw_sql(fill).execute(writer.connection().unwrap()).await.unwrap();
        }
        let range = "(id>? AND id<?)";
        let all = format!("SEARCH workflow_runs USING PRIMARY KEY {range}");
        let paused = format!("SEARCH workflow_runs USING INDEX workflow_runs_paused {range}");
        let failed = format!("SEARCH workflow_runs USING COVERING INDEX workflow_runs_failed {range}");
        let running = "SCAN workflow_runs USING COVERING INDEX workflow_runs_running".to_owned();
        let parked = format!("SEARCH workflow_runs USING COVERING INDEX workflow_runs_parked {range}");
        let due = "SCAN workflow_runs USING COVERING INDEX workflow_runs_due".to_owned();
        let keyed =
            "SEARCH r USING COVERING INDEX workflow_runs_key (workflow_name=? AND key=? AND id>? AND id<?)".to_owned();
        let tagged = "SEARCH workflow_tags USING PRIMARY KEY (name=? AND value=? AND run_id>? AND run_id<?)".to_owned();
        for (older, newer, expected) in [
            (sql::SCAN_ALL_OLDER, sql::SCAN_ALL_NEWER, all),
            (sql::SCAN_TAGGED_OLDER, sql::SCAN_TAGGED_NEWER, tagged),
            (sql::SCAN_PENDING_OLDER, sql::SCAN_PENDING_NEWER, due),
            (sql::SCAN_PARKED_OLDER, sql::SCAN_PARKED_NEWER, parked),
            (sql::SCAN_PAUSED_OLDER, sql::SCAN_PAUSED_NEWER, paused),
            (sql::SCAN_FAILED_OLDER, sql::SCAN_FAILED_NEWER, failed),
            (sql::SCAN_RUNNING_OLDER, sql::SCAN_RUNNING_NEWER, running),
            (sql::SCAN_KEYED_OLDER, sql::SCAN_KEYED_NEWER, keyed),
        ] {
            for ScanStatements { find_end, list } in [older, newer] {
                for statement in [find_end, list] {
                    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
                    let rows = sqlx::query(explain).fetch_all(writer.connection().unwrap()).await.unwrap();
                    let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
                    assert!(plan.contains(&expected), "{statement}\n{expected}\n{plan:#?}");
                    let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER BY"));
                    let is_short = ["running", "_due", "_key"].iter().any(|index| expected.contains(index));
                    assert!(!sorts || is_short, "{statement}\n{plan:#?}");
                    if statement == list {
                        assert!(plan.iter().any(|step| step == "SEARCH r USING PRIMARY KEY (id=?)"), "{plan:#?}");
                        assert!(plan.iter().any(|step| step.starts_with("CO-ROUTINE")), "{plan:#?}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_list_of_audit_rows_reads_its_target_or_its_range() {
    let f = Fixture::file().await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let by = |condition| format!("SEARCH workflow_audit USING {condition}");
    for (statement, expected) in [
        (sql::FIND_AUDITS_END, by("PRIMARY KEY (id<?)")),
        (sql::FIND_AUDITS_END_OF_TARGET, by("COVERING INDEX workflow_audit_target (target=? AND id<?)")),
        (sql::LIST_AUDITS, by("PRIMARY KEY (id>? AND id<?)")),
        (sql::LIST_AUDITS_OF_TARGET, by("INDEX workflow_audit_target (target=? AND id>? AND id<?)")),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let rows = sqlx::query(explain).fetch_all(writer.connection().unwrap()).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        assert_eq!(plan, [expected], "{statement}");
    }
}

/// The list of all approvals and decisions is read in its order, and that of a run by the run.
#[tokio::test]
async fn approvals_are_read_in_the_order_of_their_list() {
    let f = Fixture::file().await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    for (statement, expected, is_sorted) in [
        (sql::LIST_APPROVALS, "USING INDEX step_attempts_asked ", false),
        (sql::LIST_APPROVALS_OF_RUN, "(run_id=?", true),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let rows = sqlx::query(explain).fetch_all(writer.connection().unwrap()).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        assert!(plan[0].starts_with("SEARCH a ") && plan[0].contains(expected), "{statement}\n{plan:#?}");
        let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER BY"));
        assert!(is_sorted || !sorts, "{statement}\n{plan:#?}");
    }
}

#[tokio::test]
async fn statistics_are_read_by_their_keys() {
    let f = Fixture::file().await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let key = "SEARCH workflow_stats USING PRIMARY KEY (seconds=? AND begins_at>? AND begins_at<?)";
    let old = "SEARCH workflow_stats USING PRIMARY KEY (seconds=? AND begins_at<?)";
    let last = "workflow_failures USING INDEX workflow_failures_last";
    for (statement, expected) in [
        (sql::LIST_STATISTICS, key),
        (sql::TAKE_STATISTICS, old),
        (sql::LIST_FAILURES, last),
        (sql::TRIM_FAILURES, "SEARCH workflow_failures USING INDEX workflow_failures_last (last_at<?)"),
        (sql::FIND_ENDED, "SEARCH r USING PRIMARY KEY (id=?)"),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let rows = sqlx::query(explain).fetch_all(writer.connection().unwrap()).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        assert!(plan.iter().any(|step| step.contains(expected)), "{statement}\n{plan:#?}");
        let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER BY"));
        let scans = plan.iter().any(|step| step.starts_with("SCAN workflow_stats") || step == "SCAN workflow_failures");
        assert!(!sorts && !scans, "{statement}\n{plan:#?}");
    }
}
