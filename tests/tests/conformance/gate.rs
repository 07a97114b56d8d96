//! Gates: parts of a queue that take turns and have limits of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{
    Claim, GateLimits, Lane, NewRun, OnParentEnd, QueueChange, QueueLimits, Rate, Retention, StartTime, WorkerId,
};
use workflow_engine::store::{ClaimRequest, Claimed, GateUse, Outcome, QueueWrite, RetryWrite, RunEnd, Store, Write};
use workflow_sdk::{RunFilter, RunId, RunStatus, Timestamp};
use workflow_tests::builders::{
    LEASE, begin_child, child_of, claim_by, continue_as_new, end, error, lane_of, new_run, park, signal, start, succeed,
};
use workflow_tests::{Fixture, outcome, until};

const LIMIT: u32 = 2;

/// Longer than any difference of clocks, and shorter than a lease.
const MOMENT: Duration = Duration::from_millis(1);

fn mail() -> Lane {
    lane_of("mail", "checkout", "1")
}

fn behind(gate: &str) -> NewRun {
    NewRun { lane: mail(), gate: Some(gate.into()), ..new_run() }
}

fn limits(runs: u32) -> QueueLimits {
    QueueLimits::none().per_gate(GateLimits::none().concurrency(runs))
}

async fn change(fixture: &Fixture, change: QueueChange) {
    outcome::applied(&fixture.write(Write::Queue(QueueWrite { queue: "mail".into(), change })).await);
}

async fn limited(fixture: &Fixture, runs: u32) {
    change(fixture, QueueChange::Declare(limits(runs))).await;
}

async fn started(fixture: &Fixture, gate: &str, count: usize) -> Vec<RunId> {
    let runs: Vec<NewRun> = (0..count).map(|_| behind(gate)).collect();
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await;
    runs.iter().map(|run| run.id).collect()
}

/// Claims from the queue `mail` as a worker does that knows of its gates.
fn request(limit: u32) -> ClaimRequest {
    ClaimRequest { lanes: vec![mail()], gated: vec!["mail".into()], ..claim_by(WorkerId::generate(), limit) }
}

fn claims(claimed: &Claimed) -> Vec<Claim> {
    claimed.runs.iter().map(|run| run.claim).collect()
}

/// Returns how many runs of each gate were claimed.
fn by_gate(claimed: &Claimed) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for run in &claimed.runs {
        *counts.entry(run.gate.clone().unwrap_or_default()).or_default() += 1;
    }
    counts
}

fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(gate, count)| (gate.to_owned(), count)).collect()
}

async fn is_due(fixture: &Fixture) -> bool {
    let next = fixture.store.next_due(&[mail()]).await.expect("the next due run");
    next.at.is_some_and(|at| at <= next.now)
}

/// The ends and the claims of one batch come in this order, so a slot is used again at once.
pub async fn at_most_the_limit_of_runs_behind_a_gate_are_under_way(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    started(&fixture, "a", 10).await;
    started(&fixture, "b", 1).await;
    let first = fixture.claim(&request(25)).await;
    assert_eq!(by_gate(&first), counts([("a", 2), ("b", 1)]));
    assert_eq!((first.full_gates.as_slice(), first.held_back.as_slice()), (&["mail".to_owned()][..], &[][..]));
    let none = fixture.claim(&request(25)).await;
    assert_eq!(by_gate(&none), counts([]));

    let of_a: Vec<Claim> =
        first.runs.iter().filter(|run| run.gate.as_deref() == Some("a")).map(|run| run.claim).collect();
    let [ended, parked] = of_a[..] else { panic!("{first:?}") };
    let batch = [succeed(ended, "1"), park(parked, Timestamp::FAR_FUTURE), Write::Claim(request(25))];
    let second = outcome::claimed(fixture.commit(&batch).await.pop().expect("the claim's outcome"));
    assert_eq!(by_gate(&second), counts([("a", 2)]), "an ended and a parked run hold no slot");
    assert_eq!(fixture.store.gate_use("mail", "a").await.expect("a read").running, LIMIT);
    assert_eq!(fixture.store.gate_use("mail", "unknown").await.expect("a read"), GateUse::NONE);
    assert_eq!(fixture.store.running_in("mail", 100).await.expect("a count"), 3);
}

pub async fn a_claim_that_knows_of_no_gates_takes_no_run_behind_one(fixture: Fixture) {
    let gated = started(&fixture, "a", 3).await;
    let plain = NewRun { lane: mail(), ..new_run() };
    fixture.start(&plain).await;
    let claimed = fixture.claim(&ClaimRequest { gated: Vec::new(), ..request(25) }).await;
    assert_eq!(claims(&claimed).iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [plain.id]);
    assert_eq!(fixture.claim(&request(25)).await.runs.len(), gated.len());
}

