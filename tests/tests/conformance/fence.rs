use std::collections::HashMap;
use std::time::Duration;

use workflow_engine::model::{Claim, Retention, WorkerId};
use workflow_engine::store::{LeaseSession, RunEnd, Write};
use workflow_sdk::{RunId, RunStatus, StepAttempt, Timestamp};
use workflow_tests::builders::{
    LEASE, attempt, begun, claim_by, claim_request, end, error, failed, park, park_write, succeed, succeeded,
};
use workflow_tests::outcome::{applied, claimed, duplicate, lost, one};
use workflow_tests::{Fixture, builders};

/// Returns every kind of write that carries a claim.
fn writes(claim: Claim, until: Timestamp) -> Vec<Write> {
    let park_with_reason = builders::park_write(claim, 0, until);
    vec![
        attempt(claim, begun("first")),
        attempt(claim, succeeded("first", 0, "1")),
        attempt(claim, failed("second", 1)),
        attempt(claim, succeeded("third", 7, "2")),
        succeed(claim, "1"),
        end(claim, RunEnd::Failed(error("no luck"))),
        end(claim, RunEnd::Canceled),
        park(claim, until),
        builders::continue_as_new(claim, "1"),
        Write::Park(workflow_engine::store::ParkWrite {
            wakes: 5,
            error: Some(error("diverged")),
            reset_crashes: true,
            ..park_with_reason
        }),
    ]
}

/// Checks that every write of this claim is lost and changes nothing, alone and all in one batch.
async fn all_are_lost(fixture: &Fixture, claim: Claim) {
    let before = fixture.snapshot(claim.run_id).await;
    fixture.advance(Duration::from_millis(1));
    for write in writes(claim, fixture.now()) {
        lost(&fixture.write(write).await);
        assert_eq!(fixture.snapshot(claim.run_id).await, before);
    }
    for outcome in fixture.commit(&writes(claim, fixture.now())).await {
        lost(&outcome);
    }
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
}

pub async fn a_stale_attempt_changes_nothing(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    applied(&fixture.write(attempt(current, begun("first"))).await);
    let before = fixture.snapshot(stale.run_id).await;
    for row in [begun("first"), succeeded("first", 0, "9"), failed("first", 1), succeeded("other", 1, "9")] {
        lost(&fixture.write(attempt(stale, row)).await);
        assert_eq!(fixture.snapshot(stale.run_id).await, before);
    }
    applied(&fixture.write(attempt(current, succeeded("first", 0, "1"))).await);
}

pub async fn a_stale_end_changes_nothing(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    let before = fixture.snapshot(stale.run_id).await;
    for by in [RunEnd::Succeeded("9".into()), RunEnd::Failed(error("no luck")), RunEnd::Canceled] {
        lost(&fixture.write(end(stale, by)).await);
        assert_eq!(fixture.snapshot(stale.run_id).await, before);
    }
    applied(&fixture.write(succeed(current, "1")).await);
}

pub async fn a_stale_park_changes_nothing(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    let before = fixture.snapshot(stale.run_id).await;
    for until in [fixture.now(), Timestamp::FAR_FUTURE] {
        lost(&fixture.write(park(stale, until)).await);
        let mut with_reset = park_write(stale, 0, until);
        with_reset.reset_crashes = true;
        lost(&fixture.write(Write::Park(with_reset)).await);
        assert_eq!(fixture.snapshot(stale.run_id).await, before);
    }
    applied(&fixture.write(park(current, fixture.now())).await);
}

pub async fn a_stale_renewal_changes_nothing(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    let before = fixture.snapshot(stale.run_id).await;
    fixture.advance(Duration::from_secs(1));
    let mut session = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    assert_eq!(session.renew(&[stale], LEASE).await.unwrap(), []);
    assert_eq!(fixture.snapshot(stale.run_id).await, before);
    assert_eq!(session.renew(&[current], LEASE).await.unwrap().len(), 1);
    session.close().await.unwrap();
}

pub async fn a_worker_that_claims_again_fences_itself_out(fixture: Fixture) {
    fixture.started().await;
    let request = claim_request();
    let stale = fixture.claim(&request).await.runs[0].claim;
    fixture.advance(LEASE);
    let current = fixture.claim(&request).await.runs[0].claim;
    assert_eq!(current, Claim { epoch: stale.epoch + 1, ..stale });
    all_are_lost(&fixture, stale).await;
    applied(&fixture.write(succeed(current, "1")).await);
}

/// Returns a registered worker's session, and two claims that were valid in many batches, so that a
/// store may have them in its fence cache.
async fn claims_of_many_batches(fixture: &Fixture) -> (Box<dyn LeaseSession>, [Claim; 2]) {
    let request = claim_request();
    let session = fixture.store.open_lease(request.worker, &[], &Retention::default()).await.unwrap();
    fixture.started().await;
    fixture.started().await;
    let runs = fixture.claim(&request).await.runs;
    let claims = [runs[0].claim, runs[1].claim];
    for number in 0..40 {
        fixture.commit(&steps(claims, number)).await.iter().for_each(applied);
    }
    (session, claims)
}

fn steps(claims: [Claim; 2], number: i64) -> [Write; 2] {
    claims.map(|claim| attempt(claim, succeeded(&format!("step {number}"), number, "1")))
}

pub async fn a_claim_used_in_many_batches_is_lost_once_another_process_claims_its_run(fixture: Fixture) {
    let (session, claims) = claims_of_many_batches(&fixture).await;
    fixture.advance(LEASE);
    let taken = fixture.second().await.commit(&[Write::Claim(claim_request())]).await.unwrap();
    assert_eq!(claimed(one(taken)).runs.len(), 2);
    fixture.commit(&steps(claims, 40)).await.iter().for_each(lost);
    for claim in claims {
        assert_eq!(fixture.history(claim.run_id).await.len(), 40);
    }
    session.close().await.unwrap();
}

