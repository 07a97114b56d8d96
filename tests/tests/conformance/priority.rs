//! The order in which the due runs of a lane are claimed.

use std::time::Duration;

use workflow_engine::model::{NewRun, OnParentEnd, Priority, Retention, StartTime, WorkerId};
use workflow_engine::store::{ClaimRequest, Write};
use workflow_sdk::{RunId, Timestamp};
use workflow_tests::builders::{
    LEASE, attempt, begin_child, child_of, claim_by, continue_as_new, lane, lane_of, new_run, park, signal, start,
    succeed, succeeded,
};
use workflow_tests::{Fixture, outcome};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn of(priority: Priority) -> NewRun {
    NewRun { priority: Some(priority), ..new_run() }
}

async fn started(fixture: &Fixture, run: NewRun) -> RunId {
    fixture.start(&run).await;
    run.id
}

/// Claims one run after the other. Returns at most this number of runs.
async fn claimed_in_turn(fixture: &Fixture, count: usize) -> Vec<RunId> {
    let worker = WorkerId::generate();
    let mut order = Vec::new();
    for _ in 0..count {
        order.extend(fixture.claim(&claim_by(worker, 1)).await.runs.iter().map(|run| run.claim.run_id));
    }
    order
}

pub async fn the_higher_priority_is_claimed_first(fixture: Fixture) {
    let normal = started(&fixture, new_run()).await;
    let low = started(&fixture, of(Priority::Low)).await;
    let urgent = started(&fixture, of(Priority::Urgent)).await;
    let high = started(&fixture, of(Priority::High)).await;
    fixture.advance(SECOND);
    assert_eq!(claimed_in_turn(&fixture, 5).await, [urgent, high, normal, low]);
}

pub async fn one_claim_returns_its_runs_in_the_order_of_their_priorities(fixture: Fixture) {
    let mut expected = Vec::new();
    for priority in [Priority::Low, Priority::High, Priority::Normal, Priority::Urgent] {
        for _ in 0..2 {
            expected.push((priority, started(&fixture, of(priority)).await));
            fixture.advance(SECOND);
        }
    }
    expected.sort();
    let claimed = fixture.claim(&claim_by(WorkerId::generate(), 7)).await;
    let claimed: Vec<RunId> = claimed.runs.iter().map(|run| run.claim.run_id).collect();
    assert_eq!(claimed, expected[..7].iter().map(|(_, id)| *id).collect::<Vec<_>>());
}

pub async fn a_run_that_has_waited_for_the_head_start_goes_first(fixture: Fixture) {
    let low = started(&fixture, of(Priority::Low)).await;
    fixture.advance(9 * MINUTE);
    let early = started(&fixture, of(Priority::Normal)).await;
    fixture.advance(2 * MINUTE);
    let normal = started(&fixture, of(Priority::Normal)).await;
    fixture.advance(8 * MINUTE + 30 * SECOND);
    let early_high = started(&fixture, of(Priority::High)).await;
    fixture.advance(2 * MINUTE);
    let high = started(&fixture, of(Priority::High)).await;
    fixture.advance(SECOND);
    assert_eq!(claimed_in_turn(&fixture, 6).await, [early, early_high, low, normal, high]);
}

pub async fn an_urgent_run_goes_first_for_a_day(fixture: Fixture) {
    let late = started(&fixture, of(Priority::Normal)).await;
    fixture.advance(23 * 60 * MINUTE);
    let urgent = started(&fixture, of(Priority::Urgent)).await;
    fixture.advance(2 * 60 * MINUTE);
    let last = started(&fixture, of(Priority::Urgent)).await;
    assert_eq!(claimed_in_turn(&fixture, 4).await, [urgent, late, last]);
}

