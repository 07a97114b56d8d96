use workflow_engine::model::{Claim, WorkerId};
use workflow_engine::store::Write;
use workflow_sdk::RunStatus;
use workflow_tests::Fixture;
use workflow_tests::builders::{LEASE, claim_by, park, succeed};
use workflow_tests::outcome::{applied, changed, claimed, lost};

async fn held_by(fixture: &Fixture, worker: WorkerId, count: usize) -> Vec<Claim> {
    fixture.started_many(count).await;
    let claims: Vec<Claim> = fixture.claim(&claim_by(worker, 1000)).await.runs.iter().map(|run| run.claim).collect();
    assert_eq!(claims.len(), count);
    claims
}

async fn release_unknown(fixture: &Fixture, worker: WorkerId, known: &[Claim]) -> u64 {
    changed(&fixture.write(Write::ReleaseUnknown { worker, known: known.to_vec() }).await)
}

pub async fn unknown_claims_are_released(fixture: Fixture) {
    let worker = WorkerId::generate();
    let claims = held_by(&fixture, worker, 5).await;
    assert_eq!(release_unknown(&fixture, worker, &claims[..2]).await, 3);
    for claim in &claims[2..] {
        let run = fixture.run(claim.run_id).await;
        assert!(RunStatus::Running.may_become(run.status) && run.status != RunStatus::Running, "{}", run.status);
        assert_eq!((run.available_at, run.worker_id, run.crashes), (fixture.now(), None, 0));
    }
    let again = fixture.claim(&claim_by(WorkerId::generate(), 1000)).await.runs;
    assert_eq!(again.len(), 3);
    assert!(again.iter().all(|run| run.crashes == 0 && run.claim.epoch == 2), "no crash is counted: {again:?}");
    for claim in &claims[2..] {
        lost(&fixture.write(succeed(*claim, "1")).await);
    }
    assert_eq!(release_unknown(&fixture, worker, &claims[..2]).await, 0, "a second time there is nothing to release");
}

pub async fn known_claims_are_kept(fixture: Fixture) {
    let worker = WorkerId::generate();
    let claims = held_by(&fixture, worker, 3).await;
    let before = fixture.snapshot(claims[0].run_id).await;
    assert_eq!(release_unknown(&fixture, worker, &claims).await, 0);
    assert_eq!(fixture.snapshot(claims[0].run_id).await, before);
    for claim in claims {
        applied(&fixture.write(succeed(claim, "1")).await);
    }
}

pub async fn an_older_claim_does_not_cover_a_newer_one(fixture: Fixture) {
    let worker = WorkerId::generate();
    let old = held_by(&fixture, worker, 1).await[0];
    fixture.advance(LEASE);
    let new = fixture.claim(&claim_by(worker, 1)).await.runs[0].claim;
    assert_eq!(new.epoch, old.epoch + 1);
    assert_eq!(release_unknown(&fixture, worker, &[old]).await, 1, "the reply to the second claim was lost");
    assert_eq!(fixture.claim_only().await.claim.epoch, new.epoch + 1);
}

pub async fn the_claims_of_other_workers_are_kept(fixture: Fixture) {
    let (worker, other) = (WorkerId::generate(), WorkerId::generate());
    let theirs = held_by(&fixture, other, 2).await;
    let mine = held_by(&fixture, worker, 2).await;
    applied(&fixture.write(park(mine[0], fixture.now() + LEASE)).await);
    applied(&fixture.write(succeed(mine[1], "1")).await);
    let before = fixture.snapshot(mine[0].run_id).await;
    assert_eq!(release_unknown(&fixture, worker, &[]).await, 0, "the worker has no claims left");
    assert_eq!(fixture.snapshot(mine[0].run_id).await, before);
    for claim in theirs {
        applied(&fixture.write(succeed(claim, "1")).await);
    }
}

pub async fn a_claim_of_the_same_batch_is_kept(fixture: Fixture) {
    let worker = WorkerId::generate();
    let lost_reply = held_by(&fixture, worker, 1).await[0];
    fixture.started().await;
    // Claims are applied last in a batch, so this claim gets the released run, and is not released
    // itself.
    let mut outcomes =
        fixture.commit(&[Write::Claim(claim_by(worker, 10)), Write::ReleaseUnknown { worker, known: vec![] }]).await;
    assert_eq!(changed(&outcomes[1]), 1);
    let runs = claimed(outcomes.remove(0)).runs;
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run.claim.epoch, if run.claim.run_id == lost_reply.run_id { 2 } else { 1 });
        applied(&fixture.write(succeed(run.claim, "1")).await);
    }
}
