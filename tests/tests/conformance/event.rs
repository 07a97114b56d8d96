use std::time::Duration;

use workflow_engine::model::{
    Claim, Effect, EmittingStep, EventName, EventWait, LeftWait, NewEmission, SignalKey, event_signal,
};
use workflow_engine::store::{AttemptWrite, EndWrite, Outcome, RetryWrite, ReviveWrite, RunEnd, Write};
use workflow_sdk::{AttemptStatus, RunId, RunStatus, StepAttempt, StepKind, Timestamp};
use workflow_tests::builders::{
    LEASE, begun, claim_by, consume, continue_as_new, end, error, new_run, park, succeeded,
};
use workflow_tests::outcome::{applied, lost};
use workflow_tests::{Database, Fixture};

fn paid(key: &str) -> EventName {
    EventName { name: "order.paid".into(), key: key.into() }
}

/// Returns the name of the signal that delivers the event to this step.
fn signal_of(event: &EventName, step_key: &str) -> String {
    event_signal(event, step_key, begun(step_key).started_at)
}

fn row(step_key: &str) -> StepAttempt {
    StepAttempt { kind: StepKind::Event, output: Some("{}".into()), ..begun(step_key) }
}

/// Returns the write by which a step registers its wait.
fn wait(claim: Claim, step_key: &str, event: &EventName) -> Write {
    let wait = EventWait { event: event.clone(), signal: signal_of(event, step_key) };
    Write::Attempt(AttemptWrite { claim, row: row(step_key), effect: Effect::AwaitEvent(Box::new(wait)) })
}

/// Returns the write by which a wait ends without its event.
fn leave(claim: Claim, step_key: &str, event: &EventName, unless_delivered: bool) -> Write {
    let row = StepAttempt { kind: StepKind::Event, ..succeeded(step_key, 1, "[]") };
    let left = LeftWait { signal: signal_of(event, step_key), unless_delivered };
    Write::Attempt(AttemptWrite { claim, row, effect: Effect::LeaveEvent(Box::new(left)) })
}

fn emission(event: &EventName, payload: &str) -> NewEmission {
    NewEmission { event: event.clone(), payload: payload.into(), by: None }
}

async fn emit_by(fixture: &Fixture, event: &EventName, payload: &str, by: Option<EmittingStep>) -> u64 {
    match fixture.write(Write::Emit(NewEmission { by, ..emission(event, payload) })).await {
        Outcome::Emitted(emitted) => emitted.count,
        other => panic!("expected Emitted, got {other:?}"),
    }
}

async fn emit(fixture: &Fixture, event: &EventName, payload: &str) -> u64 {
    emit_by(fixture, event, payload, None).await
}

/// Returns the numbers and payloads that were delivered to the step of a run and not consumed.
async fn delivered(fixture: &Fixture, run: RunId, event: &EventName, step_key: &str) -> Vec<(i64, String)> {
    let inbox = fixture.store.inbox(run, &[signal_of(event, step_key)]).await.unwrap().expect("the run exists");
    inbox.signals.into_iter().map(|signal| (signal.seq, signal.payload)).collect()
}

/// Returns how many waits are registered, except in memory.
async fn no_wait_is_left(fixture: &Fixture) {
    if fixture.database != Database::Memory {
        let count = fixture.raw().await.number("SELECT count(*) FROM workflow_event_waits").await;
        assert_eq!(count, 0, "a wait is left");
    }
}

/// Returns the claims of this many runs.
async fn claims(fixture: &Fixture, count: usize) -> Vec<Claim> {
    fixture.started_many(count).await;
    let request = claim_by(workflow_engine::model::WorkerId::generate(), u32::try_from(count).unwrap());
    let claimed = fixture.claim(&request).await;
    claimed.runs.iter().map(|run| run.claim).collect()
}

