use std::time::Duration;

use workflow_engine::model::{Claim, NewRun, StartTime};
use workflow_engine::store::{Outcome, RetryWrite, ReviveWrite, RunEnd, Write};
use workflow_sdk::{AttemptStatus, RunId, RunStatus, StepAttempt, StepKind, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{attempt, begun, crashes, end, error, failed, new_run, park, succeed, succeeded};
use workflow_tests::outcome::{applied, canceled, duplicate, lost};

const MINUTE: Duration = Duration::from_secs(60);

fn retry(claim: Claim, until: Timestamp, again: &[&str]) -> Write {
    let again = again.iter().map(|key| (*key).to_owned()).collect();
    Write::Retry(RetryWrite { claim, until, again, error: error("no luck") })
}

fn revive(run_id: RunId, attempt: i64, again: &[&str]) -> ReviveWrite {
    let again = again.iter().map(|key| (*key).to_owned()).collect();
    ReviveWrite { run_id, attempt, again, deadline: None }
}

/// Records a success, a final failure and another success.
async fn record(fixture: &Fixture, claim: Claim) {
    applied(&fixture.write(attempt(claim, succeeded("a", 1, "1"))).await);
    applied(&fixture.write(attempt(claim, StepAttempt { position: Some(2), ..failed("b", 1) })).await);
    applied(&fixture.write(attempt(claim, succeeded("c", 3, "3"))).await);
}

async fn positions(fixture: &Fixture, id: RunId) -> Vec<(String, Option<i64>)> {
    fixture.history(id).await.into_iter().map(|row| (row.step_key, row.position)).collect()
}

fn reset() -> Vec<(String, Option<i64>)> {
    vec![("a".into(), Some(1)), ("c".into(), Some(3)), ("b".into(), None)]
}

async fn a_failed_run(fixture: &Fixture) -> Claim {
    let (_, claim) = fixture.taken_over().await;
    record(fixture, claim).await;
    applied(&fixture.write(crashes(claim, 1, 1)).await);
    applied(&fixture.write(end(claim, RunEnd::Failed(error("no luck")))).await);
    assert_eq!(fixture.run(claim.run_id).await.crashes, 1);
    claim
}

pub async fn a_retried_run_waits_for_its_next_attempt(fixture: Fixture) {
    let (_, claim) = fixture.taken_over().await;
    record(&fixture, claim).await;
    applied(&fixture.write(crashes(claim, 1, 1)).await);
    let until = fixture.now() + MINUTE;
    // A success that is given by mistake stays.
    applied(&fixture.write(retry(claim, until, &["a", "b", "unknown"])).await);
    let run = fixture.run(claim.run_id).await;
    assert_eq!((run.status, run.available_at, run.attempt), (RunStatus::Pending, until, 2));
    assert_eq!((run.crashes, run.lone_crashes, run.worker_id, run.completed_at), (0, 0, None, None));
    assert_eq!(run.error, Some(error("no luck")), "the reason of the retry");
    assert_eq!(positions(&fixture, claim.run_id).await, reset());

    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(MINUTE);
    let next = fixture.claim_only().await;
    assert_eq!((next.claim.epoch, next.attempt, next.crashes), (claim.epoch + 1, 2, 0));
    applied(&fixture.write(succeed(next.claim, "1")).await);
    assert_eq!(fixture.run(claim.run_id).await.error, None);
}

pub async fn a_retry_is_fenced(fixture: Fixture) {
    let (stale, claim) = fixture.taken_over().await;
    record(&fixture, claim).await;
    let before = fixture.snapshot(claim.run_id).await;
    lost(&fixture.write(retry(stale, fixture.now(), &["b"])).await);
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
    let write = retry(claim, fixture.now() + MINUTE, &["b"]);
    applied(&fixture.write(write.clone()).await);
    let before = fixture.snapshot(claim.run_id).await;
    duplicate(&fixture.write(write).await);
    assert_eq!(fixture.snapshot(claim.run_id).await, before, "a retry applied again changes nothing");
}

pub async fn an_end_beats_a_retry_in_one_batch(fixture: Fixture) {
    let claim = fixture.held().await;
    record(&fixture, claim).await;
    let outcomes = fixture.commit(&[retry(claim, fixture.now(), &["b"]), succeed(claim, "1")]).await;
    duplicate(&outcomes[0]);
    applied(&outcomes[1]);
    assert_eq!(fixture.status(claim.run_id).await, RunStatus::Succeeded);
    assert_eq!(positions(&fixture, claim.run_id).await[1], ("b".into(), Some(2)));
    let parked = fixture.held().await;
    let outcomes = fixture.commit(&[retry(parked, fixture.now(), &[]), park(parked, fixture.now() + MINUTE)]).await;
    duplicate(&outcomes[0]);
    assert_eq!(fixture.status(parked.run_id).await, RunStatus::Parked);
}

pub async fn the_deadline_caps_the_next_attempt(fixture: Fixture) {
    let deadline = fixture.now() + MINUTE;
    fixture.start(&NewRun { deadline: Some(StartTime::At(deadline)), ..new_run() }).await;
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(retry(claim, deadline + MINUTE, &[])).await);
    assert_eq!(fixture.run(claim.run_id).await.available_at, deadline);
}

