use std::time::Duration;

use sqlx::PgConnection;
use workflow_engine::model::{Lane, NewRun, Retention, RunFilter, RunId, RunStatus, RunSummary, Timestamp};
use workflow_engine::store::{DatabaseErrorKind, Store, Write};

use super::fixture_tests::{START, TestResult, fixture, lane, new_run};

fn ids(runs: &[RunSummary]) -> Vec<RunId> {
    runs.iter().map(|run| run.id).collect()
}

#[tokio::test]
async fn every_part_of_a_filter_must_hold_and_pages_follow_each_other() -> TestResult {
    let fixture = fixture().await?;
    let plain = new_run();
    let keyed = NewRun { key: Some("order-1%".into()), ..new_run() };
    let mut tagged = new_run();
    tagged.tags.insert("region".into(), "eu".into());
    let mut other = new_run();
    (other.lane.workflow, other.lane.queue) = ("refund".into(), "slow".into());
    fixture.store.commit(&[&plain, &keyed].map(|run| Write::Start(run.clone()))).await?;
    fixture.clock.advance(Duration::from_secs(1));
    fixture.store.commit(&[&tagged, &other].map(|run| Write::Start(run.clone()))).await?;
    fixture.commit(Write::Cancel(plain.id)).await?;

    let later = START + Duration::from_secs(1);
    for (filter, expected) in [
        (RunFilter::new(), vec![other.id, tagged.id, keyed.id, plain.id]),
        (RunFilter::new().status(RunStatus::Canceled), vec![plain.id]),
        (RunFilter::new().status(RunStatus::Canceled).status(RunStatus::Pending).workflow("refund"), vec![other.id]),
        (RunFilter::new().queue("slow"), vec![other.id]),
        (RunFilter::new().tag("region", "eu"), vec![tagged.id]),
        (RunFilter::new().tag("region", "us"), vec![]),
        (RunFilter::new().key_prefix("order-1%"), vec![keyed.id]),
        (RunFilter::new().key_prefix("order-_"), vec![]),
        (RunFilter::new().created_from(later), vec![other.id, tagged.id]),
        (RunFilter::new().created_before(later), vec![keyed.id, plain.id]),
        (RunFilter::new().page_size(2).after(other.id), vec![tagged.id, keyed.id]),
    ] {
        assert_eq!(ids(&fixture.store.list(&filter).await?), expected, "{filter:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_wake_of_a_gate_is_found_behind_older_ones() -> TestResult {
    let fixture = fixture().await?;
    let (own, foreign, never) = (-1, -2, Timestamp::FAR_FUTURE.as_micros());
    fixture
        .execute(&format!(
            "INSERT INTO {{schema}}.workflow_lanes (queue, workflow_name, version)
             VALUES ('default', 'checkout', '1'), ('default', 'without-gates', '1');
             INSERT INTO {{schema}}.workflow_turns (lane_id, base_id, gate_id, open_at)
             SELECT {own}, l.id, 1, {never} FROM {{schema}}.workflow_lanes AS l WHERE l.workflow_name = 'checkout'
             UNION ALL SELECT {foreign}, 0, 2, {never}"
        ))
        .await?;
    let without_gates = Lane { workflow: "without-gates".into(), ..lane() };
    let (later, now) = (START + Duration::from_secs(3600), Timestamp::from_micros(0));
    for (lane_id, open_at, count, expected) in [
        (foreign, START, 990, None),
        (own, later, 3, Some(later)),
        (own, START, 1, Some(START)),
        // Then there are as many as are read.
        (foreign, later, 6, Some(now)),
        (foreign, later, 2000, Some(now)),
    ] {
        let open_at = open_at.as_micros();
        fixture
            .execute(&format!(
                "INSERT INTO {{schema}}.workflow_gate_wakes (lane_id, open_at)
                 SELECT {lane_id}, {open_at} FROM generate_series(1, {count})"
            ))
            .await?;
        assert_eq!(fixture.store.next_due(&[lane()]).await?.at, expected, "{count} wakes of {lane_id}");
        let without = fixture.store.next_due(std::slice::from_ref(&without_gates)).await?.at;
        assert_eq!(without, None, "a lane without gates has no wakes");
    }
    Ok(())
}

#[tokio::test]
async fn a_row_that_cannot_be_understood_says_so() -> TestResult {
    let fixture = fixture().await?;
    let id = fixture.start().await?;
    fixture.execute("UPDATE {schema}.workflow_runs SET error = 'no JSON'").await?;
    fixture.execute("ALTER TABLE {schema}.workflow_runs DISABLE TRIGGER workflow_runs_tag_again").await?;
    fixture.execute("UPDATE {schema}.workflow_runs SET tags = '7'").await?;
    let run = fixture.store.run(id).await?.ok_or("no run")?;
    let columns: Vec<_> = run.unreadable.iter().filter_map(|reason| reason.split_once(':')).map(|it| it.0).collect();
    assert_eq!(columns, ["error", "tags"], "{run:?}");
    Ok(())
}

#[tokio::test]
async fn a_hint_reaches_other_listeners_and_a_lost_connection_is_one() -> TestResult {
    let fixture = fixture().await?;
    let other = fixture.second().await?;
    let mut hints = fixture.store.listen().await?;
    // Its own, which it passes over.
    fixture.store.hint().await?;
    other.hint().await?;
    let wait = Duration::from_secs(5);
    tokio::time::timeout(wait, hints.next()).await??;
    assert!(tokio::time::timeout(Duration::from_millis(100), hints.next()).await.is_err(), "one hint, one return");

    fixture
        .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN \"workflow_{schema}\"'")
        .await?;
    let mut hints = fixture.store.listen().await?;
    fixture
        .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN \"workflow_{schema}\"'")
        .await?;
    tokio::time::timeout(wait, hints.next()).await??;
    let next = hints.next();
    let hint = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        other.hint().await
    };
    let (heard, sent) = tokio::time::timeout(wait, futures::future::join(next, hint)).await?;
    heard?;
    sent?;
    Ok(())
}

