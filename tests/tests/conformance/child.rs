use std::time::Duration;

use workflow_engine::model::{Claim, KeyReuse, NewRun, StartTime};
use workflow_engine::store::{AttemptWrite, Outcome, RunEnd, Write};
use workflow_sdk::{CancelOutcome, OnParentEnd, Run, RunFilter, RunId, RunStatus, StepAttempt, StepKind, Timestamp};
use workflow_tests::builders::{
    LEASE, attempt, begin_child, child_of, claim_request, end, end_in_family, error, keyed, lane_of, new_run, park,
    park_write, signal, succeed, succeeded,
};
use workflow_tests::outcome::{applied, canceled, changed, duplicate, lost};
use workflow_tests::{Database, Fixture};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the claim of a parent, and its child with this policy, which is not claimed.
async fn family(fixture: &Fixture, on_end: OnParentEnd) -> (Claim, RunId) {
    let parent = fixture.held().await;
    let child = child_of(parent.run_id, "child", on_end);
    applied(&fixture.write(begin_child(parent, &child)).await);
    (parent, child.id)
}

/// Returns a parked parent and the claim of its child.
async fn waiting_family(fixture: &Fixture) -> (RunId, Claim) {
    let (parent, child) = family(fixture, OnParentEnd::Cancel).await;
    applied(&fixture.write(park(parent, Timestamp::FAR_FUTURE)).await);
    let claim = fixture.claim_only().await.claim;
    assert_eq!(claim.run_id, child);
    (parent.run_id, claim)
}

async fn exists(fixture: &Fixture, id: RunId) -> bool {
    fixture.store.run(id).await.unwrap().is_some()
}

/// Checks that the parent was woken once and is due now.
async fn is_woken(fixture: &Fixture, parent: RunId) {
    let run = fixture.run(parent).await;
    assert_eq!((run.status, run.wakes, run.available_at), (RunStatus::Parked, 1, fixture.now()));
    assert_eq!(fixture.claim_due().await, [parent]);
}

pub async fn a_child_is_started_with_its_row(fixture: Fixture) {
    let parent = fixture.held().await;
    let child = NewRun {
        lane: lane_of("other", "refund", "2"),
        key: Some("k".into()),
        deadline: Some(StartTime::After(HOUR)),
        depth: 7,
        ..child_of(parent.run_id, "é \"child\"", OnParentEnd::Abandon)
    };
    applied(&fixture.write(begin_child(parent, &child)).await);
    let run = fixture.run(child.id).await;
    assert_eq!((&run.lane, &run.input, &run.key, &run.parent), (&child.lane, &child.input, &child.key, &child.parent));
    assert_eq!((run.status, run.depth, run.epoch), (RunStatus::Pending, 7, 0));
    assert_eq!((run.available_at, run.deadline_at), (fixture.now(), Some(fixture.now() + HOUR)));
    assert_eq!(fixture.history(parent.run_id).await.len(), 1);
}

pub async fn a_child_is_not_started_without_its_row(fixture: Fixture) {
    let parent = fixture.held().await;
    let child = child_of(parent.run_id, "child", OnParentEnd::Cancel);
    // The trigger refuses the row after the child was inserted.
    let refuse = match fixture.database {
        Database::Memory => unreachable!("this case is not run in memory, which has no SQL"),
        Database::Sqlite => {
            "CREATE TRIGGER refuse BEFORE INSERT ON step_attempts BEGIN SELECT RAISE(ABORT, 'refused'); END"
        }
        Database::Postgres => {
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON step_attempts FOR EACH ROW EXECUTE FUNCTION refuse()"
        }
    };
    fixture.raw().await.execute(refuse).await;
    fixture.store.commit(&[begin_child(parent, &child)]).await.expect_err("the row is refused");
    assert!(!exists(&fixture, child.id).await, "a child without a row");
    assert_eq!(fixture.history(parent.run_id).await, []);
}

pub async fn a_child_is_claimed_with_its_parent(fixture: Fixture) {
    let (parent, child) = family(&fixture, OnParentEnd::Cancel).await;
    let claimed = fixture.claim_only().await;
    assert_eq!((claimed.claim.run_id, claimed.parent_run_id, claimed.depth), (child, Some(parent.run_id), 1));
}

