use std::path::Path;

use workflow_tests::builders::{CLOCK_START, claim_by};
use workflow_tests::{Database, Fixture, RawConnection};

/// The number of runs of each kind that a claim must not read.
pub(crate) const CROWD: i64 = 100_000;
/// The number of due runs.
const DUE: usize = 50;
/// The number of runs that one claim takes.
const LIMIT: i64 = 10;

/// The number of pages that a claim of 10 runs may read at most.
///
/// The rows, their old and new versions and the index entries need a fraction of this. Reading the
/// runs of one other kind would take thousands of pages.
const PAGES: i64 = 400;

pub async fn a_claim_reads_only_due_runs(fixture: Fixture) {
    let mut raw = fixture.raw().await;
    // Ended runs, sleeping runs, and due runs of a lane that is not claimed here.
    insert(&fixture, &mut raw, 0, "succeeded", "checkout", 0).await;
    insert(&fixture, &mut raw, CROWD, "parked", "checkout", 3_600_000_000).await;
    insert(&fixture, &mut raw, 2 * CROWD, "pending", "refund", -3_600_000_000).await;
    fixture.started_many(DUE).await;
    if matches!(raw, RawConnection::Postgres(_)) {
        // Wakes of a gate that no claim looks at.
        raw.execute(format!(
            "INSERT INTO workflow_turns (lane_id, base_id, gate_id, open_at) VALUES (-1, 0, 1, 0); \
             INSERT INTO workflow_gate_wakes (lane_id, open_at) SELECT -1, 0 FROM generate_series(1, {CROWD})"
        ))
        .await;
    }

    // First right after the inserts, then with the database's statistics up to date.
    for statistics in [false, true] {
        if statistics {
            raw.execute("ANALYZE").await;
        }
        match &mut raw {
            RawConnection::Sqlite(_) => sqlite_plans(&mut raw).await,
            RawConnection::Postgres(_) => postgres_plans(&mut raw).await,
        }
        let claimed = fixture.claim(&claim_by(workflow_engine::model::WorkerId::generate(), LIMIT as u32)).await.runs;
        assert_eq!(claimed.len(), LIMIT as usize);
        assert!(claimed.iter().all(|run| run.lane == workflow_tests::builders::lane()));
    }
}

pub(crate) async fn insert(
    fixture: &Fixture,
    raw: &mut RawConnection,
    from: i64,
    status: &str,
    workflow: &str,
    due_in: i64,
) {
    let due = CLOCK_START.as_micros() + due_in;
    let to = from + CROWD - 1;
    let (id, series) = match fixture.database {
        Database::Memory => unreachable!("this case is not run in memory, which has no SQL"),
        Database::Sqlite => (
            "printf('00000000-0000-7000-8000-%012x', i)",
            format!("WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to})"),
        ),
        Database::Postgres => (
            "('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid",
            format!("WITH n(i) AS (SELECT generate_series({from}, {to}))"),
        ),
    };
    raw.execute(format!(
        "INSERT INTO workflow_lanes (queue, workflow_name, version) VALUES ('default', '{workflow}', '1') \
         ON CONFLICT DO NOTHING"
    ))
    .await;
    let lane = format!("(SELECT min(id) FROM workflow_lanes WHERE workflow_name = '{workflow}')");
    // A parked run has begun.
    let rank = if status == "parked" { 0 } else { 3 };
    raw.execute(format!(
        "INSERT INTO workflow_runs (id, workflow_name, lane_id, status, input, available_at, created_at, rank) \
         {series} SELECT {id}, '{workflow}', {lane}, '{status}', 'null', {due} + i, {due}, {rank} FROM n"
    ))
    .await;
}

