//! Queues with limits.

use std::collections::HashSet;
use std::sync::Arc;

use workflow_engine::model::{Claim, Lane, NewRun, QueueChange, QueueLimits, QueueRecord, WorkerId};
use workflow_engine::store::{ClaimRequest, Claimed, Outcome, QueueWrite, Store, Write};
use workflow_sdk::{RunId, RunStatus, Timestamp};
use workflow_tests::builders::{LEASE, claim_by, lane_of, new_run, park, start, succeed};
use workflow_tests::{Fixture, outcome};

const LIMIT: u32 = 3;

fn mail() -> Lane {
    lane_of("mail", "checkout", "1")
}

fn change(queue: &str, change: QueueChange) -> Write {
    Write::Queue(QueueWrite { queue: queue.into(), change })
}

fn limits(runs: u32) -> QueueLimits {
    QueueLimits::none().concurrency(runs)
}

fn pause() -> QueueChange {
    QueueChange::Pause { reason: "the server moves".into() }
}

async fn limited(fixture: &Fixture, runs: u32) {
    outcome::applied(&fixture.write(change("mail", QueueChange::Declare(limits(runs)))).await);
}

async fn started(fixture: &Fixture, lane: Lane, count: usize) -> Vec<RunId> {
    let runs: Vec<NewRun> = (0..count).map(|_| NewRun { lane: lane.clone(), ..new_run() }).collect();
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await;
    runs.iter().map(|run| run.id).collect()
}

/// Claims from the queue `mail` as a worker does that knows of its limits.
fn request(limit: u32) -> ClaimRequest {
    ClaimRequest { lanes: vec![mail()], limited: vec!["mail".into()], ..claim_by(WorkerId::generate(), limit) }
}

fn claims(claimed: &Claimed) -> Vec<Claim> {
    claimed.runs.iter().map(|run| run.claim).collect()
}

async fn running(fixture: &Fixture) -> u32 {
    fixture.store.running_in("mail", 1000).await.expect("a count")
}

pub async fn the_record_of_a_queue_tells_what_was_declared_set_and_paused(fixture: Fixture) {
    assert_eq!(fixture.store.queues().await.expect("queues"), []);
    let mut record = QueueRecord::new("mail".into());
    for next in [
        QueueChange::Declare(limits(5)),
        QueueChange::Override(Some(limits(2))),
        pause(),
        QueueChange::Declare(limits(6)),
        QueueChange::Override(None),
        QueueChange::Resume,
        QueueChange::Override(Some(QueueLimits::none())),
    ] {
        fixture.advance(LEASE);
        outcome::applied(&fixture.write(change("mail", next.clone())).await);
        record.apply(&next, fixture.now());
        assert_eq!(fixture.store.queues().await.expect("queues"), [record.clone()], "{next:?}");
    }
    let writes = [change("z", pause()), change("a", pause()), change("a", QueueChange::Resume)];
    fixture.commit(&writes).await.iter().for_each(outcome::applied);
    let queues = fixture.store.queues().await.expect("queues");
    let found: Vec<_> = queues.iter().map(|queue| (queue.name.as_str(), queue.pause.is_some())).collect();
    assert_eq!(found, [("a", false), ("mail", false), ("z", true)], "two changes of one queue keep their order");
}

/// The ends, parks and claims of one batch come in this order, so a slot is used again at once.
pub async fn at_most_the_limit_of_a_queues_runs_are_under_way(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    started(&fixture, mail(), 25).await;
    let first = fixture.claim(&request(25)).await;
    assert_eq!((first.runs.len(), first.held_back.as_slice()), (3, &["mail".to_owned()][..]));
    let none = fixture.claim(&request(25)).await;
    assert_eq!((none.runs.len(), none.held_back.as_slice()), (0, &["mail".to_owned()][..]));

    let [ended, parked, kept] = claims(&first)[..] else { panic!("{first:?}") };
    let batch = [succeed(ended, "1"), park(parked, Timestamp::FAR_FUTURE), Write::Claim(request(25))];
    let mut outcomes = fixture.commit(&batch).await;
    let second = outcome::claimed(outcomes.pop().expect("the claim's outcome"));
    outcomes.iter().for_each(outcome::applied);
    assert_eq!(second.runs.len(), 2, "an ended and a parked run hold no slot");
    assert_eq!((running(&fixture).await, fixture.status(kept.run_id).await), (LIMIT, RunStatus::Running));
}

