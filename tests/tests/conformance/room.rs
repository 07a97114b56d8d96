//! Queues and gates that bound how many runs wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{
    Claim, FullQueue, GateLimits, KeyReuse, Lane, MovedRun, NewRun, NewSingle, OnParentEnd, Priority, QueueChange,
    QueueLimits, SingleKey, SingleUntil, StartTime, StoredSchedule, WhenTaken, WorkerId,
};
use workflow_engine::store::{
    ClaimRequest, ForkWrite, Outcome, QueueWrite, RetryWrite, ReviveWrite, RunEnd, ScheduleWrite, StartOutcome, Store,
    WaitingPlace, Write,
};
use workflow_sdk::{RunFilter, RunId, RunStatus, Timestamp};
use workflow_tests::builders::{
    begin_child, child_of, claim_by, continue_as_new, end, error, keyed, lane_of, new_run, park, signal, start, succeed,
};
use workflow_tests::{Fixture, outcome};

const BOUND: u32 = 3;
const MINUTE: Duration = Duration::from_secs(60);

fn mail() -> Lane {
    lane_of("mail", "checkout", "1")
}

fn in_mail(run: NewRun) -> NewRun {
    NewRun { lane: mail(), ..run }
}

fn behind(gate: &str) -> NewRun {
    NewRun { gate: Some(gate.into()), ..in_mail(new_run()) }
}

fn single(key: &str, until: SingleUntil, taken: WhenTaken) -> NewRun {
    NewRun { single: Some(NewSingle { key: SingleKey { key: key.into(), until }, taken }), ..in_mail(new_run()) }
}

fn bound(runs: u32) -> QueueLimits {
    QueueLimits::none().max_waiting(runs)
}

async fn declare(fixture: &Fixture, limits: QueueLimits) {
    let change = QueueChange::Declare(limits);
    outcome::applied(&fixture.write(Write::Queue(QueueWrite { queue: "mail".into(), change })).await);
}

async fn started(fixture: &Fixture, count: usize) -> Vec<RunId> {
    let runs: Vec<NewRun> = (0..count).map(|_| in_mail(new_run())).collect();
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await.iter().for_each(outcome::created);
    runs.iter().map(|run| run.id).collect()
}

async fn claim(fixture: &Fixture, limit: u32) -> Vec<Claim> {
    let request = ClaimRequest { lanes: vec![mail()], ..claim_by(WorkerId::generate(), limit) };
    fixture.claim(&request).await.runs.iter().map(|run| run.claim).collect()
}

async fn waiting_at(fixture: &Fixture, gate: Option<&str>) -> u32 {
    let place = WaitingPlace { queue: "mail", gate, max_waiting: 100 };
    fixture.store.waiting_in(place).await.expect("a count")
}

async fn waiting(fixture: &Fixture) -> u32 {
    waiting_at(fixture, None).await
}

async fn exists(fixture: &Fixture, run: &NewRun) -> bool {
    fixture.store.run(run.id).await.expect("a read").is_some()
}

fn refused(outcome: &Outcome) -> FullQueue {
    match outcome {
        Outcome::QueueFull(full) => full.clone(),
        other => panic!("expected a full queue, got {other:?}"),
    }
}

fn full(gate: Option<&str>, bound: u32) -> FullQueue {
    FullQueue::new("mail", gate, bound)
}

async fn assert_refused(fixture: &Fixture, run: &NewRun) {
    assert_eq!(refused(&fixture.write(start(run)).await), full(None, BOUND));
    assert!(!exists(fixture, run).await);
}

