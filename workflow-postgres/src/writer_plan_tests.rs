//! The plans of the executor's statements. They are made once, for tables that may be empty, and
//! kept while the tables grow.

use std::collections::BTreeSet;

use sqlx::postgres::PgTypeInfo;
use sqlx::{AssertSqlSafe, PgConnection, Row, TypeInfo};

use super::fixture_tests::{Fixture, TestResult, fixture, parameter_types};
use super::session::connect_session;
use super::sql::{Sql, Statement};

const TABLES: [&str; 7] = [
    "workflow_runs",
    "step_attempts",
    "workflow_signals",
    "workflow_lanes",
    "workflow_gates",
    "workflow_turns",
    "workflow_line_rates",
];

/// Returns the statements that the executor's session may run, and the read of a gate, which counts
/// as they do.
fn statements(sql: &Sql) -> Vec<(String, Statement)> {
    let files: BTreeSet<&str> = [
        "cancel_children",
        "cancel_runs",
        "clear_single_keys",
        "consume_signals",
        "continue_runs",
        "copy_history",
        "count_behind",
        "count_running",
        "count_waiting",
        "delete_received_signals",
        "delete_runs",
        "delete_steps",
        "end_turns",
        "expire_runs",
        "find_deleted_runs",
        "find_final_attempts",
        "find_lapsed_gates",
        "find_next_due",
        "find_parents",
        "find_signals",
        "find_single_runs",
        "find_started_runs",
        "drop_open_waits",
        "forget_interruption",
        "forget_rates_of_lines",
        "free_gates",
        "free_keys",
        "insert_signals",
        "lock_families",
        "lock_gates",
        "lock_runs",
        "lock_woken_gates",
        "lock_workers",
        "mark_fork",
        "open_gates",
        "move_runs",
        "pause_run",
        "place_runs",
        "read_claims",
        "read_gate_use",
        "read_lost_single",
        "read_placements",
        "read_rates_of_lines",
        "read_run",
        "read_statuses",
        "release_unknown_claims",
        "reset_outcomes",
        "resume_late_runs",
        "resume_run",
        "retry_runs",
        "revive_run",
        "set_single_keys",
        "terminate_runs",
        "use_rates_of_gates",
        "use_rates_of_lines",
        "wake_runs",
    ]
    .into();
    let is_run = |name: &str| name.starts_with("batch:") || files.contains(name.trim_end_matches(".sql"));
    let all: Vec<_> = sql.all().into_iter().filter(|(name, _)| is_run(name)).collect();
    let is_there = |file: &&str| all.iter().any(|(name, _)| name.trim_end_matches(".sql") == *file);
    assert!(files.iter().all(is_there), "a file was renamed");
    all
}

