use std::time::Duration;

use workflow_engine::model::{Claim, Retention, WorkerId};
use workflow_engine::store::{LeaseSession, Renewed, WorkerLook};
use workflow_sdk::RunStatus;
use workflow_tests::builders::{LEASE, claim_by, claim_request, park, succeed};
use workflow_tests::outcome::{applied, lost};
use workflow_tests::{Fixture, until};

async fn held_by(fixture: &Fixture, worker: WorkerId, count: usize) -> Vec<Claim> {
    fixture.started_many(count).await;
    let claims: Vec<Claim> = fixture.claim(&claim_by(worker, 1000)).await.runs.iter().map(|run| run.claim).collect();
    assert_eq!(claims.len(), count);
    claims
}

async fn recorded(fixture: &Fixture) -> usize {
    fixture.store.workers().await.unwrap().len()
}

/// Waits until the worker is seen as unlocked, because a server needs some time to notice that a
/// connection is closed.
async fn is_seen_unlocked(session: &mut Box<dyn LeaseSession>, worker: WorkerId) {
    until("the worker is seen as unlocked", async || {
        session.look().await.unwrap().unlocked.contains(&worker).then_some(())
    })
    .await;
}

pub async fn a_living_worker_is_locked(fixture: Fixture) {
    let second = fixture.second().await;
    let workers: Vec<WorkerId> = (0..3).map(|_| WorkerId::generate()).collect();
    let mut sessions = [
        fixture.store.open_lease(workers[0], &[], &Retention::default()).await.unwrap(),
        second.open_lease(workers[1], &[], &Retention::default()).await.unwrap(),
        second.open_lease(workers[2], &[], &Retention::default()).await.unwrap(),
    ];
    for _ in 0..20 {
        for session in &mut sessions {
            assert_eq!(session.look().await.unwrap().unlocked, []);
        }
    }
    // Two concurrent checks must not mistake each other's check for a lock, or for a missing lock.
    let looks = sessions.map(|mut session| {
        tokio::spawn(async move {
            for _ in 0..50 {
                assert_eq!(session.look().await.unwrap().unlocked, []);
            }
            session
        })
    });
    // The sessions are closed only after all checks: a check may report a worker that closes at the
    // same moment.
    for session in futures::future::join_all(looks).await {
        session.unwrap().close().await.unwrap();
    }
}

pub async fn the_first_two_living_workers_are_watchers(fixture: Fixture) {
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let worker = WorkerId::generate();
        let session = fixture.store.open_lease(worker, &[], &Retention::default()).await.unwrap();
        sessions.push((worker, session));
    }
    sessions.sort_by_key(|(worker, _)| *worker);
    for (place, (_, session)) in sessions.iter_mut().enumerate() {
        let expected = WorkerLook { unlocked: Vec::new(), is_watcher: place < 2 };
        assert_eq!(session.look().await.unwrap(), expected, "{place}");
    }

    // The first one dies, and the third one takes its place before the dead one is released.
    let (dead, session) = sessions.remove(0);
    drop(session);
    for (place, (_, session)) in sessions.iter_mut().enumerate() {
        is_seen_unlocked(session, dead).await;
        assert_eq!(session.look().await.unwrap().is_watcher, place < 2, "{place}");
    }
    sessions[0].1.release_worker(dead).await.unwrap();

    let (_, mut last) = sessions.pop().unwrap();
    for (_, session) in sessions {
        session.close().await.unwrap();
    }
    assert_eq!(last.look().await.unwrap(), WorkerLook::default(), "a worker that is alone has nothing to look at");
    last.close().await.unwrap();
}

pub async fn a_dropped_session_leaves_its_worker_unlocked(fixture: Fixture) {
    let second = fixture.second().await;
    let (dead, other, living) = (WorkerId::generate(), WorkerId::generate(), WorkerId::generate());
    let session = fixture.store.open_lease(dead, &[], &Retention::default()).await.unwrap();
    let kept = fixture.store.open_lease(other, &[], &Retention::default()).await.unwrap();
    let mut watcher = second.open_lease(living, &[], &Retention::default()).await.unwrap();
    drop(session);
    is_seen_unlocked(&mut watcher, dead).await;
    assert_eq!(watcher.look().await.unwrap().unlocked, [dead], "only the dead worker, until it is released");
    kept.close().await.unwrap();
    watcher.close().await.unwrap();
}