pub async fn an_event_reaches_every_wait_once(fixture: Fixture) {
    let claims = claims(&fixture, 3).await;
    let (this, other) = (paid("42"), paid("43"));
    fixture.commit(&[wait(claims[0], "a", &this), wait(claims[1], "a", &this), wait(claims[2], "a", &other)]).await;
    let wakes = fixture.run(claims[0].run_id).await.wakes;
    assert_eq!(emit(&fixture, &this, "500").await, 2);
    for claim in &claims[..2] {
        assert_eq!(delivered(&fixture, claim.run_id, &this, "a").await, [(1, "500".into())]);
        assert_eq!(fixture.run(claim.run_id).await.wakes, wakes + 1);
    }
    assert!(delivered(&fixture, claims[2].run_id, &other, "a").await.is_empty());
    assert_eq!(fixture.run(claims[2].run_id).await.wakes, wakes);
    assert_eq!(emit(&fixture, &this, "501").await, 0, "a wait receives one event");
    assert_eq!(delivered(&fixture, claims[0].run_id, &this, "a").await, [(1, "500".into())]);
    assert_eq!(emit(&fixture, &other, "502").await, 1);
    no_wait_is_left(&fixture).await;
}

pub async fn an_event_is_not_kept_for_later_waits(fixture: Fixture) {
    let claim = fixture.held().await;
    assert_eq!(emit(&fixture, &paid("42"), "500").await, 0);
    applied(&fixture.write(wait(claim, "a", &paid("42"))).await);
    assert!(delivered(&fixture, claim.run_id, &paid("42"), "a").await.is_empty());
}

pub async fn an_event_makes_a_parked_run_due(fixture: Fixture) {
    let claim = fixture.held().await;
    fixture.commit(&[wait(claim, "a", &paid("42")), park(claim, Timestamp::FAR_FUTURE)]).await;
    assert_eq!(fixture.next_due().await, None);
    assert_eq!(emit(&fixture, &paid("42"), "500").await, 1);
    assert_eq!(fixture.run(claim.run_id).await.status, RunStatus::Parked);
    assert_eq!(fixture.claim_due().await, [claim.run_id]);
}

pub async fn an_event_reaches_the_waits_of_its_batch(fixture: Fixture) {
    let claim = fixture.held().await;
    let outcomes = fixture.commit(&[Write::Emit(emission(&paid("42"), "1")), wait(claim, "a", &paid("42"))]).await;
    assert!(matches!(&outcomes[0], Outcome::Emitted(emitted) if emitted.woken == [claim.run_id]), "{outcomes:?}");
    assert_eq!(delivered(&fixture, claim.run_id, &paid("42"), "a").await.len(), 1);
}

/// Two branches of one run wait. The run counts once, and each branch receives the event.
pub async fn two_waits_of_a_run_receive_an_event_each(fixture: Fixture) {
    let claim = fixture.held().await;
    let event = paid("42");
    fixture.commit(&[wait(claim, "a", &event), wait(claim, "a:1", &event)]).await;
    assert_eq!(emit(&fixture, &event, "500").await, 1);
    for step_key in ["a", "a:1"] {
        assert_eq!(delivered(&fixture, claim.run_id, &event, step_key).await.len(), 1);
    }
    assert_eq!(fixture.run(claim.run_id).await.wakes, 1);
}

pub async fn many_runs_receive_one_event(fixture: Fixture) {
    let claims = claims(&fixture, 300).await;
    let waits: Vec<Write> = claims.iter().map(|claim| wait(*claim, "a", &paid("42"))).collect();
    fixture.commit(&waits).await;
    assert_eq!(emit(&fixture, &paid("42"), "500").await, 300);
    for claim in &claims {
        assert_eq!(delivered(&fixture, claim.run_id, &paid("42"), "a").await.len(), 1);
    }
}

pub async fn a_stale_wait_is_not_registered(fixture: Fixture) {
    let (stale, _) = fixture.taken_over().await;
    lost(&fixture.write(wait(stale, "a", &paid("42"))).await);
    assert_eq!(emit(&fixture, &paid("42"), "500").await, 0);
}

