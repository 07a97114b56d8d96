use sqlx::{AssertSqlSafe, Row};
use uuid::Uuid;

use super::fixture_tests::{Fixture, TestResult, fixture};
use super::scan_tests::fill;
use super::sql::Statement;

/// How many rows the counts of these tests look at.
const AT_MOST: u64 = 256;
/// A number below all positions and attempts.
const FIRST: &str = "'-9223372036854775808'";
/// The most rows that a read of an operator looks at.
const MOST_READ: f64 = 20_000.0;

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
    let history: &[&str] = &[&run, FIRST, "''", FIRST, "''", FIRST, "20", "65536"];
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
            (&sql.read_steps, &[&run, "0", "20", "9", "100", "65536"], 400),
            (&sql.read_open_steps, &[&run, "20", "100", "65536"], 100),
            (&sql.read_step_history, &[&run, "'step 7'", FIRST, "'step 7:'", FIRST, "'step 7;'", "20", "65536"], 50),
            (&sql.read_history_row, &[&run, "'step 7'", "1", "65536"], 10),
            (&sql.read_tags, &[&runs], 10),
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

/// However many outcomes, failed attempts and items of streams a run has, a read of its history
/// looks at a bounded number of them, also with the largest limits that operators may ask for.
#[tokio::test]
async fn a_read_of_a_long_run_looks_at_a_bounded_part() -> TestResult {
    let fixture = fixture().await?;
    let (long, failing) = (Uuid::new_v4(), Uuid::new_v4());
    for (run, key, attempt, kind, status, position, count) in [
        (long, "'step ' || n", "1", "step", "succeeded", "n", 50_000),
        (failing, "'step ' || n", "1", "step", "failed", "NULL", 25_000),
        (failing, "'step ' || n", "2", "step", "succeeded", "n", 25_000),
        (failing, "'ask'", "n", "step", "failed", "NULL", 25_000),
        (failing, "'emitted/log'", "n", "emitted", "succeeded", "NULL", 50_000),
    ] {
        let rows = format!(
            "INSERT INTO {{schema}}.step_attempts
                 (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, output)
             SELECT '{run}', {key}, {attempt}, '{kind}', '{status}', {position}, 1, n, n + 1, '7'
             FROM generate_series(1, {count}) AS n"
        );
        fixture.execute(&rows).await?;
    }
    let sql = &fixture.store.sql;
    for analyzed in [false, true] {
        if analyzed {
            fixture.execute("VACUUM ANALYZE {schema}.step_attempts").await?;
        }
        for run in [long, failing] {
            let (run, runs) = (format!("'{run}'::uuid"), format!("ARRAY['{run}'::uuid]"));
            let last = "'9223372036854775807'";
            let window: &[&str] = &[&run, "0", "5001", "1", "2000", "8192"];
            for (statement, values) in [
                (&sql.read_history_page, &[&*run, FIRST, "''", FIRST, "''", FIRST, "4000", "0"][..]),
                (&sql.read_history_page, &[&*run, "20000", "'step 20000'", "1", "''", FIRST, "1001", "65536"]),
                (&sql.read_history_page, &[&*run, last, "''", last, "'ask'", "500", "4000", "0"]),
                (&sql.read_steps, window),
                (&sql.read_steps, &[&*run, "24900", "301", "33", "2000", "8192"]),
                (&sql.read_steps, &[&*run, "49900", "301", "33", "2000", "8192"]),
                (&sql.read_open_steps, &[&*run, "1000", "2000", "8192"]),
                (&sql.read_step_history, &[&*run, "'ask'", "500", "'ask:'", FIRST, "'ask;'", "1001", "65536"]),
                (&sql.read_history_row, &[&*run, "'ask'", "7", "65536"]),
                (&sql.read_emitted, &[&*run, "'emitted/log'", "7", "1000"]),
                (&sql.read_published, &[&*run, "'published/progress'"]),
                (&sql.find_awaited_steps, &[&*runs, "32", "3"]),
            ] {
                let plan = explain(&fixture, statement, values).await?;
                let read = rows_read(&plan);
                assert!(read <= MOST_READ, "it reads {read} rows\n{plan}");
            }
        }
    }
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

/// Returns how many rows and entries of indexes of the histories a plan has read.
fn rows_read(plan: &str) -> f64 {
    let number = |line: &str, name: &str| {
        let behind = line.split(name).nth(1)?;
        behind.split([' ', ')']).next()?.parse::<f64>().ok()
    };
    let (mut read, mut loops) = (0.0, 0.0);
    for line in plan.lines() {
        if let Some(rows) = number(line, "actual rows=") {
            loops = number(line, "loops=").unwrap_or_default();
            if line.contains("Scan") && line.contains("step_attempts") {
                read += rows * loops;
            }
        } else if let Some(removed) = number(line, "Rows Removed by Filter: ") {
            read += removed * loops;
        }
    }
    read
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
