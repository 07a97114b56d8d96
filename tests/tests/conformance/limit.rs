//! Limits for steps.

use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{
    AttemptStatus, Claim, Effect, LimitChange, LimitRecord, LimitRule, NewRun, QueueChange, SeatLine, StepAttempt,
    StepKind, WorkerId,
};
use workflow_engine::store::{
    AttemptWrite, CALL_PATIENCE, CancelOutcome, EndWrite, LimitWrite, Outcome, QueueWrite, RunEnd, Store, Write,
};
use workflow_sdk::{RunId, RunStatus, Timestamp};
use workflow_tests::builders::{LEASE, claim_by, lane, new_run, park, start};
use workflow_tests::{Fixture, outcome};

pub(crate) fn change(limit: &str, change: LimitChange) -> Write {
    Write::Limit(LimitWrite { limit: limit.into(), change })
}

fn rule(bodies: u32) -> LimitRule {
    LimitRule::none().concurrency(bodies)
}

fn line() -> SeatLine {
    SeatLine { limit: "llm".into(), key: "acct-42".into() }
}

fn row(step_key: &str, status: AttemptStatus) -> StepAttempt {
    let ended = status != AttemptStatus::Running;
    StepAttempt {
        step_key: step_key.into(),
        attempt: 1,
        kind: StepKind::Step,
        status,
        position: ended.then_some(1),
        output: ended.then(|| "1".into()),
        error: None,
        epoch: 1,
        started_at: Timestamp::from_micros(1),
        completed_at: ended.then(|| Timestamp::from_micros(2)),
    }
}

pub(crate) fn ask_in(line: SeatLine, claim: Claim) -> Write {
    let row = row("ask", AttemptStatus::Running);
    Write::Attempt(AttemptWrite { claim, row, effect: Effect::TakeSeat(Box::new(line)) })
}

fn ask(claim: Claim) -> Write {
    ask_in(line(), claim)
}

/// The end of the body, and the call that a drive sends with it.
fn leave(claim: Claim) -> [Write; 2] {
    let row = row("ask", AttemptStatus::Succeeded);
    let leave = AttemptWrite { claim, row, effect: Effect::LeaveSeat(Box::new(line())) };
    [Write::Attempt(leave), Write::CallSeats(line())]
}

pub(crate) fn end(claim: Claim) -> Write {
    let (parent_run_id, has_children, has_event_waits) = (None, false, true);
    let end = RunEnd::Succeeded("1".into());
    Write::End(EndWrite { claim, parent_run_id, has_children, has_event_waits, end })
}

async fn limited(fixture: &Fixture, bodies: u32) {
    outcome::applied(&fixture.write(change("llm", LimitChange::Declare(rule(bodies)))).await);
}

/// Starts and claims this number of runs.
pub(crate) async fn claimed(fixture: &Fixture, count: u32) -> Vec<Claim> {
    let runs: Vec<NewRun> = (0..count).map(|_| new_run()).collect();
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await;
    claims(fixture, count).await
}

pub(crate) async fn claims(fixture: &Fixture, count: u32) -> Vec<Claim> {
    let claimed = fixture.claim(&claim_by(WorkerId::generate(), count)).await;
    claimed.runs.iter().map(|run| run.claim).collect()
}

/// Returns whether the step got a seat.
async fn got(fixture: &Fixture, claim: Claim) -> bool {
    answer(&fixture.write(ask(claim)).await)
}

fn answer(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Applied => true,
        Outcome::SeatWaits { .. } => false,
        other => panic!("{other:?}"),
    }
}

/// Returns the runs that the last write, a call, has called.
pub(crate) fn called(outcomes: Vec<Outcome>) -> Vec<RunId> {
    match outcomes.into_iter().last() {
        Some(Outcome::Called(runs)) => runs,
        other => panic!("{other:?}"),
    }
}

async fn call(fixture: &Fixture) -> Vec<RunId> {
    called(fixture.commit(&[Write::CallSeats(line())]).await)
}

