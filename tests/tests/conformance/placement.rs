//! Runs that get another priority or move to another queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{
    Claim, GateLimits, Lane, NewRun, OnParentEnd, Priority, QueueChange, QueueLimits, StartTime, WorkerId,
};
use workflow_engine::store::{
    ClaimRequest, Outcome, PlaceChange, PlaceOutcome, PlaceWrite, QueueWrite, Store, WaitingPlace, Write,
};
use workflow_sdk::{RunFilter, RunId, RunStatus, Timestamp};
use workflow_tests::builders::{
    attempt, begin_child, child_of, claim_by, lane_of, new_run, park, signal, start, succeed, succeeded,
};
use workflow_tests::{Fixture, outcome};

const HOUR: Duration = Duration::from_secs(3600);
const LIMIT: u32 = 2;

fn lane(queue: &str) -> Lane {
    lane_of(queue, "checkout", "1")
}

fn in_queue(queue: &str) -> NewRun {
    NewRun { lane: lane(queue), ..new_run() }
}

fn behind(queue: &str, gate: &str) -> NewRun {
    NewRun { gate: Some(gate.into()), ..in_queue(queue) }
}

async fn started(fixture: &Fixture, run: NewRun) -> RunId {
    outcome::created(&fixture.write(start(&run)).await);
    run.id
}

fn priority(run_id: RunId, priority: Priority) -> Write {
    Write::Place(PlaceWrite { run_id, change: PlaceChange::Priority(priority) })
}

fn queue(run_id: RunId, queue: &str, gate: Option<&str>) -> Write {
    let change = PlaceChange::Queue { lane: lane(queue), gate: gate.map(str::to_owned) };
    Write::Place(PlaceWrite { run_id, change })
}

fn placed(outcome: &Outcome) -> PlaceOutcome {
    match outcome {
        Outcome::Placed(outcome) => *outcome,
        other => panic!("expected Placed, got {other:?}"),
    }
}

async fn place(fixture: &Fixture, write: Write) -> PlaceOutcome {
    placed(&fixture.write(write).await)
}

/// Claims from a queue without limits.
fn request(name: &str, limit: u32) -> ClaimRequest {
    ClaimRequest { lanes: vec![lane(name)], ..claim_by(WorkerId::generate(), limit) }
}

/// Claims from a queue as a worker does that knows of its limits and gates.
fn limited(name: &str, limit: u32) -> ClaimRequest {
    ClaimRequest { limited: vec![name.into()], gated: vec![name.into()], ..request(name, limit) }
}

async fn claim(fixture: &Fixture, request: ClaimRequest) -> Vec<Claim> {
    fixture.claim(&request).await.runs.iter().map(|run| run.claim).collect()
}

async fn claimed(fixture: &Fixture, request: ClaimRequest) -> Vec<RunId> {
    claim(fixture, request).await.iter().map(|claim| claim.run_id).collect()
}

async fn declare(fixture: &Fixture, queue: &str, limits: QueueLimits) {
    let change = QueueChange::Declare(limits);
    outcome::applied(&fixture.write(Write::Queue(QueueWrite { queue: queue.into(), change })).await);
}

async fn is_due(fixture: &Fixture, queue: &str) -> bool {
    let next = fixture.store.next_due(&[lane(queue)]).await.expect("the next due run");
    next.at.is_some_and(|at| at <= next.now)
}

pub async fn a_run_is_claimed_by_its_new_priority(fixture: Fixture) {
    let (first, second, last) = (fixture.started().await, fixture.started().await, fixture.started().await);
    assert_eq!(place(&fixture, priority(last, Priority::Urgent)).await, PlaceOutcome::Changed);
    assert_eq!(place(&fixture, priority(last, Priority::Urgent)).await, PlaceOutcome::Unchanged);
    assert_eq!(place(&fixture, priority(first, Priority::Low)).await, PlaceOutcome::Changed);
    assert_eq!(fixture.run(last).await.priority, Some(Priority::Urgent));
    let worker = WorkerId::generate();
    let mut order = Vec::new();
    for _ in 0..3 {
        order.push(fixture.claim(&claim_by(worker, 1)).await.runs[0].claim.run_id);
    }
    assert_eq!(order, [last, second, first]);
}