/// Begins runs that come due again in every way there is, and then starts a backlog.
pub async fn a_run_that_has_begun_goes_before_a_backlog(fixture: Fixture) {
    let mut begun = Vec::new();
    for way in ["signal", "sleep", "continue", "pause", "lapse", "unknown"] {
        let id = started(&fixture, of(Priority::Low)).await;
        let worker = WorkerId::generate();
        let claim = fixture.claim(&claim_by(worker, 1)).await.runs[0].claim;
        assert_eq!(claim.run_id, id);
        match way {
            "signal" => outcome::applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await),
            "sleep" => outcome::applied(&fixture.write(park(claim, fixture.now() + MINUTE)).await),
            "continue" => outcome::applied(&fixture.write(continue_as_new(claim, "1")).await),
            "pause" => {
                outcome::applied(&fixture.write(park(claim, fixture.now())).await);
                fixture.write(Write::Pause(id)).await;
            }
            "unknown" => drop(fixture.write(Write::ReleaseUnknown { worker, known: Vec::new() }).await),
            _ => {}
        }
        begun.push(id);
        // Continued and released runs are due at once, so the next turn of this loop would claim
        // them.
        if matches!(way, "continue" | "unknown") {
            fixture.write(Write::Pause(id)).await;
        }
    }
    let backlog = fixture.started_many(100).await;
    fixture.advance(LEASE + 2 * MINUTE);
    // Full claims of the backlog come before, so that later ones resume where they ended.
    let worker = WorkerId::generate();
    let claim = async |limit| {
        let runs = fixture.claim(&claim_by(worker, limit)).await.runs;
        runs.into_iter().map(|run| run.claim.run_id).collect::<Vec<_>>()
    };
    let (slept, lapsed) = (begun[1], begun[4]);
    let mut first = claim(2).await;
    first.sort();
    assert_eq!(first, [slept, lapsed], "what has come due by itself");
    for _ in 0..3 {
        assert!(claim(3).await.iter().all(|id| backlog.contains(id)));
    }
    fixture.write(Write::Signal(signal(begun[0], "go", "1"))).await;
    for id in [begun[2], begun[3], begun[5]] {
        fixture.write(Write::Resume(id)).await;
    }
    let urgent = started(&fixture, of(Priority::Urgent)).await;
    fixture.advance(SECOND);
    let mut woken = Vec::new();
    // A claim that resumes from a cursor may pass a run over until the cursor is forgotten.
    for _ in 0..3 {
        woken.extend(claim_from_beginning(&fixture, 5).await);
    }
    let mut expected = vec![begun[0], begun[2], begun[3], begun[5], urgent];
    expected.sort();
    woken.truncate(5);
    woken.sort();
    assert_eq!(woken, expected);
}

/// Claims by another worker, so that the claim begins at the beginning.
async fn claim_from_beginning(fixture: &Fixture, limit: u32) -> Vec<RunId> {
    let runs = fixture.claim(&claim_by(WorkerId::generate(), limit)).await.runs;
    runs.into_iter().map(|run| run.claim.run_id).collect()
}

pub async fn a_child_that_ends_with_its_parent_goes_before_a_backlog(fixture: Fixture) {
    let parent = fixture.held().await;
    let backlog = fixture.started_many(5).await;
    fixture.advance(SECOND);
    let child = child_of(parent.run_id, "child", OnParentEnd::Cancel);
    let abandoned = child_of(parent.run_id, "abandoned", OnParentEnd::Abandon);
    let low = NewRun { priority: Some(Priority::Low), ..child_of(parent.run_id, "low", OnParentEnd::Cancel) };
    let children = [&child, &abandoned, &low].map(|child| begin_child(parent, child));
    fixture.commit(&children).await.iter().for_each(outcome::applied);
    let (first, last) = ([child.id], [abandoned.id, low.id]);
    assert_eq!(claimed_in_turn(&fixture, 9).await, [&first[..], &backlog, &last].concat());
}

pub async fn a_priority_is_shown_until_the_first_claim(fixture: Fixture) {
    for priority in Priority::ALL {
        let id = started(&fixture, of(priority)).await;
        assert_eq!(fixture.run(id).await.priority, Some(priority));
        assert_eq!(fixture.claim_due().await, [id]);
        assert_eq!(fixture.run(id).await.priority, None);
    }
    let id = started(&fixture, new_run()).await;
    assert_eq!(fixture.run(id).await.priority, Some(Priority::Normal));
}