/// Returns how many steps of the line hold a seat under a claim that holds.
async fn taken(store: &Arc<dyn Store>) -> usize {
    let rows = store.seats(&[(&line(), 100)]).await.expect("seats").remove(0);
    rows.iter().filter(|row| row.epoch == Some(row.run_epoch) && row.run_status == RunStatus::Running).count()
}

pub async fn the_record_of_a_limit_tells_what_was_declared_and_set(fixture: Fixture) {
    assert_eq!(fixture.store.limits().await.expect("limits"), []);
    let mut record = LimitRecord::new("llm".into());
    for next in [
        LimitChange::Declare(rule(5)),
        LimitChange::Override(Some(rule(2))),
        LimitChange::Declare(rule(6)),
        LimitChange::Override(None),
        LimitChange::Override(Some(LimitRule::none())),
    ] {
        outcome::applied(&fixture.write(change("llm", next.clone())).await);
        record.apply(&next);
        assert_eq!(fixture.store.limits().await.expect("limits"), [record.clone()], "{next:?}");
    }
    let (one, two) = (LimitChange::Declare(rule(1)), LimitChange::Declare(rule(2)));
    fixture.commit(&[change("z", one.clone()), change("a", one), change("a", two)]).await;
    let limits = fixture.store.limits().await.expect("limits");
    let found: Vec<_> = limits.iter().map(|limit| (limit.name.as_str(), limit.declared)).collect();
    assert_eq!(
        found,
        [("a", Some(rule(2))), ("llm", Some(rule(6))), ("z", Some(rule(1)))],
        "two changes keep their order"
    );
}

pub async fn seats_are_given_in_the_order_in_which_steps_ask(fixture: Fixture) {
    limited(&fixture, 2).await;
    let runs = claimed(&fixture, 6).await;
    let got: Vec<bool> = fixture.commit(&[ask(runs[4]), ask(runs[3]), ask(runs[2])]).await.iter().map(answer).collect();
    assert_eq!(got, [true, true, false]);
    for waiting in [runs[5], runs[1], runs[0]] {
        assert!(!answer(&fixture.write(ask(waiting)).await));
    }
    assert_eq!(taken(&fixture.store).await, 2);
    let waits = fixture.store.seat_waits(runs[1].run_id).await.expect("waits");
    assert_eq!((waits.len(), waits[0].step_key.as_str(), &waits[0].line), (1, "ask", &line()));
    assert_eq!(fixture.store.waiting_lines(None, 10).await.expect("lines"), [line()]);
    assert_eq!(fixture.store.waiting_lines(Some(&line()), 10).await.expect("lines"), []);

    assert_eq!(call(&fixture).await, [], "no seat is free");
    let order = [runs[2], runs[5], runs[1], runs[0]];
    for (ended, next) in [(runs[4], order[0]), (runs[3], order[1]), (order[0], order[2]), (order[1], order[3])] {
        assert_eq!(called(fixture.commit(&leave(ended)).await), [next.run_id]);
        assert!(self::got(&fixture, next).await);
        assert_eq!(taken(&fixture.store).await, 2);
    }
    assert_eq!(called(fixture.commit(&leave(order[2])).await), [], "nothing waits any more");
}

pub async fn a_free_seat_is_kept_for_the_step_that_waits_longest(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 3).await;
    assert!(got(&fixture, runs[0]).await);
    assert!(!got(&fixture, runs[1]).await);
    fixture.commit(&leave(runs[0])).await;
    assert!(!got(&fixture, runs[2]).await, "another step waits longer");
    fixture.advance(CALL_PATIENCE + Duration::from_millis(1));
    assert_eq!(call(&fixture).await, [runs[2].run_id], "the first one was called and did not come");
    assert!(got(&fixture, runs[1]).await, "it has kept its place, and the other one has not come");
    assert!(!got(&fixture, runs[2]).await);
    assert_eq!(called(fixture.commit(&leave(runs[1])).await), [runs[2].run_id]);
    assert!(got(&fixture, runs[2]).await);
}