pub async fn a_run_shows_its_gate_and_its_queue_that_it_has_gates(fixture: Fixture) {
    let run = started(&fixture, "a", 1).await[0];
    let plain = NewRun { lane: mail(), ..new_run() };
    fixture.start(&plain).await;
    let gate = async |id| fixture.store.run(id).await.expect("a read").expect("the run").gate;
    assert_eq!((gate(run).await.as_deref(), gate(plain.id).await), (Some("a"), None));
    let listed = fixture.store.list(&RunFilter::new()).await.expect("a list");
    assert!(listed.iter().all(|listed| listed.gate.is_some() == (listed.id == run)), "{listed:?}");
    let queues = fixture.store.queues().await.expect("queues");
    assert_eq!(queues.iter().map(|queue| (queue.name.as_str(), queue.has_gates)).collect::<Vec<_>>(), [("mail", true)]);
    let claimed = fixture.claim(&request(25)).await;
    let gates: Vec<_> = claimed.runs.iter().map(|claimed| (claimed.claim.run_id, claimed.gate.as_deref())).collect();
    assert!(gates.contains(&(run, Some("a"))) && gates.contains(&(plain.id, None)), "{gates:?}");
}

/// A worker with one free permit claims one run at a time.
pub async fn gates_take_turns_however_long_their_backlogs_are(fixture: Fixture) {
    let backlogs = [("a", 100), ("b", 40), ("c", 60), ("d", 30), ("e", 50)];
    for (gate, count) in backlogs {
        started(&fixture, gate, count).await;
        fixture.advance(MOMENT);
    }
    for (claims, size) in [(25, 1), (12, 2), (5, 5), (8, 3), (1, 25)] {
        let mut taken = BTreeMap::<String, usize>::new();
        for _ in 0..claims {
            fixture.advance(MOMENT);
            let claimed = fixture.claim(&request(size)).await;
            by_gate(&claimed).into_iter().for_each(|(gate, count)| *taken.entry(gate).or_default() += count);
        }
        let expected: usize = 5;
        let is_fair = |count: &usize| count.abs_diff(expected) <= 1;
        assert!(taken.len() == 5 && taken.values().all(is_fair), "{claims} claims of {size}: {taken:?}");
    }
}

/// A claim of few runs goes on with the turn of the one before.
pub async fn a_heavy_gate_gives_more_runs_in_claims_of_any_size(fixture: Fixture) {
    change(&fixture, QueueChange::Weigh { gate: "heavy".into(), weight: 5 }).await;
    for gate in ["heavy", "light", "other"] {
        started(&fixture, gate, 300).await;
    }
    change(&fixture, QueueChange::Weigh { gate: "other".into(), weight: 2 }).await;
    for (claims, size) in [(10, 8), (80, 1), (40, 2), (16, 5)] {
        let mut taken = BTreeMap::<String, usize>::new();
        for _ in 0..claims {
            fixture.advance(MOMENT);
            let claimed = fixture.claim(&request(size)).await;
            by_gate(&claimed).into_iter().for_each(|(gate, count)| *taken.entry(gate).or_default() += count);
        }
        let shares = counts([("heavy", 50), ("light", 10), ("other", 20)]);
        let is_fair = |(gate, share): (&String, &usize)| taken[gate].abs_diff(*share) < size as usize;
        assert!(shares.iter().all(is_fair), "{claims} claims of {size}: {taken:?}");
    }
}

/// A worker with one free permit says so after it has claimed a run that waited behind no gate.
pub async fn runs_behind_gates_go_before_the_others_if_a_claim_says_so(fixture: Fixture) {
    let others: Vec<Write> = (0..10).map(|_| start(&NewRun { lane: mail(), ..new_run() })).collect();
    fixture.commit(&others).await;
    for gate in ["a", "b"] {
        started(&fixture, gate, 10).await;
        fixture.advance(MOMENT);
    }
    let gates_first = |limit| ClaimRequest { gates_first: vec![mail()], ..request(limit) };
    assert_eq!(by_gate(&fixture.claim(&request(1)).await), counts([("", 1)]));
    assert_eq!(by_gate(&fixture.claim(&gates_first(1)).await), counts([("a", 1)]));
    fixture.advance(MOMENT);
    assert_eq!(by_gate(&fixture.claim(&gates_first(1)).await), counts([("b", 1)]), "the gates take turns");
    fixture.advance(MOMENT);
    assert_eq!(by_gate(&fixture.claim(&gates_first(5)).await), counts([("", 1), ("a", 2), ("b", 2)]));
    assert_eq!(by_gate(&fixture.claim(&gates_first(25)).await), counts([("", 8), ("a", 7), ("b", 7)]), "all of them");
}

