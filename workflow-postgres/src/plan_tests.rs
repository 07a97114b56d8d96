use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor, PgConnection, Row, SqlSafeStr};
use uuid::Uuid;

use workflow_engine::model::Lane;

use super::fixture_tests::{Fixture, TestResult, fixture, lane, parameter_types};
use super::sql::{Statement, cut};

const EXPLAIN: &str = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF)";

#[tokio::test]
async fn every_statement_can_be_prepared() -> TestResult {
    let fixture = fixture().await?;
    let mut connection = fixture.connect().await?;
    for (file, statement) in fixture.store.sql.all() {
        let types = parameter_types(&mut connection, &fixture.store.sql, file).await?;
        let text = AssertSqlSafe(statement.text().to_owned()).into_sql_str();
        let prepared = (&mut connection).prepare_with(text, &types).await;
        assert!(prepared.is_ok(), "{file}: {prepared:?}");
        assert!(statement.text().starts_with(&format!("-- {file}\n")), "what the server shows says which it is");
    }
    Ok(())
}

/// The planner has no statistics here: the worst case, for it must choose by the shape of the statement alone.
#[tokio::test]
async fn a_claim_does_not_read_finished_sleeping_or_foreign_runs() -> TestResult {
    let fixture = fixture().await?;
    fill(&fixture).await?;
    let mut connection = fixture.store.pool.acquire().await?;
    let claim = fixture.store.sql.claim_runs.text().replace("$6", "gen_random_uuid()");
    let claim = claim.replace("$8::bigint, $9", "0, '00000000-0000-0000-0000-000000000000'");
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
        let plan = explain_look(&mut connection, looks).await?;
        let indexes = ["workflow_runs_due", "workflow_runs_running"];
        assert!(indexes.iter().all(|index| plan.contains(index)) && touched(&plan) < 30, "{plan}");
    }
    let release = sql.release_worker.text().replace("$1", "NULL").replace("$2", "gen_random_uuid()");
    let plan = lines(sqlx::query(AssertSqlSafe(format!("{EXPLAIN} {release}"))).fetch_all(&mut *connection).await?)?;
    assert!(plan.contains("workflow_runs_running") && touched(&plan) < 100, "{plan}");
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

/// The plan of what looks at a lane and changes nothing.
async fn explain_look(connection: &mut PgConnection, statement: &Statement) -> TestResult<String> {
    let text = format!("{EXPLAIN} {}", statement.text());
    let Lane { queue, workflow, version } = lane();
    let mut query = sqlx::query(AssertSqlSafe(text)).bind(None::<i64>).bind(vec![queue]).bind(vec![workflow]);
    if statement.text().contains("$4") {
        query = query.bind(vec![version]);
    }
    lines(query.fetch_all(connection).await?)
}

/// The plan that these rows are.
fn lines(rows: Vec<PgRow>) -> TestResult<String> {
    Ok(rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// Pages that the whole statement touched.
fn touched(plan: &str) -> u64 {
    let first = plan.lines().find(|line| line.contains("Buffers:")).unwrap_or_default();
    first.split_whitespace().filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok()).sum()
}

/// 100,000 finished runs, 100,000 sleeping ones, 100,000 of another workflow, 1,000 due ones.
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
                "INSERT INTO {{schema}}.workflow_runs
                     (id, workflow_name, version, queue, status, input, available_at, created_at)
                 SELECT md5('{tag}' || n)::uuid, '{workflow}', '1', 'default', '{status}', 'null',
                        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {due_in} + n, 0
                 FROM generate_series(1, {count}) AS n"
            ))
            .await?;
    }
    Ok(())
}

/// What stands between two texts, with blanks in one form and parameters without their numbers.
fn part<'t>(text: &'t str, from: &str, to: &str) -> Vec<&'t str> {
    let begun = text.split_once(from).unwrap_or_else(|| panic!("no {from}")).1;
    let part = begun.split_once(to).unwrap_or_else(|| panic!("no {to}")).0;
    part.split(|c: char| c.is_whitespace() || c.is_ascii_digit()).filter(|word| !word.is_empty()).collect()
}