/// A step consumes the event as it consumes a signal.
pub async fn an_event_is_consumed_once(fixture: Fixture) {
    let claim = fixture.held().await;
    let event = paid("42");
    fixture.write(wait(claim, "a", &event)).await;
    emit(&fixture, &event, "500").await;
    let received = StepAttempt { kind: StepKind::Event, ..succeeded("a", 1, "[500]") };
    applied(&fixture.write(consume(claim, received, 1)).await);
    assert!(delivered(&fixture, claim.run_id, &event, "a").await.is_empty());
    let row = &fixture.history(claim.run_id).await[0];
    assert_eq!((row.status, row.output.as_deref()), (AttemptStatus::Succeeded, Some("[500]")));
}

/// The reply to the commit of a wait was lost, and the event came meanwhile.
pub async fn a_wait_that_received_its_event_is_not_registered_again(fixture: Fixture) {
    let claim = fixture.held().await;
    let event = paid("42");
    fixture.write(wait(claim, "a", &event)).await;
    assert_eq!(emit(&fixture, &event, "1").await, 1);
    applied(&fixture.write(wait(claim, "a", &event)).await);
    assert_eq!(emit(&fixture, &event, "2").await, 0);
    assert_eq!(delivered(&fixture, claim.run_id, &event, "a").await, [(1, "1".into())]);
}

pub async fn a_timeout_ends_its_wait_unless_the_event_came_first(fixture: Fixture) {
    let claim = fixture.held().await;
    let (late, in_time) = (paid("late"), paid("in time"));
    fixture.commit(&[wait(claim, "late", &late), wait(claim, "in time", &in_time)]).await;
    assert_eq!(emit(&fixture, &in_time, "1").await, 1);
    let outcomes = fixture.commit(&[leave(claim, "late", &late, true), leave(claim, "in time", &in_time, true)]).await;
    applied(&outcomes[0]);
    assert!(matches!(outcomes[1], Outcome::Delivered), "{outcomes:?}");
    assert_eq!(emit(&fixture, &late, "1").await, 0);
    assert_eq!(delivered(&fixture, claim.run_id, &in_time, "in time").await.len(), 1);
    let history = fixture.history(claim.run_id).await;
    let status = |key: &str| history.iter().find(|row| row.step_key == key).map(|row| row.status);
    assert_eq!(status("late"), Some(AttemptStatus::Succeeded));
    assert_eq!(status("in time"), Some(AttemptStatus::Running));
}

pub async fn a_dropped_wait_leaves_nothing(fixture: Fixture) {
    let claim = fixture.held().await;
    let (met, unmet) = (paid("met"), paid("unmet"));
    fixture.commit(&[wait(claim, "met", &met), wait(claim, "unmet", &unmet)]).await;
    assert_eq!(emit(&fixture, &met, "1").await, 1);
    for outcome in fixture.commit(&[leave(claim, "met", &met, false), leave(claim, "unmet", &unmet, false)]).await {
        applied(&outcome);
    }
    assert!(delivered(&fixture, claim.run_id, &met, "met").await.is_empty());
    assert_eq!(emit(&fixture, &unmet, "1").await, 0);
    no_wait_is_left(&fixture).await;
}

/// A wait that begins and ends in one batch is not left.
pub async fn a_wait_that_ends_in_its_batch_is_not_left(fixture: Fixture) {
    let claim = fixture.held().await;
    fixture.commit(&[wait(claim, "a", &paid("42")), leave(claim, "a", &paid("42"), true)]).await;
    assert_eq!(emit(&fixture, &paid("42"), "1").await, 0);
    no_wait_is_left(&fixture).await;
}

