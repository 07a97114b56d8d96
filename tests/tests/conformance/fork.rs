use std::time::Duration;

use workflow_engine::model::{Claim, NewRun};
use workflow_engine::store::{ForkWrite, StartOutcome, Write};
use workflow_sdk::{AttemptStatus, RunId, RunStatus, StepAttempt, StepKind};
use workflow_tests::Fixture;
use workflow_tests::builders::{CLOCK_START, attempt, begun, error, failed, keyed, new_run, succeed, succeeded};
use workflow_tests::outcome::{applied, started};

fn fork(source: RunId, new: &NewRun, before: i64) -> Write {
    Write::Fork(Box::new(ForkWrite { source, new: new.clone(), before, kept: None }))
}

/// Returns the claim of a run with outcomes at the positions 1 to 4 and rows without a position.
/// The second outcome is a failure after an earlier failed attempt.
async fn source(fixture: &Fixture) -> Claim {
    let claim = fixture.held().await;
    let of_kind = |key: &str, kind| StepAttempt { kind, ..succeeded(key, 0, "1") };
    let final_failure = StepAttempt { position: Some(2), ..failed("b", 2) };
    let rows = [
        succeeded("a", 1, r#""\u0000""#),
        failed("b", 1),
        final_failure,
        succeeded("c", 3, "3"),
        failed("d", 1),
        StepAttempt { attempt: 2, ..succeeded("d", 4, "4") },
        begun("e"),
        StepAttempt { position: None, ..of_kind("patch", StepKind::Patch) },
        StepAttempt { position: None, ..of_kind("published", StepKind::Published) },
        StepAttempt { position: None, ..of_kind("emitted", StepKind::Emitted) },
    ];
    for row in rows {
        applied(&fixture.write(attempt(claim, row)).await);
    }
    claim
}

async fn kept(fixture: &Fixture, id: RunId) -> Vec<(String, i64, Option<i64>)> {
    let rows = fixture.history(id).await;
    rows.into_iter().map(|row| (row.step_key, row.attempt, row.position)).collect()
}

fn row(key: &str, attempt: i64, position: Option<i64>) -> (String, i64, Option<i64>) {
    (key.into(), attempt, position)
}

pub async fn a_fork_copies_the_history_before_its_position(fixture: Fixture) {
    let source = source(&fixture).await.run_id;
    let before = fixture.snapshot(source).await;
    let new = new_run();
    assert_eq!(started(&fixture.write(fork(source, &new, 3)).await), StartOutcome::Created);
    let expected = [row("a", 1, Some(1)), row("b", 2, Some(2)), row("b", 1, None), row("patch", 1, None)];
    assert_eq!(kept(&fixture, new.id).await, expected);
    let mut rows = fixture.history(new.id).await;
    for (copy, original) in rows.iter_mut().zip(&before.1) {
        assert_eq!(copy.epoch, 1, "an epoch before that of the first claim");
        copy.epoch = original.epoch;
    }
    assert_eq!(rows[..2], before.1[..2], "copied byte for byte");
    assert_eq!(fixture.snapshot(source).await, before, "the source run is unchanged");

    let all = new_run();
    started(&fixture.write(fork(source, &all, i64::MAX)).await);
    assert_eq!(kept(&fixture, all.id).await.len(), 7, "all rows except unfinished attempts and published values");
}

pub async fn a_fork_does_not_copy_an_interruption(fixture: Fixture) {
    let claim = fixture.held().await;
    let interruption = StepAttempt { kind: StepKind::Interruption, ..succeeded("interruption", 2, r#""canceled""#) };
    for row in
        [succeeded("a", 1, "1"), interruption, failed("b", 1), StepAttempt { position: Some(3), ..failed("b", 2) }]
    {
        applied(&fixture.write(attempt(claim, row)).await);
    }
    for before in [3, i64::MAX] {
        let new = new_run();
        started(&fixture.write(fork(claim.run_id, &new, before)).await);
        assert_eq!(kept(&fixture, new.id).await, [row("a", 1, Some(1))], "{before}");
    }
}

pub async fn a_fork_writes_the_given_rows(fixture: Fixture) {
    let source = source(&fixture).await.run_id;
    let new = new_run();
    let rows =
        vec![failed("b", 1), succeeded("a", 1, "\"another\""), StepAttempt { position: Some(2), ..failed("b", 2) }];
    let write = ForkWrite { source, new: new.clone(), before: 3, kept: Some(rows) };
    let write = Write::Fork(Box::new(write));
    assert_eq!(started(&fixture.write(write.clone()).await), StartOutcome::Created);
    let written = fixture.history(new.id).await;
    assert_eq!(kept(&fixture, new.id).await, [row("a", 1, Some(1)), row("b", 2, Some(2)), row("b", 1, None)]);
    assert_eq!(written[0].output.as_deref(), Some("\"another\""));
    assert!(written.iter().all(|row| row.epoch == 1), "an epoch before that of the first claim");
    assert_eq!(started(&fixture.write(write).await), StartOutcome::Created, "applied again after a lost reply");
    assert_eq!(fixture.history(new.id).await, written);
    assert_eq!(fixture.claim_due().await.len(), 1);
}

pub async fn a_fork_without_history_is_a_start(fixture: Fixture) {
    let source = source(&fixture).await.run_id;
    let new = new_run();
    started(&fixture.write(fork(source, &new, 1)).await);
    assert_eq!(fixture.history(new.id).await, []);
    let run = fixture.run(new.id).await;
    assert_eq!((run.status, run.epoch, run.attempt), (RunStatus::Pending, 0, 1));
}

pub async fn a_forked_run_is_claimed_with_its_history(fixture: Fixture) {
    let source = source(&fixture).await;
    let new = new_run();
    started(&fixture.write(fork(source.run_id, &new, 4)).await);
    let run = fixture.claim_only().await;
    assert_eq!(run.claim, Claim { run_id: new.id, epoch: 2 }, "epoch 1 belongs to the copied rows");
    assert_eq!(run.crashes, 0);
    applied(&fixture.write(attempt(run.claim, StepAttempt { attempt: 1, ..succeeded("d", 4, "5") })).await);
    applied(&fixture.write(succeed(run.claim, "1")).await);
    assert_eq!(fixture.status(source.run_id).await, RunStatus::Running);
}

pub async fn a_fork_applied_again_copies_nothing(fixture: Fixture) {
    let source = source(&fixture).await;
    let new = new_run();
    let write = fork(source.run_id, &new, 4);
    started(&fixture.write(write.clone()).await);
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(attempt(source, StepAttempt { attempt: 3, ..succeeded("late", 3, "1") })).await);
    let before = fixture.snapshot(new.id).await;
    assert_eq!(started(&fixture.write(write).await), StartOutcome::Created);
    assert_eq!(fixture.snapshot(new.id).await, before);
    assert_eq!(claim.epoch, 2);
}

pub async fn forks_with_one_key_create_one_run(fixture: Fixture) {
    let source = source(&fixture).await.run_id;
    let (first, second) = (keyed("again"), keyed("again"));
    let outcomes = fixture.commit(&[fork(source, &first, 4), fork(source, &second, 2)]).await;
    assert_eq!(started(&outcomes[0]), StartOutcome::Created);
    assert_eq!(started(&outcomes[1]), StartOutcome::Existing { id: first.id, input: first.input.clone() });
    assert_eq!(kept(&fixture, first.id).await.len(), 5);
    assert_eq!(fixture.history(second.id).await, []);
}

pub async fn a_failure_reset_by_a_retry_is_not_copied(fixture: Fixture) {
    let claim = fixture.held().await;
    fixture.write(attempt(claim, succeeded("a", 1, "1"))).await;
    fixture.write(attempt(claim, StepAttempt { position: Some(2), ..failed("b", 1) })).await;
    let write = workflow_engine::store::RetryWrite {
        claim,
        until: CLOCK_START + Duration::from_secs(60),
        again: vec!["b".into()],
        error: error("no"),
    };
    applied(&fixture.write(Write::Retry(write)).await);
    let new = new_run();
    started(&fixture.write(fork(claim.run_id, &new, i64::MAX)).await);
    assert_eq!(kept(&fixture, new.id).await, [row("a", 1, Some(1))]);
    assert_eq!(fixture.history(claim.run_id).await[1].status, AttemptStatus::Failed);
}