pub async fn a_limit_of_zero_lets_no_run_begin(fixture: Fixture) {
    limited(&fixture, 0).await;
    started(&fixture, mail(), 1).await;
    let claimed = fixture.claim(&request(25)).await;
    assert_eq!((claims(&claimed), claimed.held_back.as_slice()), (vec![], &["mail".to_owned()][..]));
}

pub async fn a_run_of_a_full_queue_is_taken_over_when_its_lease_has_ended(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    let runs = started(&fixture, mail(), 5).await;
    let held = claims(&fixture.claim(&request(25)).await);
    fixture.advance(LEASE);
    let taken = claims(&fixture.claim(&request(25)).await);
    let ids = |claims: &[Claim]| claims.iter().map(|claim| claim.run_id).collect::<HashSet<_>>();
    assert_eq!(ids(&taken), ids(&held));
    assert!(taken.iter().all(|claim| claim.epoch == 2));
    for claim in taken {
        outcome::applied(&fixture.write(succeed(claim, "1")).await);
    }
    assert_eq!(ids(&claims(&fixture.claim(&request(25)).await)), runs[3..].iter().copied().collect());
}

pub async fn a_paused_queue_gives_no_runs(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    started(&fixture, mail(), 5).await;
    let held = claims(&fixture.claim(&request(1)).await)[0];
    outcome::applied(&fixture.write(change("mail", pause())).await);
    let claimed = fixture.claim(&request(25)).await;
    assert_eq!((claims(&claimed), claimed.held_back.as_slice()), (vec![], &["mail".to_owned()][..]));
    outcome::applied(&fixture.write(park(held, fixture.now())).await);
    assert_eq!(claims(&fixture.claim(&request(25)).await), [], "a parked run does not go on");
    outcome::applied(&fixture.write(change("mail", QueueChange::Resume)).await);
    assert_eq!(fixture.claim(&request(25)).await.runs.len(), 3);
}

pub async fn a_lower_limit_lets_nothing_begin_until_enough_has_ended(fixture: Fixture) {
    limited(&fixture, 5).await;
    started(&fixture, mail(), 10).await;
    let held = claims(&fixture.claim(&request(25)).await);
    outcome::applied(&fixture.write(change("mail", QueueChange::Override(Some(limits(2))))).await);
    for (ended, begun) in held.iter().zip([0, 0, 0, 1, 1]) {
        let batch = [succeed(*ended, "1"), Write::Claim(request(25))];
        let claimed = fixture.commit(&batch).await.pop().map(outcome::claimed).expect("the claim's outcome");
        assert_eq!(claimed.runs.len(), begun);
    }
    outcome::applied(&fixture.write(change("mail", QueueChange::Override(None))).await);
    assert_eq!(fixture.claim(&request(25)).await.runs.len(), 3, "the declared limit holds again");
}

/// Some runs are under way when the first limit comes, by a claim that knows of none.
pub async fn the_first_limit_of_a_queue_counts_every_run_of_its_backlog(fixture: Fixture) {
    const WAITING: usize = 1000;
    const FIRST: usize = 50;
    started(&fixture, mail(), WAITING).await;
    let mut held = claims(&fixture.claim(&ClaimRequest { limited: Vec::new(), ..request(20) }).await);
    assert_eq!(held.len(), 20);
    let first = Some(limits(u32::try_from(FIRST).expect("a small number")));
    outcome::applied(&fixture.write(change("mail", QueueChange::Override(first))).await);
    let mut ended = 0;
    while ended < WAITING {
        loop {
            let claimed = claims(&fixture.claim(&request(100)).await);
            if claimed.is_empty() {
                break;
            }
            held.extend(claimed);
        }
        assert_eq!(held.len(), FIRST.min(WAITING - ended), "{ended} have ended");
        assert_eq!(running(&fixture).await as usize, held.len());
        let ends: Vec<Write> = held.drain(..).map(|claim| succeed(claim, "1")).collect();
        fixture.commit(&ends).await.iter().for_each(outcome::applied);
        ended += ends.len();
    }
    assert_eq!(claims(&fixture.claim(&request(100)).await), [], "each run was claimed once");
}