pub async fn a_stale_claim_starts_nothing(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    let child = child_of(stale.run_id, "child", OnParentEnd::Cancel);
    let before = fixture.snapshot(stale.run_id).await;
    // The stale write is also lost in one batch with the same write of the current claim.
    let other = child_of(stale.run_id, "child", OnParentEnd::Cancel);
    lost(&fixture.write(begin_child(stale, &child)).await);
    assert_eq!(fixture.snapshot(stale.run_id).await, before);
    let outcomes = fixture.commit(&[begin_child(stale, &child), begin_child(current, &other)]).await;
    lost(&outcomes[0]);
    applied(&outcomes[1]);
    assert!(!exists(&fixture, child.id).await);
    assert!(exists(&fixture, other.id).await);

    applied(&fixture.write(succeed(current, "1")).await);
    let late = child_of(stale.run_id, "late", OnParentEnd::Cancel);
    duplicate(&fixture.write(begin_child(current, &late)).await);
    assert!(!exists(&fixture, late.id).await);
}

pub async fn a_child_start_applied_again_creates_one_child(fixture: Fixture) {
    let parent = fixture.held().await;
    for key in [None, Some("k".to_owned())] {
        let step_key = format!("{key:?}");
        let child = NewRun { key, ..child_of(parent.run_id, &step_key, OnParentEnd::Cancel) };
        for _ in 0..3 {
            applied(&fixture.write(begin_child(parent, &child)).await);
        }
        let twice = fixture.commit(&[begin_child(parent, &child), begin_child(parent, &child)]).await;
        twice.iter().for_each(applied);
    }
    let runs = fixture.store.list(&RunFilter::new()).await.unwrap();
    assert_eq!(runs.iter().filter(|run| run.depth == 1).count(), 2);
    assert_eq!(fixture.history(parent.run_id).await.len(), 2);
}

pub async fn a_final_step_starts_no_child(fixture: Fixture) {
    let parent = fixture.held().await;
    let child = child_of(parent.run_id, "child", OnParentEnd::Cancel);
    applied(&fixture.write(attempt(parent, succeeded("child", 1, "1"))).await);
    let before = fixture.snapshot(parent.run_id).await;
    applied(&fixture.write(begin_child(parent, &child)).await);
    assert!(!exists(&fixture, child.id).await, "no row leads to the child");
    assert_eq!(fixture.snapshot(parent.run_id).await, before);
    // In one batch it is the same.
    let other = child_of(parent.run_id, "other", OnParentEnd::Cancel);
    let batch = [attempt(parent, succeeded("other", 2, "2")), begin_child(parent, &other)];
    fixture.commit(&batch).await.iter().for_each(applied);
    assert!(!exists(&fixture, other.id).await, "no row leads to the child");
    // A child that ends its step at once is started, and a repeated commit changes nothing.
    let detached = child_of(parent.run_id, "detached", OnParentEnd::Abandon);
    let mut write = begin_child(parent, &detached);
    if let Write::Attempt(write) = &mut write {
        write.row = StepAttempt { kind: StepKind::Child, ..succeeded("detached", 3, "3") };
    }
    for _ in 0..2 {
        applied(&fixture.write(write.clone()).await);
        assert!(exists(&fixture, detached.id).await);
    }
}

pub async fn a_child_whose_key_is_taken_leaves_nothing(fixture: Fixture) {
    let owner = keyed("k");
    fixture.start(&NewRun { start: StartTime::After(HOUR), ..owner.clone() }).await;
    let parent = fixture.held().await;
    let before = fixture.snapshot(parent.run_id).await;
    let child = NewRun { key: Some("k".into()), ..child_of(parent.run_id, "child", OnParentEnd::Cancel) };
    let neighbour = child_of(parent.run_id, "neighbour", OnParentEnd::Cancel);
    let refused = fixture.write(begin_child(parent, &child)).await;
    assert!(matches!(refused, Outcome::KeyTaken { id } if id == owner.id), "{refused:?}");
    assert_eq!(fixture.snapshot(parent.run_id).await, before);
    let outcomes = fixture.commit(&[begin_child(parent, &child), begin_child(parent, &neighbour)]).await;
    assert!(matches!(outcomes[0], Outcome::KeyTaken { id } if id == owner.id), "{outcomes:?}");
    applied(&outcomes[1]);
    assert!(!exists(&fixture, child.id).await);
    assert_eq!(fixture.history(parent.run_id).await[0].step_key, "neighbour");
    assert_eq!(fixture.run(owner.id).await.parent, None);
}