/// The backlog behind one gate is not read for the run behind another.
pub async fn a_full_gate_does_not_delay_another_one(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    started(&fixture, "a", 50).await;
    assert_eq!(fixture.claim(&request(25)).await.runs.len(), 2);
    assert!(!is_due(&fixture).await, "no slot is free, so no claim is worth while");
    let other = started(&fixture, "b", 1).await[0];
    assert!(is_due(&fixture).await);
    assert_eq!(claims(&fixture.claim(&request(25)).await)[0].run_id, other);
}

/// Each of these ends or parks a run, or gives it back.
pub async fn a_full_gate_is_looked_at_once_a_run_behind_it_holds_no_slot(fixture: Fixture) {
    limited(&fixture, 1).await;
    started(&fixture, "a", 12).await;
    let worker = WorkerId::generate();
    let request = ClaimRequest { worker, ..request(25) };
    let mut claim = claims(&fixture.claim(&request).await)[0];
    let ways = ["end", "fail", "park", "park due", "terminate", "retry", "continue", "release"];
    for way in ways {
        assert!(!is_due(&fixture).await, "{way}: the gate is full");
        let retry = RetryWrite { claim, until: fixture.now(), again: Vec::new(), error: error("no luck") };
        let write = match way {
            "end" => succeed(claim, "1"),
            "fail" => end(claim, RunEnd::Failed(error("no luck"))),
            "park" => park(claim, Timestamp::FAR_FUTURE),
            "park due" => park(claim, fixture.now()),
            "terminate" => Write::Terminate(claim.run_id),
            "retry" => Write::Retry(retry),
            "continue" => continue_as_new(claim, "1"),
            _ => Write::ReleaseUnknown { worker, known: Vec::new() },
        };
        fixture.commit(&[write]).await;
        assert!(is_due(&fixture).await, "{way}: a slot is free");
        let next = claims(&fixture.claim(&request).await);
        assert_eq!(next.len(), 1, "{way}");
        claim = next[0];
    }
}

/// The run is paused, so the gate does not wait for the end of its lease.
pub async fn a_run_that_expires_behind_a_full_gate_frees_its_slot(fixture: Fixture) {
    limited(&fixture, 1).await;
    let late = NewRun { deadline: Some(StartTime::After(MOMENT)), ..behind("a") };
    fixture.start(&late).await;
    assert_eq!(fixture.claim(&request(25)).await.runs.len(), 1);
    let next = started(&fixture, "a", 1).await[0];
    fixture.write(Write::Pause(late.id)).await;
    fixture.advance(2 * LEASE);
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "the gate is full");
    assert!(!is_due(&fixture).await);
    let expired = fixture.write(Write::Expire { limit: 10, patience: Duration::ZERO }).await;
    assert_eq!(outcome::changed(&expired), 1);
    assert!(is_due(&fixture).await, "a slot is free");
    assert_eq!(claims(&fixture.claim(&request(25)).await)[0].run_id, next);
}

/// A gate that is full, and one that has nothing more, sleep until the first lease ends.
pub async fn runs_of_a_dead_worker_behind_gates_are_taken_over_at_once(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    let (dead, second) = (WorkerId::generate(), fixture.second().await);
    let session = second.open_lease(dead, &[], &Retention::default()).await.expect("a session");
    started(&fixture, "full", 3).await;
    started(&fixture, "drained", 1).await;
    let mut held = claims(&fixture.claim(&ClaimRequest { worker: dead, ..request(25) }).await);
    fixture.advance(MOMENT);
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "their leases have not ended");
    assert!(!is_due(&fixture).await);

    drop(session);
    let mut watcher =
        fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.expect("a session");
    until("the worker is seen as unlocked", async || {
        watcher.look().await.expect("a look").unlocked.contains(&dead).then_some(())
    })
    .await;
    assert_eq!(watcher.release_worker(dead).await.expect("a release"), 3);
    assert!(is_due(&fixture).await, "their worker is dead");
    let mut taken = claims(&fixture.claim(&request(25)).await);
    held.iter_mut().for_each(|claim| claim.epoch += 1);
    held.sort();
    taken.sort();
    assert_eq!(taken, held);
    watcher.close().await.expect("a close");
}

/// While a run is paused, its gate sleeps although the lease of the run ends.
pub async fn a_lapsed_run_behind_a_gate_is_found_once_it_is_resumed(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    let run = started(&fixture, "a", 1).await[0];
    let held = claims(&fixture.claim(&request(25)).await)[0];
    fixture.write(Write::Pause(run)).await;
    fixture.advance(LEASE);
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "it is paused");
    assert!(!is_due(&fixture).await);
    fixture.write(Write::Resume(run)).await;
    assert!(is_due(&fixture).await);
    let taken = claims(&fixture.claim(&request(25)).await);
    assert_eq!(taken, [Claim { run_id: run, epoch: held.epoch + 1 }]);
}

