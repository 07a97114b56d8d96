//! Runs that continue as new.

use std::time::Duration;

use workflow_engine::model::{Claim, NewRun, NewSignal, SignalKey, StartTime};
use workflow_engine::store::{RetryWrite, StartOutcome, Write};
use workflow_sdk::{CancelOutcome, RunStatus, SignalOutcome, StepAttempt, StepKind};
use workflow_tests::builders::{
    attempt, begun, consume, continue_as_new, error, keyed, new_run, park, signal, succeed, succeeded,
};
use workflow_tests::outcome::{applied, canceled, duplicate, lost};
use workflow_tests::{Fixture, outcome};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns an item of the stream `log`.
fn item(number: i64) -> StepAttempt {
    let kind = StepKind::Emitted;
    let row = succeeded(&kind.key_of("log"), 0, &number.to_string());
    StepAttempt { attempt: number, kind, position: None, ..row }
}

fn published(output: &str) -> StepAttempt {
    let kind = StepKind::Published;
    StepAttempt { kind, output: Some(output.into()), ..begun(&kind.key_of("progress")) }
}

fn patch() -> StepAttempt {
    let kind = StepKind::Patch;
    StepAttempt { kind, position: None, ..succeeded(&kind.key_of("new"), 0, "true") }
}

/// Returns the claim of a run whose history has rows of several kinds.
async fn held(fixture: &Fixture) -> Claim {
    hold(fixture, fixture.held().await).await
}

async fn hold(fixture: &Fixture, claim: Claim) -> Claim {
    let rows = [succeeded("a", 1, "1"), begun("b"), patch(), published("\"half\""), item(1), item(2)];
    fixture.commit(&rows.map(|row| attempt(claim, row))).await.iter().for_each(applied);
    claim
}

pub async fn a_continued_run_is_due_with_its_new_input_and_no_steps(fixture: Fixture) {
    let claim = fixture.held().await;
    let retry = RetryWrite { claim, until: fixture.now(), again: Vec::new(), error: error("no luck") };
    applied(&fixture.write(Write::Retry(retry)).await);
    let claim = hold(&fixture, fixture.claim_only().await.claim).await;
    let before = fixture.run(claim.run_id).await;
    fixture.advance(Duration::from_secs(1));
    applied(&fixture.write(continue_as_new(claim, "\"next\"")).await);

    let run = fixture.run(claim.run_id).await;
    assert_eq!((run.status, run.input.as_str(), run.generation), (RunStatus::Pending, "\"next\"", 1));
    assert_eq!((run.available_at, run.worker_id, run.started_at), (fixture.now(), None, None));
    assert_eq!((run.crashes, run.error, run.output, run.completed_at), (0, None, None, None));
    assert_eq!((before.attempt, run.attempt), (2, 1));
    assert_eq!((run.epoch, run.wakes, run.created_at), (before.epoch, before.wakes, before.created_at));
    assert_eq!((&run.key, &run.tags, run.deadline_at), (&before.key, &before.tags, before.deadline_at));
    let keys: Vec<_> = fixture.history(claim.run_id).await.into_iter().map(|row| (row.step_key, row.attempt)).collect();
    assert_eq!(keys, [("emitted/log".to_owned(), 2), ("published/progress".to_owned(), 1)]);
    assert_eq!(fixture.store.emitted(claim.run_id, "log", 0, 10).await.unwrap().len(), 2);

    let next = fixture.claim_only().await;
    assert_eq!((next.claim.epoch, next.generation, next.input.as_str()), (3, 1, "\"next\""));
    assert_eq!(next.attempt, 1);
    assert_eq!(next.started_at, fixture.now());
    applied(&fixture.write(attempt(next.claim, succeeded("a", 1, "2"))).await);
}

pub async fn a_key_finds_its_run_after_a_continue(fixture: Fixture) {
    let run = keyed("order-42");
    fixture.start(&run).await;
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(continue_as_new(claim, "1")).await);
    assert_eq!(fixture.start(&keyed("order-42")).await, StartOutcome::Continued { id: run.id });
}

pub async fn a_continue_leaves_other_runs_alone(fixture: Fixture) {
    let (other, claim) = (held(&fixture).await, held(&fixture).await);
    let before = fixture.snapshot(other.run_id).await;
    applied(&fixture.write(continue_as_new(claim, "1")).await);
    assert_eq!(fixture.snapshot(other.run_id).await, before);
}