pub async fn a_child_takes_the_key_of_a_failed_child_of_its_step_alone(fixture: Fixture) {
    let parent = fixture.held().await;
    let keyed = |step_key: &str, key_reuse| {
        let child = child_of(parent.run_id, step_key, OnParentEnd::Cancel);
        NewRun { key: Some("k".into()), key_reuse, ..child }
    };
    let again = |child: &NewRun, attempt| match begin_child(parent, child) {
        Write::Attempt(write) => Write::Attempt(AttemptWrite { row: StepAttempt { attempt, ..write.row }, ..write }),
        other => panic!("expected an attempt, got {other:?}"),
    };
    let is_taken = |outcome: &Outcome, by: RunId| matches!(outcome, Outcome::KeyTaken { id } if *id == by);
    let (first, second) = (keyed("child", KeyReuse::Never), keyed("child", KeyReuse::AfterFailure));
    applied(&fixture.write(begin_child(parent, &first)).await);
    assert!(is_taken(&fixture.write(again(&second, 2)).await, first.id), "the first child goes on");
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(end(claim, RunEnd::Failed(error("no luck")))).await);
    let other = keyed("other", KeyReuse::AfterFailure);
    assert!(is_taken(&fixture.write(again(&other, 2)).await, first.id), "it was the child of another step");
    for _ in 0..2 {
        applied(&fixture.write(again(&second, 2)).await);
        assert_eq!(fixture.run(second.id).await.key.as_deref(), Some("k"));
        assert_eq!(fixture.run(first.id).await.key, None);
    }
    assert_eq!(fixture.history(parent.run_id).await.len(), 2);
}

pub async fn the_first_of_two_children_with_a_key_in_a_batch_is_started(fixture: Fixture) {
    let parent = fixture.held().await;
    let [first, second] = ["first", "second"]
        .map(|step_key| NewRun { key: Some("k".into()), ..child_of(parent.run_id, step_key, OnParentEnd::Cancel) });
    let outcomes = fixture.commit(&[begin_child(parent, &first), begin_child(parent, &second)]).await;
    applied(&outcomes[0]);
    assert!(matches!(outcomes[1], Outcome::KeyTaken { id } if id == first.id), "{outcomes:?}");
    assert_eq!(fixture.history(parent.run_id).await.len(), 1);
}

pub async fn the_end_of_a_child_wakes_its_parent(fixture: Fixture) {
    for by in [RunEnd::Succeeded("1".into()), RunEnd::Failed(error("no luck")), RunEnd::Canceled] {
        let (parent, child) = waiting_family(&fixture).await;
        fixture.advance(Duration::from_secs(1));
        let Write::End(write) = end_in_family(child, Some(parent), false) else { unreachable!() };
        let write = Write::End(workflow_engine::store::EndWrite { end: by, ..write });
        applied(&fixture.write(write.clone()).await);
        is_woken(&fixture, parent).await;
        duplicate(&fixture.write(write).await);
        assert_eq!(fixture.run(parent).await.wakes, 1, "applied again, it does not wake the parent");
    }
}

pub async fn a_stale_end_of_a_child_does_not_wake_its_parent(fixture: Fixture) {
    let (parent, stale) = waiting_family(&fixture).await;
    fixture.advance(LEASE);
    fixture.claim_only().await;
    lost(&fixture.write(end_in_family(stale, Some(parent), true)).await);
    assert_eq!(fixture.run(parent).await.wakes, 0);
}

/// The parent checks its children before the child ends, and parks after it.
pub async fn a_running_parent_cannot_park_unaware_of_the_end_of_its_child(fixture: Fixture) {
    let (parent, child) = family(&fixture, OnParentEnd::Cancel).await;
    let lease_until = fixture.run(parent.run_id).await.available_at;
    let claim = fixture.claim_only().await.claim;
    assert_eq!(claim.run_id, child);
    applied(&fixture.write(end_in_family(claim, Some(parent.run_id), false)).await);
    let run = fixture.run(parent.run_id).await;
    assert_eq!((run.status, run.available_at, run.wakes), (RunStatus::Running, lease_until, 1));
    applied(&fixture.write(park(parent, Timestamp::FAR_FUTURE)).await);
    assert_eq!(fixture.claim_due().await, [parent.run_id]);
}