pub async fn a_claim_used_in_many_batches_is_lost_once_another_process_ends_its_run(fixture: Fixture) {
    let (session, claims) = claims_of_many_batches(&fixture).await;
    fixture.second().await.commit(&[Write::Terminate(claims[0].run_id)]).await.unwrap();
    let outcomes = fixture.commit(&steps(claims, 40)).await;
    lost(&outcomes[0]);
    applied(&outcomes[1]);
    assert_eq!(fixture.history(claims[0].run_id).await.len(), 40);
    assert_eq!(fixture.history(claims[1].run_id).await.len(), 41);
    session.close().await.unwrap();
}

pub async fn a_claim_of_the_future_is_lost(fixture: Fixture) {
    let claim = fixture.held().await;
    all_are_lost(&fixture, Claim { epoch: claim.epoch + 1, ..claim }).await;

    // A run that was never claimed has epoch 0, which does not belong to any claim.
    let pending = fixture.started().await;
    all_are_lost(&fixture, Claim { run_id: pending, epoch: 1 }).await;
}

pub async fn a_claim_of_an_unknown_run_is_lost(fixture: Fixture) {
    let unknown = Claim { run_id: RunId::generate(), epoch: 1 };
    for write in writes(unknown, fixture.now()) {
        lost(&fixture.write(write).await);
    }
    assert_eq!(fixture.store.run(unknown.run_id).await.unwrap(), None);
    assert_eq!(fixture.history(unknown.run_id).await, []);
}

pub async fn a_stale_write_does_not_change_an_ended_run(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    applied(&fixture.write(attempt(current, succeeded("first", 0, "1"))).await);
    applied(&fixture.write(succeed(current, "1")).await);
    all_are_lost(&fixture, stale).await;
}

pub async fn a_write_after_the_end_by_its_claim_is_a_duplicate(fixture: Fixture) {
    for by in [RunEnd::Succeeded("1".into()), RunEnd::Failed(error("no luck")), RunEnd::Canceled] {
        let claim = fixture.held().await;
        applied(&fixture.write(attempt(claim, succeeded("first", 0, "1"))).await);
        applied(&fixture.write(end(claim, by)).await);
        let before = fixture.snapshot(claim.run_id).await;
        fixture.advance(Duration::from_millis(1));
        for write in writes(claim, fixture.now()) {
            duplicate(&fixture.write(write).await);
            assert_eq!(fixture.snapshot(claim.run_id).await, before);
        }
    }
}

pub async fn a_write_after_the_park_by_its_claim_is_a_duplicate(fixture: Fixture) {
    let claim = fixture.held().await;
    applied(&fixture.write(attempt(claim, succeeded("first", 0, "1"))).await);
    applied(&fixture.write(park(claim, fixture.now() + LEASE)).await);
    let before = fixture.snapshot(claim.run_id).await;
    fixture.advance(Duration::from_millis(1));
    for write in writes(claim, fixture.now()) {
        duplicate(&fixture.write(write).await);
        assert_eq!(fixture.snapshot(claim.run_id).await, before);
    }
    // After the next claim the same writes are stale.
    fixture.advance(LEASE);
    fixture.claim_only().await;
    all_are_lost(&fixture, claim).await;
}

/// A claim loads the history once and continues from it. If a row of the earlier claim appeared
/// after that, it would be an outcome that the new owner does not know.
pub async fn a_stale_writer_never_gets_between_check_and_commit(fixture: Fixture) {
    const RUNS: usize = 40;
    let second = fixture.second().await;
    fixture.started_many(RUNS).await;
    let mut owned: Vec<Claim> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();

    for round in 0..15_i64 {
        fixture.advance(LEASE);
        let step = format!("step-{round}");
        let (writer, claimer) = if round % 2 == 0 { (&fixture.store, &second) } else { (&second, &fixture.store) };

        let writes: Vec<Write> = owned.iter().map(|claim| attempt(*claim, succeeded(&step, round, "1"))).collect();
        let written = {
            let writer = writer.clone();
            tokio::spawn(async move {
                let mut outcomes = Vec::new();
                for batch in writes.chunks(4) {
                    outcomes.extend(writer.commit(batch).await.expect("commit"));
                }
                outcomes
            })
        };
        let taken = {
            let claimer = claimer.clone();
            tokio::spawn(async move {
                let mut seen: HashMap<Claim, Vec<StepAttempt>> = HashMap::new();
                while seen.len() < RUNS {
                    let write = Write::Claim(claim_by(WorkerId::generate(), 5));
                    for run in claimed(one(claimer.commit(&[write]).await.expect("commit"))).runs {
                        seen.insert(run.claim, claimer.history(run.claim.run_id).await.expect("history"));
                    }
                }
                seen
            })
        };
        let (written, taken) = (written.await.unwrap(), taken.await.unwrap());
        for (claim, outcome) in owned.iter().zip(&written) {
            let stored = fixture.history(claim.run_id).await.iter().any(|row| row.step_key == step);
            if stored { applied(outcome) } else { lost(outcome) }
        }
        for (claim, seen) in &taken {
            assert_eq!(fixture.history(claim.run_id).await, *seen, "no row appears after the claim");
            assert_eq!(fixture.status(claim.run_id).await, RunStatus::Running);
        }
        owned = taken.into_keys().collect();
    }
}