#[tokio::test]
async fn no_statement_of_the_executor_reads_a_table_whole() -> TestResult {
    let fixture = fixture().await?;
    check_plans(&fixture, "never looked at").await?;
    // The worst case: the planner believes the statistics, by which the tables are empty.
    for table in TABLES {
        fixture.execute(&format!("VACUUM ANALYZE {{schema}}.{table}")).await?;
    }
    check_plans(&fixture, "known as empty").await?;
    fill(&fixture).await?;
    check_plans(&fixture, "filled since").await?;
    for table in TABLES {
        fixture.execute(&format!("ANALYZE {{schema}}.{table}")).await?;
    }
    check_plans(&fixture, "filled and known").await?;
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

async fn check_plans(fixture: &Fixture, tables: &str) -> TestResult {
    let sql = &fixture.store.sql;
    let mut connection =
        connect_session(&fixture.store.pool.connect_options(), sql).await.map_err(|failure| failure.during("test"))?;
    for (file, statement) in statements(sql) {
        let types = parameter_types(&mut connection, &file, &statement).await?;
        let lines = plan(&mut connection, &statement, &types).await?;
        let text = lines.join("\n");
        for unwanted in ["Hash Join", "Merge Join", "Hash Anti", "Bitmap"] {
            assert!(!text.contains(unwanted), "{file}, tables {tables}: {unwanted}\n{text}");
        }
        // With a filter instead, the claim would walk over the entries of all runs claimed before.
        let begins = statement.text().contains("(r.available_at, r.id) >=");
        let by_index = |line: &&String| line.contains("Index Cond") && line.contains("ROW(available_at, id) >= ROW(");
        assert!(
            !begins || lines.iter().any(|line| by_index(&line)),
            "{file}, tables {tables}: begins elsewhere\n{text}"
        );
        for (place, line) in lines.iter().enumerate() {
            if TABLES.iter().any(|table| line.contains(&format!(" on {table}"))) {
                assert!(!line.contains("Seq Scan"), "{file}, tables {tables}: {line}\n{text}");
                let below = lines[place + 1..].iter().take_while(|line| !line.contains("->"));
                let is_found = !line.contains("Index") || below.clone().any(|line| line.contains("Index Cond"));
                assert!(is_found, "{file}, tables {tables}: a whole index\n{text}");
            }
            if line.contains("Tid Scan") {
                let mut below = lines[place + 1..].iter().take_while(|line| !line.contains("->"));
                // The places of `due`, `ended` and `used` are those of rows that the statement has
                // locked.
                let is_locked = |line: &String| {
                    ["(ctid = due", "(ctid = ended", "(ctid = used", "(ctid = held"]
                        .iter()
                        .any(|cond| line.contains(cond))
                };
                let is_safe = below.any(|line| line.contains("Filter: ") || is_locked(line));
                assert!(is_safe, "{file}, tables {tables}: not looked at again once it is locked: {line}\n{text}");
            }
            if let Some(inner) = inner_of(&lines, place) {
                let repeats = ["Function Scan", "CTE Scan", "Materialize"].iter().any(|scan| inner.contains(scan));
                assert!(!repeats, "{file}, tables {tables}: as often as there are rows outside: {inner}\n{text}");
            }
        }
    }
    Ok(())
}

/// Returns the inner side of the nested loop in this line. It runs once for each row of the outer
/// side. Returns `None` if that side has one row.
fn inner_of(lines: &[String], place: usize) -> Option<&str> {
    lines.get(place).filter(|line| line.contains("Nested Loop"))?;
    let below: Vec<(usize, &String)> =
        lines.iter().skip(place + 1).filter_map(|line| Some((line.find("->")?, line))).collect();
    let depth = below.first()?.0;
    let mut sides = below.into_iter().take_while(|(at, _)| *at >= depth).filter(|(at, _)| *at == depth);
    let (_, outer) = sides.next()?;
    let (_, inner) = sides.next()?;
    (!outer.ends_with("Result")).then_some(inner.as_str())
}

/// Returns the generic plan of a statement.
async fn plan(connection: &mut PgConnection, statement: &Statement, types: &[PgTypeInfo]) -> TestResult<Vec<String>> {
    let run = |text: String| sqlx::raw_sql(AssertSqlSafe(text));
    let listed = |words: Vec<&str>| if words.is_empty() { String::new() } else { format!("({})", words.join(", ")) };
    let (names, parameters) = (listed(types.iter().map(TypeInfo::name).collect()), listed(vec!["NULL"; types.len()]));
    run(format!("PREPARE looked_at{names} AS {}", statement.text())).execute(&mut *connection).await?;
    let rows = run(format!("EXPLAIN (COSTS OFF) EXECUTE looked_at{parameters}")).fetch_all(&mut *connection).await?;
    run("DEALLOCATE looked_at".into()).execute(connection).await?;
    Ok(rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()?)
}

/// Inserts 20,000 runs of every kind with as many attempts and signals.
async fn fill(fixture: &Fixture) -> TestResult {
    let now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    fixture
        .execute(&format!(
            "INSERT INTO {{schema}}.workflow_lanes (queue, workflow_name, version)
             SELECT 'default', 'checkout', n::text FROM generate_series(1, 2000) AS n;
             INSERT INTO {{schema}}.workflow_runs
                 (id, workflow_name, lane_id, status, input, available_at, created_at, worker_id, parent_run_id,
                  on_parent_end, key, deadline_at)
             SELECT md5('run' || n)::uuid, 'checkout', 1,
                    (ARRAY['succeeded', 'parked', 'pending', 'running'])[1 + n % 4], 'null', {now} + n, 0,
                    CASE WHEN n % 4 = 3 THEN md5('worker' || n % 3)::uuid END,
                    CASE WHEN n % 5 = 0 THEN md5('run' || n / 100)::uuid END, 'cancel', 'key-' || n,
                    CASE WHEN n % 7 = 0 THEN {now} END
             FROM generate_series(1, 20000) AS n"
        ))
        .await?;
    fixture
        .execute(
            "INSERT INTO {schema}.step_attempts (run_id, step_key, attempt, kind, status, position, epoch, started_at)
             SELECT md5('run' || n)::uuid, 'step', 1, 'step', 'succeeded', 1, 1, 0 FROM generate_series(1, 20000) AS n",
        )
        .await?;
    fixture
        .execute(
            "INSERT INTO {schema}.workflow_line_rates (limit_name, key, used_until)
             SELECT 'llm', 'acct-' || n, n FROM generate_series(1, 20000) AS n",
        )
        .await?;
    fixture
        .execute(
            "INSERT INTO {schema}.workflow_signals (run_id, seq, name, payload, created_at, key)
             SELECT md5('run' || n)::uuid, 1, 'paid', 'null', 0, 'key' FROM generate_series(1, 20000) AS n",
        )
        .await
}
