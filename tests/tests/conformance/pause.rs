use std::time::Duration;

use workflow_engine::model::{NewRun, Retention, StartTime, WorkerId};
use workflow_engine::store::{Outcome, Renewed, RunWakes, Write};
use workflow_sdk::{CancelOutcome, PauseOutcome, ResumeOutcome, RunFilter, RunId, RunStatus};
use workflow_tests::Fixture;
use workflow_tests::builders::{LEASE, claim_by, claim_request, new_run, park, succeed};
use workflow_tests::outcome::{applied, canceled, changed};

const HOUR: Duration = Duration::from_secs(3600);

async fn pause(fixture: &Fixture, id: RunId) -> PauseOutcome {
    match fixture.write(Write::Pause(id)).await {
        Outcome::Paused(outcome) => outcome,
        other => panic!("expected Paused, got {other:?}"),
    }
}

async fn resume(fixture: &Fixture, id: RunId) -> ResumeOutcome {
    match fixture.write(Write::Resume(id)).await {
        Outcome::Resumed(outcome) => outcome,
        other => panic!("expected Resumed, got {other:?}"),
    }
}

pub async fn a_paused_run_is_not_claimed_until_it_is_resumed(fixture: Fixture) {
    let id = fixture.started().await;
    let before = fixture.run(id).await;
    let paused_at = fixture.now();
    assert_eq!(pause(&fixture, id).await, PauseOutcome::Paused);
    fixture.advance(HOUR);
    assert_eq!((fixture.next_due().await, fixture.claim_due().await), (None, vec![]));
    assert_eq!(pause(&fixture, id).await, PauseOutcome::Paused, "a second pause has no effect");
    assert_eq!(fixture.run(id).await.paused_at, Some(paused_at));

    assert_eq!(resume(&fixture, id).await, ResumeOutcome::Resumed);
    assert_eq!(fixture.run(id).await, before, "the resumed run is unchanged");
    assert_eq!(resume(&fixture, id).await, ResumeOutcome::NotPaused);
    assert_eq!(fixture.claim_due().await, [id]);
}

pub async fn a_pause_keeps_the_wake_time_of_a_parked_run(fixture: Fixture) {
    let claim = fixture.held().await;
    let until = fixture.now() + HOUR;
    applied(&fixture.write(park(claim, until)).await);
    assert_eq!(pause(&fixture, claim.run_id).await, PauseOutcome::Paused);
    assert_eq!(resume(&fixture, claim.run_id).await, ResumeOutcome::Resumed);
    assert_eq!(fixture.next_due().await, Some(until));
    assert_eq!(fixture.claim_due().await, []);
}

pub async fn a_renewal_reports_a_pause(fixture: Fixture) {
    fixture.started().await;
    let request = claim_request();
    let claim = fixture.claim(&request).await.runs[0].claim;
    let mut session = fixture.store.open_lease(request.worker, &[], &Retention::default()).await.unwrap();
    assert_eq!(pause(&fixture, claim.run_id).await, PauseOutcome::Requested);
    assert_eq!(pause(&fixture, claim.run_id).await, PauseOutcome::Requested);
    let renewed = Renewed { claim, cancel_requested: false, paused: true, wakes: 0, is_extended: true };
    assert_eq!(session.renew(&[claim], LEASE).await.unwrap(), [renewed], "the worker keeps its claim");
    let asked = RunWakes { id: claim.run_id, wakes: 0, cancel_requested: false, paused: true };
    assert_eq!(fixture.store.wakes(&[claim.run_id]).await.unwrap(), [asked]);
    applied(&fixture.write(park(claim, fixture.now())).await);
    assert_eq!(fixture.claim_due().await, [], "the run is parked, and still paused");
    assert_eq!(resume(&fixture, claim.run_id).await, ResumeOutcome::Resumed);
    let next = fixture.claim_only().await;
    assert_eq!((next.claim.epoch, next.crashes), (2, 0));
    session.close().await.unwrap();
}