pub async fn starts_beyond_a_bound_are_refused_and_write_nothing(fixture: Fixture) {
    let other = fixture.held().await;
    declare(&fixture, bound(BOUND)).await;
    // Of a lane without a row.
    let runs: Vec<NewRun> = (0..5).map(|_| in_mail(new_run())).collect();
    let plain = new_run();
    let mut writes: Vec<Write> = runs.iter().map(start).collect();
    writes.extend([start(&plain), Write::Signal(signal(other.run_id, "paid", "1")), succeed(other, "1")]);
    let outcomes = fixture.commit(&writes).await;
    outcomes[..3].iter().for_each(outcome::created);
    outcomes[3..5].iter().for_each(|outcome| assert_eq!(refused(outcome), full(None, BOUND)));
    outcome::created(&outcomes[5]);
    assert!(matches!(&outcomes[6], Outcome::Signaled(_)));
    outcome::applied(&outcomes[7]);
    for (run, is_there) in runs.iter().chain([&plain]).zip([true, true, true, false, false, true]) {
        assert_eq!(exists(&fixture, run).await, is_there);
    }
    assert_eq!(waiting(&fixture).await, BOUND);

    let begun = claim(&fixture, 1).await;
    fixture.commit(&[start(&runs[3])]).await.iter().for_each(outcome::created);
    assert_refused(&fixture, &runs[4]).await;
    outcome::applied(&fixture.write(succeed(begun[0], "1")).await);
    assert_refused(&fixture, &runs[4]).await;
    fixture.write(Write::Cancel(runs[3].id)).await;
    fixture.commit(&[start(&runs[4])]).await.iter().for_each(outcome::created);
}

pub async fn a_changed_bound_holds_at_the_next_start(fixture: Fixture) {
    declare(&fixture, bound(0)).await;
    assert_eq!(refused(&fixture.write(start(&in_mail(new_run()))).await), full(None, 0), "no start is taken");
    let overridden = |limits| Write::Queue(QueueWrite { queue: "mail".into(), change: QueueChange::Override(limits) });
    for (limits, taken) in [
        (Some(bound(2)), 2),
        // An operator's limits hold in place of the declared ones, with all that they leave out.
        (Some(QueueLimits::none().concurrency(0)), 4),
        (Some(bound(7)), 1),
        (Some(bound(1)), 0),
        (None, 0),
    ] {
        outcome::applied(&fixture.write(overridden(limits)).await);
        let starts: Vec<Write> = (0..4).map(|_| start(&in_mail(new_run()))).collect();
        let outcomes = fixture.commit(&starts).await;
        let created = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Started(_))).count();
        assert_eq!(created, taken, "{limits:?}");
    }
}

pub async fn a_start_whose_run_exists_is_not_refused(fixture: Fixture) {
    declare(&fixture, bound(BOUND)).await;
    let kept = in_mail(keyed("kept"));
    outcome::created(&fixture.write(start(&kept)).await);
    started(&fixture, 2).await;
    let again = in_mail(keyed("kept"));
    let writes = [start(&kept), start(&again), start(&in_mail(keyed("new"))), start(&in_mail(keyed("new")))];
    let outcomes = fixture.commit(&writes).await;
    outcome::created(&outcomes[0]);
    assert_eq!(outcome::started(&outcomes[1]), StartOutcome::Existing { id: kept.id, input: kept.input.clone() });
    outcomes[2..].iter().for_each(|outcome| assert_eq!(refused(outcome), full(None, BOUND)));
    assert_eq!(fixture.store.find("checkout", "new").await.expect("a read"), None);

    // Of two starts with a new key, the first one takes the room.
    claim(&fixture, 1).await;
    let twice = [in_mail(keyed("new")), in_mail(keyed("new")), in_mail(new_run())];
    let outcomes = fixture.commit(&twice.iter().map(start).collect::<Vec<_>>()).await;
    outcome::created(&outcomes[0]);
    assert!(matches!(outcome::started(&outcomes[1]), StartOutcome::Existing { id, .. } if id == twice[0].id));
    assert_eq!(refused(&outcomes[2]), full(None, BOUND));
}

