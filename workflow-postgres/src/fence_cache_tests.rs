//! A batch relies on a cached claim only as long as no other transaction has taken it.

use workflow_engine::model::{Claim, WorkerId};
use workflow_engine::store::{ClaimRequest, Outcome, ParkWrite, Store, Write};

use super::fixture_tests::{
    Fixture, LEASE, START, TestResult, all_applied, end, lane, step_of as step, with_cached_claims,
};

/// Returns how many of these claims the cache knows.
fn known(fixture: &Fixture, claims: &[Claim]) -> usize {
    fixture.store.session.known(claims)
}

/// Commits a step under each of two claims, and requires that the first claim is lost.
async fn first_is_lost(fixture: &Fixture, claims: [Claim; 2]) -> TestResult {
    let outcomes = fixture.store.commit(&[step(claims[0], "late"), step(claims[1], "late")]).await?;
    assert!(matches!(outcomes[..], [Outcome::Lost | Outcome::Duplicate, Outcome::Applied]), "{outcomes:?}");
    let late = fixture.store.history(claims[0].run_id).await?;
    assert!(late.iter().all(|row| row.step_key != "late"), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn a_cached_claim_is_not_asked_for() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    // No transaction may do this without a write to the worker's row. So it shows that the batch
    // did not look.
    fixture.execute("UPDATE {schema}.workflow_runs SET epoch = 7").await?;
    let outcomes = fixture.store.commit(&[step(claims[0], "late"), step(claims[1], "late")]).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    Ok(())
}

#[tokio::test]
async fn a_claim_that_another_process_terminates_leaves_the_cache() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    fixture.second().await?.commit(&[Write::Terminate(claims[0].run_id)]).await?;
    first_is_lost(&fixture, [claims[0], claims[1]]).await
}

#[tokio::test]
async fn released_claims_leave_the_cache() -> TestResult {
    let (fixture, claims) = with_cached_claims(4).await?;
    assert!(matches!(fixture.commit(end(claims[0])).await?, Outcome::Applied));
    assert_eq!(known(&fixture, &claims), 3);
    let park = ParkWrite {
        claim: claims[2],
        wakes: 0,
        until: START + LEASE,
        until_deadline: false,
        error: None,
        reset_crashes: false,
    };
    assert!(all_applied(&fixture.store.commit(&[end(claims[1]), Write::Park(park)]).await?));
    assert_eq!(known(&fixture, &claims), 1);
    first_is_lost(&fixture, [claims[0], claims[3]]).await?;
    assert_eq!(known(&fixture, &claims), 0, "the slow path empties the cache");
    Ok(())
}

#[tokio::test]
async fn a_claim_of_the_fast_path_is_cached_with_its_epoch() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    fixture.start().await?;
    fixture.start().await?;
    let claim = Write::Claim(ClaimRequest {
        worker: fixture.worker,
        lanes: vec![lane()],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit: 2,
        lease: LEASE,
    });
    let outcomes = fixture.store.commit(&[step(claims[0], "beside"), claim]).await?;
    let [Outcome::Applied, Outcome::Claimed(claimed)] = &outcomes[..] else {
        return Err(format!("{outcomes:?}").into());
    };
    let new: Vec<Claim> = claimed.runs.iter().map(|run| run.claim).collect();
    assert_eq!(known(&fixture, &new), 2);
    assert_eq!(known(&fixture, &[Claim { epoch: 2, ..new[0] }]), 0);
    first_is_lost(&fixture, [Claim { epoch: 7, ..new[0] }, new[1]]).await
}

#[tokio::test]
async fn a_claim_by_a_worker_that_is_not_recorded_is_not_cached() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    fixture.start().await?;
    let unrecorded = Write::Claim(ClaimRequest {
        worker: WorkerId::generate(),
        lanes: vec![lane()],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit: 1,
        lease: LEASE,
    });
    let outcomes = fixture.store.commit(&[step(claims[0], "beside"), unrecorded]).await?;
    let [Outcome::Applied, Outcome::Claimed(claimed)] = &outcomes[..] else {
        return Err(format!("{outcomes:?}").into());
    };
    assert_eq!(claimed.runs.len(), 1);
    assert_eq!(known(&fixture, &[claimed.runs[0].claim]), 0);
    Ok(())
}

#[tokio::test]
async fn a_failed_batch_leaves_nothing_in_the_cache() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    fixture
        .execute("CREATE UNIQUE INDEX one_a_key ON {schema}.step_attempts (step_key) WHERE step_key = 'twice'")
        .await?;
    let refused = fixture.store.commit(&[step(claims[0], "twice"), step(claims[1], "twice")]).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(known(&fixture, &claims), 0);
    Ok(())
}