pub async fn waiting_signals_outlive_a_continue(fixture: Fixture) {
    let claim = held(&fixture).await;
    let run = claim.run_id;
    let (once, given) = (SignalKey::generate(), SignalKey::Given("k".into()));
    let send = async |key: &SignalKey| {
        outcome::signaled(&fixture.write(Write::Signal(NewSignal { key: key.clone(), ..signal(run, "go", "1") })).await)
    };
    for key in [&once, &given, &SignalKey::generate(), &SignalKey::Given("l".into())] {
        assert_eq!(send(key).await, SignalOutcome::Accepted);
    }
    let waiting = async || {
        let inbox = fixture.store.inbox(run, &["go".into()]).await.unwrap().unwrap();
        inbox.signals.iter().map(|signal| signal.seq).collect::<Vec<_>>()
    };
    let all = waiting().await;
    for (step, seq) in ["go", "go:1"].into_iter().zip(&all) {
        applied(&fixture.write(consume(claim, succeeded(step, 1, "1"), *seq)).await);
    }
    applied(&fixture.write(continue_as_new(claim, "1")).await);
    assert_eq!(waiting().await, all[2..]);
    let again = send(&given).await;
    assert!(matches!(again, SignalOutcome::Repeated(_)), "a consumed signal with a key is kept: {again:?}");
    assert_eq!(send(&once).await, SignalOutcome::Accepted);
    assert_eq!(waiting().await.len(), 3, "a consumed signal without a key is deleted, so this is a new one");
}

pub async fn a_stale_continue_changes_nothing(fixture: Fixture) {
    let (stale, claim) = fixture.taken_over().await;
    applied(&fixture.write(attempt(claim, succeeded("a", 1, "1"))).await);
    let before = fixture.snapshot(claim.run_id).await;
    lost(&fixture.write(continue_as_new(stale, "1")).await);
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
}

pub async fn a_continue_applied_again_changes_nothing(fixture: Fixture) {
    let claim = held(&fixture).await;
    let outcomes = fixture.commit(&[continue_as_new(claim, "1"), continue_as_new(claim, "2")]).await;
    applied(&outcomes[0]);
    duplicate(&outcomes[1]);
    duplicate(&fixture.write(continue_as_new(claim, "3")).await);
    let run = fixture.run(claim.run_id).await;
    assert_eq!((run.generation, run.input.as_str()), (1, "1"));
    // Once the next generation is claimed, the write is stale.
    let next = fixture.claim_only().await.claim;
    applied(&fixture.write(attempt(next, succeeded("a", 1, "2"))).await);
    let before = fixture.snapshot(next.run_id).await;
    lost(&fixture.write(continue_as_new(claim, "4")).await);
    assert_eq!(fixture.snapshot(next.run_id).await, before);
}

pub async fn an_end_beats_a_continue_in_one_batch(fixture: Fixture) {
    for end_first in [true, false] {
        let claim = held(&fixture).await;
        let mut writes = [succeed(claim, "1"), continue_as_new(claim, "2")];
        if !end_first {
            writes.reverse();
        }
        let outcomes = fixture.commit(&writes).await;
        applied(&outcomes[usize::from(!end_first)]);
        duplicate(&outcomes[usize::from(end_first)]);
        let run = fixture.run(claim.run_id).await;
        assert_eq!((run.status, run.generation), (RunStatus::Succeeded, 0));
        assert!(fixture.history(claim.run_id).await.len() > 2, "its history stays");
    }
    let claim = held(&fixture).await;
    let outcomes = fixture.commit(&[continue_as_new(claim, "2"), park(claim, fixture.now() + HOUR)]).await;
    duplicate(&outcomes[0]);
    applied(&outcomes[1]);
}

pub async fn attempts_of_the_batch_come_before_its_continue(fixture: Fixture) {
    let claim = fixture.held().await;
    let writes = [continue_as_new(claim, "1"), attempt(claim, succeeded("a", 1, "1")), attempt(claim, item(1))];
    fixture.commit(&writes).await.iter().for_each(applied);
    let keys: Vec<_> = fixture.history(claim.run_id).await.into_iter().map(|row| row.step_key).collect();
    assert_eq!(keys, ["emitted/log"]);
}

pub async fn many_runs_continue_in_one_batch(fixture: Fixture) {
    fixture.started_many(20).await;
    let claims: Vec<Claim> =
        fixture.claim(&workflow_tests::builders::claim_request()).await.runs.iter().map(|run| run.claim).collect();
    let writes: Vec<Write> =
        claims.iter().enumerate().map(|(number, claim)| continue_as_new(*claim, &number.to_string())).collect();
    fixture.commit(&writes).await.iter().for_each(applied);
    for (number, claim) in claims.iter().enumerate() {
        let run = fixture.run(claim.run_id).await;
        assert_eq!((run.generation, run.input), (1, number.to_string()));
    }
}

pub async fn a_request_to_cancel_and_a_deadline_outlive_a_continue(fixture: Fixture) {
    let deadline = fixture.now() + HOUR;
    fixture.start(&NewRun { deadline: Some(StartTime::At(deadline)), ..new_run() }).await;
    let claim = fixture.claim_only().await.claim;
    assert_eq!(canceled(&fixture.write(Write::Cancel(claim.run_id)).await), CancelOutcome::Requested);
    applied(&fixture.write(continue_as_new(claim, "1")).await);
    let next = fixture.claim_only().await;
    assert!(next.cancel_requested);
    assert_eq!(next.deadline_at, Some(deadline));
}