/// A parked run that is woken, a delayed start, a paused run that is resumed.
pub async fn a_run_behind_a_gate_is_found_however_it_becomes_due(fixture: Fixture) {
    let parked = started(&fixture, "parked", 1).await[0];
    let asleep = started(&fixture, "asleep", 1).await[0];
    let paused = started(&fixture, "paused", 1).await[0];
    let [a, b, c] = claims(&fixture.claim(&request(25)).await)[..] else { panic!("three runs") };
    for claim in [a, b, c] {
        let at = if claim.run_id == asleep { fixture.now() + LEASE } else { Timestamp::FAR_FUTURE };
        outcome::applied(&fixture.write(park(claim, at)).await);
    }
    let delayed = NewRun { start: StartTime::After(LEASE), ..behind("delayed") };
    fixture.start(&delayed).await;
    fixture.write(Write::Pause(paused)).await;
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "nothing is due");
    assert!(!is_due(&fixture).await);

    let found = async |fixture: &Fixture, run: RunId, what: &str| {
        assert!(is_due(fixture).await, "{what}");
        let found = claims(&fixture.claim(&request(25)).await);
        assert_eq!(found.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [run], "{what}");
        outcome::applied(&fixture.write(succeed(found[0], "1")).await);
    };
    fixture.write(Write::Signal(signal(parked, "go", "1"))).await;
    found(&fixture, parked, "a signal").await;
    fixture.write(Write::Signal(signal(paused, "go", "1"))).await;
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "it is paused");
    fixture.write(Write::Resume(paused)).await;
    found(&fixture, paused, "a resumed run").await;
    assert_eq!(claims(&fixture.claim(&request(25)).await), []);
    fixture.advance(LEASE);
    assert!(is_due(&fixture).await);
    let later: Vec<_> = claims(&fixture.claim(&request(25)).await).iter().map(|claim| claim.run_id).collect();
    assert!(later.len() == 2 && later.contains(&asleep) && later.contains(&delayed.id), "{later:?}");
}

pub async fn a_run_behind_a_full_gate_is_taken_over_when_its_lease_has_ended(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    let runs = started(&fixture, "a", 5).await;
    let held = claims(&fixture.claim(&request(25)).await);
    assert!(!is_due(&fixture).await);
    fixture.advance(LEASE);
    assert!(is_due(&fixture).await, "their leases have ended");
    let mut taken = claims(&fixture.claim(&request(25)).await);
    taken.sort_by_key(|claim| claim.run_id);
    assert_eq!(taken.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), {
        let mut ids: Vec<_> = held.iter().map(|claim| claim.run_id).collect();
        ids.sort();
        ids
    });
    assert!(taken.iter().all(|claim| claim.epoch == 2 && runs.contains(&claim.run_id)));
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "they hold the slots");
}

/// A rolling deployment: a worker of one version must not put the gate to sleep for the other.
pub async fn the_lanes_behind_a_gate_share_its_limit_and_each_has_its_turn(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    let second = lane_of("mail", "checkout", "2");
    let newer = || NewRun { lane: second.clone(), ..behind("a") };
    let (older, runs) = (started(&fixture, "a", 1).await[0], [newer(), newer(), newer()]);
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await;
    let of_second = || ClaimRequest { lanes: vec![second.clone()], ..request(25) };
    let first = claims(&fixture.claim(&request(25)).await);
    assert_eq!(first.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [older]);
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "nothing else waits in this lane");
    let then = claims(&fixture.claim(&of_second()).await);
    assert_eq!(then.len(), 1, "one slot is left");
    assert_eq!(claims(&fixture.claim(&of_second()).await), []);
    outcome::applied(&fixture.write(succeed(first[0], "1")).await);
    assert_eq!(claims(&fixture.claim(&of_second()).await).len(), 1, "a slot that the other lane gave back");
}

