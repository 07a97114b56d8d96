//! Rates of limits for steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{Claim, Effect, LimitChange, LimitRule, Rate, SeatLine};
use workflow_engine::store::{AttemptWrite, Outcome, Store, Write};
use workflow_sdk::{RunId, Timestamp};
use workflow_tests::builders::{LEASE, park};
use workflow_tests::{Fixture, outcome};

use crate::limit::{ask_in, called, change, claimed, claims, end};

const SECOND: Duration = Duration::from_secs(1);

fn line(key: &str) -> SeatLine {
    SeatLine { limit: "llm".into(), key: key.into() }
}

async fn declare(fixture: &Fixture, rule: LimitRule) {
    outcome::applied(&fixture.write(change("llm", LimitChange::Declare(rule))).await);
}

async fn rated(fixture: &Fixture, rate: Rate) {
    declare(fixture, LimitRule::none().rate(rate)).await;
}

/// The answer to a step that asked for a seat.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Begins,
    /// The step waits, and its run is woken.
    Waits,
    /// The step asks again after this time.
    AsksAfter(Duration),
}

use Answer::{AsksAfter, Begins, Waits};

fn answer(outcome: &Outcome, now: Timestamp) -> Answer {
    match outcome {
        Outcome::Applied => Begins,
        Outcome::SeatWaits { asks_at: None } => Waits,
        Outcome::SeatWaits { asks_at: Some(at) } => AsksAfter(at.since(now)),
        other => panic!("{other:?}"),
    }
}

async fn ask_with(fixture: &Fixture, claim: Claim, key: &str) -> Answer {
    answer(&fixture.write(ask_in(line(key), claim)).await, fixture.now())
}

async fn ask(fixture: &Fixture, claim: Claim) -> Answer {
    ask_with(fixture, claim, "acct-42").await
}

/// The end of a body or of a wait, and the call that a drive sends with it.
async fn leave(fixture: &Fixture, claim: Claim, key: &str) -> Vec<RunId> {
    let Write::Attempt(AttemptWrite { row, .. }) = ask_in(line(key), claim) else { panic!("an attempt") };
    let effect = Effect::LeaveSeat(Box::new(line(key)));
    let leave = Write::Attempt(AttemptWrite { claim, row, effect });
    called(fixture.commit(&[leave, Write::CallSeats(line(key))]).await)
}

async fn call(fixture: &Fixture) -> Vec<RunId> {
    called(fixture.commit(&[Write::CallSeats(line("acct-42"))]).await)
}

/// Two keys, whose steps ask at any times, most of them too early.
pub async fn no_period_sees_more_bodies_begin_than_the_rate_and_its_burst(fixture: Fixture) {
    rated(&fixture, Rate::per_second(5).burst(3)).await;
    let mut random = fastrand::Rng::with_seed(7);
    let runs = claimed(&fixture, 40).await;
    let keys = ["a", "b"];
    let mut left: Vec<(Claim, &str)> = runs.into_iter().zip(keys.into_iter().cycle()).collect();
    let mut begun: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    let began_at = fixture.now();
    while !left.is_empty() {
        let asking: Vec<(Claim, &str)> = left.iter().filter(|_| random.bool()).copied().collect();
        let questions: Vec<Write> = asking.iter().map(|(claim, key)| ask_in(line(key), *claim)).collect();
        let outcomes = if questions.is_empty() { Vec::new() } else { fixture.commit(&questions).await };
        for ((claim, key), outcome) in asking.into_iter().zip(outcomes) {
            if answer(&outcome, fixture.now()) == Begins {
                begun.entry(key).or_default().push(fixture.now());
                left.retain(|(other, _)| *other != claim);
                if random.bool() {
                    leave(&fixture, claim, key).await;
                }
            }
        }
        fixture.advance(Duration::from_millis(random.u64(0..300)));
    }
    for (key, begins) in begun {
        let most = (0..begins.len())
            .map(|first| begins[first..].iter().take_while(|at| **at < begins[first] + SECOND).count())
            .max();
        assert!(most.is_some_and(|most| (4..=7).contains(&most)), "{key}: {begins:?}");
        let took = begins[begins.len() - 1].since(began_at);
        assert!(took < 12 * SECOND, "20 bodies need 3.4 s at least: {took:?}");
    }
}

