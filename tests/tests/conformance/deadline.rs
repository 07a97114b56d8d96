use std::time::Duration;

use workflow_engine::model::{NewRun, Retention, StartTime, WorkerId};
use workflow_engine::store::{ClaimRequest, Write};
use workflow_sdk::{CancelOutcome, ErrorKind, RunId, RunStatus, StepAttempt, StepKind, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{
    LEASE, attempt, claim_by, failed, lane, lane_of, new_run, park, start, succeed, succeeded,
};
use workflow_tests::outcome::{applied, canceled, changed, duplicate, lost};

const MINUTE: Duration = Duration::from_secs(60);

fn with_deadline() -> NewRun {
    NewRun { deadline: Some(StartTime::After(MINUTE)), ..new_run() }
}

async fn expire(fixture: &Fixture, limit: u32) -> u64 {
    changed(&fixture.write(Write::Expire { limit, patience: Duration::ZERO }).await)
}

async fn expired(fixture: &Fixture, id: RunId) {
    let run = fixture.run(id).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error.map(|error| error.kind), Some(ErrorKind::Deadline));
    assert_eq!(run.completed_at, Some(fixture.now()));
    assert_eq!((run.worker_id, run.output), (None, None));
}

pub async fn only_runs_without_a_claim_expire(fixture: Fixture) {
    let (parked, running) = (with_deadline(), with_deadline());
    fixture.start(&parked).await;
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    let worker = WorkerId::generate();
    let session = fixture.store.open_lease(worker, &[], &Retention::default()).await.unwrap();
    fixture.start(&running).await;
    let held = fixture.claim(&claim_by(worker, 1)).await.runs[0].claim;
    let (pending, delayed, free) = (
        with_deadline(),
        NewRun { start: StartTime::After(10 * MINUTE), ..with_deadline() },
        NewRun { lane: lane_of("other", "refund", "1"), ..new_run() },
    );
    fixture.commit(&[start(&pending), start(&delayed), start(&free)]).await;

    let untouched = (fixture.snapshot(running.id).await, fixture.snapshot(free.id).await);
    // The lease of the running run has ended, too. Its worker may only have been stopped, and the
    // worker that claims it next checks its deadline.
    fixture.advance(2 * MINUTE);
    assert_eq!(expire(&fixture, 100).await, 3);
    for id in [parked.id, pending.id, delayed.id] {
        expired(&fixture, id).await;
    }
    assert_eq!((fixture.snapshot(running.id).await, fixture.snapshot(free.id).await), untouched);
    assert_eq!(expire(&fixture, 100).await, 0);
    applied(&fixture.write(succeed(held, "1")).await);
    session.close().await.unwrap();
}

pub async fn a_running_run_expires_after_its_worker_was_forgotten(fixture: Fixture) {
    let (run, cleaned) = (with_deadline(), with_deadline());
    let (dead, id) = (WorkerId::generate(), WorkerId::generate());
    drop(fixture.store.open_lease(dead, &[], &Retention::default()).await.unwrap());
    let mut session = fixture.store.open_lease(id, &[], &Retention::default()).await.unwrap();
    fixture.commit(&[start(&run), start(&cleaned)]).await;
    let held = fixture.claim(&claim_by(dead, 2)).await.runs;
    let claim = held.iter().map(|run| run.claim).find(|claim| claim.run_id == run.id).expect("a claim");
    fixture.advance(10 * MINUTE);
    assert_eq!(expire(&fixture, 100).await, 0, "its worker is recorded");
    assert_eq!(session.renew(&[claim], LEASE).await.unwrap().len(), 1);
    assert_eq!(session.release_worker(dead).await.unwrap(), 2);

    // One was due for a long time already, but the worker that cleans it up holds it.
    let next = fixture.claim(&claim_by(id, 1)).await.runs.remove(0);
    assert_eq!(next.claim.run_id, cleaned.id, "it is due for longer");
    let patient = Write::Expire { limit: 100, patience: MINUTE };
    assert_eq!(changed(&fixture.write(patient.clone()).await), 0, "a worker may claim the other one");
    fixture.advance(MINUTE);
    assert_eq!(session.renew(&[next.claim], LEASE).await.unwrap().len(), 1);
    assert_eq!(changed(&fixture.write(patient).await), 1);
    expired(&fixture, run.id).await;
    assert_eq!(fixture.run(run.id).await.epoch, claim.epoch + 1);
    lost(&fixture.write(succeed(claim, "1")).await);
    lost(&fixture.write(attempt(claim, succeeded("late", 0, "1"))).await);
    applied(&fixture.write(succeed(next.claim, "1")).await);
    session.close().await.unwrap();
}