pub async fn the_limits_of_a_queue_and_of_its_gates_both_hold(fixture: Fixture) {
    change(&fixture, QueueChange::Declare(limits(LIMIT).concurrency(5))).await;
    for gate in ["a", "b", "c", "d"] {
        started(&fixture, gate, 10).await;
    }
    let plain: Vec<Write> = (0..10).map(|_| start(&NewRun { lane: mail(), ..new_run() })).collect();
    fixture.commit(&plain).await;
    let both = || ClaimRequest { limited: vec!["mail".into()], ..request(25) };
    let claimed = fixture.claim(&both()).await;
    let taken = by_gate(&claimed);
    assert_eq!(claimed.runs.len(), 5, "{taken:?}");
    assert_eq!(taken, counts([("", 1), ("a", 1), ("b", 1), ("c", 1), ("d", 1)]), "each has a turn");
    let ends: Vec<Write> = claims(&claimed).into_iter().map(|claim| succeed(claim, "1")).collect();
    fixture.commit(&ends).await;
    change(&fixture, QueueChange::Override(Some(limits(LIMIT).concurrency(100)))).await;
    let taken = by_gate(&fixture.claim(&both()).await);
    assert_eq!(taken, counts([("", 9), ("a", 2), ("b", 2), ("c", 2), ("d", 2)]));
}

pub async fn a_changed_limit_of_gates_holds_at_once(fixture: Fixture) {
    limited(&fixture, 0).await;
    started(&fixture, "a", 10).await;
    started(&fixture, "b", 1).await;
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "0 lets none begin");
    assert!(!is_due(&fixture).await);
    change(&fixture, QueueChange::Override(Some(limits(3)))).await;
    assert!(is_due(&fixture).await, "the limit has risen");
    let held = fixture.claim(&request(25)).await;
    assert_eq!(by_gate(&held), counts([("a", 3), ("b", 1)]));
    change(&fixture, QueueChange::Override(Some(limits(1)))).await;
    let of_a: Vec<Claim> =
        held.runs.iter().filter(|run| run.gate.as_deref() == Some("a")).map(|run| run.claim).collect();
    for (claim, begun) in of_a.into_iter().zip([0, 0, 1]) {
        let batch = [succeed(claim, "1"), Write::Claim(request(25))];
        let claimed = fixture.commit(&batch).await.pop().map(outcome::claimed).expect("the claim's outcome");
        assert_eq!(claimed.runs.len(), begun);
    }
    change(&fixture, QueueChange::Override(Some(QueueLimits::none()))).await;
    assert_eq!(fixture.claim(&request(25)).await.runs.len(), 6, "no limit");
}

/// Some runs are under way when the first limit comes.
pub async fn the_first_limit_of_gates_counts_every_run_of_their_backlogs(fixture: Fixture) {
    const WAITING: usize = 500;
    const FIRST: u32 = 25;
    for gate in ["a", "b"] {
        started(&fixture, gate, WAITING).await;
    }
    let mut held = claims(&fixture.claim(&request(20)).await);
    assert_eq!(held.len(), 20);
    change(&fixture, QueueChange::Override(Some(limits(FIRST)))).await;
    let mut ended = 0;
    while ended < 2 * WAITING {
        loop {
            let claimed = claims(&fixture.claim(&request(100)).await);
            if claimed.is_empty() {
                break;
            }
            held.extend(claimed);
        }
        let mut running = 0;
        for gate in ["a", "b"] {
            let of_gate = fixture.store.gate_use("mail", gate).await.expect("a read").running;
            assert!(of_gate <= FIRST, "{of_gate} runs behind gate {gate}");
            running += of_gate;
        }
        assert_eq!(running as usize, held.len(), "{ended} have ended");
        assert!(!held.is_empty(), "{ended} have ended, and no other run begins");
        let ends: Vec<Write> = held.drain(..).map(|claim| succeed(claim, "1")).collect();
        fixture.commit(&ends).await.iter().for_each(outcome::applied);
        ended += ends.len();
    }
}

/// Ends what was claimed, so that only the rate limits.
async fn claim_and_end(fixture: &Fixture, request: &ClaimRequest) -> Claimed {
    let claimed = fixture.claim(request).await;
    let ends: Vec<Write> = claims(&claimed).into_iter().map(|claim| succeed(claim, "1")).collect();
    fixture.commit(&ends).await;
    claimed
}

pub async fn runs_of_a_queue_begin_at_its_rate(fixture: Fixture) {
    let rate = Rate::per_second(10).burst(3);
    change(&fixture, QueueChange::Declare(QueueLimits::none().rate(rate))).await;
    started(&fixture, "a", 10).await;
    let plain: Vec<Write> = (0..10).map(|_| start(&NewRun { lane: mail(), ..new_run() })).collect();
    fixture.commit(&plain).await;
    let of_rate = || ClaimRequest { limited: vec!["mail".into()], ..request(25) };
    let first = claim_and_end(&fixture, &of_rate()).await;
    assert_eq!((first.runs.len(), first.held_back.as_slice()), (3, &["mail".to_owned()][..]), "the burst");
    assert_eq!(first.next_at, Some(first.now + Duration::from_millis(100)));
    for _ in 0..4 {
        assert_eq!(fixture.claim(&of_rate()).await.runs.len(), 0);
        fixture.advance(Duration::from_millis(100));
        assert_eq!(claim_and_end(&fixture, &of_rate()).await.runs.len(), 1);
    }
    fixture.advance(LEASE);
    assert_eq!(claim_and_end(&fixture, &of_rate()).await.runs.len(), 3, "no more than the burst after a rest");
    change(&fixture, QueueChange::Override(Some(QueueLimits::none()))).await;
    assert_eq!(fixture.claim(&of_rate()).await.runs.len(), 10);
}