pub async fn a_closed_session_removes_its_worker(fixture: Fixture) {
    let second = fixture.second().await;
    let session = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    let mut watcher = second.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    assert_eq!(recorded(&fixture).await, 2);
    session.close().await.unwrap();
    assert_eq!(recorded(&fixture).await, 1);
    assert_eq!(watcher.look().await.unwrap().unlocked, []);
    watcher.close().await.unwrap();
    assert_eq!(recorded(&fixture).await, 0);
}

pub async fn runs_of_a_released_worker_are_claimable_at_once(fixture: Fixture) {
    let second = fixture.second().await;
    let (dead, living) = (WorkerId::generate(), WorkerId::generate());
    let session = fixture.store.open_lease(dead, &[], &Retention::default()).await.unwrap();
    let claims = held_by(&fixture, dead, 3).await;
    fixture.advance(Duration::from_secs(1));
    assert_eq!(fixture.claim_due().await, []);

    drop(session);
    let mut watcher = second.open_lease(living, &[], &Retention::default()).await.unwrap();
    is_seen_unlocked(&mut watcher, dead).await;
    assert_eq!(watcher.release_worker(dead).await.unwrap(), 3);
    for claim in &claims {
        assert_eq!(fixture.run(claim.run_id).await.available_at, fixture.now());
    }
    assert_eq!(watcher.look().await.unwrap().unlocked, [], "the dead worker's row is deleted");

    let taken = fixture.claim(&claim_by(living, 10)).await.runs;
    assert_eq!(taken.len(), 3, "the runs are claimed at once, long before their leases end");
    assert!(taken.iter().all(|run| run.claim.epoch == 2 && run.crashes == 1), "a crash is counted: {taken:?}");
    for claim in claims {
        lost(&fixture.write(succeed(claim, "1")).await);
    }
    assert_eq!(watcher.release_worker(dead).await.unwrap(), 0);
    watcher.close().await.unwrap();
}

pub async fn a_release_leaves_other_workers_alone(fixture: Fixture) {
    let (dead, other) = (WorkerId::generate(), WorkerId::generate());
    let mut session = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    drop(fixture.store.open_lease(dead, &[], &Retention::default()).await.unwrap());
    let theirs = held_by(&fixture, other, 2).await;
    let was = held_by(&fixture, dead, 3).await;
    applied(&fixture.write(park(was[0], fixture.now() + 2 * LEASE)).await);
    applied(&fixture.write(succeed(was[1], "1")).await);
    fixture.advance(LEASE / 2);
    let mut before = Vec::new();
    for claim in theirs.iter().chain(&was[..2]) {
        before.push(fixture.snapshot(claim.run_id).await);
    }

    assert_eq!(session.release_worker(dead).await.unwrap(), 1);
    assert_eq!(session.release_worker(WorkerId::generate()).await.unwrap(), 0);
    for before in before {
        assert_eq!(fixture.snapshot(before.0.id).await, before);
    }
    assert_eq!(fixture.claim_due().await, [was[2].run_id]);
    session.close().await.unwrap();
}

pub async fn a_forgotten_living_worker_is_recorded_again(fixture: Fixture) {
    let second = fixture.second().await;
    let worker = WorkerId::generate();
    let mut session = fixture.store.open_lease(worker, &[], &Retention::default()).await.unwrap();
    let mut watcher = second.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    for _ in 0..2 {
        watcher.release_worker(worker).await.unwrap();
        // Every living worker repeats this call, also one without claims.
        session.look().await.unwrap();
        assert_eq!(recorded(&fixture).await, 2);
        assert_eq!(watcher.look().await.unwrap().unlocked, [], "and it still holds its lock");
    }
    drop(session);
    is_seen_unlocked(&mut watcher, worker).await;
    watcher.close().await.unwrap();
}

pub async fn a_renewal_after_a_release_keeps_the_claim(fixture: Fixture) {
    let second = fixture.second().await;
    fixture.started().await;
    let request = claim_request();
    let claim = fixture.claim(&request).await.runs[0].claim;
    let mut session = fixture.store.open_lease(request.worker, &[], &Retention::default()).await.unwrap();
    let mut watcher = second.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    assert_eq!(watcher.release_worker(request.worker).await.unwrap(), 1);
    // No other worker has claimed the run yet, and this worker is alive, so it keeps its claim.
    assert_eq!(
        session.renew(&[claim], LEASE).await.unwrap(),
        [Renewed { claim, cancel_requested: false, paused: false, wakes: 0, is_extended: true }]
    );
    assert_eq!(fixture.claim_due().await, []);
    applied(&fixture.write(succeed(claim, "1")).await);
    assert_eq!(fixture.status(claim.run_id).await, RunStatus::Succeeded);
    session.close().await.unwrap();
    watcher.close().await.unwrap();
}