/// A run that ends, is terminated, expires or continues as new waits for nothing any more.
pub async fn a_run_that_is_over_waits_for_nothing(fixture: Fixture) {
    let ended = fixture.held().await;
    let end_write = |claim| {
        let end = RunEnd::Succeeded("1".into());
        Write::End(EndWrite { claim, parent_run_id: None, has_children: false, has_event_waits: true, end })
    };
    fixture.commit(&[wait(ended, "a", &paid("42")), wait(ended, "b", &paid("43"))]).await;
    assert_eq!(emit(&fixture, &paid("43"), "1").await, 1);
    applied(&fixture.write(end_write(ended)).await);
    assert!(delivered(&fixture, ended.run_id, &paid("43"), "b").await.is_empty());
    let terminated = fixture.held().await;
    fixture.write(wait(terminated, "a", &paid("42"))).await;
    fixture.write(Write::Terminate(terminated.run_id)).await;
    let continued = fixture.held().await;
    fixture.write(wait(continued, "a", &paid("42"))).await;
    applied(&fixture.write(continue_as_new(continued, "2")).await);
    no_wait_is_left(&fixture).await;
    assert_eq!(emit(&fixture, &paid("42"), "1").await, 0);
}

pub async fn an_expired_run_waits_for_nothing(fixture: Fixture) {
    let run =
        workflow_engine::model::NewRun { deadline: Some(workflow_engine::model::StartTime::After(LEASE)), ..new_run() };
    fixture.start(&run).await;
    let claim = fixture.claim_only().await.claim;
    fixture.commit(&[wait(claim, "a", &paid("42")), park(claim, Timestamp::FAR_FUTURE)]).await;
    fixture.advance(LEASE * 2);
    let expired = fixture.write(Write::Expire { limit: 10, patience: Duration::ZERO }).await;
    assert!(matches!(expired, Outcome::Changed(1)), "{expired:?}");
    no_wait_is_left(&fixture).await;
    assert_eq!(emit(&fixture, &paid("42"), "1").await, 0);
}

/// An end whose writer knows of no wait leaves the row; such a run receives nothing.
pub async fn an_ended_run_receives_nothing(fixture: Fixture) {
    let claim = fixture.held().await;
    fixture.write(wait(claim, "a", &paid("42"))).await;
    applied(&fixture.write(end(claim, RunEnd::Canceled)).await);
    assert_eq!(emit(&fixture, &paid("42"), "1").await, 0);
    no_wait_is_left(&fixture).await;
}

/// The end of the run ended both waits. One of them was dropped before, the other one by the retry.
/// A row takes one end, so both begin anew as the next attempts of their steps.
pub async fn a_revived_run_waits_again(fixture: Fixture) {
    let claim = fixture.held().await;
    let event = paid("42");
    let left = StepAttempt { position: None, ..succeeded("dropped", 1, "[]") };
    let drop_wait =
        Effect::LeaveEvent(Box::new(LeftWait { signal: signal_of(&event, "dropped"), unless_delivered: false }));
    let failure = RunEnd::Failed(workflow_tests::builders::error("no luck"));
    fixture.commit(&[wait(claim, "open", &event), wait(claim, "dropped", &event)]).await;
    fixture
        .commit(&[
            Write::Attempt(AttemptWrite {
                claim,
                row: StepAttempt { kind: StepKind::Event, ..left },
                effect: drop_wait,
            }),
            Write::End(EndWrite {
                claim,
                parent_run_id: None,
                has_children: false,
                has_event_waits: true,
                end: failure,
            }),
        ])
        .await;
    no_wait_is_left(&fixture).await;
    let revive = ReviveWrite { run_id: claim.run_id, attempt: 1, again: Vec::new(), deadline: None };
    applied(&fixture.write(Write::Revive(revive)).await);
    assert_eq!(emit(&fixture, &event, "1").await, 0, "a pending run has not begun to wait");

    let claim = fixture.claim_only().await.claim;
    let now = fixture.now();
    let signal = |step_key: &str| event_signal(&event, step_key, now);
    let begin = |step_key: &str| {
        let wait = EventWait { event: event.clone(), signal: signal(step_key) };
        let row = StepAttempt { attempt: 2, started_at: now, ..row(step_key) };
        Write::Attempt(AttemptWrite { claim, row, effect: Effect::AwaitEvent(Box::new(wait)) })
    };
    for outcome in fixture.commit(&["open", "dropped"].map(begin)).await {
        applied(&outcome);
    }
    assert_eq!(emit(&fixture, &event, "2").await, 1);
    let inbox = fixture.store.inbox(claim.run_id, &["open", "dropped"].map(signal)).await.unwrap().unwrap();
    assert_eq!(inbox.signals.len(), 2);
    let inbox = fixture.store.inbox(claim.run_id, &[signal("dropped")]).await.unwrap().unwrap();
    let received = StepAttempt { attempt: 2, kind: StepKind::Event, ..succeeded("dropped", 1, "[2]") };
    applied(&fixture.write(consume(claim, received, inbox.signals[0].seq)).await);
    let history = fixture.history(claim.run_id).await;
    let ends: Vec<_> = history.iter().filter(|row| row.step_key == "dropped").map(|row| row.position).collect();
    assert_eq!(ends, [Some(1), None]);
    no_wait_is_left(&fixture).await;
}