/// A slower rate leaves a time behind that the present one, with its burst, could not have left.
pub async fn a_faster_rate_of_a_queue_or_gate_holds_at_once(fixture: Fixture) {
    let of_queue = |rate| QueueLimits::none().rate(rate);
    let of_gate = |rate| QueueLimits::none().per_gate(GateLimits::none().rate(rate));
    let of_rate = || ClaimRequest { limited: vec!["mail".into()], ..request(25) };
    for limits in [of_queue as fn(Rate) -> QueueLimits, of_gate] {
        change(&fixture, QueueChange::Override(Some(limits(Rate::per(Duration::from_secs(24 * 3600), 1))))).await;
        started(&fixture, "a", 5).await;
        assert_eq!(claim_and_end(&fixture, &of_rate()).await.runs.len(), 1);
        change(&fixture, QueueChange::Override(Some(limits(Rate::per_second(10))))).await;
        assert_eq!(claim_and_end(&fixture, &of_rate()).await.runs.len(), 0, "as if one had begun now");
        for _ in 0..2 {
            fixture.advance(Duration::from_millis(100));
            assert_eq!(claim_and_end(&fixture, &of_rate()).await.runs.len(), 1);
        }
    }
}

/// A child goes before a backlog, but it begins like any other run.
pub async fn children_begin_at_the_rate_of_their_queue(fixture: Fixture) {
    let parent = fixture.held().await;
    for limits in [
        QueueLimits::none().rate(Rate::per_minute(1)),
        limits(5).per_gate(GateLimits::none().rate(Rate::per_minute(1))),
    ] {
        change(&fixture, QueueChange::Override(Some(limits))).await;
        started(&fixture, "a", 1).await;
        let child = |_| {
            let child = child_of(parent.run_id, &RunId::generate().to_string(), OnParentEnd::Cancel);
            NewRun { lane: mail(), gate: Some("a".into()), ..child }
        };
        let children = [(); 3].map(child);
        fixture.commit(&children.each_ref().map(|child| begin_child(parent, child))).await;
        let of_rate = || ClaimRequest { limited: vec!["mail".into()], ..request(25) };
        let mut begun = Vec::new();
        for _ in 0..3 {
            fixture.advance(LEASE * 10);
            let claimed = claim_and_end(&fixture, &of_rate()).await;
            begun.extend(claims(&claimed).into_iter().map(|claim| claim.run_id));
            assert_eq!(fixture.claim(&of_rate()).await.runs.len(), 0, "the rate is used up");
        }
        begun.sort_unstable();
        let mut expected = children.map(|child| child.id);
        expected.sort_unstable();
        assert_eq!(begun, expected);
        fixture.advance(LEASE * 10);
        assert_eq!(claim_and_end(&fixture, &of_rate()).await.runs.len(), 1, "the run that is no child");
        fixture.advance(LEASE * 10);
    }
}

/// A run that has begun takes nothing of the rate, and does not wait for it.
pub async fn a_rate_counts_only_first_claims(fixture: Fixture) {
    for limits in [
        QueueLimits::none().rate(Rate::per_minute(1)),
        limits(5).per_gate(GateLimits::none().rate(Rate::per_minute(1))),
    ] {
        change(&fixture, QueueChange::Override(Some(limits))).await;
        let of_rate = || ClaimRequest { limited: vec!["mail".into()], ..request(25) };
        started(&fixture, "a", 2).await;
        fixture.advance(LEASE * 10);
        let held = claims(&fixture.claim(&of_rate()).await);
        assert_eq!(held.len(), 1);
        outcome::applied(&fixture.write(park(held[0], fixture.now())).await);
        let again = claims(&fixture.claim(&of_rate()).await);
        assert_eq!(again.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [held[0].run_id]);
        fixture.advance(LEASE);
        let taken = claims(&fixture.claim(&of_rate()).await);
        assert_eq!(taken.iter().map(|claim| (claim.run_id, claim.epoch)).collect::<Vec<_>>(), [(held[0].run_id, 3)]);
        outcome::applied(&fixture.write(succeed(taken[0], "1")).await);
        fixture.advance(LEASE);
        assert_eq!(claim_and_end(&fixture, &of_rate()).await.runs.len(), 1, "a minute has passed");
    }
}