pub async fn a_failed_run_is_revived(fixture: Fixture) {
    let claim = a_failed_run(&fixture).await;
    fixture.advance(MINUTE);
    let write = revive(claim.run_id, 1, &["b"]);
    applied(&fixture.write(Write::Revive(write.clone())).await);
    let run = fixture.run(claim.run_id).await;
    assert!(RunStatus::Failed.may_become(run.status));
    assert_eq!((run.status, run.attempt, run.crashes), (RunStatus::Pending, 2, 0));
    assert_eq!((run.available_at, run.error, run.output), (fixture.now(), None, None));
    assert_eq!((run.completed_at, run.worker_id, run.epoch), (None, None, claim.epoch));
    assert_eq!(positions(&fixture, claim.run_id).await, reset());

    let before = fixture.snapshot(claim.run_id).await;
    duplicate(&fixture.write(Write::Revive(write)).await);
    assert_eq!(fixture.snapshot(claim.run_id).await, before, "each attempt is revived once");
    let next = fixture.claim_only().await;
    assert_eq!((next.claim.epoch, next.attempt), (claim.epoch + 1, 2));
    lost(&fixture.write(succeed(claim, "1")).await);
}

/// A run that fails at its deadline without a worker leaves its waits open, and no failure ends a
/// sleep. A child may go on.
pub async fn a_retry_drops_open_waits(fixture: Fixture) {
    for by_policy in [false, true] {
        let (neighbour, claim) = (fixture.held().await, fixture.held().await);
        let open = |step_key: &str, kind| StepAttempt { kind, output: Some("{}".into()), ..begun(step_key) };
        let sleep = ("d", StepKind::Sleep);
        let waits = [("a", StepKind::Signal), ("b", StepKind::Approval), ("c", StepKind::Event), sleep];
        let others = [("e", StepKind::Step), ("f", StepKind::Child)];
        for (step_key, kind) in waits.into_iter().chain(others) {
            applied(&fixture.write(attempt(claim, open(step_key, kind))).await);
        }
        applied(&fixture.write(attempt(neighbour, open(sleep.0, sleep.1))).await);
        fixture.advance(Duration::from_secs(1));
        if by_policy {
            applied(&fixture.write(retry(claim, fixture.now() + MINUTE, &[])).await);
        } else {
            applied(&fixture.write(end(claim, RunEnd::Failed(error("no luck")))).await);
            applied(&fixture.write(Write::Revive(revive(claim.run_id, 1, &[]))).await);
        }
        let mut history = fixture.history(claim.run_id).await;
        history.sort_by(|one, other| one.step_key.cmp(&other.step_key));
        let (dropped, kept) = history.split_at(waits.len());
        for row in dropped {
            let end = (row.status, row.output.as_deref(), row.position, row.completed_at);
            assert_eq!(end, (AttemptStatus::Succeeded, None, None, Some(fixture.now())), "{}", row.step_key);
        }
        assert!(kept.iter().all(|row| row.status == AttemptStatus::Running && row.completed_at.is_none()));
        assert_eq!(kept.len(), others.len());
        assert_eq!(fixture.history(neighbour.run_id).await[0].status, AttemptStatus::Running);
        canceled(&fixture.write(Write::Terminate(claim.run_id)).await);
        canceled(&fixture.write(Write::Terminate(neighbour.run_id)).await);
    }
}

pub async fn only_a_failed_run_is_revived(fixture: Fixture) {
    let failed = a_failed_run(&fixture).await.run_id;
    let running = fixture.held().await;
    let parked = fixture.held().await;
    applied(&fixture.write(park(parked, fixture.now() + MINUTE)).await);
    let succeeded = fixture.held().await;
    applied(&fixture.write(succeed(succeeded, "1")).await);
    let dropped = fixture.started().await;
    canceled(&fixture.write(Write::Cancel(dropped)).await);
    for id in [running.run_id, parked.run_id, succeeded.run_id, dropped] {
        let before = fixture.snapshot(id).await;
        lost(&fixture.write(Write::Revive(revive(id, 1, &[]))).await);
        assert_eq!(fixture.snapshot(id).await, before);
    }
    let before = fixture.snapshot(failed).await;
    lost(&fixture.write(Write::Revive(revive(failed, 2, &["b"]))).await);
    assert_eq!(fixture.snapshot(failed).await, before, "the failed attempt is not the one that the writer knows");
    lost(&fixture.write(Write::Revive(revive(RunId::generate(), 1, &[]))).await);
}

pub async fn a_revived_run_gets_the_requested_deadline(fixture: Fixture) {
    let soon = fixture.now() + MINUTE;
    for (deadline, expected) in [
        (None, Some(soon)),
        (Some(StartTime::After(2 * MINUTE)), Some(soon + 2 * MINUTE)),
        (Some(StartTime::At(soon + 5 * MINUTE)), Some(soon + 5 * MINUTE)),
    ] {
        let new = NewRun { deadline: Some(StartTime::At(soon)), ..new_run() };
        fixture.start(&new).await;
        let claim = fixture.claim_only().await.claim;
        applied(&fixture.write(end(claim, RunEnd::Failed(error("no luck")))).await);
        fixture.advance(soon.since(fixture.now()));
        let write = ReviveWrite { deadline, ..revive(new.id, 1, &[]) };
        assert!(matches!(fixture.write(Write::Revive(write)).await, Outcome::Applied));
        let run = fixture.run(new.id).await;
        assert_eq!((run.deadline_at, run.available_at), (expected, fixture.now()));
        canceled(&fixture.write(Write::Terminate(new.id)).await);
    }
}
