use std::collections::HashSet;
use std::time::Duration;

use workflow_engine::model::{Claim, Retention, WorkerId};
use workflow_engine::store::{ClaimRequest, CrashesWrite, Renewed, Write};
use workflow_sdk::RunStatus;
use workflow_tests::builders::{LEASE, claim_by, claim_request, crashes, park, succeed};
use workflow_tests::{Fixture, outcome};

const TICK: Duration = Duration::from_micros(1);

pub async fn a_claim_lasts_as_long_as_its_lease(fixture: Fixture) {
    fixture.started().await;
    let lease = Duration::from_millis(1234);
    let run = fixture.claim(&ClaimRequest { lease, ..claim_request() }).await.runs.remove(0);
    assert_eq!(run.lease_until, fixture.now() + lease);
    fixture.advance(lease - TICK);
    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(TICK);
    assert_eq!(fixture.claim_due().await, [run.claim.run_id]);
}

pub async fn the_end_of_the_lease_lets_another_take_over(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    let run = fixture.run(stale.run_id).await;
    assert_eq!(run.status, RunStatus::Running);
    assert_eq!(run.epoch, stale.epoch + 1);
    assert_eq!(run.available_at, fixture.now() + LEASE);
    outcome::applied(&fixture.write(succeed(current, "1")).await);
}

pub async fn only_the_death_of_its_worker_counts_a_crash_of_a_run(fixture: Fixture) {
    let id = fixture.held().await.run_id;
    fixture.advance(LEASE);
    let next = fixture.claim_only().await;
    assert_eq!((next.claim.epoch, next.crashes), (2, 0), "the lease has ended, but the worker may live");
    let mut session = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    for crashes in 1..=3 {
        fixture.advance(LEASE);
        let dead = WorkerId::generate();
        drop(fixture.store.open_lease(dead, &[], &Retention::default()).await.unwrap());
        fixture.claim(&claim_by(dead, 1)).await;
        // Before and after the end of the lease.
        fixture.advance(LEASE / 2 * u32::try_from(crashes).unwrap());
        assert_eq!(session.release_worker(dead).await.unwrap(), 1);
        assert_eq!(session.release_worker(dead).await.unwrap(), 0, "a death counts once");
        let run = fixture.run(id).await;
        assert_eq!((run.status, run.crashes, run.lone_crashes), (RunStatus::Running, crashes, 0));
        assert!(run.available_at <= fixture.now());
    }
    assert_eq!(fixture.claim_only().await.crashes, 3);
    session.close().await.unwrap();
}

pub async fn the_death_of_a_worker_is_blamed_on_the_run_that_it_drove_alone(fixture: Fixture) {
    let mut session = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    let id = fixture.started().await;
    for lone_crashes in [0, 1, 2, 2] {
        let dead = WorkerId::generate();
        drop(fixture.store.open_lease(dead, &[], &Retention::default()).await.unwrap());
        let run = fixture.claim(&claim_by(dead, 1)).await.runs.remove(0);
        assert_eq!(run.lone_crashes, lone_crashes);
        let alone = CrashesWrite { claim: run.claim, crashes: run.crashes, lone_crashes, is_alone: true };
        outcome::applied(&fixture.write(Write::Crashes(alone)).await);
        if lone_crashes == 2 {
            outcome::applied(&fixture.write(Write::Crashes(CrashesWrite { is_alone: false, ..alone })).await);
        }
        session.release_worker(dead).await.unwrap();
    }
    let run = fixture.run(id).await;
    assert_eq!((run.crashes, run.lone_crashes), (4, 2), "at the last two deaths it was not driven alone");
    // A later claim of the run is not that under which it was driven alone.
    let (first, second) = (fixture.claim_only().await, WorkerId::generate());
    let alone = CrashesWrite { claim: first.claim, crashes: 1, lone_crashes: 0, is_alone: true };
    outcome::applied(&fixture.write(Write::Crashes(alone)).await);
    drop(fixture.store.open_lease(second, &[], &Retention::default()).await.unwrap());
    fixture.advance(LEASE);
    fixture.claim(&claim_by(second, 1)).await;
    session.release_worker(second).await.unwrap();
    let run = fixture.run(id).await;
    assert_eq!((run.crashes, run.lone_crashes), (2, 0));
    session.close().await.unwrap();
}

pub async fn only_the_holder_of_a_claim_sets_the_crashes_of_a_run(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    outcome::lost(&fixture.write(crashes(stale, 7, 7)).await);
    outcome::applied(&fixture.write(crashes(current, 3, 1)).await);
    let run = fixture.run(current.run_id).await;
    assert_eq!((run.crashes, run.lone_crashes), (3, 1));
    let outcomes = fixture.commit(&[park(current, fixture.now()), crashes(current, 2, 0)]).await;
    outcomes.iter().for_each(outcome::applied);
    let run = fixture.claim_only().await;
    assert_eq!((run.crashes, run.lone_crashes), (2, 0), "crashes are set before the park");
    outcome::applied(&fixture.write(succeed(run.claim, "1")).await);
    outcome::duplicate(&fixture.write(crashes(run.claim, 9, 9)).await);
    assert_eq!(fixture.run(current.run_id).await.crashes, 2);
}