/// Full claims resume where they ended, but each rank has its own place there.
pub async fn full_claims_of_a_backlog_do_not_pass_over_another_priority(fixture: Fixture) {
    let worker = WorkerId::generate();
    let _lease = fixture.store.open_lease(worker, &[lane()], &Retention::default()).await.expect("a lease");
    let busy = fixture.held().await;
    fixture.started_many(100).await;
    fixture.advance(SECOND);
    let mut steps = 0;
    for priority in [Priority::High, Priority::Urgent] {
        for beside in [false, true] {
            let mut claim = async || {
                let step = attempt(busy, succeeded(&format!("page#{steps}"), steps + 1, "1"));
                steps += i64::from(beside);
                let writes = [step, Write::Claim(claim_by(worker, 2))];
                let outcome = fixture.commit(&writes[usize::from(!beside)..]).await.pop().expect("the claim's outcome");
                outcome::claimed(outcome).runs.into_iter().map(|run| run.claim.run_id).collect::<Vec<_>>()
            };
            claim().await;
            // Due for as long as the backlog.
            let early = StartTime::At(fixture.now() - SECOND);
            let new = NewRun { start: early, ..of(priority) };
            fixture.start(&new).await;
            assert_eq!(claim().await.first(), Some(&new.id), "{priority:?}");
        }
    }
}

/// The claims before are full, so that the next one begins where they have ended in the backlog.
pub async fn a_woken_run_is_in_the_next_claim_of_a_worker_amid_a_backlog(fixture: Fixture) {
    const FULL: u32 = 100;
    let worker = WorkerId::generate();
    let claim = async |limit| {
        let runs = fixture.claim(&claim_by(worker, limit)).await.runs;
        runs.into_iter().map(|run| run.claim).collect::<Vec<_>>()
    };
    let woken = fixture.started().await;
    let held = claim(1).await[0];
    assert_eq!(held.run_id, woken);
    outcome::applied(&fixture.write(park(held, Timestamp::FAR_FUTURE)).await);
    fixture.advance(SECOND);
    fixture.started_many(1000).await;
    fixture.advance(SECOND);
    for _ in 0..3 {
        assert_eq!(claim(FULL).await.len(), FULL as usize);
    }
    fixture.write(Write::Signal(signal(woken, "go", "1"))).await;
    let next = claim(FULL).await;
    assert_eq!((next[0].run_id, next.len()), (woken, FULL as usize), "it has begun, so it goes first");
}

pub async fn a_priority_counts_within_its_lane(fixture: Fixture) {
    let other = lane_of("default", "refund", "1");
    for _ in 0..5 {
        fixture.start(&of(Priority::Urgent)).await;
    }
    let low = NewRun { lane: other.clone(), ..of(Priority::Low) };
    fixture.start(&low).await;
    let request = ClaimRequest { lanes: vec![lane(), other], ..claim_by(WorkerId::generate(), 2) };
    let claimed = fixture.claim(&request).await.runs;
    assert!(claimed.iter().any(|run| run.claim.run_id == low.id), "{claimed:?}");
}

pub async fn a_run_claimed_in_its_batch_has_begun(fixture: Fixture) {
    let worker = WorkerId::generate();
    let _lease = fixture.store.open_lease(worker, &[lane()], &Retention::default()).await.expect("a lease");
    let low = of(Priority::Low);
    let outcomes = fixture.commit(&[start(&low), Write::Claim(claim_by(worker, 5))]).await;
    let claimed = outcome::claimed(outcomes.into_iter().next_back().expect("one outcome per write"));
    let claim = claimed.runs[0].claim;
    assert_eq!(fixture.run(low.id).await.priority, None);
    outcome::applied(&fixture.write(park(claim, fixture.now() + SECOND)).await);
    fixture.started_many(3).await;
    fixture.advance(2 * SECOND);
    assert_eq!(claimed_in_turn(&fixture, 1).await, [low.id]);
    outcome::lost(&fixture.write(succeed(claim, "1")).await);
}
