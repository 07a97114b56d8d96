//! Counts for operators.

use std::collections::BTreeMap;

use workflow_engine::model::{Claim, Lane, LimitChange, LimitRule, NewRun, QueueChange, SeatLine};
use workflow_engine::store::{
    ClaimRequest, GateList, HeldRuns, ListedSeat, QueueWrite, RunCounts, SeatCounts, SeatList, Write,
};
use workflow_sdk::{Run, RunStatus, Timestamp};
use workflow_tests::builders::{claim_request, lane_of, new_run, park, start};
use workflow_tests::outcome::{applied, created};
use workflow_tests::{Fixture, outcome};

use crate::limit;
use crate::list::runs_of_every_kind;

const MANY: u32 = 1_000;

fn number(runs: &[Run], has: impl Fn(&Run) -> bool) -> u32 {
    u32::try_from(runs.iter().filter(|run| has(run)).count()).expect("few")
}

fn waits(run: &Run) -> bool {
    matches!(run.status, RunStatus::Pending | RunStatus::Parked)
}

pub async fn counts_are_those_of_the_runs(fixture: Fixture) {
    runs_of_every_kind(&fixture).await;
    // A run that would be due if it were not paused.
    let paused = fixture.started().await;
    fixture.write(Write::Pause(paused)).await;
    let (runs, now) = (fixture.runs().await, fixture.now());
    let is = |status: RunStatus| move |run: &Run| run.status == status;
    let expected = RunCounts {
        waiting: number(&runs, waits),
        pending: number(&runs, is(RunStatus::Pending)),
        parked: number(&runs, is(RunStatus::Parked)),
        delayed: number(&runs, |run| run.status == RunStatus::Pending && run.available_at > now),
        paused: number(&runs, |run| waits(run) && run.paused_at.is_some()),
        stuck: number(&runs, |run| run.status == RunStatus::Parked && run.error.is_some()),
        due: number(&runs, |run| waits(run) && run.paused_at.is_none() && run.available_at <= now),
        running: number(&runs, is(RunStatus::Running)),
        running_paused: number(&runs, |run| run.status == RunStatus::Running && run.paused_at.is_some()),
        ended: number(&runs, |run| matches!(run.status, RunStatus::Failed | RunStatus::Canceled)),
        failed: number(&runs, is(RunStatus::Failed)),
    };
    let RunCounts { pending, parked, paused, stuck, running, ended, failed, due, .. } = expected;
    assert!([pending, parked, paused, stuck, running, ended, failed, due].iter().all(|count| *count > 0), "{runs:?}");
    assert_eq!(fixture.store.run_counts(MANY).await.unwrap(), expected);
    let cut = fixture.store.run_counts(1).await.unwrap();
    assert_eq!((cut.waiting, cut.running, cut.ended, cut.due), (1, 1, 1, 1));
    // One run that is due or waits for a time, and one that is paused.
    assert!((1..=2).contains(&(cut.pending + cut.parked)) && cut.failed <= 1);
}

pub async fn lanes_are_listed_without_their_gates(fixture: Fixture) {
    let lanes =
        [lane_of("slow", "refund", "1"), lane_of("default", "checkout", "2"), lane_of("default", "checkout", "1")];
    for lane in &lanes {
        for gate in [None, Some("a".to_owned()), Some("b".to_owned())] {
            created(&fixture.write(start(&NewRun { lane: lane.clone(), gate, ..new_run() })).await);
        }
    }
    let mut sorted = lanes.to_vec();
    sorted.sort();
    assert_eq!(fixture.store.lanes(MANY).await.unwrap(), sorted);
    assert_eq!(fixture.store.lanes(2).await.unwrap().len(), 2);
}

pub async fn the_oldest_due_run_of_a_queue_is_found(fixture: Fixture) {
    let oldest = async |queue: &str| fixture.store.oldest_due(queue).await.unwrap();
    assert_eq!(oldest("default").await, None);
    let second = std::time::Duration::from_secs(1);
    let gated = NewRun { gate: Some("a".into()), lane: lane_of("mail", "send", "1"), ..new_run() };
    let began = fixture.now();
    created(&fixture.write(start(&gated)).await);
    fixture.advance(second);
    created(&fixture.write(start(&new_run())).await);
    let later = NewRun { start: workflow_engine::model::StartTime::After(60 * second), ..new_run() };
    created(&fixture.write(start(&NewRun { lane: lane_of("slow", "send", "1"), ..later })).await);
    assert_eq!((oldest("mail").await, oldest("slow").await), (Some(began), None));
    assert_eq!(oldest("default").await, Some(began + second));
    fixture.advance(60 * second);
    assert_eq!(oldest("slow").await, Some(began + 61 * second));
    fixture.write(Write::Pause(gated.id)).await;
    assert_eq!(oldest("mail").await, None);
}

pub async fn running_runs_are_counted_by_their_workers(fixture: Fixture) {
    fixture.started_many(5).await;
    assert_eq!(fixture.store.held_runs(MANY).await.unwrap(), HeldRuns::default());
    let mut expected = BTreeMap::new();
    for limit in [2, 3] {
        let request = ClaimRequest { limit, ..claim_request() };
        assert_eq!(fixture.claim(&request).await.runs.len(), limit as usize);
        *expected.entry(request.worker).or_insert(0) += limit;
    }
    let held = fixture.store.held_runs(MANY).await.unwrap();
    assert_eq!(held, HeldRuns { runs: 5, by_worker: expected.into_iter().collect() });
    assert_eq!(fixture.store.held_runs(4).await.unwrap().runs, 4);
}