pub async fn a_run_claimed_before_expires_after_the_patience(fixture: Fixture) {
    let (claimed, waiting) = (with_deadline(), with_deadline());
    fixture.start(&claimed).await;
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    fixture.start(&waiting).await;
    fixture.advance(2 * MINUTE);
    let patient = Write::Expire { limit: 100, patience: 2 * MINUTE };
    assert_eq!(changed(&fixture.write(patient.clone()).await), 1);
    expired(&fixture, waiting.id).await;
    assert_eq!(fixture.status(claimed.id).await, RunStatus::Parked);
    fixture.advance(MINUTE);
    assert_eq!(changed(&fixture.write(patient).await), 1);
    expired(&fixture, claimed.id).await;
}

/// Such a run may have something to undo. A paused or full queue holds it back, or its workers are
/// busy.
pub async fn a_run_claimed_before_does_not_expire_while_a_worker_serves_its_lane(fixture: Fixture) {
    let other_lane = lane_of("default", "checkout", "2");
    let (parked, running) = (with_deadline(), with_deadline());
    let gated = NewRun { gate: Some("acct-1".into()), ..with_deadline() };
    let unserved = NewRun { lane: other_lane.clone(), ..with_deadline() };
    fixture.commit(&[start(&parked), start(&running), start(&gated), start(&unserved)]).await;
    let request = claim_by(WorkerId::generate(), 10);
    let request = ClaimRequest { lanes: vec![lane(), other_lane], gated: vec!["default".into()], ..request };
    let claimed = fixture.claim(&request).await.runs;
    assert_eq!(claimed.len(), 4);
    for run in claimed.iter().filter(|run| run.claim.run_id != running.id) {
        applied(&fixture.write(park(run.claim, Timestamp::FAR_FUTURE)).await);
    }
    let session = fixture.store.open_lease(WorkerId::generate(), &[lane()], &Retention::default()).await.unwrap();
    fixture.advance(10 * MINUTE);
    let patient = Write::Expire { limit: 100, patience: MINUTE };
    assert_eq!(changed(&fixture.write(patient.clone()).await), 1);
    expired(&fixture, unserved.id).await;
    assert_eq!(changed(&fixture.write(patient.clone()).await), 0);
    session.close().await.unwrap();
    assert_eq!(changed(&fixture.write(patient).await), 3, "no worker serves the lane any more");
    for id in [parked.id, running.id, gated.id] {
        expired(&fixture, id).await;
    }
}

/// The last of the runs was told to end, so its grace bounds it.
pub async fn a_run_that_undoes_its_own_failure_does_not_expire(fixture: Fixture) {
    let compensation = StepAttempt { kind: StepKind::Compensation, ..failed("refund", 1) };
    let interruption = StepAttempt { kind: StepKind::Interruption, ..succeeded("interruption", 1, "\"canceled\"") };
    let runs = [with_deadline(), with_deadline()];
    fixture.commit(&[start(&runs[0]), start(&runs[1])]).await;
    for claimed in fixture.claim(&claim_by(WorkerId::generate(), 2)).await.runs {
        applied(&fixture.write(attempt(claimed.claim, compensation.clone())).await);
        if claimed.claim.run_id == runs[1].id {
            applied(&fixture.write(attempt(claimed.claim, interruption.clone())).await);
        }
        applied(&fixture.write(park(claimed.claim, Timestamp::FAR_FUTURE)).await);
    }
    fixture.advance(10 * MINUTE);
    assert_eq!(expire(&fixture, 100).await, 1);
    expired(&fixture, runs[1].id).await;
    assert_eq!(fixture.status(runs[0].id).await, RunStatus::Parked);
}

