use sqlx::{AssertSqlSafe, Row};
use uuid::Uuid;

use super::fixture_tests::{Fixture, TestResult, fixture};
use super::scan_tests::fill;
use super::sql::Statement;

/// How many rows the counts of these tests look at.
const AT_MOST: u64 = 256;

/// Counts read a bounded number of entries of their indexes, and histories are read by their keys.
/// No statement depends on the estimates of the planner.
#[tokio::test]
async fn what_operators_read_is_bounded_by_indexes() -> TestResult {
    let fixture = fixture().await?;
    fill(&fixture).await?;
    let run = Uuid::new_v4();
    let rows = |run: Uuid, count: u32| {
        format!(
            "INSERT INTO {{schema}}.step_attempts
                 (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, output)
             SELECT '{run}', 'step ' || n, 1, 'step', 'succeeded', n, 1, n, n + 1, '7' FROM generate_series(1, {count}) AS n"
        )
    };
    for (run, count) in [(run, 1_000), (Uuid::new_v4(), 50_000)] {
        fixture.execute(&rows(run, count)).await?;
    }
    let sql = &fixture.store.sql;
    let (run, number) = (format!("'{run}'::uuid"), format!("{AT_MOST}::bigint"));
    let history: &[&str] = &[&run, "NULL", "NULL", "NULL", "20", "65536"];
    let runs = format!("ARRAY[{run}]");
    // A run that every other due run of the lane goes before.
    let last: &[&str] = &["NULL", "'default'", "'checkout'", "'1'", "''", "9000000000000000", &run, &number];
    for analyzed in [false, true] {
        if analyzed {
            fixture.execute("VACUUM ANALYZE {schema}.workflow_runs, {schema}.step_attempts").await?;
        }
        for (statement, values, most) in [
            (&sql.find_oldest_due, &["NULL", "'default'"][..], 50),
            (&sql.count_due_before, last, 150),
            (&sql.find_awaited_steps, &[&runs, "32", "3"], 150),
            (&sql.list_running, &["'default'", &number, "3"], 150),
            (&sql.list_running_behind, &["'default'", &number, "3", "'acct-1'"], 50),
            (&sql.find_queue, &["'default'"], 10),
            (&sql.count_held_runs, &[&number], 150),
            (&sql.count_seats, &["'llm'", &number], 50),
            (&sql.list_gates, &["'default'", "NULL", "50", &number], 50),
            (&sql.list_lanes, &[&number], 50),
            (&sql.read_history_page, history, 400),
            (&sql.read_steps_begun, &[&run, "0", "20", "65536"], 400),
            (&sql.read_open_steps, &[&run, "20", "65536"], 500),
            (&sql.read_history_row, &[&run, "'step 7'", "1", "65536"], 10),
        ] {
            check(&explain(&fixture, statement, values).await?, most)?;
        }
    }
    // A table of which the server has no statistics yet may be sorted instead.
    let plan = explain(&fixture, &sql.count_runs, &["NULL", &number]).await?;
    for index in ["workflow_runs_paused", "workflow_runs_failed", "workflow_runs_due"] {
        assert!(plan.contains(index), "{plan}");
    }
    check(&plan, 5 * AT_MOST)?;
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

async fn explain(fixture: &Fixture, statement: &Statement, values: &[&str]) -> TestResult<String> {
    let mut text = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {}", statement.text());
    for (place, value) in values.iter().enumerate().rev() {
        text = text.replace(&format!("${}", place + 1), value);
    }
    let mut connection = fixture.store.pool.acquire().await?;
    let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(&mut *connection).await?;
    Ok(rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn check(plan: &str, most: u64) -> TestResult {
    for refused in ["Hash Join", "Merge Join", "Seq Scan on step_attempts", "Seq Scan on workflow_runs"] {
        assert!(!plan.contains(refused), "{plan}");
    }
    let first = plan.lines().find(|line| line.contains("Buffers:")).unwrap_or_default();
    let touched: u64 = first.split_whitespace().filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok()).sum();
    assert!(touched <= most, "it touches {touched} pages\n{plan}");
    Ok(())
}