pub async fn gates_are_listed_in_pages_with_their_runs(fixture: Fixture) {
    let mail: Lane = lane_of("mail", "send", "1");
    for gate in ["b", "a", "a", "c", "a"] {
        let run = NewRun { gate: Some(gate.into()), lane: mail.clone(), ..new_run() };
        created(&fixture.write(start(&run)).await);
    }
    let other = NewRun { gate: Some("z".into()), lane: lane_of("other", "send", "1"), ..new_run() };
    created(&fixture.write(start(&other)).await);
    let weigh = QueueChange::Weigh { gate: "b".into(), weight: 7 };
    applied(&fixture.write(Write::Queue(QueueWrite { queue: "mail".into(), change: weigh })).await);
    let request = ClaimRequest { lanes: vec![mail], gated: vec!["mail".into()], limit: 2, ..claim_request() };
    assert_eq!(fixture.claim(&request).await.runs.len(), 2);

    let list = async |after, limit, at_most| {
        let gates = fixture.store.gates(GateList { queue: "mail", after, limit, at_most }).await.unwrap();
        gates.into_iter().map(|gate| (gate.gate, gate.weight, gate.running, gate.waiting)).collect::<Vec<_>>()
    };
    let all = list(None, 10, MANY).await;
    assert_eq!(
        all.iter().map(|(gate, weight, ..)| (gate.as_str(), *weight)).collect::<Vec<_>>(),
        [("a", 1), ("b", 7), ("c", 1)]
    );
    assert_eq!(all.iter().map(|(.., running, waiting)| running + waiting).collect::<Vec<_>>(), [3, 1, 1]);
    assert_eq!(all.iter().map(|(.., running, _)| running).sum::<u32>(), 2);
    assert_eq!(list(None, 2, MANY).await, all[..2]);
    assert_eq!(list(Some("b"), 2, MANY).await, all[2..]);
    assert_eq!(list(Some("c"), 2, MANY).await, []);
    assert!(list(None, 1, 1).await[0].3 <= 1);
}

async fn listed(fixture: &Fixture, waiting: bool, after: (&str, Timestamp), at_most: u32) -> Vec<ListedSeat> {
    fixture.store.listed_seats(SeatList { limit: "llm", waiting, after, at_most }).await.unwrap()
}

pub async fn seats_are_listed_by_key_and_time(fixture: Fixture) {
    let one = LimitRule::none().concurrency(1);
    applied(&fixture.write(limit::change("llm", LimitChange::Declare(one))).await);
    applied(&fixture.write(limit::change("other", LimitChange::Declare(one))).await);
    let mut claims = Vec::new();
    for (name, key) in [("llm", "b"), ("llm", "a"), ("llm", "b"), ("llm", "a"), ("other", "a"), ("llm", "b")] {
        let claim = fixture.held().await;
        fixture.write(limit::ask_in(SeatLine { limit: name.into(), key: key.into() }, claim)).await;
        claims.push(claim);
    }
    let first = ("", Timestamp::from_micros(i64::MIN));
    let ids = |seats: &[ListedSeat]| seats.iter().map(|seat| (seat.key.clone(), seat.run_id)).collect::<Vec<_>>();
    let expected = |claims: [(&str, Claim); 2]| claims.map(|(key, claim)| (key.to_owned(), claim.run_id)).to_vec();
    let held = listed(&fixture, false, first, 10).await;
    assert_eq!(ids(&held), expected([("a", claims[1]), ("b", claims[0])]));
    assert!(held.iter().all(|seat| seat.epoch == Some(1) && seat.run_epoch == 1 && seat.workflow == "checkout"));
    let waiting = listed(&fixture, true, first, 10).await;
    let (next, rest) = waiting.split_at(1);
    assert_eq!(ids(next), [("a".to_owned(), claims[3].run_id)]);
    assert_eq!(ids(rest), expected([("b", claims[2]), ("b", claims[5])]));
    assert!(waiting.iter().all(|seat| seat.epoch.is_none() && seat.called_at.is_none()));
    for (place, seat) in waiting.iter().enumerate() {
        let next = listed(&fixture, true, (&seat.key, seat.asked_at), 1).await;
        assert_eq!(next, waiting[place + 1..].iter().take(1).cloned().collect::<Vec<_>>());
    }
    assert_eq!(listed(&fixture, true, first, 2).await, waiting[..2]);
    outcome::applied(&fixture.write(park(claims[0], Timestamp::FAR_FUTURE)).await);
    let left = listed(&fixture, false, first, 10).await;
    assert_eq!((left.len(), left[1].run_status), (2, RunStatus::Parked), "the row shows that the seat is void");
    let none = SeatList { limit: "none", waiting: false, after: first, at_most: 5 };
    assert_eq!(fixture.store.listed_seats(none).await.unwrap(), []);
}

pub async fn seats_are_counted_per_limit(fixture: Fixture) {
    let count = async |limit: &str, at_most| fixture.store.seat_counts(limit, at_most).await.unwrap();
    assert_eq!(count("llm", MANY).await, SeatCounts::default());
    let one = LimitRule::none().concurrency(1);
    applied(&fixture.write(limit::change("llm", LimitChange::Declare(one))).await);
    let mut claims = Vec::new();
    for key in ["x", "x", "y", "x"] {
        let claim = fixture.held().await;
        fixture.write(limit::ask_in(SeatLine { limit: "llm".into(), key: key.into() }, claim)).await;
        claims.push(claim);
    }
    assert_eq!(count("llm", MANY).await, SeatCounts { held: 2, waiting: 2 });
    assert_eq!(count("llm", 1).await, SeatCounts { held: 1, waiting: 1 });
    assert_eq!(count("other", MANY).await, SeatCounts::default());
    outcome::applied(&fixture.write(park(claims[0], Timestamp::FAR_FUTURE)).await);
    assert_eq!(count("llm", MANY).await.held, 1, "a parked run holds no seat");
}