/// A saturated worker claims each called run later than the line waits for it.
pub async fn a_step_that_comes_late_gets_the_free_seat_before_those_behind_it(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 4).await;
    for claim in &runs {
        got(&fixture, *claim).await;
    }
    let late = CALL_PATIENCE + Duration::from_secs(1);
    assert_eq!(called(fixture.commit(&leave(runs[0])).await), [runs[1].run_id]);
    fixture.advance(late);
    assert!(got(&fixture, runs[1]).await, "no other step was called");
    assert_eq!(called(fixture.commit(&leave(runs[1])).await), [runs[2].run_id]);
    fixture.advance(late);
    assert_eq!(call(&fixture).await, [runs[3].run_id]);
    let both = fixture.commit(&[ask(runs[3]), ask(runs[2])]).await;
    assert_eq!(both.iter().map(answer).collect::<Vec<_>>(), [false, true], "the order of the line holds in a batch");
    assert_eq!(taken(&fixture.store).await, 1);
}

pub async fn a_call_wakes_the_run(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 3).await;
    for claim in &runs {
        got(&fixture, *claim).await;
    }
    outcome::applied(&fixture.write(park(runs[1], Timestamp::FAR_FUTURE)).await);
    assert_eq!(claims(&fixture, 9).await, []);
    assert_eq!(called(fixture.commit(&leave(runs[0])).await), [runs[1].run_id]);
    let woken = claims(&fixture, 9).await;
    assert_eq!(woken.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [runs[1].run_id]);
    assert!(got(&fixture, woken[0]).await);
    // A run that is called while it is on its way to park stays due.
    fixture.commit(&leave(woken[0])).await;
    outcome::applied(&fixture.write(park(runs[2], Timestamp::FAR_FUTURE)).await);
    assert_eq!(claims(&fixture, 9).await.len(), 1);
}

pub async fn the_seat_of_a_lost_claim_is_free(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 2).await;
    assert!(got(&fixture, runs[0]).await);
    assert!(!got(&fixture, runs[1]).await);
    fixture.advance(LEASE);
    assert_eq!(call(&fixture).await, [], "the worker may come back");
    let again = claims(&fixture, 9).await;
    assert_eq!(again.len(), 2);
    let of = |run: RunId| *again.iter().find(|claim| claim.run_id == run).expect("a claim");
    assert_eq!(call(&fixture).await, [runs[1].run_id], "the epoch that took the seat is over");
    assert!(matches!(fixture.write(ask(runs[0])).await, Outcome::Lost));
    assert!(got(&fixture, of(runs[1].run_id)).await);
    assert!(!got(&fixture, of(runs[0].run_id)).await);
    assert_eq!(called(fixture.commit(&leave(of(runs[1].run_id))).await), [runs[0].run_id]);
}

pub async fn a_run_that_was_taken_over_asks_before_all_that_wait(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 2).await;
    assert!(got(&fixture, runs[0]).await);
    assert!(!got(&fixture, runs[1]).await);
    outcome::applied(&fixture.write(park(runs[0], fixture.now())).await);
    let again = claims(&fixture, 9).await;
    assert!(got(&fixture, again[0]).await);
    assert!(got(&fixture, again[0]).await, "a question that is repeated changes nothing");
}

/// The worker that was stopped for longer than its lease goes on, and its body ends.
pub async fn a_lost_claim_gives_no_seat_back(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 2).await;
    assert!(got(&fixture, runs[0]).await);
    assert!(!got(&fixture, runs[1]).await);
    fixture.advance(LEASE);
    let again = claims(&fixture, 9).await;
    let of = |run: RunId| *again.iter().find(|claim| claim.run_id == run).expect("a claim");
    assert!(got(&fixture, of(runs[0].run_id)).await);
    let outcomes = fixture.commit(&leave(runs[0])).await;
    assert!(matches!(&outcomes[..], [Outcome::Lost, Outcome::Called(none)] if none.is_empty()), "{outcomes:?}");
    assert_eq!(taken(&fixture.store).await, 1);
    assert!(!got(&fixture, of(runs[1].run_id)).await);
}

