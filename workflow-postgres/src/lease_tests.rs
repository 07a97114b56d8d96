use std::time::Duration;

use sqlx::AssertSqlSafe;

use workflow_engine::model::{Claim, Retention, WorkerId};
use workflow_engine::store::{DatabaseErrorKind, Store, Write};

use super::fixture_tests::{Fixture, LEASE, START, TestResult, fixture};

/// The locks of the lease's sessions, and those of the witnesses.
const LEASE_LOCK: i16 = 1;
const WITNESS_LOCK: i16 = 2;

/// Ends the sessions that hold the locks of this kind, of all workers of the schema.
async fn cut(fixture: &Fixture, kind: i16) -> TestResult {
    let cut = format!(
        "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks AS l
         JOIN {{schema}}.workflow_workers AS w ON l.objid = (w.lock_key & 4294967295)::oid
         WHERE l.locktype = 'advisory' AND l.objsubid = {kind}"
    );
    fixture.execute(&cut).await
}

/// Waits until as many witnesses hold their locks.
async fn until_witnesses(fixture: &Fixture, count: i64) -> TestResult {
    let locks = format!(
        "SELECT count(*) FROM pg_locks AS l
         JOIN {}.workflow_workers AS w ON l.objid = (w.lock_key & 4294967295)::oid
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = {WITNESS_LOCK}",
        fixture.schema
    );
    let mut connection = fixture.connect().await?;
    for _ in 0..500 {
        let held: i64 = sqlx::query_scalar(AssertSqlSafe(locks.clone())).fetch_one(&mut connection).await?;
        if held == count {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("a witness does not come back".into())
}

#[tokio::test]
async fn current_claims_are_renewed_and_only_those() -> TestResult {
    let fixture = fixture().await?;
    let mut lease = fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await?;
    let (held, asked) = (fixture.started_claim().await?, fixture.started_claim().await?);
    fixture.commit(Write::Cancel(asked.run_id)).await?;
    fixture.clock.advance(Duration::from_secs(10));
    let stale = Claim { epoch: 7, ..held };
    let mut renewed = lease.renew(&[stale, held, asked], LEASE).await?;
    renewed.sort_by_key(|renewed| renewed.claim);
    assert_eq!(
        renewed.iter().map(|r| (r.claim, r.cancel_requested)).collect::<Vec<_>>(),
        [(held, false), (asked, true)]
    );
    let run = fixture.store.run(held.run_id).await?.ok_or("no run")?;
    assert_eq!(run.available_at, START + Duration::from_secs(10) + LEASE);
    assert!(lease.renew(&[], LEASE).await?.is_empty());
    lease.close().await?;
    Ok(())
}

/// A transaction of an application may hold the row of a run for longer than a lease.
#[tokio::test]
async fn a_locked_run_costs_no_other_run_its_lease() -> TestResult {
    let fixture = fixture().await?;
    let mut lease = fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await?;
    let (free, locked) = (fixture.started_claim().await?, fixture.started_claim().await?);
    let (mut application, before) = (fixture.connect().await?, fixture.store.run(locked.run_id).await?);
    sqlx::raw_sql("BEGIN").execute(&mut application).await?;
    let lock = format!("SELECT 1 FROM {}.workflow_runs WHERE id = $1 FOR UPDATE", fixture.schema);
    sqlx::query(AssertSqlSafe(lock)).bind(locked.run_id.as_uuid()).execute(&mut application).await?;

    fixture.clock.advance(Duration::from_secs(10));
    let lost = Claim { epoch: 7, ..free };
    let mut renewed = lease.renew(&[lost, locked, free], LEASE).await?;
    renewed.sort_by_key(|renewed| renewed.claim);
    let kept: Vec<_> = renewed.iter().map(|renewed| (renewed.claim, renewed.is_extended)).collect();
    assert_eq!(kept, [(free, true), (locked, false)]);
    assert_eq!(fixture.store.run(locked.run_id).await?, before);

    sqlx::raw_sql("ROLLBACK").execute(&mut application).await?;
    let renewed = lease.renew(&[locked], LEASE).await?;
    assert_eq!(renewed.iter().map(|renewed| renewed.is_extended).collect::<Vec<_>>(), [true]);
    lease.close().await?;
    Ok(())
}

#[tokio::test]
async fn a_worker_whose_connection_ended_is_seen_and_its_claims_are_due() -> TestResult {
    let fixture = fixture().await?;
    let watcher = WorkerId::generate();
    let mut watching = fixture.store.open_lease(watcher, &[], &Retention::default()).await?;
    let lease = fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await?;
    let claim = fixture.started_claim().await?;
    assert!(watching.look().await?.unlocked.is_empty());
    assert!(fixture.claim_for(watcher, 1).await?.is_empty());

    drop(lease);
    assert_eq!(eventually_unlocked(&mut *watching).await?, [fixture.worker]);
    assert_eq!(watching.release_worker(fixture.worker).await?, 1);
    assert!(watching.look().await?.unlocked.is_empty());
    let taken = fixture.claim_for(watcher, 1).await?;
    assert_eq!((taken[0].claim.epoch, taken[0].crashes), (claim.epoch + 1, 1));
    Ok(())
}

#[tokio::test]
async fn a_cut_connection_is_made_again_with_lock_and_row() -> TestResult {
    let fixture = fixture().await?;
    let mut lease = fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await?;
    let claim = fixture.started_claim().await?;
    cut(&fixture, LEASE_LOCK).await?;
    let mut watching = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
    assert!(watching.look().await?.unlocked.is_empty(), "the witness holds its lock");
    assert_eq!(watching.release_worker(fixture.worker).await?, 1);

    let broken = lease.renew(&[claim], LEASE).await;
    assert!(matches!(&broken, Err(error) if error.kind == DatabaseErrorKind::Unreachable), "{broken:?}");
    assert_eq!(lease.renew(&[claim], LEASE).await?.len(), 1);
    assert!(watching.look().await?.unlocked.is_empty());
    lease.close().await?;
    assert!(watching.look().await?.unlocked.is_empty(), "a worker that ended in good order is forgotten");
    Ok(())
}

#[tokio::test]
async fn an_older_session_of_the_same_worker_gives_way() -> TestResult {
    let fixture: Fixture = fixture().await?;
    let older = fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await?;
    let newer = fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await?;
    let mut watching = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
    drop(older);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(watching.look().await?.unlocked.is_empty(), "the newer session holds the lock");
    newer.close().await?;
    Ok(())
}

/// A worker whose sessions are cut one after the other is never seen without a lock.
#[tokio::test]
async fn a_cut_of_one_session_leaves_its_worker_locked() -> TestResult {
    let fixture = fixture().await?;
    let lease = fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await?;
    let look = async || -> TestResult<Vec<WorkerId>> {
        let mut watching = fixture.second().await?.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
        let unlocked = watching.look().await?.unlocked;
        watching.close().await?;
        Ok(unlocked)
    };
    cut(&fixture, WITNESS_LOCK).await?;
    assert_eq!(look().await?, []);
    until_witnesses(&fixture, 1).await?;
    cut(&fixture, LEASE_LOCK).await?;
    assert_eq!(look().await?, []);

    drop(lease);
    let mut watching = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
    assert_eq!(eventually_unlocked(&mut *watching).await?, [fixture.worker]);
    watching.close().await?;
    Ok(())
}

/// A restart of the server cuts the sessions of all workers, and some come back later than others.
#[tokio::test]
async fn a_session_that_was_cut_takes_no_worker_for_dead_at_once() -> TestResult {
    let fixture = fixture().await?;
    let mut watching = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
    drop(fixture.store.open_lease(fixture.worker, &[], &Retention::default()).await?);
    assert_eq!(eventually_unlocked(&mut *watching).await?, [fixture.worker]);
    cut(&fixture, LEASE_LOCK).await?;
    let broken = watching.look().await;
    assert!(matches!(&broken, Err(error) if error.kind == DatabaseErrorKind::Unreachable), "{broken:?}");
    assert!(watching.look().await?.unlocked.is_empty());
    assert_eq!(eventually_unlocked(&mut *watching).await?, [fixture.worker], "it settles");
    watching.close().await?;
    Ok(())
}

async fn eventually_unlocked(watching: &mut dyn workflow_engine::store::LeaseSession) -> TestResult<Vec<WorkerId>> {
    for _ in 0..500 {
        let unlocked = watching.look().await?.unlocked;
        if !unlocked.is_empty() {
            return Ok(unlocked);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Vec::new())
}
