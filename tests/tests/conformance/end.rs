use std::time::Duration;

use workflow_engine::model::{Retention, WorkerId};
use workflow_engine::store::{ParkWrite, RunEnd, Write};
use workflow_sdk::{CancelOutcome, ErrorKind, RunStatus, StoredError, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{
    LEASE, attempt, end, error, keyed, new_run, park, park_write, start, succeed, succeeded,
};
use workflow_tests::outcome::{applied, canceled, changed, duplicate};

async fn ends(fixture: &Fixture, by: RunEnd, status: RunStatus, output: Option<&str>, error: Option<StoredError>) {
    let claim = fixture.held().await;
    let before = fixture.run(claim.run_id).await;
    fixture.advance(Duration::from_secs(3));
    applied(&fixture.write(end(claim, by)).await);
    let run = fixture.run(claim.run_id).await;
    assert_eq!(run.status, status);
    assert_eq!(run.output.as_deref(), output);
    assert_eq!(run.error, error);
    assert_eq!(run.completed_at, Some(fixture.now()));
    assert_eq!(run.worker_id, None);
    assert_eq!((run.epoch, run.crashes, run.started_at), (1, 0, before.started_at));
    assert_eq!((&run.input, run.created_at), (&before.input, before.created_at));
    assert_eq!(fixture.next_due().await, None);
}

pub async fn a_success_is_stored(fixture: Fixture) {
    ends(&fixture, RunEnd::Succeeded(r#"{"b":1,"a":2}"#.into()), RunStatus::Succeeded, Some(r#"{"b":1,"a":2}"#), None)
        .await;
}

pub async fn a_failure_is_stored(fixture: Fixture) {
    let error = StoredError::new(ErrorKind::CrashLoop, "the worker died 6 times").of_step("charge").fatal();
    ends(&fixture, RunEnd::Failed(error.clone()), RunStatus::Failed, None, Some(error)).await;
}

pub async fn a_cancel_is_stored(fixture: Fixture) {
    ends(&fixture, RunEnd::Canceled, RunStatus::Canceled, None, None).await;
}

pub async fn an_ended_run_is_never_changed(fixture: Fixture) {
    for by in [RunEnd::Succeeded("1".into()), RunEnd::Failed(error("no luck")), RunEnd::Canceled] {
        let mut new = keyed(&format!("{by:?}"));
        new.deadline = Some(workflow_engine::model::StartTime::After(2 * LEASE));
        fixture.start(&new).await;
        let run = fixture.claim_only().await;
        let (claim, worker) = (run.claim, WorkerId::generate());
        applied(&fixture.write(end(claim, by.clone())).await);
        let before = fixture.snapshot(claim.run_id).await;
        fixture.advance(3 * LEASE);

        for later in [RunEnd::Succeeded("9".into()), RunEnd::Failed(error("late")), RunEnd::Canceled] {
            duplicate(&fixture.write(end(claim, later)).await);
        }
        duplicate(&fixture.write(park(claim, fixture.now())).await);
        duplicate(&fixture.write(attempt(claim, succeeded("late", 0, "9"))).await);
        assert_eq!(canceled(&fixture.write(Write::Cancel(claim.run_id)).await), CancelOutcome::Ended(by.status()));
        assert_eq!(changed(&fixture.write(Write::Expire { limit: 100, patience: Duration::ZERO }).await), 0);
        assert_eq!(changed(&fixture.write(Write::ReleaseUnknown { worker, known: vec![] }).await), 0);
        fixture.write(start(&new)).await;
        assert_eq!(fixture.claim_due().await, []);
        let mut session = fixture.store.open_lease(worker, &[], &Retention::default()).await.unwrap();
        assert_eq!(session.renew(&[claim], LEASE).await.unwrap(), []);
        session.release_worker(before.0.worker_id.unwrap_or_else(WorkerId::generate)).await.unwrap();
        session.close().await.unwrap();
        assert_eq!(fixture.snapshot(claim.run_id).await, before);
    }
}

pub async fn the_first_of_two_ends_in_one_batch_stays(fixture: Fixture) {
    let claim = fixture.held().await;
    let outcomes = fixture
        .commit(&[succeed(claim, "1"), end(claim, RunEnd::Failed(error("late"))), park(claim, Timestamp::FAR_FUTURE)])
        .await;
    applied(&outcomes[0]);
    duplicate(&outcomes[1]);
    duplicate(&outcomes[2]);
    let run = fixture.run(claim.run_id).await;
    assert_eq!((run.status, run.output.as_deref(), run.error), (RunStatus::Succeeded, Some("1"), None));

    let claim = fixture.held().await;
    let outcomes = fixture.commit(&[end(claim, RunEnd::Canceled), succeed(claim, "1")]).await;
    applied(&outcomes[0]);
    duplicate(&outcomes[1]);
    assert_eq!(fixture.status(claim.run_id).await, RunStatus::Canceled);
}

pub async fn a_success_clears_the_reason_of_a_park(fixture: Fixture) {
    for by in [RunEnd::Succeeded("1".into()), RunEnd::Canceled] {
        fixture.start(&new_run()).await;
        let claim = fixture.claim_only().await.claim;
        let with_reason = ParkWrite { error: Some(error("diverged")), ..park_write(claim, 0, fixture.now()) };
        applied(&fixture.write(Write::Park(with_reason)).await);
        let claim = fixture.claim_only().await.claim;
        applied(&fixture.write(end(claim, by)).await);
        assert_eq!(fixture.run(claim.run_id).await.error, None);
        assert_eq!(fixture.store.ended(&[claim.run_id]).await.unwrap()[0].error, None);
    }
}

pub async fn an_end_after_the_lease_stands_if_the_run_was_not_taken_over(fixture: Fixture) {
    let claim = fixture.held().await;
    fixture.advance(2 * LEASE);
    applied(&fixture.write(attempt(claim, succeeded("charge", 0, "1"))).await);
    applied(&fixture.write(succeed(claim, "1")).await);
    assert_eq!(fixture.status(claim.run_id).await, RunStatus::Succeeded);
    assert_eq!(fixture.claim_due().await, []);
}

/// A run does not end before it started, and does not start before it was created, even if the
/// clock is set back meanwhile.
pub async fn times_never_decrease_if_the_clock_is_set_back(fixture: Fixture) {
    let hour = Duration::from_secs(3600);
    let mut ended = vec![];
    for by in [RunEnd::Succeeded("1".into()), RunEnd::Failed(error("no luck")), RunEnd::Canceled] {
        let claim = fixture.held().await;
        fixture.clock.set_back(hour);
        applied(&fixture.write(end(claim, by)).await);
        ended.push(claim.run_id);
        fixture.advance(hour);
    }
    let claim = fixture.held().await;
    fixture.clock.set_back(hour);
    assert_eq!(canceled(&fixture.write(Write::Terminate(claim.run_id)).await), CancelOutcome::Canceled);
    let never_claimed = fixture.started().await;
    fixture.clock.set_back(hour);
    assert_eq!(canceled(&fixture.write(Write::Cancel(never_claimed)).await), CancelOutcome::Canceled);
    ended.extend([claim.run_id, never_claimed]);
    for id in ended {
        let run = fixture.run(id).await;
        let times = [Some(run.created_at), run.started_at, run.completed_at];
        assert!(run.completed_at.is_some() && times.iter().flatten().is_sorted(), "{times:?}");
    }
}
