//! The plan of the count of waiting runs.

use workflow_engine::model::NewRun;
use workflow_engine::store::WaitingPlace;
use workflow_tests::builders::{lane_of, new_run, start};
use workflow_tests::{Fixture, RawConnection, outcome};

use crate::claim_plan::{CROWD, insert, pages, statement};

/// To how many runs the statements count.
const BOUND: u32 = 10;

/// The number of pages that a count of 10 runs may read at most. To read the crowd would take
/// hundreds.
const PAGES: i64 = 100;

/// Beside ended runs, runs that have begun and sleep, and a backlog far above the bound. All are in
/// the lane behind the gate, whose number is the smallest of the workflow.
pub async fn a_count_of_waiting_runs_reads_no_further_than_its_bound(fixture: Fixture) {
    let gated = NewRun { lane: lane_of("default", "import", "1"), gate: Some("acct-1".into()), ..new_run() };
    fixture.commit(&[start(&gated)]).await.iter().for_each(outcome::created);
    let mut raw = fixture.raw().await;
    for (from, status, workflow) in [(0, "succeeded", "import"), (1, "parked", "import"), (2, "pending", "import")] {
        insert(&fixture, &mut raw, from * CROWD, status, workflow, 0).await;
    }
    for statistics in [false, true] {
        if statistics {
            raw.execute("ANALYZE").await;
        }
        for gate in [None, Some("acct-1")] {
            let place = WaitingPlace { queue: "default", gate, max_waiting: BOUND };
            assert_eq!(fixture.store.waiting_in(place).await.expect("a count"), BOUND);
            match &mut raw {
                RawConnection::Sqlite(_) => sqlite_plan(&mut raw, gate).await,
                RawConnection::Postgres(_) => postgres_plan(&mut raw, gate).await,
            }
        }
    }
}

async fn sqlite_plan(raw: &mut RawConnection, gate: Option<&str>) {
    let file = if gate.is_some() { "count_waiting_behind.sql" } else { "count_waiting.sql" };
    let count = statement("sqlite", file).replace("?1", "'default'").replace("?2", "10").replace("?3", "'acct-1'");
    let plan = raw.lines(format!("EXPLAIN QUERY PLAN {count}"), "detail").await;
    let by_index = "SEARCH r USING COVERING INDEX workflow_runs_due (lane_id=? AND rank>?)";
    let text = plan.join("\n");
    let scans = plan.iter().any(|line| line.starts_with("SCAN r"));
    assert!(text.contains(by_index) && !scans, "{file}:\n{text}");
}

async fn postgres_plan(raw: &mut RawConnection, gate: Option<&str>) {
    let schema = raw.text("SELECT current_schema()::text").await;
    let text = statement("postgres", "count_waiting.sql").replace("{schema}", &schema);
    raw.execute(format!("PREPARE count_waiting (text[], text[], bigint[]) AS {text}")).await;
    let gate = gate.map_or("NULL".to_owned(), |gate| format!("'{gate}'"));
    let call = format!("count_waiting (ARRAY['default'], ARRAY[{gate}], ARRAY[{BOUND}])");
    for mode in ["force_generic_plan", "force_custom_plan"] {
        raw.execute(format!("SET plan_cache_mode = {mode}; SET jit = off")).await;
        let plan =
            raw.lines(format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE {call}"), "QUERY PLAN").await;
        let read = plan.iter().find(|line| line.trim_start().starts_with("Buffers:")).map_or(0, |line| pages(line));
        let text = plan.join("\n");
        let by_index = plan.iter().any(|line| line.contains("Index Cond") && line.contains("rank > 0"));
        assert!(by_index && text.contains("workflow_runs_due"), "{mode}:\n{text}");
        assert!((1..=PAGES).contains(&read), "{mode} reads {read} pages:\n{text}");
    }
    raw.execute("DEALLOCATE count_waiting").await;
}