pub async fn a_paused_run_whose_worker_died_counts_one_crash(fixture: Fixture) {
    let (id, dead) = (fixture.started().await, WorkerId::generate());
    drop(fixture.store.open_lease(dead, &[], &Retention::default()).await.unwrap());
    let claim = fixture.claim(&claim_by(dead, 1)).await.runs[0].claim;
    assert_eq!((claim.run_id, pause(&fixture, id).await), (id, PauseOutcome::Requested));
    let mut session = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    assert_eq!(session.release_worker(dead).await.unwrap(), 1);
    session.close().await.unwrap();
    fixture.advance(10 * LEASE);
    assert_eq!(fixture.claim_due().await, []);
    assert_eq!(fixture.status(claim.run_id).await, RunStatus::Running);
    assert_eq!(resume(&fixture, claim.run_id).await, ResumeOutcome::Resumed);
    let next = fixture.claim_only().await;
    assert_eq!((next.claim.epoch, next.crashes), (2, 1));
}

pub async fn a_cancel_ends_a_pause(fixture: Fixture) {
    let pending = fixture.started().await;
    pause(&fixture, pending).await;
    assert_eq!(canceled(&fixture.write(Write::Cancel(pending)).await), CancelOutcome::Canceled);
    let run = fixture.run(pending).await;
    assert_eq!((run.status, run.paused_at), (RunStatus::Canceled, None));
    assert_eq!(pause(&fixture, pending).await, PauseOutcome::Ended(RunStatus::Canceled));
    assert_eq!(resume(&fixture, pending).await, ResumeOutcome::Ended(RunStatus::Canceled));

    let held = fixture.held().await;
    pause(&fixture, held.run_id).await;
    assert_eq!(canceled(&fixture.write(Write::Cancel(held.run_id)).await), CancelOutcome::Requested);
    fixture.advance(LEASE);
    assert!(fixture.claim_only().await.cancel_requested, "a worker can claim the run and end it");
}

pub async fn a_paused_run_expires_at_its_deadline(fixture: Fixture) {
    let new = NewRun { deadline: Some(StartTime::After(HOUR)), ..new_run() };
    fixture.start(&new).await;
    pause(&fixture, new.id).await;
    fixture.advance(HOUR);
    assert_eq!(changed(&fixture.write(Write::Expire { limit: 10, patience: std::time::Duration::ZERO }).await), 1);
    let run = fixture.run(new.id).await;
    assert_eq!((run.status, run.paused_at), (RunStatus::Failed, None));
}

pub async fn an_end_clears_the_pause(fixture: Fixture) {
    let claim = fixture.held().await;
    pause(&fixture, claim.run_id).await;
    applied(&fixture.write(succeed(claim, "1")).await);
    let run = fixture.run(claim.run_id).await;
    assert_eq!((run.status, run.paused_at), (RunStatus::Succeeded, None));
    let before = fixture.snapshot(claim.run_id).await;
    assert_eq!(pause(&fixture, claim.run_id).await, PauseOutcome::Ended(RunStatus::Succeeded));
    assert_eq!(resume(&fixture, claim.run_id).await, ResumeOutcome::Ended(RunStatus::Succeeded));
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
}

pub async fn an_unknown_run_is_neither_paused_nor_resumed(fixture: Fixture) {
    assert_eq!(pause(&fixture, RunId::generate()).await, PauseOutcome::Unknown);
    assert_eq!(resume(&fixture, RunId::generate()).await, ResumeOutcome::Unknown);
}

pub async fn paused_runs_can_be_listed(fixture: Fixture) {
    let (paused, other) = (fixture.started().await, fixture.started().await);
    pause(&fixture, paused).await;
    let list = async |filter: RunFilter| -> Vec<RunId> {
        fixture.store.list(&filter).await.unwrap().iter().map(|run| run.id).collect()
    };
    assert_eq!(list(RunFilter::new().paused(true)).await, [paused]);
    assert_eq!(list(RunFilter::new().paused(false)).await, [other]);
    assert_eq!(list(RunFilter::new()).await, [other, paused]);
}