pub async fn a_run_that_ends_leaves_its_lines(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 4).await;
    for claim in &runs {
        got(&fixture, *claim).await;
    }
    outcome::applied(&fixture.write(end(runs[1])).await);
    let ended = fixture.write(Write::Terminate(runs[0].run_id)).await;
    assert!(matches!(ended, Outcome::Canceled(CancelOutcome::Canceled)), "{ended:?}");
    let rows = fixture.store.seats(&[(&line(), 100)]).await.expect("seats").remove(0);
    let left: Vec<RunId> = rows.iter().map(|row| row.run_id).collect();
    assert_eq!(left, [runs[2].run_id, runs[3].run_id]);
    assert_eq!(call(&fixture).await, [runs[2].run_id]);
}

pub async fn a_paused_run_keeps_its_place_and_is_not_called(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 3).await;
    for claim in &runs {
        got(&fixture, *claim).await;
    }
    fixture.write(Write::Pause(runs[1].run_id)).await;
    assert_eq!(called(fixture.commit(&leave(runs[0])).await), [runs[2].run_id]);
    fixture.write(Write::Resume(runs[1].run_id)).await;
    assert!(!got(&fixture, runs[2]).await);
    assert!(got(&fixture, runs[1]).await);
}

/// A running run goes on, also in a paused queue.
pub async fn a_parked_run_of_a_paused_queue_is_not_called(fixture: Fixture) {
    limited(&fixture, 1).await;
    let runs = claimed(&fixture, 3).await;
    for claim in &runs {
        got(&fixture, *claim).await;
    }
    outcome::applied(&fixture.write(park(runs[1], Timestamp::FAR_FUTURE)).await);
    let change = |change| Write::Queue(QueueWrite { queue: lane().queue, change });
    outcome::applied(&fixture.write(change(QueueChange::Pause { reason: "why".into() })).await);
    assert_eq!(called(fixture.commit(&leave(runs[0])).await), [runs[2].run_id], "no worker may claim the other one");
    assert!(got(&fixture, runs[2]).await);
    assert_eq!(called(fixture.commit(&leave(runs[2])).await), []);
    outcome::applied(&fixture.write(change(QueueChange::Resume)).await);
    assert_eq!(call(&fixture).await, [runs[1].run_id]);
    assert!(got(&fixture, claims(&fixture, 9).await[0]).await, "it has kept its place");
}

pub async fn keys_and_limits_do_not_count_for_each_other(fixture: Fixture) {
    limited(&fixture, 1).await;
    outcome::applied(&fixture.write(change("bank", LimitChange::Override(Some(rule(1))))).await);
    let runs = claimed(&fixture, 4).await;
    let lines = [("llm", "a"), ("llm", "b"), ("bank", "a"), ("llm", "a")];
    let asked = lines
        .iter()
        .zip(&runs)
        .map(|((limit, key), claim)| ask_in(SeatLine { limit: (*limit).into(), key: (*key).into() }, *claim));
    let outcomes = fixture.commit(&asked.collect::<Vec<_>>()).await;
    assert_eq!(outcomes.iter().map(answer).collect::<Vec<_>>(), [true, true, true, false]);
}

pub async fn a_change_of_a_limit_holds_for_the_next_question(fixture: Fixture) {
    limited(&fixture, 0).await;
    let runs = claimed(&fixture, 5).await;
    assert!(!got(&fixture, runs[0]).await, "0 lets none begin");
    outcome::applied(&fixture.write(change("llm", LimitChange::Override(Some(rule(3))))).await);
    assert_eq!(call(&fixture).await, [runs[0].run_id]);
    assert!(got(&fixture, runs[0]).await && got(&fixture, runs[1]).await);
    let lowered = [change("llm", LimitChange::Override(Some(rule(1)))), ask(runs[2])];
    assert!(!answer(&fixture.commit(&lowered).await[1]), "the limit of its batch holds");
    assert_eq!(called(fixture.commit(&leave(runs[0])).await), [], "one seat too many is taken");
    assert_eq!(called(fixture.commit(&leave(runs[1])).await), [runs[2].run_id]);
    outcome::applied(&fixture.write(change("llm", LimitChange::Override(Some(LimitRule::none())))).await);
    assert!(got(&fixture, runs[3]).await);
}