pub async fn a_refused_start_takes_no_key_from_a_failed_run(fixture: Fixture) {
    let failed = in_mail(keyed("k"));
    outcome::created(&fixture.write(start(&failed)).await);
    outcome::applied(&fixture.write(end(claim(&fixture, 1).await[0], RunEnd::Failed(error("no luck")))).await);
    declare(&fixture, bound(1)).await;
    started(&fixture, 1).await;
    let again = NewRun { key_reuse: KeyReuse::AfterFailure, ..in_mail(keyed("k")) };
    assert_eq!(refused(&fixture.write(start(&again)).await), full(None, 1));
    assert_eq!(fixture.store.find("checkout", "k").await.expect("a read"), Some(failed.id));
    claim(&fixture, 1).await;
    outcome::created(&fixture.write(start(&again)).await);
    assert_eq!(fixture.store.find("checkout", "k").await.expect("a read"), Some(again.id));
    outcome::created(&fixture.write(start(&again)).await);

    // A run that has not failed keeps its key, so the start adds none.
    let third = NewRun { key_reuse: KeyReuse::AfterFailure, ..in_mail(keyed("k")) };
    assert!(matches!(fixture.start(&third).await, StartOutcome::Existing { id, .. } if id == again.id));
}

pub async fn each_gate_has_a_bound_of_its_own_beside_that_of_its_queue(fixture: Fixture) {
    declare(&fixture, bound(4).per_gate(GateLimits::none().max_waiting(2))).await;
    let gates = ["a", "a", "a", "b"];
    let mut runs: Vec<NewRun> = gates.iter().map(|gate| behind(gate)).collect();
    // A gate has a lane for each workflow, and the queue has runs behind no gate.
    runs.push(NewRun { lane: lane_of("mail", "refund", "2"), ..behind("b") });
    runs.extend([behind("b"), in_mail(new_run())]);
    let outcomes = fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await;
    [0, 1, 3, 4].iter().for_each(|place| outcome::created(&outcomes[*place]));
    let refusals = [2, 5, 6].map(|place| refused(&outcomes[place]));
    assert_eq!(refusals, [full(Some("a"), 2), full(Some("b"), 2), full(None, 4)]);
    let counts = [Some("a"), Some("b"), Some("unknown"), None];
    for (gate, count) in counts.into_iter().zip([2, 2, 0, 4]) {
        assert_eq!(waiting_at(&fixture, gate).await, count, "{gate:?}");
    }
    let place = WaitingPlace { queue: "mail", gate: None, max_waiting: 1 };
    assert_eq!(fixture.store.waiting_in(place).await.expect("a count"), 1, "it counts no further than it is asked to");
    assert_eq!(refused(&fixture.write(start(&behind("c"))).await), full(None, 4));
}

pub async fn only_runs_that_wait_and_have_not_begun_count(fixture: Fixture) {
    declare(&fixture, bound(100)).await;
    let later = NewRun { start: StartTime::After(MINUTE), ..in_mail(new_run()) };
    let held_back = in_mail(new_run());
    fixture.commit(&[start(&later), start(&held_back)]).await;
    assert_eq!(waiting(&fixture).await, 2, "a run with a later start counts");
    fixture.write(Write::Pause(held_back.id)).await;
    assert_eq!(waiting(&fixture).await, 1);

    started(&fixture, 6).await;
    let [parked, retried, continued, failed, ended, held] = claim(&fixture, 6).await[..] else { panic!("six claims") };
    let until = Timestamp::FAR_FUTURE;
    let batch = [
        park(parked, until),
        Write::Retry(RetryWrite { claim: retried, until, again: Vec::new(), error: error("no luck") }),
        continue_as_new(continued, "2"),
        end(failed, RunEnd::Failed(error("no luck"))),
        succeed(ended, "1"),
    ];
    fixture.commit(&batch).await.iter().for_each(outcome::applied);
    let revive = ReviveWrite { run_id: failed.run_id, attempt: 1, again: Vec::new(), deadline: None };
    outcome::applied(&fixture.write(Write::Revive(revive)).await);
    assert_eq!(waiting(&fixture).await, 1, "what has begun does not count");

    let part = in_mail(child_of(held.run_id, "part", OnParentEnd::Cancel));
    let detached = in_mail(child_of(held.run_id, "detached", OnParentEnd::Abandon));
    let urgent = in_mail(child_of(held.run_id, "urgent", OnParentEnd::Cancel));
    let urgent = NewRun { priority: Some(Priority::Urgent), ..urgent };
    for (child, count) in [(part, 2), (detached, 3), (urgent, 4)] {
        outcome::applied(&fixture.write(begin_child(held, &child)).await);
        assert_eq!(waiting(&fixture).await, count, "a child counts until its first claim: {child:?}");
    }
}

