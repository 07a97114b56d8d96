use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row};
use uuid::Uuid;

use workflow_engine::model::{NameCondition, NamePattern, RunConditions, RunId, TagCondition};
use workflow_engine::store::{Direction, SCAN_BUDGET, ScanSource};

use super::fixture_tests::{Fixture, TestResult, fixture};
use super::scan::{bind_conditions, bind_range};
use super::sql::Statement;

/// The rows that a scan reads in these tests.
const ROWS: u32 = 256;

/// Each part of a list reads the rows of its source and their runs, and no other rows. A table of
/// which the server has no statistics yet may be sorted instead: the server then takes any range of
/// ids for a small one.
#[tokio::test]
async fn a_list_reads_only_its_source() -> TestResult {
    let fixture = fixture().await?;
    fill(&fixture).await?;
    fixture.execute("ANALYZE {schema}.workflow_runs, {schema}.workflow_tags, {schema}.workflow_lanes").await?;
    for (source, index) in [
        (ScanSource::All, "workflow_runs_pkey"),
        (ScanSource::Tagged("region".into(), "eu".into()), "workflow_tags_pkey"),
        (ScanSource::Pending, "workflow_runs_due"),
        (ScanSource::Parked, "workflow_runs_parked"),
        (ScanSource::Paused, "workflow_runs_paused"),
        (ScanSource::Failed, "workflow_runs_failed"),
        (ScanSource::Running, "workflow_runs_running"),
        (ScanSource::Keyed("order-1".into()), "workflow_runs_key"),
    ] {
        for direction in [Direction::Older, Direction::Newer] {
            let (end, list) = fixture.store.sql.scans.of(&source, direction).map_err(|_| "no statement")?;
            // No run has this name: the list reads its whole range.
            let name = NamePattern { text: "none".into(), is_prefix: true };
            let workflow = NameCondition { any_of: vec![name], none_of: Vec::new() };
            let tag = TagCondition { name: "region".into(), values: vec!["eu".into()], negated: false };
            let conditions = RunConditions { workflow, tags: vec![tag], ..RunConditions::none() };
            let (end_plan, _) = explained(&fixture, end, &source, None).await?;
            let (list_plan, read) = explained(&fixture, list, &source, Some(&conditions)).await?;
            for plan in [&end_plan, &list_plan] {
                assert!(plan.contains(index), "{source:?}\n{plan}");
                assert!(!plan.contains("Seq Scan on workflow_runs"), "{source:?}\n{plan}");
                assert!(!plan.contains("Seq Scan on workflow_tags"), "{source:?}\n{plan}");
                assert!(!plan.contains("Hash Join") && !plan.contains("Merge Join"), "{source:?}\n{plan}");
            }
            // Each run of the source, and some of its index. Tags cost a search of their index.
            assert!(read <= 8 * u64::from(ROWS) + 50, "{source:?} touches {read} pages\n{list_plan}");
        }
    }
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

/// A list of audit rows reads the rows of its target, or those from its place on. As above, the
/// server needs statistics to read no more than the page.
#[tokio::test]
async fn a_list_of_audit_rows_reads_its_target_or_its_range() -> TestResult {
    let fixture = fixture().await?;
    fixture
        .execute(
            "INSERT INTO {schema}.workflow_audit (id, at, verb, target, arguments, outcome)
             SELECT md5(n::text)::uuid, n, 'queue.pause', 'queue:' || n % 1000, '{}', 'applied'
             FROM generate_series(1, 50000) AS n",
        )
        .await?;
    let sql = &fixture.store.sql;
    let mut connection = fixture.store.pool.acquire().await?;
    fixture.execute("ANALYZE {schema}.workflow_audit").await?;
    for (statement, index) in [
        (&sql.find_audits_end, "workflow_audit_pkey"),
        (&sql.find_audits_end_of_target, "workflow_audit_target"),
        (&sql.list_audits, "workflow_audit_pkey"),
        (&sql.list_audits_of_target, "workflow_audit_target"),
    ] {
        let text = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {}", statement.text());
        let is_list = text.contains("starts_with");
        let mut query = sqlx::query(AssertSqlSafe(text));
        query = match is_list {
            true => query.bind(Uuid::nil()).bind(Uuid::max()).bind("queue.").bind(None::<&str>).bind(10_i64),
            false => query.bind(Uuid::max()).bind(10_i64),
        };
        if index == "workflow_audit_target" {
            query = query.bind("queue:7");
        }
        let (plan, read) = plan_of(query.fetch_all(&mut *connection).await?)?;
        assert!(plan.contains(index) && !plan.contains("Seq Scan") && !plan.contains("Sort"), "{plan}");
        assert!(read < 60, "{plan}");
    }
    drop(connection);
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

/// Statistics are read by their key, and failures by their time, also before the server knows how
/// many rows there are.
#[tokio::test]
async fn statistics_are_read_by_their_keys() -> TestResult {
    let fixture = fixture().await?;
    fixture
        .execute(
            "INSERT INTO {schema}.workflow_stats (seconds, begins_at, process, queue, workflow_name, version)
             SELECT 60, n::bigint / 10 * 60000000, md5(n::text)::uuid, 'default', 'checkout', '1'
             FROM generate_series(1, 50000) AS n;
             INSERT INTO {schema}.workflow_failures
                 (workflow_name, kind, step, message, count, first_at, last_at, first_version, last_run_id)
             SELECT 'checkout', 'application', '', n::text, 1, n, n, '1', md5(n::text)::uuid
             FROM generate_series(1, 50000) AS n",
        )
        .await?;
    let sql = &fixture.store.sql;
    let mut connection = fixture.store.pool.acquire().await?;
    for is_analyzed in [false, true] {
        if is_analyzed {
            fixture.execute("ANALYZE {schema}.workflow_stats, {schema}.workflow_failures").await?;
        }
        for (statement, index) in [
            (&sql.list_statistics, "workflow_stats_pkey"),
            (&sql.take_statistics, "workflow_stats_pkey"),
            (&sql.list_failures, "workflow_failures_last"),
            (&sql.trim_failures, "workflow_failures_last"),
        ] {
            let text = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {}", statement.text());
            let query = sqlx::query(AssertSqlSafe(text));
            let query = match statement {
                it if std::ptr::eq(it, &sql.list_statistics) => {
                    query.bind(60_i32).bind(0_i64).bind(60_000_000_i64).bind(20_000_i64)
                }
                it if std::ptr::eq(it, &sql.take_statistics) => {
                    query.bind(Some(600_000_000_i64)).bind(60_i32).bind(540_000_000_i64).bind(5_i64)
                }
                it if std::ptr::eq(it, &sql.list_failures) => query.bind(10_i64),
                _ => query.bind(50_000_i64),
            };
            let (plan, read) = plan_of(query.fetch_all(&mut *connection).await?)?;
            assert!(plan.contains(index), "{plan}");
            assert!(!plan.contains("Hash Join") && !plan.contains("Merge Join"), "{plan}");
            let is_trim = std::ptr::eq(statement, &sql.trim_failures);
            assert!(read < 100 || is_trim, "{read} pages\n{plan}");
        }
    }
    drop(connection);
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

/// Returns the plan, and the number of pages that the statement touched.
async fn explained(
    fixture: &Fixture,
    statement: &Statement,
    source: &ScanSource,
    conditions: Option<&RunConditions>,
) -> TestResult<(String, u64)> {
    let text = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {}", statement.text());
    let mut query = bind_range(sqlx::query(AssertSqlSafe(text)), source, (RunId::FIRST, RunId::LAST), ROWS);
    if let Some(conditions) = conditions {
        query = bind_conditions(query.bind(i64::from(SCAN_BUDGET)), conditions).map_err(|_| "not bound")?;
    }
    let mut connection = fixture.store.pool.acquire().await?;
    plan_of(query.fetch_all(&mut *connection).await?)
}

fn plan_of(rows: Vec<PgRow>) -> TestResult<(String, u64)> {
    let plan = rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()?.join("\n");
    let first = plan.lines().find(|line| line.contains("Buffers:")).unwrap_or_default();
    let touched = first.split_whitespace().filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok()).sum();
    Ok((plan, touched))
}

/// Inserts 100,000 ended runs, 50,000 that wait, 2,000 that failed and 100 that are running. Every
/// tenth run has a tag, and one has a key.
pub(super) async fn fill(fixture: &Fixture) -> TestResult {
    for (count, status) in
        [(60_000, "succeeded"), (50_000, "parked"), (2_000, "failed"), (100, "running"), (40_000, "succeeded")]
    {
        let salt = Uuid::new_v4();
        fixture
            .execute(&format!(
                "INSERT INTO {{schema}}.workflow_lanes (queue, workflow_name, version)
                 VALUES ('default', 'checkout', '1') ON CONFLICT DO NOTHING;
                 INSERT INTO {{schema}}.workflow_runs
                     (id, workflow_name, lane_id, status, input, available_at, created_at, tags, key)
                 SELECT md5('{salt}' || n)::uuid, 'checkout',
                        (SELECT id FROM {{schema}}.workflow_lanes WHERE workflow_name = 'checkout'), '{status}', 'null',
                        n, 0, CASE WHEN n % 10 = 0 THEN '{{\"region\":\"eu\"}}' ELSE '{{}}' END,
                        CASE WHEN n = 1 AND '{status}' = 'failed' THEN 'order-1' END
                 FROM generate_series(1, {count}) AS n"
            ))
            .await?;
    }
    Ok(())
}
