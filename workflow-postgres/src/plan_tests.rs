use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{Lane, Timestamp};

use super::fixture_tests::{Fixture, TestResult, fixture, lane, parameter_types};
use super::parts::Parts;
use super::sql::Statement;

const EXPLAIN: &str = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF)";

#[tokio::test]
async fn every_statement_can_be_prepared() -> TestResult {
    let fixture = fixture().await?;
    let mut connection = fixture.connect().await?;
    fixture.execute(fixture.store.sql.create_transfer_table.text()).await?;
    for (name, statement) in fixture.store.sql.all() {
        let types = parameter_types(&mut connection, &name, &statement).await;
        assert!(types.is_ok(), "{name}: {types:?}");
        assert!(statement.text().starts_with(&format!("-- {name}\n")), "the server shows which statement it is");
    }
    Ok(())
}

/// First without statistics, the worst case: the planner then chooses by the shape of the statement
/// alone.
#[tokio::test]
async fn a_claim_does_not_read_finished_sleeping_or_foreign_runs() -> TestResult {
    let fixture = fixture().await?;
    fill(&fixture).await?;
    let mut connection = fixture.store.pool.acquire().await?;
    let claim = fixture.store.sql.parts(Parts::CLAIM_RUNS).text().replace("$6", "gen_random_uuid()");
    // Of five ranks of two lanes.
    let claim = claim.replace("$8::bigint[]", "array_fill(0::bigint, '{10}')");
    let claim = claim.replace("$9::uuid[]", "array_fill(gen_random_uuid(), '{10}')");
    let claim = &claim.replace("$7", "30000000").replace("$1", "NULL");
    for analyzed in [false, true] {
        if analyzed {
            fixture.execute("ANALYZE {schema}.workflow_runs").await?;
        }
        for _ in 0..10 {
            let plan = explain(&mut connection, claim).await?;
            for index in ["workflow_runs_due", "workflow_runs_running"] {
                assert!(plan.contains(index), "{plan}");
            }
            assert!(!plan.contains("Seq Scan"), "{plan}");
            assert!(touched(&plan) < 300, "{plan}");
        }
    }
    let sql = &fixture.store.sql;
    for looks in [&sql.find_next_due, &sql.find_due_lanes] {
        let plan = explain_look(&mut connection, looks, lane()).await?;
        let indexes = ["workflow_runs_due", "workflow_runs_running"];
        assert!(indexes.iter().all(|index| plan.contains(index)) && touched(&plan) < 30, "{plan}");
    }
    let release = sql.release_worker.text().replace("$1", "NULL").replace("$2", "gen_random_uuid()");
    let plan = lines(sqlx::query(AssertSqlSafe(format!("{EXPLAIN} {release}"))).fetch_all(&mut *connection).await?)?;
    assert!(plan.contains("workflow_runs_running") && touched(&plan) < 100, "{plan}");
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

/// Wakes stay until a claim opens their gates. They cost the look of a lane without gates nothing,
/// and that of a lane with gates no more than a claim opens at once.
#[tokio::test]
async fn a_look_does_not_read_all_wakes_of_a_gated_queue_that_nothing_claims_from() -> TestResult {
    let fixture = fixture().await?;
    let never = Timestamp::FAR_FUTURE.as_micros();
    fixture
        .execute(&format!(
            "INSERT INTO {{schema}}.workflow_lanes (queue, workflow_name, version)
             VALUES ('default', 'checkout', '1'), ('default', 'gated', '1'), ('other', 'gated', '1');
             INSERT INTO {{schema}}.workflow_turns (lane_id, base_id, gate_id, open_at)
             SELECT -l.id, l.id, 1, {never} FROM {{schema}}.workflow_lanes AS l WHERE l.workflow_name = 'gated';
             INSERT INTO {{schema}}.workflow_gate_wakes (lane_id, open_at)
             SELECT (SELECT -l.id FROM {{schema}}.workflow_lanes AS l WHERE l.queue = 'other'), 0
             FROM generate_series(1, 100000)"
        ))
        .await?;
    let mut connection = fixture.store.pool.acquire().await?;
    let sql = &fixture.store.sql;
    for analyzed in [false, true] {
        if analyzed {
            fixture.execute("ANALYZE {schema}.workflow_gate_wakes, {schema}.workflow_turns").await?;
        }
        for looks in [&sql.find_next_due, &sql.find_due_lanes] {
            let plan = explain_look(&mut connection, looks, lane()).await?;
            assert!(touched(&plan) < 30, "{plan}");
            let gated = Lane { workflow: "gated".into(), ..lane() };
            let plan = explain_look(&mut connection, looks, gated).await?;
            assert!(touched(&plan) < 5_000, "{plan}");
        }
    }
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

/// A long line costs a look at it no more than a short one, and other lines cost nothing.
#[tokio::test]
async fn a_look_at_a_line_reads_the_seats_that_are_taken_and_the_first_that_wait() -> TestResult {
    let fixture = fixture().await?;
    fill(&fixture).await?;
    for (key, waiting) in [("long", 50_000), ("next", 1_000)] {
        fixture
            .execute(&format!(
                "INSERT INTO {{schema}}.workflow_seats (run_id, step_key, limit_name, key, asked_at, epoch)
                 SELECT r.id, 'ask {key}', 'llm', '{key}', row_number() OVER (), CASE WHEN r.status = 'succeeded' THEN 1 END
                 FROM ((SELECT id, status FROM {{schema}}.workflow_runs WHERE status = 'parked' LIMIT {waiting})
                       UNION ALL (SELECT id, status FROM {{schema}}.workflow_runs WHERE status = 'succeeded' LIMIT 3)) AS r"
            ))
            .await?;
    }
    let mut connection = fixture.store.pool.acquire().await?;
    for analyzed in [false, true] {
        if analyzed {
            fixture.execute("ANALYZE {schema}.workflow_runs, {schema}.workflow_seats").await?;
        }
        let text = fixture.store.sql.read_seats.text();
        let rows = sqlx::query(AssertSqlSafe(format!("{EXPLAIN} {text}")))
            .bind(None::<i64>)
            .bind(vec!["llm"; 2])
            .bind(vec!["long", "next"])
            .bind(vec![10_i64; 2])
            .bind(30_000_000_i64)
            .bind(Vec::<Uuid>::new())
            .bind(Vec::<&str>::new())
            .fetch_all(&mut *connection)
            .await?;
        let plan = lines(rows)?;
        assert!(!plan.contains("Seq Scan") && touched(&plan) < 300, "{plan}");

        for list in [&fixture.store.sql.list_held_seats, &fixture.store.sql.list_waiting_seats] {
            let query = sqlx::query(AssertSqlSafe(format!("{EXPLAIN} {}", list.text())));
            let query = query.bind("llm").bind("long").bind(i64::MIN).bind(10_i64);
            let plan = lines(query.fetch_all(&mut *connection).await?)?;
            assert!(!plan.contains("Seq Scan") && touched(&plan) < 100, "{plan}");
        }
        let text = fixture.store.sql.find_waiting_lines.text();
        let query = sqlx::query(AssertSqlSafe(format!("{EXPLAIN} {text}"))).bind("").bind("").bind(100_i64);
        let plan = lines(query.fetch_all(&mut *connection).await?)?;
        assert!(!plan.contains("Seq Scan") && touched(&plan) < 50, "{plan}");
    }
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

/// However many runs wait, a page of approvals and decisions reads no more of them than it shows.
/// The waits of runs that ended without success stand in the index, too, and are passed over; and
/// the list of approvals alone passes over the decisions.
#[tokio::test]
async fn a_page_of_approvals_does_not_read_all_of_them() -> TestResult {
    let fixture = fixture().await?;
    fill(&fixture).await?;
    fixture
        .execute(
            "INSERT INTO {schema}.step_attempts (run_id, step_key, attempt, kind, status, epoch, started_at)
             SELECT r.id, k.step_key, 1, k.kind, 'running', 1, row_number() OVER ()
             FROM (SELECT id FROM {schema}.workflow_runs WHERE status = 'parked' LIMIT 20000) AS r
             CROSS JOIN (VALUES ('ship', 'approval'), ('each/1/decision:each/1/ask', 'signal'), ('paid', 'signal'))
                 AS k(step_key, kind)",
        )
        .await?;
    fixture.execute("ANALYZE {schema}.workflow_runs, {schema}.workflow_lanes, {schema}.step_attempts").await?;
    let mut connection = fixture.store.pool.acquire().await?;
    let text = format!("{EXPLAIN} {}", fixture.store.sql.list_approvals.text());
    let query = sqlx::query(AssertSqlSafe(text)).bind(30_000_i64).bind(Uuid::nil()).bind("").bind(10_i64).bind(true);
    let query = query.bind(i64::MAX).bind(Uuid::max()).bind("");
    let plan = lines(query.fetch_all(&mut *connection).await?)?;
    assert!(plan.contains("step_attempts_asked") && touched(&plan) < 300, "{plan}");
    fixture.execute("DROP SCHEMA {schema} CASCADE").await
}

async fn explain(connection: &mut PgConnection, statement: &str) -> TestResult<String> {
    let mut text = format!("{EXPLAIN} {statement}");
    for (parameter, place) in [("$2", "$1"), ("$3", "$2"), ("$4", "$3"), ("$5", "$4")] {
        text = text.replace(parameter, place);
    }
    let lane = lane();
    let rows = sqlx::query(AssertSqlSafe(text))
        .bind(vec![lane.queue, "other".into()])
        .bind(vec![lane.workflow, "other".into()])
        .bind(vec![lane.version, "other".into()])
        .bind(5_i64)
        .fetch_all(connection)
        .await?;
    lines(rows)
}

/// Returns the plan of a statement that reads a lane.
async fn explain_look(connection: &mut PgConnection, statement: &Statement, lane: Lane) -> TestResult<String> {
    let text = format!("{EXPLAIN} {}", statement.text());
    let Lane { queue, workflow, version } = lane;
    let mut query = sqlx::query(AssertSqlSafe(text)).bind(None::<i64>).bind(vec![queue]).bind(vec![workflow]);
    if statement.text().contains("$4") {
        query = query.bind(vec![version]);
    }
    lines(query.fetch_all(connection).await?)
}

/// Joins the rows of a plan.
fn lines(rows: Vec<PgRow>) -> TestResult<String> {
    Ok(rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// Returns the number of pages that the whole statement touched.
fn touched(plan: &str) -> u64 {
    let first = plan.lines().find(|line| line.contains("Buffers:")).unwrap_or_default();
    first.split_whitespace().filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok()).sum()
}

/// Inserts 100,000 finished runs, 100,000 sleeping ones, 100,000 of another workflow and 1,000 due
/// ones.
async fn fill(fixture: &Fixture) -> TestResult {
    for (count, workflow, status, due_in) in [
        (100_000, "checkout", "succeeded", -1_000_000_000),
        (100_000, "checkout", "parked", 1_000_000_000_000_i64),
        (100_000, "other-workflow", "pending", -1_000_000_000),
        (1_000, "checkout", "pending", -1_000_000),
    ] {
        let tag = Uuid::new_v4();
        fixture
            .execute(&format!(
                "INSERT INTO {{schema}}.workflow_lanes (queue, workflow_name, version)
                 VALUES ('default', '{workflow}', '1') ON CONFLICT DO NOTHING;
                 INSERT INTO {{schema}}.workflow_runs
                     (id, workflow_name, lane_id, status, input, available_at, created_at)
                 SELECT md5('{tag}' || n)::uuid, '{workflow}',
                        (SELECT id FROM {{schema}}.workflow_lanes WHERE workflow_name = '{workflow}'), '{status}', 'null',
                        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {due_in} + n, 0
                 FROM generate_series(1, {count}) AS n"
            ))
            .await?;
    }
    Ok(())
}