pub async fn a_limit_that_is_not_declared_is_refused(fixture: Fixture) {
    let runs = claimed(&fixture, 2).await;
    let outcomes = fixture.commit(&[ask(runs[0]), Write::CallSeats(line())]).await;
    assert!(
        matches!(&outcomes[..], [Outcome::LimitUndeclared, Outcome::Called(none)] if none.is_empty()),
        "{outcomes:?}"
    );
    assert_eq!(fixture.store.history(runs[0].run_id).await.expect("a history"), []);
    limited(&fixture, 1).await;
    assert!(got(&fixture, runs[0]).await);
}

/// Each step asks again and meets the refusal that a step meets which did not wait.
pub async fn the_steps_that_wait_for_a_cleared_limit_are_called_and_refused(fixture: Fixture) {
    let set = |rule| fixture.write(change("llm", LimitChange::Override(rule)));
    outcome::applied(&set(Some(rule(1))).await);
    let runs = claimed(&fixture, 4).await;
    for claim in &runs {
        got(&fixture, *claim).await;
    }
    outcome::applied(&fixture.write(park(runs[1], Timestamp::FAR_FUTURE)).await);
    outcome::applied(&set(None).await);
    // One asks in the batch that calls the others.
    let outcomes = fixture.commit(&[ask(runs[3]), Write::CallSeats(line())]).await;
    assert!(matches!(outcomes[0], Outcome::LimitUndeclared), "{outcomes:?}");
    let mut waiting = [runs[1].run_id, runs[2].run_id];
    waiting.sort_unstable();
    assert_eq!(called(outcomes), waiting);
    assert_eq!(call(&fixture).await, [], "each is called once");
    let woken = claims(&fixture, 9).await;
    assert_eq!(woken.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [runs[1].run_id]);
    for claim in [woken[0], runs[2]] {
        assert!(matches!(fixture.write(ask(claim)).await, Outcome::LimitUndeclared));
        assert_eq!(fixture.store.seat_waits(claim.run_id).await.expect("waits"), [], "it waits no more");
    }
    assert_eq!(fixture.store.waiting_lines(None, 10).await.expect("lines"), []);
}

/// A later release, or damage, must not exceed a limit.
pub async fn a_rule_that_is_not_understood_lets_nothing_begin(fixture: Fixture) {
    limited(&fixture, 9).await;
    fixture.raw().await.execute("UPDATE workflow_limits SET declared = '{\"concurrency\":-1}'").await;
    let record = fixture.store.limits().await.expect("limits").remove(0);
    assert!(record.not_understood.is_some(), "{record:?}");
    let runs = claimed(&fixture, 1).await;
    assert!(!got(&fixture, runs[0]).await);
    limited(&fixture, 9).await;
    assert!(got(&fixture, runs[0]).await);
}

/// Two processes ask at once, again and again.
pub async fn concurrent_questions_never_exceed_a_limit(fixture: Fixture) {
    limited(&fixture, 3).await;
    let second = fixture.second().await;
    let runs = claimed(&fixture, 24).await;
    let work = async |store: Arc<dyn Store>, mut left: Vec<Claim>| {
        let (mut held, mut most): (Vec<Claim>, _) = (Vec::new(), 0);
        while !left.is_empty() || !held.is_empty() {
            let mut batch: Vec<Write> = held.drain(..).flat_map(leave).collect();
            batch.extend(left.iter().map(|claim| ask(*claim)));
            let outcomes = store.commit(&batch).await.expect("commit");
            most = most.max(taken(&store).await);
            let asked = outcomes.len() - left.len();
            for outcome in outcomes.iter().skip(asked).rev() {
                let claim = left.pop().expect("a claim for each question");
                if answer(outcome) { held.push(claim) } else { left.insert(0, claim) }
            }
        }
        most
    };
    let (one, two) =
        tokio::join!(work(Arc::clone(&fixture.store), runs[..12].to_vec()), work(second, runs[12..].to_vec()));
    assert!((1..=3).contains(&one) && two <= 3, "{one} and {two} at once");
}