/// The calls that go on with what was accepted, and the starts that have no caller.
pub async fn what_was_accepted_goes_on_in_a_full_queue(fixture: Fixture) {
    let paused = started(&fixture, 1).await[0];
    fixture.write(Write::Pause(paused)).await;
    started(&fixture, 2).await;
    let [held, failed] = claim(&fixture, 2).await[..] else { panic!("two claims") };
    outcome::applied(&fixture.write(end(failed, RunEnd::Failed(error("no luck")))).await);
    let schedule = |revision| StoredSchedule {
        name: "s".into(),
        revision,
        available_at: Timestamp::FAR_FUTURE,
        input: None,
        record: "{}".into(),
    };
    let change = |seen, next, starts| {
        Write::Schedule(Box::new(ScheduleWrite { name: "s".into(), seen, next: Some(schedule(next)), starts }))
    };
    outcome::applied(&fixture.write(change(None, 1, Vec::new())).await);
    declare(&fixture, bound(0)).await;

    let children = [("part", OnParentEnd::Cancel), ("detached", OnParentEnd::Abandon)]
        .map(|(step, on_end)| in_mail(child_of(held.run_id, step, on_end)));
    let occurrence = in_mail(keyed("s@1"));
    let (beside, fork) = (in_mail(new_run()), in_mail(new_run()));
    let revive = ReviveWrite { run_id: failed.run_id, attempt: 1, again: Vec::new(), deadline: None };
    let fork_write = ForkWrite { source: failed.run_id, new: fork.clone(), before: 1, kept: None };
    let outcomes = fixture
        .commit(&[
            begin_child(held, &children[0]),
            begin_child(held, &children[1]),
            change(Some(1), 2, vec![occurrence.clone()]),
            Write::Revive(revive),
            Write::Resume(paused),
            start(&beside),
            Write::Fork(Box::new(fork_write)),
        ])
        .await;
    outcomes[..4].iter().for_each(outcome::applied);
    outcomes[5..].iter().for_each(|outcome| assert_eq!(refused(outcome), full(None, 0)));
    for run in children.iter().chain([&occurrence]) {
        assert!(exists(&fixture, run).await, "{run:?}");
    }
    assert!(!exists(&fixture, &beside).await && !exists(&fixture, &fork).await);
    assert_eq!(claim(&fixture, 10).await.len(), 5, "all of them go on");
}

pub async fn a_single_start_finds_its_run_before_it_asks_for_room(fixture: Fixture) {
    let start_of = |taken| single("doc-7", SingleUntil::End, taken);
    let first = start_of(WhenTaken::Keep);
    fixture.start(&first).await;
    let debounced = |taken| NewRun { start: StartTime::After(MINUTE), ..single("user-9", SingleUntil::Begin, taken) };
    let moved = debounced(WhenTaken::Keep);
    fixture.start(&moved).await;
    declare(&fixture, bound(2)).await;

    assert_eq!(fixture.start(&start_of(WhenTaken::Keep)).await, StartOutcome::Held { id: first.id });
    let target = MovedRun { id: moved.id, input: "2".into(), max_wait: None };
    let moving = debounced(WhenTaken::Move(target));
    assert_eq!(fixture.start(&moving).await, StartOutcome::Moved { id: moved.id }, "a move adds no run");
    assert_eq!(fixture.run(moved.id).await.input, "2");

    // Without room, the run that has the key goes on.
    let replacing = start_of(WhenTaken::Replace);
    let other = single("doc-8", SingleUntil::End, WhenTaken::Keep);
    let outcomes = fixture.commit(&[start(&replacing), start(&other), start(&new_run())]).await;
    outcomes[..2].iter().for_each(|outcome| assert_eq!(refused(outcome), full(None, 2)));
    outcome::created(&outcomes[2]);
    assert_eq!((fixture.status(first.id).await, exists(&fixture, &replacing).await), (RunStatus::Pending, false));

    // An ordinary start of the same batch is counted first.
    claim(&fixture, 1).await;
    let plain = in_mail(new_run());
    let outcomes = fixture.commit(&[start(&other), start(&plain)]).await;
    assert_eq!(refused(&outcomes[0]), full(None, 2));
    outcome::created(&outcomes[1]);
    claim(&fixture, 1).await;
    assert_eq!(fixture.start(&replacing).await, StartOutcome::Replaced { id: first.id });
}