pub async fn a_step_is_told_when_it_may_begin_and_begins_then(fixture: Fixture) {
    rated(&fixture, Rate::per_second(1).burst(2)).await;
    let runs = claimed(&fixture, 5).await;
    assert_eq!([ask(&fixture, runs[0]).await, ask(&fixture, runs[1]).await], [Begins; 2], "the burst");
    for (run, seconds) in runs[2..].iter().zip(1..) {
        assert_eq!(ask(&fixture, *run).await, AsksAfter(seconds * SECOND));
    }
    assert_eq!(call(&fixture).await, [], "each comes by itself");
    fixture.advance(SECOND - Duration::from_micros(1));
    assert_eq!(ask(&fixture, runs[2]).await, AsksAfter(Duration::from_micros(1)));
    fixture.advance(Duration::from_micros(1));
    assert_eq!(ask(&fixture, runs[2]).await, Begins);
    assert_eq!(ask(&fixture, runs[3]).await, AsksAfter(SECOND));
    fixture.advance(SECOND);
    assert_eq!(ask(&fixture, runs[3]).await, Begins);
    // After a rest there is the burst again, and no more.
    fixture.advance(LEASE / 2);
    let others = claimed(&fixture, 2).await;
    assert_eq!([ask(&fixture, runs[4]).await, ask(&fixture, others[0]).await], [Begins; 2]);
    assert_eq!(ask(&fixture, others[1]).await, AsksAfter(SECOND));
}

pub async fn the_order_of_the_line_holds_at_a_rate(fixture: Fixture) {
    rated(&fixture, Rate::per_second(1)).await;
    let runs = claimed(&fixture, 4).await;
    assert_eq!(ask(&fixture, runs[0]).await, Begins);
    assert_eq!(ask(&fixture, runs[1]).await, AsksAfter(SECOND));
    assert_eq!(ask(&fixture, runs[2]).await, AsksAfter(2 * SECOND));
    fixture.advance(SECOND);
    // The rate lets one begin, and it is for the one that waits longest.
    assert_eq!(ask(&fixture, runs[3]).await, AsksAfter(2 * SECOND));
    assert_eq!(ask(&fixture, runs[2]).await, AsksAfter(SECOND));
    assert_eq!(ask(&fixture, runs[1]).await, Begins);
    fixture.advance(SECOND);
    // A parked run keeps its place.
    outcome::applied(&fixture.write(park(runs[2], fixture.now())).await);
    assert_eq!(ask(&fixture, runs[3]).await, AsksAfter(SECOND));
    let woken = claims(&fixture, 9).await;
    assert_eq!(woken.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [runs[2].run_id]);
    assert_eq!(ask(&fixture, woken[0]).await, Begins);
}

pub async fn a_step_that_leaves_brings_the_next_ones_forward(fixture: Fixture) {
    rated(&fixture, Rate::per_second(1)).await;
    let runs = claimed(&fixture, 6).await;
    for run in &runs {
        ask(&fixture, *run).await;
    }
    // The times of the others are not near yet: a later look calls them.
    assert_eq!(leave(&fixture, runs[1], "acct-42").await, [runs[2].run_id, runs[3].run_id]);
    assert_eq!(ask(&fixture, runs[2]).await, AsksAfter(SECOND));
    assert_eq!(ask(&fixture, runs[3]).await, AsksAfter(2 * SECOND));
    assert_eq!(call(&fixture).await, []);
    fixture.advance(SECOND);
    assert_eq!(call(&fixture).await, [runs[4].run_id]);
    // A run that ends without its worker is missed by the next look.
    fixture.write(Write::Terminate(runs[2].run_id)).await;
    let mut next = call(&fixture).await;
    next.sort();
    assert_eq!(next, [runs[3].run_id, runs[5].run_id]);
    assert_eq!(ask(&fixture, runs[3]).await, Begins);
}

/// Its worker has died, or is busy.
pub async fn a_step_that_does_not_come_at_its_time_is_called(fixture: Fixture) {
    rated(&fixture, Rate::per_second(1)).await;
    let runs = claimed(&fixture, 3).await;
    for run in &runs {
        ask(&fixture, *run).await;
    }
    outcome::applied(&fixture.write(park(runs[1], Timestamp::FAR_FUTURE)).await);
    fixture.advance(SECOND);
    assert_eq!(call(&fixture).await, [], "it has a second to come");
    fixture.advance(SECOND);
    assert_eq!(call(&fixture).await, [runs[1].run_id]);
    assert_eq!(claims(&fixture, 9).await.len(), 1, "it was woken");
    assert_eq!(ask(&fixture, runs[2]).await, AsksAfter(SECOND), "it is before the others for a while");
    fixture.advance(LEASE);
    assert_eq!(ask(&fixture, runs[2]).await, Begins, "and then it is passed over");
}