/// They are one statement for the sake of one way to the server, and say the same.
#[test]
fn a_start_with_a_claim_starts_and_claims_as_the_two_do_alone() {
    let both = include_str!("sql/start_and_claim_runs.sql");
    let claim = include_str!("sql/claim_runs.sql");
    let start = include_str!("sql/insert_runs.sql");
    let of_claim = |text| part(text, "due AS MATERIALIZED (", "SELECT clock.now").join(" ").replace("::bigint", "");
    // What it claims beside has been due for longest, wherever the last claim ended.
    let begins = "AND (r.available_at, r.id) >= ($ ::bigint, $ ::uuid) ".replace("::bigint", "");
    assert!(of_claim(claim).contains(&begins));
    assert_eq!(of_claim(both), of_claim(claim).replace(&begins, ""));
    let times = |text| part(text, "CROSS JOIN LATERAL (", ") AS t").join(" ");
    assert_eq!(times(both), times(start));
}

#[test]
fn a_plain_batch_asks_records_finishes_and_claims_as_the_four_do_alone() {
    let batch = &cut(include_str!("sql/plain_batch.sql"), &[]);
    let alone = |statement: &str| {
        let lines = statement.lines().filter(|line| !line.starts_with("--"));
        part(&format!("BEGIN {} END;", lines.collect::<Vec<_>>().join(" ")), "BEGIN", "END;").join(" ")
    };
    let within = |name: &str, next: &str, replaced: &[(&str, &str)]| {
        let text = part(batch, name, next).join(" ");
        replaced.iter().fold(text, |text, (from, to)| {
            assert!(text.contains(from), "no {from} in {text}");
            text.replace(from, to)
        })
    };
    let ours = ("ARRAY(SELECT ours.id FROM ours)", "$ ::uuid[]");
    let lost = within("), lost AS (", "), verdict AS", &[ours]);
    assert_eq!(lost, alone(include_str!("sql/read_claims.sql")));
    let number = (", generate_subscripts($ ::uuid[], ) AS number", "");
    let holds = ("WHERE (SELECT verdict.holds FROM verdict) AND", "WHERE");
    let new = ("(w.number > $ ::integer OR (SELECT a.epoch", "(SELECT a.epoch");
    let usual = [
        ("COALESCE(w.attempt, )", "w.attempt"),
        ("COALESCE(w.kind, 'step')", "w.kind"),
        ("COALESCE(w.status, 'succeeded')", "w.status"),
        ("COALESCE(w.error, NULL)", "w.error"),
        ("COALESCE(w.epoch, )", "w.epoch"),
    ];
    let replaced = [&[number, holds, new, ("IS NULL)", "IS NULL")], &usual[..]].concat();
    let recorded = within("), recorded AS (", "), updated AS (", &replaced);
    assert_eq!(recorded, alone(include_str!("sql/insert_attempts.sql")));
    let error = ("COALESCE(f.error, NULL)", "f.error");
    let paused = (
        "COALESCE(CASE WHEN f.status = 'parked' THEN r.paused_at END, NULL::bigint)",
        "CASE WHEN f.status = 'parked' THEN r.paused_at END",
    );
    let finished = within("), finished AS (", "RETURNING r.id\n), due", &[holds, error, paused]);
    assert_eq!(finished, alone(include_str!("sql/finish_claims.sql")));
    let update = |text: &str| part(text, "SET kind", "FROM").join(" ");
    assert_eq!(update(batch), update(include_str!("sql/update_attempts.sql")));
    let claimed = within(
        "due AS MATERIALIZED (",
        "SELECT {now} AS now, (SELECT verdict",
        &[(
            "WHERE (SELECT verdict.holds FROM verdict) AND ARRAY(SELECT finished.id FROM finished) IS NOT NULL ORDER",
            "ORDER",
        )],
    );
    let claim = part(include_str!("sql/claim_runs.sql"), "due AS MATERIALIZED (", "SELECT clock.now").join(" ");
    assert_eq!(claimed.replace("::bigint", ""), claim.replace("::bigint", ""));
}