pub async fn many_ends_of_children_in_one_batch_wake_the_parent(fixture: Fixture) {
    let parent = fixture.held().await;
    let starts: Vec<Write> = (0..20)
        .map(|number| begin_child(parent, &child_of(parent.run_id, &number.to_string(), OnParentEnd::Cancel)))
        .collect();
    fixture.commit(&starts).await.iter().for_each(applied);
    applied(&fixture.write(park(parent, Timestamp::FAR_FUTURE)).await);
    let claims = fixture.claim(&claim_request()).await.runs;
    let ends: Vec<Write> = claims.iter().map(|child| end_in_family(child.claim, Some(parent.run_id), false)).collect();
    fixture.commit(&ends).await.iter().for_each(applied);
    assert!(fixture.run(parent.run_id).await.wakes > 0);
    assert_eq!(fixture.claim_due().await, [parent.run_id]);
}

pub async fn the_cancel_of_a_child_wakes_its_parent(fixture: Fixture) {
    // A child that was never claimed, then a parked one.
    let (parent, child) = family(&fixture, OnParentEnd::Cancel).await;
    applied(&fixture.write(park(parent, Timestamp::FAR_FUTURE)).await);
    assert_eq!(canceled(&fixture.write(Write::Cancel(child)).await), CancelOutcome::Canceled);
    is_woken(&fixture, parent.run_id).await;

    let (parent, child) = waiting_family(&fixture).await;
    assert_eq!(canceled(&fixture.write(Write::Cancel(child.run_id)).await), CancelOutcome::Requested);
    assert_eq!(fixture.run(parent).await.wakes, 0, "the child has not ended");
    applied(&fixture.write(park(child, Timestamp::FAR_FUTURE)).await);
    assert_eq!(canceled(&fixture.write(Write::Terminate(child.run_id)).await), CancelOutcome::Canceled);
    is_woken(&fixture, parent).await;
}

pub async fn the_expiry_of_a_child_wakes_its_parent(fixture: Fixture) {
    let parent = fixture.held().await;
    let child = NewRun {
        start: StartTime::After(2 * HOUR),
        deadline: Some(StartTime::After(HOUR)),
        ..child_of(parent.run_id, "child", OnParentEnd::Cancel)
    };
    applied(&fixture.write(begin_child(parent, &child)).await);
    applied(&fixture.write(park(parent, Timestamp::FAR_FUTURE)).await);
    fixture.advance(HOUR);
    assert_eq!(changed(&fixture.write(Write::Expire { limit: 10, patience: std::time::Duration::ZERO }).await), 1);
    assert_eq!(fixture.status(child.id).await, RunStatus::Failed);
    is_woken(&fixture, parent.run_id).await;
}

/// One child in each state that the end of a parent may find.
struct Children {
    never_claimed: RunId,
    delayed: RunId,
    running: Claim,
    parked: RunId,
    due_again: RunId,
    ended: RunId,
    abandoned: RunId,
    abandoned_parked: RunId,
}

impl Children {
    async fn of(fixture: &Fixture, parent: Claim) -> Self {
        let child = |on_end| child_of(parent.run_id, &RunId::generate().to_string(), on_end);
        let start = async |child: &NewRun| applied(&fixture.write(begin_child(parent, child)).await);
        let claimed = async |on_end| {
            start(&child(on_end)).await;
            fixture.claim_only().await.claim
        };
        let running = claimed(OnParentEnd::Cancel).await;
        let parked = claimed(OnParentEnd::Cancel).await;
        applied(&fixture.write(park(parked, Timestamp::FAR_FUTURE)).await);
        let ended = claimed(OnParentEnd::Cancel).await;
        applied(&fixture.write(succeed(ended, "1")).await);
        let abandoned_parked = claimed(OnParentEnd::Abandon).await;
        applied(&fixture.write(park(abandoned_parked, Timestamp::FAR_FUTURE)).await);
        let due_again = claimed(OnParentEnd::Cancel).await;
        applied(&fixture.write(park(due_again, fixture.now())).await);
        let never_claimed = child(OnParentEnd::Cancel);
        let delayed = NewRun { start: StartTime::After(HOUR), ..child(OnParentEnd::Cancel) };
        let abandoned = child(OnParentEnd::Abandon);
        for child in [&never_claimed, &delayed, &abandoned] {
            start(child).await;
        }
        Self {
            never_claimed: never_claimed.id,
            delayed: delayed.id,
            running,
            parked: parked.run_id,
            due_again: due_again.run_id,
            ended: ended.run_id,
            abandoned: abandoned.id,
            abandoned_parked: abandoned_parked.run_id,
        }
    }