/// The database does not know whether the body has begun before the worker died.
pub async fn a_repeated_question_uses_a_rate_once_and_a_lost_claim_uses_it_again(fixture: Fixture) {
    rated(&fixture, Rate::per(LEASE * 2, 1).burst(2)).await;
    let runs = claimed(&fixture, 3).await;
    assert_eq!(ask(&fixture, runs[0]).await, Begins);
    assert_eq!(ask(&fixture, runs[0]).await, Begins, "the reply to the commit was lost");
    assert_eq!(ask(&fixture, runs[1]).await, Begins, "the burst of two is not used up");
    assert_eq!(ask(&fixture, runs[2]).await, AsksAfter(LEASE * 2));
    fixture.advance(LEASE);
    let again = claims(&fixture, 9).await;
    let of = |run: RunId| *again.iter().find(|claim| claim.run_id == run).expect("a claim");
    assert!(matches!(fixture.write(ask_in(line("acct-42"), runs[0])).await, Outcome::Lost), "it uses nothing");
    assert_eq!(ask(&fixture, of(runs[0].run_id)).await, AsksAfter(LEASE), "before all that wait");
    assert_eq!(ask(&fixture, of(runs[2].run_id)).await, AsksAfter(LEASE * 3));
    fixture.advance(LEASE);
    let taken_over = claims(&fixture, 9).await;
    let of = |run: RunId| *taken_over.iter().find(|claim| claim.run_id == run).expect("a claim");
    assert_eq!(ask(&fixture, of(runs[0].run_id)).await, Begins);
}

pub async fn a_rate_and_a_concurrency_hold_together(fixture: Fixture) {
    declare(&fixture, LimitRule::none().concurrency(2).rate(Rate::per_second(1).burst(3))).await;
    let runs = claimed(&fixture, 5).await;
    assert_eq!([ask(&fixture, runs[0]).await, ask(&fixture, runs[1]).await], [Begins; 2]);
    assert_eq!([ask(&fixture, runs[2]).await, ask(&fixture, runs[3]).await], [Waits; 2], "no seat is free");
    assert_eq!(leave(&fixture, runs[0], "acct-42").await, [runs[2].run_id]);
    assert_eq!(ask(&fixture, runs[2]).await, Begins, "the rest of the burst");
    // Now a seat is free before the rate lets a body begin. The next step learns when that is.
    assert_eq!(leave(&fixture, runs[1], "acct-42").await, [runs[3].run_id]);
    assert_eq!(ask(&fixture, runs[3]).await, AsksAfter(SECOND));
    assert_eq!(call(&fixture).await, []);
    fixture.advance(SECOND);
    assert_eq!([ask(&fixture, runs[3]).await, ask(&fixture, runs[4]).await], [Begins, Waits]);
}

pub async fn a_changed_rate_holds_for_the_next_question(fixture: Fixture) {
    let hour = Duration::from_secs(3600);
    rated(&fixture, Rate::per(hour, 1).burst(2)).await;
    let runs = claimed(&fixture, 6).await;
    for run in &runs[..2] {
        assert_eq!(ask(&fixture, *run).await, Begins);
    }
    assert_eq!(ask(&fixture, runs[2]).await, AsksAfter(hour));
    assert_eq!(ask(&fixture, runs[3]).await, AsksAfter(2 * hour));
    // Faster: what the old rate has used up holds nothing back for longer than after a burst.
    let faster = change("llm", LimitChange::Override(Some(LimitRule::none().rate(Rate::per_second(1)))));
    outcome::applied(&fixture.write(faster).await);
    assert_eq!(call(&fixture).await, [runs[2].run_id, runs[3].run_id]);
    assert_eq!(ask(&fixture, runs[2]).await, AsksAfter(SECOND));
    assert_eq!(ask(&fixture, runs[3]).await, AsksAfter(2 * SECOND));
    fixture.advance(SECOND);
    assert_eq!(ask(&fixture, runs[2]).await, Begins);
    // Slower again: steps that come at their old times are told the new ones.
    outcome::applied(&fixture.write(change("llm", LimitChange::Override(None))).await);
    fixture.advance(SECOND);
    assert_eq!([ask(&fixture, runs[3]).await, ask(&fixture, runs[4]).await], [Begins; 2], "a burst of two");
    assert_eq!(ask(&fixture, runs[5]).await, AsksAfter(hour));
    // Without a rate, nothing is held back.
    outcome::applied(&fixture.write(change("llm", LimitChange::Override(Some(LimitRule::none())))).await);
    assert_eq!(call(&fixture).await, [runs[5].run_id]);
    assert_eq!(ask(&fixture, runs[5]).await, Begins);
}