/// A run that has begun goes first. No order makes it wait behind runs that have not.
pub async fn a_run_that_has_begun_gets_no_priority(fixture: Fixture) {
    let parent = fixture.held().await;
    assert_eq!(place(&fixture, priority(parent.run_id, Priority::Low)).await, PlaceOutcome::Begun);
    let child = child_of(parent.run_id, "child", OnParentEnd::Cancel);
    outcome::applied(&fixture.write(begin_child(parent, &child)).await);
    assert_eq!(place(&fixture, priority(child.id, Priority::Low)).await, PlaceOutcome::Changed, "it has not begun");
    outcome::applied(&fixture.write(park(parent, Timestamp::FAR_FUTURE)).await);
    let before = fixture.snapshot(parent.run_id).await;
    assert_eq!(place(&fixture, priority(parent.run_id, Priority::Low)).await, PlaceOutcome::Begun);
    assert_eq!(fixture.snapshot(parent.run_id).await, before);
}

pub async fn a_moved_run_is_claimed_from_its_new_queue_alone(fixture: Fixture) {
    let run = started(&fixture, NewRun { priority: Some(Priority::High), ..in_queue("mail") }).await;
    let stays = started(&fixture, in_queue("mail")).await;
    let before = fixture.run(run).await;
    assert_eq!(place(&fixture, queue(run, "post", None)).await, PlaceOutcome::Changed);
    assert_eq!(place(&fixture, queue(run, "post", None)).await, PlaceOutcome::Unchanged);
    let mut expected = before.clone();
    expected.lane = lane("post");
    assert_eq!(fixture.run(run).await, expected, "only the queue is another one");
    assert_eq!(claimed(&fixture, request("mail", 25)).await, [stays]);
    assert_eq!(claimed(&fixture, request("post", 25)).await, [run]);
}

pub async fn a_parked_run_moves_with_its_history_and_its_time(fixture: Fixture) {
    let run = started(&fixture, NewRun { deadline: Some(StartTime::After(8 * HOUR)), ..in_queue("mail") }).await;
    let held = claim(&fixture, request("mail", 1)).await[0];
    outcome::applied(&fixture.write(attempt(held, succeeded("page", 1, "1"))).await);
    let until = fixture.now() + HOUR;
    outcome::applied(&fixture.write(park(held, until)).await);
    let (_, history) = fixture.snapshot(run).await;
    assert_eq!(place(&fixture, queue(run, "post", None)).await, PlaceOutcome::Changed);
    let (moved, kept) = fixture.snapshot(run).await;
    assert_eq!((moved.available_at, moved.status, moved.priority, kept), (until, RunStatus::Parked, None, history));
    assert!(!is_due(&fixture, "post").await);
    fixture.write(Write::Signal(signal(run, "go", "1"))).await;
    assert!(is_due(&fixture, "post").await, "a signal wakes it in its new queue");
    let again = claim(&fixture, request("post", 1)).await[0];
    assert_eq!((again.run_id, again.epoch), (run, 2));
    outcome::applied(&fixture.write(succeed(again, "1")).await);
}

/// The run has a slot of its queue until its worker gives it back.
pub async fn a_run_that_a_worker_holds_does_not_move(fixture: Fixture) {
    let run = started(&fixture, in_queue("mail")).await;
    let held = claim(&fixture, request("mail", 1)).await[0];
    assert_eq!(place(&fixture, queue(run, "post", None)).await, PlaceOutcome::Held);
    fixture.write(Write::Pause(run)).await;
    assert_eq!(place(&fixture, queue(run, "post", None)).await, PlaceOutcome::Held, "it still has its slot");
    let running = async |queue| fixture.store.running_in(queue, 10).await.expect("a count");
    assert_eq!((running("mail").await, running("post").await), (1, 0));
    outcome::applied(&fixture.write(park(held, fixture.now())).await);
    assert_eq!(place(&fixture, queue(run, "post", None)).await, PlaceOutcome::Changed);
    assert_eq!((running("mail").await, claimed(&fixture, request("post", 25)).await), (0, vec![]), "it is paused");
    fixture.write(Write::Resume(run)).await;
    assert_eq!(claimed(&fixture, request("post", 25)).await, [run]);
    assert_eq!((running("mail").await, running("post").await), (0, 1));
}

pub async fn an_ended_or_unknown_run_is_not_placed(fixture: Fixture) {
    let held = fixture.held().await;
    outcome::applied(&fixture.write(succeed(held, "1")).await);
    let before = fixture.snapshot(held.run_id).await;
    let ended = PlaceOutcome::Ended(RunStatus::Succeeded);
    assert_eq!(place(&fixture, priority(held.run_id, Priority::Low)).await, ended);
    assert_eq!(place(&fixture, queue(held.run_id, "post", None)).await, ended);
    assert_eq!(fixture.snapshot(held.run_id).await, before);
    for write in [priority(RunId::generate(), Priority::Low), queue(RunId::generate(), "post", None)] {
        assert_eq!(place(&fixture, write).await, PlaceOutcome::Unknown);
    }
}

