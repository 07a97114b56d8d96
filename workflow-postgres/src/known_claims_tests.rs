//! That a batch relies on a claim which it knows only as long as nobody has taken it.

use workflow_engine::model::{Claim, WorkerId};
use workflow_engine::store::{ClaimRequest, Outcome, ParkWrite, Store, Write};

use super::fixture_tests::{Fixture, LEASE, START, TestResult, all_applied, end, knowing, lane, step_of as step};

/// How many of these are known.
fn known(fixture: &Fixture, claims: &[Claim]) -> usize {
    fixture.store.writer.known(claims)
}

/// Steps of two claims, of which the first does not hold any more.
async fn first_is_lost(fixture: &Fixture, claims: [Claim; 2]) -> TestResult {
    let outcomes = fixture.store.commit(&[step(claims[0], "late"), step(claims[1], "late")]).await?;
    assert!(matches!(outcomes[..], [Outcome::Lost | Outcome::Duplicate, Outcome::Applied]), "{outcomes:?}");
    let late = fixture.store.history(claims[0].run_id).await?;
    assert!(late.iter().all(|row| row.step_key != "late"), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_known_is_not_asked_for() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
    // Nobody may do this without a word to the worker's row; so it shows that nobody looked.
    fixture.execute("UPDATE {schema}.workflow_runs SET epoch = 7").await?;
    let outcomes = fixture.store.commit(&[step(claims[0], "late"), step(claims[1], "late")]).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    Ok(())
}

#[tokio::test]
async fn what_another_process_takes_after_its_lease_is_not_known_any_more() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
    fixture.clock.advance(LEASE * 2);
    let take = ClaimRequest { worker: WorkerId::generate(), lanes: vec![lane()], limit: 1, lease: LEASE };
    let taken = fixture.second().await?.commit(&[Write::Claim(take)]).await?;
    let [Outcome::Claimed(taken)] = &taken[..] else { return Err(format!("{taken:?}").into()) };
    assert_eq!(taken.runs[0].claim.run_id, claims[0].run_id);
    first_is_lost(&fixture, [claims[0], claims[1]]).await
}

#[tokio::test]
async fn nor_is_what_another_process_terminates() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
    fixture.second().await?.commit(&[Write::Terminate(claims[0].run_id)]).await?;
    first_is_lost(&fixture, [claims[0], claims[1]]).await
}

#[tokio::test]
async fn nor_is_what_this_process_terminates() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
    fixture.commit(Write::Terminate(claims[0].run_id)).await?;
    first_is_lost(&fixture, [claims[0], claims[1]]).await
}

#[tokio::test]
async fn nor_is_what_a_worker_held_that_others_forgot() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
    let second = fixture.second().await?;
    let watcher = WorkerId::generate();
    let mut watching = second.open_lease(watcher, &[]).await?;
    assert_eq!(watching.release_worker(fixture.worker).await?, 2);
    let take = ClaimRequest { worker: watcher, lanes: vec![lane()], limit: 1, lease: LEASE };
    second.commit(&[Write::Claim(take)]).await?;
    first_is_lost(&fixture, [claims[0], claims[1]]).await?;
    Ok(watching.close().await?)
}

#[tokio::test]
async fn what_a_lone_end_or_a_plain_batch_ended_is_not_known_any_more() -> TestResult {
    let (fixture, claims) = knowing(4).await?;
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
    assert_eq!(known(&fixture, &claims), 0, "nothing is, after a batch that went the long way");
    Ok(())
}

#[tokio::test]
async fn what_a_plain_batch_claims_is_known_by_its_epoch() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
    fixture.start().await?;
    fixture.start().await?;
    let claim = Write::Claim(ClaimRequest { worker: fixture.worker, lanes: vec![lane()], limit: 2, lease: LEASE });
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
async fn a_claim_of_a_worker_that_is_not_recorded_is_not_known() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
    fixture.start().await?;
    let stranger =
        Write::Claim(ClaimRequest { worker: WorkerId::generate(), lanes: vec![lane()], limit: 1, lease: LEASE });
    let outcomes = fixture.store.commit(&[step(claims[0], "beside"), stranger]).await?;
    let [Outcome::Applied, Outcome::Claimed(claimed)] = &outcomes[..] else {
        return Err(format!("{outcomes:?}").into());
    };
    assert_eq!(claimed.runs.len(), 1);
    assert_eq!(known(&fixture, &[claimed.runs[0].claim]), 0);
    Ok(())
}

#[tokio::test]
async fn a_batch_that_fails_leaves_nothing_known() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
    fixture
        .execute("CREATE UNIQUE INDEX one_a_key ON {schema}.step_attempts (step_key) WHERE step_key = 'twice'")
        .await?;
    let refused = fixture.store.commit(&[step(claims[0], "twice"), step(claims[1], "twice")]).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(known(&fixture, &claims), 0);
    Ok(())
}