/// An operator is told of a gate that sleeps although a run behind it is due: that is a bug, so a
/// gate that waits for a reason must not count.
pub async fn a_gate_that_waits_for_a_reason_does_not_count_as_asleep(fixture: Fixture) {
    const LONG: Duration = Duration::from_secs(300);
    let is_sound = async |state: &str| {
        fixture.advance(LONG);
        let asleep = fixture.store.system().await.unwrap().sleeping_gates;
        assert!(asleep.is_empty(), "{state}: {asleep:?}");
    };
    let of_queue = || ClaimRequest { limited: vec!["mail".into()], ..request(25) };
    started(&fixture, "a", 3).await;
    started(&fixture, "b", 1).await;
    is_sound("no claim has looked yet").await;
    limited(&fixture, 1).await;
    assert_eq!(fixture.claim(&of_queue()).await.runs.len(), 2);
    is_sound("gate a is full, and gate b is drained").await;
    let rate = QueueLimits::none().rate(Rate::per(Duration::from_secs(3600), 1));
    change(&fixture, QueueChange::Override(Some(rate))).await;
    fixture.claim(&of_queue()).await;
    fixture.claim(&of_queue()).await;
    is_sound("the rate of the queue is used up").await;
    change(&fixture, QueueChange::Pause { reason: "a test".into() }).await;
    is_sound("the queue is paused").await;
}

pub async fn each_gate_has_a_rate_of_its_own(fixture: Fixture) {
    let rate = GateLimits::none().rate(Rate::per_second(2));
    change(&fixture, QueueChange::Declare(QueueLimits::none().per_gate(rate))).await;
    for gate in ["a", "b", "c"] {
        started(&fixture, gate, 4).await;
    }
    started(&fixture, "short", 1).await;
    let all = counts([("a", 1), ("b", 1), ("c", 1), ("short", 1)]);
    assert_eq!(by_gate(&claim_and_end(&fixture, &request(25)).await), all);
    for _ in 0..2 {
        assert_eq!(fixture.claim(&request(25)).await.runs.len(), 0);
        assert!(!is_due(&fixture).await, "the rates are used up");
        fixture.advance(Duration::from_millis(500));
        assert!(is_due(&fixture).await);
        assert_eq!(by_gate(&claim_and_end(&fixture, &request(25)).await), counts([("a", 1), ("b", 1), ("c", 1)]));
    }
    fixture.advance(LEASE);
    started(&fixture, "a", 1).await;
    assert_eq!(by_gate(&claim_and_end(&fixture, &request(25)).await), counts([("a", 1), ("b", 1), ("c", 1)]));
}

pub async fn a_gate_shows_its_running_runs_and_until_when_its_rate_is_used_up(fixture: Fixture) {
    let rate = Rate::per_minute(2);
    change(&fixture, QueueChange::Declare(QueueLimits::none().per_gate(GateLimits::none().rate(rate)))).await;
    for gate in ["a", "b"] {
        started(&fixture, gate, 2).await;
    }
    let gate_use = async |gate| fixture.store.gate_use("mail", gate).await.expect("a read");
    assert_eq!(gate_use("a").await, GateUse::NONE, "no run has begun");
    let before = fixture.now();
    assert_eq!(by_gate(&fixture.claim(&request(25)).await), counts([("a", 1), ("b", 1)]));
    let used = gate_use("a").await;
    assert_eq!(used.running, 1);
    assert_eq!(used.used_until, rate.used_after(Timestamp::from_micros(0), before, 1), "until the next one may begin");
    assert_eq!(gate_use("b").await, used);
    assert_eq!(fixture.store.gate_use("other", "a").await.expect("a read"), GateUse::NONE, "a gate of another queue");
}

/// The gates of a full queue give nothing, so they must not hide those behind them in the line.
pub async fn a_lapsed_run_behind_any_gate_of_a_full_queue_is_taken_over(fixture: Fixture) {
    change(&fixture, QueueChange::Declare(QueueLimits::none().concurrency(1))).await;
    let of_queue = |limit| ClaimRequest { limited: vec!["mail".into()], ..request(limit) };
    let held = started(&fixture, "z", 1).await[0];
    assert_eq!(claims(&fixture.claim(&of_queue(5)).await)[0].run_id, held);
    for gate in 0..20 {
        started(&fixture, &format!("g{gate}"), 1).await;
    }
    started(&fixture, "z", 1).await;
    assert_eq!(claims(&fixture.claim(&of_queue(5)).await), [], "the queue is full");
    fixture.advance(LEASE);
    let taken = claims(&fixture.claim(&of_queue(5)).await);
    assert_eq!(taken.iter().map(|claim| (claim.run_id, claim.epoch)).collect::<Vec<_>>(), [(held, 2)]);
    assert_eq!(claims(&fixture.claim(&of_queue(5)).await), [], "it holds the slot");
    outcome::applied(&fixture.write(succeed(taken[0], "1")).await);
    assert_eq!(fixture.claim(&of_queue(5)).await.runs.len(), 1, "the slot is free");
}