/// The writer has read the lane of the run before. A run that another start has moved meanwhile has
/// another version, or stands behind another gate.
pub async fn a_move_that_has_seen_another_lane_changes_nothing(fixture: Fixture) {
    let run = started(&fixture, behind("mail", "a")).await;
    let before = fixture.run(run).await;
    outcome::lost(&fixture.write(queue(run, "post", None)).await);
    let other = PlaceChange::Queue { lane: lane_of("post", "checkout", "2"), gate: Some("a".into()) };
    outcome::lost(&fixture.write(Write::Place(PlaceWrite { run_id: run, change: other })).await);
    assert_eq!(fixture.run(run).await, before);
}

/// Each write finds what the one before it did, and the claim of the batch finds all.
pub async fn changes_of_one_run_in_one_batch_keep_their_order(fixture: Fixture) {
    let run = started(&fixture, in_queue("mail")).await;
    let writes = [
        Write::Claim(request("parcels", 5)),
        queue(run, "post", None),
        priority(run, Priority::Low),
        queue(run, "parcels", None),
        priority(run, Priority::Low),
        queue(RunId::generate(), "parcels", None),
    ];
    let mut outcomes = fixture.commit(&writes).await;
    let claimed = outcome::claimed(outcomes.remove(0));
    assert_eq!(claimed.runs.iter().map(|run| run.claim.run_id).collect::<Vec<_>>(), [run]);
    let outcomes: Vec<PlaceOutcome> = outcomes.iter().map(placed).collect();
    let (changed, unchanged) = (PlaceOutcome::Changed, PlaceOutcome::Unchanged);
    assert_eq!(outcomes, [changed, changed, changed, unchanged, PlaceOutcome::Unknown]);
}

pub async fn the_limits_of_the_new_queue_hold_for_moved_runs(fixture: Fixture) {
    declare(&fixture, "post", QueueLimits::none().concurrency(LIMIT).max_waiting(3)).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(started(&fixture, in_queue("mail")).await);
    }
    for run in &runs {
        assert_eq!(place(&fixture, queue(*run, "post", None)).await, PlaceOutcome::Changed, "it was accepted before");
    }
    let waiting = async |queue| {
        let place = WaitingPlace { queue, gate: None, max_waiting: 100 };
        fixture.store.waiting_in(place).await.expect("a count")
    };
    assert_eq!((waiting("mail").await, waiting("post").await), (0, 5));
    let refused = fixture.write(start(&in_queue("post"))).await;
    assert!(matches!(refused, Outcome::QueueFull(_)), "{refused:?}");
    assert_eq!(
        (claim(&fixture, limited("post", 25)).await.len(), claim(&fixture, limited("post", 25)).await.len()),
        (2, 0)
    );
    let pause = QueueChange::Pause { reason: "the server moves".into() };
    outcome::applied(&fixture.write(Write::Queue(QueueWrite { queue: "parcels".into(), change: pause })).await);
    let last = runs[4];
    assert_eq!(place(&fixture, queue(last, "parcels", None)).await, PlaceOutcome::Changed);
    assert_eq!(claimed(&fixture, limited("parcels", 25)).await, []);
}

/// The turn of the new gate may sleep, may be full, or may not be there yet.
pub async fn a_moved_run_is_found_behind_its_gate(fixture: Fixture) {
    declare(&fixture, "post", QueueLimits::none().per_gate(GateLimits::none().concurrency(1))).await;
    let new = started(&fixture, behind("mail", "new")).await;
    assert_eq!(place(&fixture, queue(new, "post", Some("new"))).await, PlaceOutcome::Changed);
    assert_eq!(fixture.run(new).await.gate.as_deref(), Some("new"));
    assert!(is_due(&fixture, "post").await, "the gate is new");
    let first = claim(&fixture, limited("post", 25)).await;
    assert_eq!(first.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [new]);

    outcome::applied(&fixture.write(succeed(first[0], "1")).await);
    assert_eq!(claimed(&fixture, limited("post", 25)).await, [], "the gate sleeps from now on");
    let later = started(&fixture, NewRun { start: StartTime::After(HOUR), ..behind("mail", "new") }).await;
    assert_eq!(place(&fixture, queue(later, "post", Some("new"))).await, PlaceOutcome::Changed);
    assert!(!is_due(&fixture, "post").await);
    let due = started(&fixture, behind("mail", "new")).await;
    assert_eq!(place(&fixture, queue(due, "post", Some("new"))).await, PlaceOutcome::Changed);
    assert!(is_due(&fixture, "post").await, "the gate slept");
    let second = claim(&fixture, limited("post", 25)).await;
    assert_eq!(second.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [due]);

    let third = started(&fixture, behind("mail", "new")).await;
    assert_eq!(place(&fixture, queue(third, "post", Some("new"))).await, PlaceOutcome::Changed);
    assert_eq!(claimed(&fixture, limited("post", 25)).await, [], "the gate is full");
    outcome::applied(&fixture.write(succeed(second[0], "1")).await);
    assert_eq!(claimed(&fixture, limited("post", 25)).await, [third]);
    fixture.advance(HOUR);
    assert_eq!(claimed(&fixture, limited("mail", 25)).await, [], "no run is left in the old queue");
}