#[tokio::test]
async fn a_read_survives_connections_that_were_cut_in_the_pool() -> TestResult {
    let fixture = fixture().await?;
    let id = fixture.start().await?;
    // Several at once, so that several connections rest in the pool.
    let reads = (0..4).map(|_| fixture.store.run(id));
    futures::future::try_join_all(reads).await?;
    fixture
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE query LIKE '-- read_run.sql%{schema}%' AND pid <> pg_backend_pid()",
        )
        .await?;
    assert_eq!(fixture.store.run(id).await?.map(|run| run.id), Some(id));
    Ok(())
}

#[tokio::test]
async fn a_run_is_found_although_the_connections_of_the_pool_were_cut() -> TestResult {
    let fixture = fixture().await?;
    let run = NewRun { key: Some("order-42".into()), ..new_run() };
    fixture.store.commit(&[Write::Start(run.clone())]).await?;
    let find = || fixture.store.find(&run.lane.workflow, "order-42");
    futures::future::try_join_all((0..4).map(|_| find())).await?;
    fixture
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE query LIKE '-- %{schema}%' AND query NOT LIKE '-- batch%' AND pid <> pg_backend_pid()",
        )
        .await?;
    assert_eq!(find().await?, Some(run.id));
    Ok(())
}

#[tokio::test]
async fn an_idle_worker_looks_by_a_kept_plan() -> TestResult {
    let fixture = fixture().await?;
    fixture.start().await?;
    for _ in 0..2 {
        assert_eq!(fixture.store.next_due(&[lane()]).await?.at, Some(START));
    }
    let plans = "SELECT (generic_plans, custom_plans)::text FROM pg_prepared_statements
                 WHERE statement LIKE '-- find_next_due%'";
    let plans = async |connection: &mut PgConnection| Ok(sqlx::query_scalar(plans).fetch_all(connection).await?);
    let plans: Option<Vec<String>> = fixture.store.read_at_rest(plans).await;
    assert_eq!(plans, Some(vec!["(2,0)".to_owned()]));

    // The session of the executor is cut, so the look takes another one.
    let pid = async |connection: &mut PgConnection| {
        Ok(sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await?)
    };
    let pid: i32 = fixture.store.read_at_rest(pid).await.ok_or("no session")?;
    fixture.execute(&format!("SELECT pg_terminate_backend({pid}, 10000)")).await?;
    assert_eq!(fixture.store.next_due(&[lane()]).await?.at, Some(START));
    fixture.start().await?;
    Ok(())
}

#[tokio::test]
async fn a_closed_store_is_unreachable() -> TestResult {
    let fixture = fixture().await?;
    fixture.store.close().await;
    let refused = fixture.store.next_due(&[lane()]).await.map(|_| ());
    let lease = fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await.map(|_| ());
    let listen = fixture.store.listen().await.map(|_| ());
    for result in [refused, lease, listen] {
        assert!(matches!(&result, Err(error) if error.kind == DatabaseErrorKind::Unreachable), "{result:?}");
    }
    Ok(())
}