pub async fn a_passed_deadline_ends_the_pause_of_a_run_claimed_before(fixture: Fixture) {
    let session = fixture.store.open_lease(WorkerId::generate(), &[lane()], &Retention::default()).await.unwrap();
    let (parked, running) = (with_deadline(), with_deadline());
    fixture.commit(&[start(&parked), start(&running)]).await;
    for claimed in fixture.claim(&claim_by(WorkerId::generate(), 2)).await.runs {
        if claimed.claim.run_id == parked.id {
            applied(&fixture.write(park(claimed.claim, Timestamp::FAR_FUTURE)).await);
        }
        fixture.write(Write::Pause(claimed.claim.run_id)).await;
    }
    let paused = async || {
        let runs = [fixture.run(parked.id).await, fixture.run(running.id).await];
        runs.map(|run| run.paused_at.is_some())
    };
    assert_eq!((expire(&fixture, 100).await, paused().await), (0, [true; 2]), "the deadline has not passed");
    fixture.advance(2 * MINUTE);
    assert_eq!(fixture.claim_due().await, []);
    assert_eq!((expire(&fixture, 100).await, paused().await), (0, [false; 2]));
    let claimed = fixture.claim(&claim_by(WorkerId::generate(), 9)).await.runs;
    assert_eq!(claimed.len(), 2, "a worker can claim and undo them");

    // A worker that holds a paused run lets its running steps end, and gives it back.
    let claim = claimed[0].claim;
    fixture.write(Write::Pause(claim.run_id)).await;
    assert_eq!(expire(&fixture, 100).await, 0);
    assert!(fixture.run(claim.run_id).await.paused_at.is_some());
    applied(&fixture.write(park(claim, fixture.now())).await);
    assert_eq!((expire(&fixture, 100).await, fixture.claim_due().await), (0, vec![claim.run_id]));
    session.close().await.unwrap();
}

pub async fn nothing_expires_before_its_deadline(fixture: Fixture) {
    let run = with_deadline();
    fixture.start(&run).await;
    fixture.advance(MINUTE - Duration::from_micros(1));
    assert_eq!(expire(&fixture, 100).await, 0);
    assert_eq!(fixture.status(run.id).await, RunStatus::Pending);
    fixture.advance(Duration::from_micros(2));
    assert_eq!(expire(&fixture, 100).await, 1);
    expired(&fixture, run.id).await;
}

pub async fn a_deadline_counts_from_the_commit(fixture: Fixture) {
    fixture.advance(MINUTE);
    let after = with_deadline();
    let at = NewRun { deadline: Some(StartTime::At(fixture.now() + 2 * MINUTE)), ..new_run() };
    fixture.commit(&[start(&after), start(&at)]).await;
    assert_eq!(fixture.run(after.id).await.deadline_at, Some(fixture.now() + MINUTE));
    assert_eq!(fixture.run(at.id).await.deadline_at, Some(fixture.now() + 2 * MINUTE));
    fixture.advance(MINUTE + Duration::from_micros(1));
    assert_eq!(expire(&fixture, 100).await, 1);
    expired(&fixture, after.id).await;
}

pub async fn the_limit_of_expiry_is_respected(fixture: Fixture) {
    let runs: Vec<NewRun> = (0..10).map(|_| with_deadline()).collect();
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await;
    fixture.advance(2 * MINUTE);
    assert_eq!(expire(&fixture, 0).await, 0);
    for (limit, expected) in [(4, 4), (4, 4), (4, 2), (4, 0)] {
        assert_eq!(expire(&fixture, limit).await, expected);
    }
    for run in runs {
        expired(&fixture, run.id).await;
    }
}

pub async fn an_expired_run_never_changes(fixture: Fixture) {
    let run = with_deadline();
    fixture.start(&run).await;
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    fixture.advance(2 * MINUTE);
    assert_eq!(expire(&fixture, 100).await, 1);
    let before = fixture.snapshot(run.id).await;
    fixture.advance(MINUTE);
    duplicate(&fixture.write(succeed(claim, "1")).await);
    duplicate(&fixture.write(attempt(claim, succeeded("late", 0, "1"))).await);
    assert_eq!(canceled(&fixture.write(Write::Cancel(run.id)).await), CancelOutcome::Ended(RunStatus::Failed));
    assert_eq!(expire(&fixture, 100).await, 0);
    assert_eq!(fixture.claim_due().await, []);
    assert_eq!(fixture.snapshot(run.id).await, before);
}

pub async fn a_claim_returns_the_deadline(fixture: Fixture) {
    let run = with_deadline();
    let deadline = fixture.now() + MINUTE;
    fixture.start(&run).await;
    fixture.advance(2 * MINUTE);
    let claimed = fixture.claim_only().await;
    assert_eq!(claimed.deadline_at, Some(deadline), "a run past its deadline may be claimed before it expires");
}