pub async fn each_key_has_a_rate_of_its_own(fixture: Fixture) {
    rated(&fixture, Rate::per_second(1)).await;
    let of_bank = LimitChange::Declare(LimitRule::none().rate(Rate::per_minute(1)));
    outcome::applied(&fixture.write(change("bank", of_bank)).await);
    let runs = claimed(&fixture, 5).await;
    let lines = [("llm", "a"), ("llm", "b"), ("bank", "a"), ("llm", "a"), ("bank", "a")];
    let asked = lines
        .iter()
        .zip(&runs)
        .map(|((limit, key), claim)| ask_in(SeatLine { limit: (*limit).into(), key: (*key).into() }, *claim));
    let outcomes = fixture.commit(&asked.collect::<Vec<_>>()).await;
    let answers: Vec<Answer> = outcomes.iter().map(|outcome| answer(outcome, fixture.now())).collect();
    assert_eq!(answers, [Begins, Begins, Begins, AsksAfter(SECOND), AsksAfter(60 * SECOND)]);
    let lines = [line("a"), line("never used"), SeatLine { limit: "bank".into(), key: "a".into() }];
    let rates = fixture.store.line_rates(&lines.iter().collect::<Vec<_>>()).await.expect("rates");
    let now = fixture.now();
    assert_eq!(rates.now, now);
    assert_eq!(rates.used_until, [now + SECOND, Timestamp::from_micros(0), now + 60 * SECOND]);
}

pub async fn rates_that_are_not_used_up_are_forgotten(fixture: Fixture) {
    rated(&fixture, Rate::per_second(1)).await;
    let rows = async || fixture.raw().await.number("SELECT count(*) FROM workflow_line_rates").await;
    for round in 0..5 {
        let runs = claimed(&fixture, 40).await;
        for (number, run) in runs.into_iter().enumerate() {
            assert_eq!(ask_with(&fixture, run, &format!("{round} {number}")).await, Begins);
            outcome::applied(&fixture.write(end(run)).await);
        }
        assert_eq!(rows().await, 40, "none of them may be forgotten, and those before were");
        fixture.advance(2 * SECOND);
    }
}

pub async fn a_limit_without_a_rate_writes_no_rates(fixture: Fixture) {
    declare(&fixture, LimitRule::none().concurrency(1)).await;
    let runs = claimed(&fixture, 2).await;
    assert_eq!([ask(&fixture, runs[0]).await, ask(&fixture, runs[1]).await], [Begins, Waits]);
    assert_eq!(leave(&fixture, runs[0], "acct-42").await, [runs[1].run_id]);
    assert_eq!(fixture.raw().await.number("SELECT count(*) FROM workflow_line_rates").await, 0);
}

/// Two processes ask at once, again and again, while no time passes.
pub async fn concurrent_questions_never_exceed_a_rate(fixture: Fixture) {
    rated(&fixture, Rate::per_second(1).burst(5)).await;
    let second = fixture.second().await;
    let runs = claimed(&fixture, 24).await;
    let work = async |store: Arc<dyn Store>, mut left: Vec<Claim>| {
        let mut begun = 0;
        for _ in 0..8 {
            let questions: Vec<Write> = left.iter().map(|claim| ask_in(line("acct-42"), *claim)).collect();
            let outcomes = store.commit(&questions).await.expect("commit");
            let mut outcomes = outcomes.iter();
            left.retain(|_| !matches!(outcomes.next(), Some(Outcome::Applied)));
            begun = 12 - left.len();
        }
        begun
    };
    let (one, two) =
        tokio::join!(work(Arc::clone(&fixture.store), runs[..12].to_vec()), work(second, runs[12..].to_vec()));
    assert_eq!(one + two, 5, "{one} and {two}");
}