/// A claim of at most 5 looks at 5 gates. They must not be the same ones each time.
pub async fn a_used_up_rate_holds_back_no_other_queue_and_no_run_that_has_begun(fixture: Fixture) {
    let rate = Rate::per_minute(1);
    change(&fixture, QueueChange::Declare(QueueLimits::none().rate(rate))).await;
    let other = lane_of("other", "checkout", "1");
    let request = || ClaimRequest {
        lanes: vec![mail(), other.clone()],
        limited: vec!["mail".into()],
        gated: vec!["mail".into(), "other".into()],
        ..request(5)
    };
    let begun = started(&fixture, "z", 1).await[0];
    let held = claims(&fixture.claim(&request()).await);
    assert_eq!(held.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [begun]);
    for gate in 0..20 {
        started(&fixture, &format!("g{gate}"), 1).await;
    }
    let of_other = NewRun { lane: other.clone(), gate: Some("o".into()), ..new_run() };
    fixture.advance(MOMENT);
    fixture.start(&of_other).await;
    outcome::applied(&fixture.write(park(held[0], fixture.now())).await);
    let mut found = Vec::new();
    for _ in 0..6 {
        fixture.advance(MOMENT);
        found.extend(claims(&fixture.claim(&request()).await).iter().map(|claim| claim.run_id));
    }
    found.sort();
    let mut expected = [begun, of_other.id];
    expected.sort();
    assert_eq!(found, expected, "the rate is used up for a minute");
}

pub async fn gates_of_a_queue_with_a_rate_take_turns(fixture: Fixture) {
    const GATES: usize = 12;
    let rate = Rate::per_second(10);
    change(&fixture, QueueChange::Declare(QueueLimits::none().rate(rate))).await;
    for gate in 0..GATES {
        started(&fixture, &format!("g{gate}"), 5).await;
    }
    let of_queue = || ClaimRequest { limited: vec!["mail".into()], ..request(4) };
    let mut taken = BTreeMap::<String, usize>::new();
    for _ in 0..3 * GATES {
        let claimed = claim_and_end(&fixture, &of_queue()).await;
        by_gate(&claimed).into_iter().for_each(|(gate, count)| *taken.entry(gate).or_default() += count);
        fixture.advance(Duration::from_millis(100));
    }
    assert_eq!(taken.values().sum::<usize>(), 3 * GATES, "{taken:?}");
    assert!(taken.len() == GATES && taken.values().all(|count| (2..=4).contains(count)), "{taken:?}");
}

/// Starts, ends and claims of two processes at the same time, behind gates that become empty and
/// full all the time.
pub async fn concurrent_claims_exceed_no_limit_of_a_gate_and_lose_no_run(fixture: Fixture) {
    const GATES: [&str; 3] = ["a", "b", "c"];
    limited(&fixture, LIMIT).await;
    let second = fixture.second().await;
    let work = async |store: Arc<dyn Store>| {
        let (mut most, mut rounds) = (0, 0);
        let mut held: Vec<Claim> = Vec::new();
        loop {
            let mut batch: Vec<Write> = held.drain(..).map(|claim| succeed(claim, "1")).collect();
            if rounds < 40 {
                batch.extend(GATES.iter().map(|gate| start(&behind(gate))));
            }
            batch.push(Write::Claim(request(5)));
            let outcomes = store.commit(&batch).await.expect("commit");
            for gate in GATES {
                most = most.max(store.gate_use("mail", gate).await.expect("a read").running);
            }
            if let Some(Outcome::Claimed(claimed)) = outcomes.last() {
                held.extend(claims(claimed));
            }
            rounds += 1;
            if rounds > 40 && held.is_empty() && pending(&store).await == 0 {
                return most;
            }
        }
    };
    let (one, two) = tokio::join!(work(Arc::clone(&fixture.store)), work(second));
    assert!(one.max(two) <= LIMIT, "{one} and {two} at once");
    let ended =
        fixture.store.list(&RunFilter::new().status(RunStatus::Succeeded).page_size(1000)).await.expect("a list");
    assert_eq!(ended.len(), 2 * 40 * GATES.len());
}

/// Returns the number of runs that were never claimed.
async fn pending(store: &Arc<dyn Store>) -> usize {
    store.list(&RunFilter::new().status(RunStatus::Pending)).await.expect("a list").len()
}