    /// Returns the children that the end of the parent must not change.
    fn left_alone(&self) -> [RunId; 3] {
        [self.ended, self.abandoned, self.abandoned_parked]
    }

    async fn snapshots(&self, fixture: &Fixture) -> Vec<Run> {
        let mut runs = Vec::new();
        for id in self.left_alone() {
            runs.push(fixture.run(id).await);
        }
        runs
    }

    /// Checks the children right after the end of the parent.
    async fn check(&self, fixture: &Fixture, before: &[Run], lease_until: Timestamp) {
        let now = fixture.now();
        for id in [self.never_claimed, self.delayed] {
            let run = fixture.run(id).await;
            assert_eq!((run.status, run.completed_at), (RunStatus::Canceled, Some(now)), "{run:?}");
            assert_eq!(run.cancel_requested_at, Some(now));
        }
        for id in [self.parked, self.due_again] {
            let run = fixture.run(id).await;
            assert_eq!((run.status, run.wakes, run.available_at), (RunStatus::Parked, 1, now), "{run:?}");
            assert_eq!((run.cancel_requested_at, run.completed_at), (Some(now), None));
        }
        let run = fixture.run(self.running.run_id).await;
        assert_eq!((run.status, run.wakes, run.available_at), (RunStatus::Running, 1, lease_until));
        assert_eq!((run.cancel_requested_at, run.completed_at), (Some(now), None));
        assert_eq!(self.snapshots(fixture).await, before);
        // The children with a cancel request can be claimed, and their claims report the request.
        let claimed = fixture.claim(&claim_request()).await.runs;
        let asked = claimed.iter().filter(|run| run.cancel_requested).count();
        assert_eq!((claimed.len(), asked), (3, 2), "two parked children, and the abandoned one that was due");
    }
}

pub async fn the_end_of_a_parent_cancels_its_children(fixture: Fixture) {
    let parent = fixture.held().await;
    let children = Children::of(&fixture, parent).await;
    let lease_until = fixture.run(children.running.run_id).await.available_at;
    let before = children.snapshots(&fixture).await;
    fixture.advance(Duration::from_secs(1));
    applied(&fixture.write(end_in_family(parent, None, true)).await);
    children.check(&fixture, &before, lease_until).await;
    // The running child cannot park without having seen the request.
    applied(&fixture.write(Write::Park(park_write(children.running, 0, Timestamp::FAR_FUTURE))).await);
    assert_eq!(fixture.claim_due().await, [children.running.run_id]);
}

pub async fn the_termination_of_a_parked_parent_cancels_its_children(fixture: Fixture) {
    let parent = fixture.held().await;
    let children = Children::of(&fixture, parent).await;
    applied(&fixture.write(park(parent, Timestamp::FAR_FUTURE)).await);
    let lease_until = fixture.run(children.running.run_id).await.available_at;
    let before = children.snapshots(&fixture).await;
    fixture.advance(Duration::from_secs(1));
    assert_eq!(canceled(&fixture.write(Write::Terminate(parent.run_id)).await), CancelOutcome::Canceled);
    children.check(&fixture, &before, lease_until).await;
}

pub async fn the_expiry_of_a_parent_cancels_its_children(fixture: Fixture) {
    let new = NewRun { deadline: Some(StartTime::After(LEASE / 2)), ..new_run() };
    fixture.start(&new).await;
    let parent = fixture.claim_only().await.claim;
    let children = Children::of(&fixture, parent).await;
    applied(&fixture.write(park(parent, Timestamp::FAR_FUTURE)).await);
    let lease_until = fixture.run(children.running.run_id).await.available_at;
    let before = children.snapshots(&fixture).await;
    fixture.advance(LEASE / 2);
    assert_eq!(changed(&fixture.write(Write::Expire { limit: 10, patience: std::time::Duration::ZERO }).await), 1);
    children.check(&fixture, &before, lease_until).await;
}