/// The step of the emitting run is attempted again, because its worker died before the outcome.
pub async fn a_step_emits_its_event_once(fixture: Fixture) {
    let claims = claims(&fixture, 3).await;
    let event = paid("42");
    let key = SignalKey::of_step("emit order.paid").as_str().to_owned();
    let by = || Some(EmittingStep { run_id: claims[2].run_id, key: key.clone() });
    fixture.write(wait(claims[0], "a", &event)).await;
    assert_eq!(emit_by(&fixture, &event, "1", by()).await, 1);
    fixture.write(wait(claims[1], "a", &event)).await;
    assert_eq!(emit_by(&fixture, &event, "1", by()).await, 1, "the first count is the answer");
    assert!(delivered(&fixture, claims[1].run_id, &event, "a").await.is_empty());
    let other = Some(EmittingStep { run_id: claims[2].run_id, key: format!("{key}:1") });
    assert_eq!(emit_by(&fixture, &event, "2", other).await, 1);
    assert_eq!(delivered(&fixture, claims[1].run_id, &event, "a").await, [(1, "2".into())]);
}

/// Several processes register waits and emit the event at once. No wait receives two events, and
/// the counts add up to the deliveries.
pub async fn concurrent_emissions_reach_each_wait_once(fixture: Fixture) {
    let claims = claims(&fixture, 40).await;
    let second = fixture.second().await;
    let emitters = [fixture.store.clone(), second.clone()].map(|store| {
        tokio::spawn(async move {
            let mut count = 0;
            for _ in 0..20 {
                match store.commit(&[Write::Emit(emission(&paid("42"), "1"))]).await.expect("commit").remove(0) {
                    Outcome::Emitted(emitted) => count += emitted.count,
                    Outcome::Busy => {}
                    other => panic!("expected Emitted, got {other:?}"),
                }
                tokio::task::yield_now().await;
            }
            count
        })
    });
    for claim in &claims {
        while matches!(second.commit(&[wait(*claim, "a", &paid("42"))]).await.expect("commit")[0], Outcome::Busy) {}
    }
    let mut count = 0;
    for emitter in emitters {
        count += emitter.await.unwrap();
    }
    count += emit(&fixture, &paid("42"), "1").await;
    assert_eq!(count, 40);
    for claim in &claims {
        assert_eq!(delivered(&fixture, claim.run_id, &paid("42"), "a").await.len(), 1);
    }
}

/// A retry ends the waits of the attempt before, as the end of a run does.
pub async fn a_run_that_is_tried_again_waits_for_no_event(fixture: Fixture) {
    let (claim, event) = (fixture.held().await, paid("42"));
    applied(&fixture.write(wait(claim, "a", &event)).await);
    let (until, again) = (fixture.now(), Vec::new());
    applied(&fixture.write(Write::Retry(RetryWrite { claim, until, again, error: error("no luck") })).await);
    assert_eq!(emit(&fixture, &event, "500").await, 0);
    no_wait_is_left(&fixture).await;
    let next = fixture.claim_only().await.claim;
    applied(&fixture.write(wait(next, "b", &event)).await);
    assert_eq!(emit(&fixture, &event, "501").await, 1);
}