pub(crate) fn statement(database: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../workflow-{database}/src/sql")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn sqlite_plans(raw: &mut RawConnection) {
    let due = statement("sqlite", "find_due_runs.sql")
        .replace("?1", r#"'[["default","checkout","1"]]'"#)
        .replace("?2", &CLOCK_START.as_micros().to_string())
        .replace("?3", &LIMIT.to_string());
    let next = statement("sqlite", "find_next_due.sql").replace("?1", r#"'[["default","checkout","1"]]'"#);
    let take = statement("sqlite", "claim_runs.sql")
        .replace("?1", r#"'["00000000-0000-7000-8000-000000000001"]'"#)
        .replace("?2", "'worker'")
        .replace("?3", "1")
        .replace("?4", "1");
    let columns = |index: &str| if index == "workflow_runs_due" { "(lane_id=? AND rank=?" } else { "(lane_id=?" };
    let indexes = ["workflow_runs_due", "workflow_runs_running"];
    for (name, sql, searches) in [
        ("find_due_runs", due, indexes.map(|index| format!("{index} {} AND available_at<?)", columns(index))).to_vec()),
        ("find_next_due", next, indexes.map(|index| format!("{index} {})", columns(index))).to_vec()),
        ("claim_runs", take, vec!["PRIMARY KEY (id=?)".into()]),
    ] {
        let plan = raw.lines(format!("EXPLAIN QUERY PLAN {sql}"), "detail").await.join("\n");
        // The plan names a table by its alias if it has one.
        let scans = plan.lines().any(|line| line.starts_with("SCAN workflow_runs") || line.starts_with("SCAN r "));
        let searches = searches.iter().all(|search| plan.contains(search));
        assert!(!scans && searches && !plan.contains("TEMP B-TREE FOR ORDER BY"), "{name}:\n{plan}");
    }
}

async fn postgres_plans(raw: &mut RawConnection) {
    let schema = raw.text("SELECT current_schema()::text").await;
    let ready = |file: &str| {
        statement("postgres", file)
            .replace("{schema}", &schema)
            .replace("{now}", "COALESCE($1::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)")
            .replace("{ranks}", "'{0, 1, 2, 3, 4}'::smallint[]")
            .replace("{far_future}", &workflow_sdk::Timestamp::FAR_FUTURE.as_micros().to_string())
    };
    let now = CLOCK_START.as_micros();
    let lanes = "ARRAY['default'], ARRAY['checkout'], ARRAY['1']";
    let worker = "'00000000-0000-4000-8000-000000000000'";
    // Of each rank.
    let times = vec![(i64::MIN + 1).to_string(); 5].join(", ");
    let ids = ["'00000000-0000-0000-0000-000000000000'::uuid"; 5].join(", ");
    raw.execute(format!(
        "PREPARE claim (bigint, text[], text[], text[], bigint, uuid, bigint, bigint[], uuid[]) AS {}",
        workflow_postgres::claim_statement(&schema)
    ))
    .await;
    raw.execute(format!("PREPARE next (bigint, text[], text[], text[]) AS {}", ready("find_next_due.sql"))).await;

    // The settings of the engine's sessions, see configure_session.sql.
    raw.execute("SET plan_cache_mode = force_custom_plan; SET jit = off").await;
    for (name, call) in [
        ("claim_runs", format!("claim ({now}, {lanes}, {LIMIT}, {worker}, 30000000, ARRAY[{times}], ARRAY[{ids}])")),
        ("find_next_due", format!("next ({now}, {lanes})")),
    ] {
        raw.execute("BEGIN").await;
        let plan =
            raw.lines(format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE {call}"), "QUERY PLAN").await;
        raw.execute("ROLLBACK").await;
        let pages = plan.iter().find(|line| line.trim_start().starts_with("Buffers:")).map_or(0, |line| pages(line));
        let plan = plan.join("\n");
        for index in ["workflow_runs_due", "workflow_runs_running"] {
            assert!(plan.contains(&format!("using {index}")), "{name}:\n{plan}");
        }
        assert!(!plan.contains("Seq Scan on workflow_runs"), "{name}:\n{plan}");
        assert!((1..=PAGES).contains(&pages), "{name} reads {pages} pages:\n{plan}");
    }
    raw.execute("DEALLOCATE claim; DEALLOCATE next").await;
}

/// Returns the number of pages of a line such as `Buffers: shared hit=95 read=3 dirtied=12`.
pub(crate) fn pages(line: &str) -> i64 {
    line.split_whitespace()
        .filter_map(|word| word.strip_prefix("hit=").or_else(|| word.strip_prefix("read=")))
        .map(|number| number.parse::<i64>().expect("a number of pages"))
        .sum()
}