pub async fn a_child_started_in_the_batch_of_the_end_is_canceled(fixture: Fixture) {
    let parent = fixture.held().await;
    let child = child_of(parent.run_id, "child", OnParentEnd::Cancel);
    let outcomes = fixture.commit(&[end_in_family(parent, None, true), begin_child(parent, &child)]).await;
    outcomes.iter().for_each(applied);
    assert_eq!(fixture.status(child.id).await, RunStatus::Canceled);
    assert_eq!(fixture.claim_due().await, []);
}

/// The ends of parent and child may stand in the batch in either order.
pub async fn parent_and_child_may_end_in_one_batch(fixture: Fixture) {
    for parent_first in [true, false] {
        let (parent, child) = family(&fixture, OnParentEnd::Cancel).await;
        let claim = fixture.claim_only().await.claim;
        assert_eq!(claim.run_id, child);
        let mut writes = [end_in_family(parent, None, true), end_in_family(claim, Some(parent.run_id), true)];
        if !parent_first {
            writes.reverse();
        }
        fixture.commit(&writes).await.iter().for_each(applied);
        for id in [parent.run_id, child] {
            assert_eq!(fixture.status(id).await, RunStatus::Succeeded);
        }
        assert_eq!(fixture.run(parent.run_id).await.wakes, 0, "an ended run is not woken");
    }
}

pub async fn an_end_written_as_childless_leaves_children_alone(fixture: Fixture) {
    let (parent, child) = family(&fixture, OnParentEnd::Cancel).await;
    applied(&fixture.write(end(parent, RunEnd::Canceled)).await);
    assert_eq!(fixture.status(child).await, RunStatus::Pending, "the write tells whether the run may have children");
}

/// Four processes concurrently write ends and steps of children, signals, cancels and ends of
/// parents. No two batches deadlock, because each locks its runs, their parents and their children
/// in one order.
pub async fn concurrent_ends_of_parents_and_children_do_not_deadlock(fixture: Fixture) {
    const FAMILIES: usize = 30;
    const CHILDREN: usize = 6;
    fixture.started_many(FAMILIES).await;
    let parents: Vec<Claim> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    let child = |parent: &Claim, number: usize| child_of(parent.run_id, &number.to_string(), OnParentEnd::Cancel);
    let starts: Vec<Write> = parents
        .iter()
        .flat_map(|parent| (0..CHILDREN).map(|number| begin_child(*parent, &child(parent, number))))
        .collect();
    fixture.commit(&starts).await.iter().for_each(applied);
    let children = fixture.claim(&claim_request()).await.runs;
    assert_eq!(children.len(), FAMILIES * CHILDREN);
    let child_ends = children.iter().map(|child| end_in_family(child.claim, child.parent_run_id, true));
    let child_cancels = children.iter().step_by(3).map(|child| Write::Cancel(child.claim.run_id));
    let steps = children.iter().map(|child| attempt(child.claim, succeeded("step", 1, "1")));
    let signals = parents.iter().map(|parent| Write::Signal(signal(parent.run_id, "paid", "1")));
    let parent_ends = parents.iter().map(|parent| end_in_family(*parent, None, true));
    let mut writes: Vec<Write> =
        child_ends.chain(child_cancels).chain(steps).chain(signals).chain(parent_ends).collect();
    fastrand::shuffle(&mut writes);
    let mut processes = Vec::new();
    for number in 0..4 {
        let store = fixture.second().await;
        let share: Vec<Write> = writes.iter().skip(number).step_by(4).cloned().collect();
        processes.push(tokio::spawn(async move {
            for batch in share.chunks(8) {
                store.commit(batch).await.expect("no deadlock");
            }
        }));
    }
    for process in processes {
        process.await.unwrap();
    }
    for id in parents.iter().chain(children.iter().map(|child| &child.claim)).map(|claim| claim.run_id) {
        assert_eq!(fixture.status(id).await, RunStatus::Succeeded);
    }
    assert_eq!(fixture.claim_due().await, []);
}