/// Starts, single starts and claims of two processes at the same time.
pub async fn concurrent_starts_never_exceed_a_bound(fixture: Fixture) {
    const ROUNDS: usize = 60;
    declare(&fixture, bound(BOUND).per_gate(GateLimits::none().max_waiting(2))).await;
    let second = fixture.second().await;
    let work = async |store: Arc<dyn Store>| {
        let (mut taken, mut refused, mut most) = (BTreeMap::<RunId, bool>::new(), 0, 0);
        for round in 0..ROUNDS {
            let one = single(&format!("doc-{round}"), SingleUntil::End, WhenTaken::Keep);
            let mut batch: Vec<NewRun> = vec![in_mail(new_run()), behind("a"), behind("b"), one, new_run()];
            while !batch.is_empty() {
                let outcomes = store.commit(&batch.iter().map(start).collect::<Vec<_>>()).await.expect("commit");
                let mut again = Vec::new();
                for (run, outcome) in batch.into_iter().zip(outcomes) {
                    match outcome {
                        Outcome::Started(StartOutcome::Created) => drop(taken.insert(run.id, run.lane == mail())),
                        // The other process has started a run with this key.
                        Outcome::Started(StartOutcome::Held { .. }) => {}
                        Outcome::QueueFull(_) => refused += 1,
                        Outcome::Busy => again.push(run),
                        other => panic!("{other:?}"),
                    }
                }
                for (gate, bound) in [(None, BOUND), (Some("a"), 2), (Some("b"), 2)] {
                    let place = WaitingPlace { queue: "mail", gate, max_waiting: 100 };
                    let waiting = store.waiting_in(place).await.expect("a count");
                    most = most.max(waiting);
                    assert!(waiting <= bound, "{waiting} runs wait at {gate:?}");
                }
                batch = again;
                tokio::task::yield_now().await;
            }
            if round % 4 == 0 {
                let lanes = vec![mail()];
                let gated = vec!["mail".into()];
                let request = ClaimRequest { lanes, gated, ..claim_by(WorkerId::generate(), 2) };
                store.commit(&[Write::Claim(request)]).await.expect("commit");
            }
        }
        (taken, refused, most)
    };
    let (one, two) = tokio::join!(work(Arc::clone(&fixture.store)), work(second));
    let taken: BTreeMap<RunId, bool> = one.0.into_iter().chain(two.0).collect();
    let listed = fixture.store.list(&RunFilter::new().page_size(1000)).await.expect("a list");
    assert_eq!(listed.len(), taken.len(), "each start that was acknowledged is there, and no other one");
    let in_mail = taken.values().filter(|in_mail| **in_mail).count();
    assert_eq!(in_mail, listed.iter().filter(|run| run.lane == mail()).count());
    assert_eq!(taken.len() - in_mail, 2 * ROUNDS, "no start into another queue is refused");
    assert!(one.1 + two.1 > 0 && one.2.max(two.2) == BOUND, "the queue was full at some time");
}