pub async fn the_first_claim_sets_the_time_of_the_start(fixture: Fixture) {
    let first = fixture.held().await;
    let began = fixture.now();
    fixture.advance(Duration::from_secs(1));
    outcome::applied(&fixture.write(park(first, fixture.now())).await);
    assert_eq!(fixture.claim_only().await.started_at, began);
    fixture.advance(LEASE);
    assert_eq!(fixture.claim_only().await.started_at, began);
    assert_eq!(fixture.run(first.run_id).await.started_at, Some(began));
}

pub async fn a_renewed_claim_is_kept(fixture: Fixture) {
    fixture.started().await;
    let request = claim_request();
    let claim = fixture.claim(&request).await.runs[0].claim;
    let mut session = fixture.store.open_lease(request.worker, &[], &Retention::default()).await.unwrap();
    for _ in 0..5 {
        fixture.advance(LEASE - TICK);
        let renewed = session.renew(&[claim], LEASE).await.unwrap();
        assert_eq!(renewed, [Renewed { claim, cancel_requested: false, paused: false, wakes: 0, is_extended: true }]);
        assert_eq!(fixture.run(claim.run_id).await.available_at, fixture.now() + LEASE);
        assert_eq!(fixture.claim_due().await, []);
    }
    let run = fixture.run(claim.run_id).await;
    assert_eq!((run.epoch, run.crashes, run.status), (1, 0, RunStatus::Running));
    fixture.advance(LEASE);
    assert_eq!(fixture.claim_due().await, [claim.run_id]);
    session.close().await.unwrap();
}

pub async fn a_renewal_reports_each_claim(fixture: Fixture) {
    let worker = WorkerId::generate();
    fixture.started_many(6).await;
    let claims: Vec<Claim> = fixture.claim(&claim_by(worker, 6)).await.runs.iter().map(|run| run.claim).collect();
    let [kept, asked, ended, parked, released, unheld] = claims[..] else { panic!("six claims") };
    let stale = Claim { epoch: released.epoch - 1, ..released };
    let unknown = Claim { run_id: workflow_sdk::RunId::generate(), epoch: 1 };
    fixture
        .commit(&[
            Write::Cancel(asked.run_id),
            succeed(ended, "1"),
            park(parked, fixture.now()),
            Write::ReleaseUnknown { worker, known: vec![kept, asked, released] },
        ])
        .await;
    let untouched = fixture.snapshot(unheld.run_id).await;

    fixture.advance(Duration::from_secs(1));
    let mut session = fixture.store.open_lease(worker, &[], &Retention::default()).await.unwrap();
    let mut renewed = session.renew(&[stale, unknown, unheld, parked, ended, asked, kept], LEASE).await.unwrap();
    renewed.sort_by_key(|renewed| renewed.claim);
    let mut expected = [
        Renewed { claim: kept, cancel_requested: false, paused: false, wakes: 0, is_extended: true },
        Renewed { claim: asked, cancel_requested: true, paused: false, wakes: 1, is_extended: true },
    ];
    expected.sort_by_key(|renewed| renewed.claim);
    assert_eq!(renewed, expected);
    assert_eq!(fixture.snapshot(unheld.run_id).await, untouched);
    assert_eq!(session.renew(&[], LEASE).await.unwrap(), []);
    session.close().await.unwrap();
}

pub async fn many_claims_are_renewed_at_once(fixture: Fixture) {
    let worker = WorkerId::generate();
    fixture.started_many(1000).await;
    let claims: Vec<Claim> = fixture.claim(&claim_by(worker, 1000)).await.runs.iter().map(|run| run.claim).collect();
    assert_eq!(claims.len(), 1000);
    fixture.advance(LEASE / 2);
    let mut session = fixture.store.open_lease(worker, &[], &Retention::default()).await.unwrap();
    let renewed: HashSet<Claim> =
        session.renew(&claims, LEASE).await.unwrap().iter().map(|renewed| renewed.claim).collect();
    assert_eq!(renewed, claims.into_iter().collect());
    fixture.advance(LEASE / 2);
    assert_eq!(fixture.claim_due().await, []);
    session.close().await.unwrap();
}

pub async fn a_claim_may_be_renewed_after_its_lease_until_it_is_taken(fixture: Fixture) {
    fixture.started().await;
    let request = claim_request();
    let claim = fixture.claim(&request).await.runs[0].claim;
    let mut session = fixture.store.open_lease(request.worker, &[], &Retention::default()).await.unwrap();
    fixture.advance(2 * LEASE);
    assert_eq!(
        session.renew(&[claim], LEASE).await.unwrap().len(),
        1,
        "the run was not taken over, so the work continues"
    );
    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(LEASE);
    assert_eq!(fixture.claim_due().await, [claim.run_id]);
    assert_eq!(session.renew(&[claim], LEASE).await.unwrap(), []);
    session.close().await.unwrap();
}