pub async fn a_limit_counts_over_the_lanes_of_its_queue_and_no_other_one(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    let (other, plain) = (lane_of("mail", "refund", "2"), lane_of("default", "checkout", "1"));
    for lane in [mail(), other.clone(), plain.clone()] {
        started(&fixture, lane, 10).await;
    }
    let both = ClaimRequest { lanes: vec![mail(), other.clone(), plain.clone()], ..request(25) };
    let claimed = fixture.claim(&both).await.runs;
    let of = |lane: &Lane| claimed.iter().filter(|run| run.lane == *lane).count();
    assert_eq!((of(&mail()) + of(&other), of(&plain)), (3, 10));
    assert!(of(&mail()) > 0 && of(&other) > 0, "the lanes of a queue take turns");
}

/// With few free permits, too.
pub async fn a_limited_queue_and_the_others_share_a_claim(fixture: Fixture) {
    limited(&fixture, 100).await;
    let plain = lane_of("default", "checkout", "1");
    started(&fixture, mail(), 20).await;
    started(&fixture, plain.clone(), 20).await;
    let both = ClaimRequest { lanes: vec![plain.clone(), mail()], ..request(10) };
    let claimed = fixture.claim(&both).await;
    let of_mail = claimed.runs.iter().filter(|run| run.lane == mail()).count();
    assert_eq!((claimed.runs.len(), of_mail), (10, 5));
    assert_eq!(claimed.held_back, [""; 0], "it has free slots");
    let claimed = fixture.claim(&ClaimRequest { limit: 100, ..both }).await.runs;
    assert_eq!(claimed.len(), 30, "each takes what the other one leaves");
}

pub async fn concurrent_claims_never_exceed_a_limit(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    started(&fixture, mail(), 60).await;
    let second = fixture.second().await;
    let work = async |store: Arc<dyn Store>| {
        let (mut done, mut most) = (0, 0);
        let mut held: Vec<Claim> = Vec::new();
        while done < 60 {
            let mut batch: Vec<Write> = held.drain(..).map(|claim| succeed(claim, "1")).collect();
            batch.push(Write::Claim(request(2)));
            let outcomes = store.commit(&batch).await.expect("commit");
            most = most.max(store.running_in("mail", 1000).await.expect("a count"));
            if let Some(Outcome::Claimed(claimed)) = outcomes.last() {
                held.extend(claims(claimed));
            }
            done = 60 - pending(&store).await;
        }
        let rest: Vec<Write> = held.drain(..).map(|claim| succeed(claim, "1")).collect();
        store.commit(&rest).await.expect("commit");
        most
    };
    let (one, two) = tokio::join!(work(Arc::clone(&fixture.store)), work(second));
    assert!(one.max(two) <= LIMIT, "{one} and {two} at once");
    assert_eq!(running(&fixture).await, 0);
}

/// A later release, or damage, must not stop the other queues.
pub async fn limits_that_are_not_understood_stop_only_their_queue(fixture: Fixture) {
    limited(&fixture, LIMIT).await;
    let plain = lane_of("default", "checkout", "1");
    for lane in [mail(), plain.clone()] {
        started(&fixture, lane, 5).await;
    }
    for column in ["declared", "overridden"] {
        fixture.raw().await.execute(format!("UPDATE workflow_queues SET {column} = '{{\"concurrency\":-1}}'")).await;
        let records = fixture.store.queues().await.expect("queues");
        let pause = records[0].pause.as_ref().expect("it counts as paused");
        assert!(pause.reason.starts_with("its limits are not understood ("), "{pause:?}");
        let both = ClaimRequest { lanes: vec![plain.clone(), mail()], ..request(4) };
        let claimed = fixture.claim(&both).await;
        assert!(claimed.runs.iter().all(|run| run.lane == plain) && !claimed.runs.is_empty(), "{claimed:?}");
        assert_eq!(claimed.held_back, ["mail"]);
    }
    let again = [QueueChange::Declare(limits(1)), QueueChange::Override(None)].map(|next| change("mail", next));
    fixture.commit(&again).await.iter().for_each(outcome::applied);
    assert_eq!(fixture.claim(&request(25)).await.runs.len(), 1);
}

/// Returns the number of runs that were never claimed.
async fn pending(store: &Arc<dyn Store>) -> usize {
    let filter = workflow_sdk::RunFilter::new().status(RunStatus::Pending);
    store.list(&filter).await.expect("a list").len()
}