/// A run that leaves a full gate takes no slot with it.
pub async fn a_gate_that_a_run_has_left_serves_the_next_one(fixture: Fixture) {
    declare(&fixture, "mail", QueueLimits::none().per_gate(GateLimits::none().concurrency(1))).await;
    let [first, second, third] = [behind("mail", "a"), behind("mail", "a"), behind("mail", "a")];
    for run in [&first, &second, &third] {
        fixture.start(run).await;
    }
    let held = claim(&fixture, limited("mail", 25)).await;
    assert_eq!(held.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [first.id]);
    assert_eq!(place(&fixture, queue(second.id, "post", Some("a"))).await, PlaceOutcome::Changed);
    assert_eq!(claimed(&fixture, limited("mail", 25)).await, [], "the gate is still full");
    assert_eq!(claimed(&fixture, limited("post", 25)).await, [second.id]);
    outcome::applied(&fixture.write(succeed(held[0], "1")).await);
    assert_eq!(claimed(&fixture, limited("mail", 25)).await, [third.id]);
}

/// Two workers, each of one queue, beside moves between both queues.
pub async fn moves_beside_claims_exceed_no_limit_and_lose_no_run(fixture: Fixture) {
    const QUEUES: [&str; 2] = ["mail", "post"];
    const GATES: [&str; 2] = ["a", "b"];
    const ROUNDS: usize = 20;
    for queue in QUEUES {
        declare(&fixture, queue, QueueLimits::none().per_gate(GateLimits::none().concurrency(LIMIT))).await;
    }
    let work = async |store: Arc<dyn Store>, name: &'static str| {
        let (mut most, mut rounds) = (0, 0);
        let mut held: Vec<Claim> = Vec::new();
        loop {
            let mut batch: Vec<Write> = held.drain(..).map(|claim| succeed(claim, "1")).collect();
            if rounds < ROUNDS {
                batch.extend(GATES.iter().map(|gate| start(&behind(name, gate))));
            }
            batch.push(Write::Claim(limited(name, 3)));
            let outcomes = store.commit(&batch).await.expect("commit");
            for gate in GATES {
                most = most.max(store.gate_use(name, gate).await.expect("a read").running);
            }
            if let Some(Outcome::Claimed(claimed)) = outcomes.last() {
                held.extend(claimed.runs.iter().map(|run| run.claim));
            }
            rounds += 1;
            if rounds > ROUNDS && held.is_empty() && pending(&store).await.is_empty() {
                return most;
            }
        }
    };
    let operate = async |store: Arc<dyn Store>| {
        for _ in 0..ROUNDS {
            let moves: Vec<Write> = pending(&store)
                .await
                .iter()
                .map(|(run, (from, gate))| {
                    let to = if from == QUEUES[0] { QUEUES[1] } else { QUEUES[0] };
                    queue(*run, to, gate.as_deref())
                })
                .collect();
            if !moves.is_empty() {
                store.commit(&moves).await.expect("commit");
            }
        }
    };
    let (one, two) = (fixture.second().await, fixture.second().await);
    let (mail, post, ()) =
        tokio::join!(work(Arc::clone(&fixture.store), QUEUES[0]), work(one, QUEUES[1]), operate(two));
    assert!(mail.max(post) <= LIMIT, "{mail} and {post} at once");
    let ended = RunFilter::new().status(RunStatus::Succeeded).page_size(1000);
    assert_eq!(fixture.store.list(&ended).await.expect("a list").len(), 2 * ROUNDS * GATES.len());
}

/// Returns queue and gate of each run that was never claimed.
async fn pending(store: &Arc<dyn Store>) -> BTreeMap<RunId, (String, Option<String>)> {
    let runs = store.list(&RunFilter::new().status(RunStatus::Pending)).await.expect("a list");
    runs.into_iter().map(|run| (run.id, (run.lane.queue, run.gate))).collect()
}
