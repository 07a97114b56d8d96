use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::model::{Claim, NewRun, Retention, StartTime, WorkerId};
use workflow_engine::store::{Outcome, Renewed, RetryWrite, RunWakes, Store, Write};
use workflow_sdk::{CancelOutcome, RunId, RunStatus, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{LEASE, claim_by, claim_request, error, new_run, park, park_write, succeed};
use workflow_tests::outcome::{applied, canceled, claimed, lost, one};

const HOUR: Duration = Duration::from_secs(3600);

/// The number of runs in each race.
const RUNS: usize = 200;
/// The number of writes per batch of a race.
const BATCH: usize = 5;

async fn cancel(fixture: &Fixture, id: RunId) -> CancelOutcome {
    canceled(&fixture.write(Write::Cancel(id)).await)
}

/// Cancels a run that no worker has claimed, and checks that it ends at once.
async fn ends_at_once(fixture: &Fixture, id: RunId) {
    fixture.advance(Duration::from_secs(1));
    assert_eq!(cancel(fixture, id).await, CancelOutcome::Canceled);
    let run = fixture.run(id).await;
    assert_eq!(run.status, RunStatus::Canceled);
    assert_eq!(run.completed_at, Some(fixture.now()));
    assert_eq!(run.cancel_requested_at, Some(fixture.now()));
    assert_eq!((run.worker_id, run.output, run.error), (None, None, None));
    assert_eq!(fixture.next_due().await, None);
    fixture.advance(2 * HOUR);
    assert_eq!(fixture.claim_due().await, []);
    let before = fixture.snapshot(id).await;
    assert_eq!(cancel(fixture, id).await, CancelOutcome::Ended(RunStatus::Canceled));
    assert_eq!(fixture.snapshot(id).await, before);
}

pub async fn a_pending_run_is_canceled_at_once(fixture: Fixture) {
    let id = fixture.started().await;
    ends_at_once(&fixture, id).await;
    assert_eq!(fixture.run(id).await.started_at, None);
}

pub async fn a_delayed_run_is_canceled_at_once(fixture: Fixture) {
    let new = NewRun { start: StartTime::After(HOUR), ..new_run() };
    fixture.start(&new).await;
    ends_at_once(&fixture, new.id).await;
}

pub async fn a_cancel_of_a_parked_run_makes_it_due_at_once(fixture: Fixture) {
    for until in [fixture.now() + HOUR, Timestamp::FAR_FUTURE] {
        let claim = fixture.held().await;
        applied(&fixture.write(park(claim, until)).await);
        fixture.write(Write::Pause(claim.run_id)).await;
        fixture.advance(Duration::from_secs(1));
        assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Requested);
        let run = fixture.run(claim.run_id).await;
        assert_eq!((run.status, run.available_at, run.wakes), (RunStatus::Parked, fixture.now(), 1));
        assert_eq!((run.cancel_requested_at, run.paused_at), (Some(fixture.now()), None), "the cancel ends a pause");
        let next = fixture.claim_only().await;
        assert!(next.cancel_requested);

        // The run parks while it cleans up. A repeated request does not wake it again.
        let later = fixture.now() + HOUR;
        applied(&fixture.write(Write::Park(park_write(next.claim, 1, later))).await);
        let before = fixture.snapshot(claim.run_id).await;
        assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Requested);
        assert_eq!(fixture.snapshot(claim.run_id).await, before);
        terminate(&fixture, claim.run_id).await;
    }
}

pub async fn a_cancel_of_a_run_that_waits_for_a_retry_is_a_request(fixture: Fixture) {
    let claim = fixture.held().await;
    let until = Timestamp::FAR_FUTURE;
    let retry = RetryWrite { claim, until, again: vec![], error: error("no luck") };
    applied(&fixture.write(Write::Retry(retry)).await);
    assert_eq!(fixture.status(claim.run_id).await, RunStatus::Pending);
    assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Requested);
    assert_eq!(fixture.claim_due().await, [claim.run_id]);
}

/// The worker has not learned of the cancel yet when the run fails and is to be tried again.
pub async fn a_retry_of_a_canceled_run_is_due_at_once(fixture: Fixture) {
    let claim = fixture.held().await;
    assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Requested);
    let until = Timestamp::FAR_FUTURE;
    applied(&fixture.write(Write::Retry(RetryWrite { claim, until, again: vec![], error: error("no luck") })).await);
    assert_eq!(fixture.run(claim.run_id).await.available_at, fixture.now());
    let next = fixture.claim_only().await;
    assert!(next.cancel_requested);
}

pub async fn a_cancel_of_a_due_run_does_not_delay_it(fixture: Fixture) {
    let claim = fixture.held().await;
    applied(&fixture.write(park(claim, fixture.now())).await);
    let due = fixture.now();
    fixture.advance(HOUR);
    assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Requested);
    assert_eq!(fixture.run(claim.run_id).await.available_at, due);
}

async fn terminate(fixture: &Fixture, id: RunId) -> CancelOutcome {
    canceled(&fixture.write(Write::Terminate(id)).await)
}

pub async fn a_termination_ends_every_unfinished_run(fixture: Fixture) {
    let (pending, asked) = (fixture.started().await, fixture.claim_only().await.claim);
    assert_eq!(pending, asked.run_id);
    cancel(&fixture, asked.run_id).await;
    let parked = fixture.held().await;
    applied(&fixture.write(park(parked, Timestamp::FAR_FUTURE)).await);
    let pending = fixture.started().await;
    let asked_at = fixture.now();
    fixture.advance(Duration::from_secs(1));
    for id in [parked.run_id, pending] {
        fixture.write(Write::Pause(id)).await;
        assert_ne!(fixture.run(id).await.paused_at, None);
    }
    for (id, requested) in [(asked.run_id, asked_at), (parked.run_id, fixture.now()), (pending, fixture.now())] {
        assert_eq!(terminate(&fixture, id).await, CancelOutcome::Canceled);
        let run = fixture.run(id).await;
        assert_eq!((run.status, run.completed_at), (RunStatus::Canceled, Some(fixture.now())));
        assert_eq!((run.cancel_requested_at, run.worker_id, run.error), (Some(requested), None, None));
        assert_eq!(run.paused_at, None, "a run that has ended is not paused");
        let before = fixture.snapshot(id).await;
        assert_eq!(terminate(&fixture, id).await, CancelOutcome::Ended(RunStatus::Canceled));
        assert_eq!(cancel(&fixture, id).await, CancelOutcome::Ended(RunStatus::Canceled));
        assert_eq!(fixture.snapshot(id).await, before);
    }
    fixture.advance(2 * HOUR);
    assert_eq!(fixture.claim_due().await, []);
    let ended = fixture.held().await;
    applied(&fixture.write(succeed(ended, "1")).await);
    assert_eq!(terminate(&fixture, ended.run_id).await, CancelOutcome::Ended(RunStatus::Succeeded));
    assert_eq!(terminate(&fixture, RunId::generate()).await, CancelOutcome::Unknown);
}

pub async fn a_termination_takes_the_claim_away(fixture: Fixture) {
    fixture.started().await;
    let request = claim_request();
    let claim = fixture.claim(&request).await.runs[0].claim;
    let mut session = fixture.store.open_lease(request.worker, &[], &Retention::default()).await.unwrap();
    assert_eq!(terminate(&fixture, claim.run_id).await, CancelOutcome::Canceled);
    assert_eq!(session.renew(&[claim], LEASE).await.unwrap(), []);
    let before = fixture.snapshot(claim.run_id).await;
    for write in [
        workflow_tests::builders::attempt(claim, workflow_tests::builders::succeeded("late", 0, "1")),
        succeed(claim, "1"),
        park(claim, fixture.now()),
    ] {
        lost(&fixture.write(write).await);
    }
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
    session.close().await.unwrap();
}

pub async fn a_termination_comes_after_the_end_and_the_cancel_of_its_batch(fixture: Fixture) {
    let (ends, asked) = (fixture.held().await, fixture.held().await);
    let writes = [
        Write::Terminate(ends.run_id),
        Write::Terminate(asked.run_id),
        Write::Cancel(asked.run_id),
        Write::Terminate(asked.run_id),
        succeed(ends, "1"),
    ];
    let outcomes = fixture.commit(&writes).await;
    let found: Vec<CancelOutcome> = outcomes[..4].iter().map(canceled).collect();
    use CancelOutcome::{Canceled, Ended, Requested};
    assert_eq!(found, [Ended(RunStatus::Succeeded), Canceled, Requested, Ended(RunStatus::Canceled)]);
    applied(&outcomes[4]);
}

pub async fn a_cancel_of_a_running_run_is_a_request(fixture: Fixture) {
    fixture.started().await;
    let request = claim_request();
    let claim = fixture.claim(&request).await.runs[0].claim;
    let before = fixture.run(claim.run_id).await;
    let mut session = fixture.store.open_lease(request.worker, &[], &Retention::default()).await.unwrap();
    assert_eq!(
        session.renew(&[claim], LEASE).await.unwrap(),
        [Renewed { claim, cancel_requested: false, paused: false, wakes: 0, is_extended: true }]
    );

    fixture.advance(Duration::from_secs(1));
    assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Requested);
    let run = fixture.run(claim.run_id).await;
    assert_eq!(run.cancel_requested_at, Some(fixture.now()));
    assert_eq!((run.status, run.epoch, run.worker_id), (RunStatus::Running, 1, before.worker_id));
    assert_eq!((run.available_at, run.wakes), (before.available_at, 1), "the lease is unchanged");
    assert_eq!(
        session.renew(&[claim], LEASE).await.unwrap(),
        [Renewed { claim, cancel_requested: true, paused: false, wakes: 1, is_extended: true }]
    );
    let asked = RunWakes { id: claim.run_id, wakes: 1, cancel_requested: true, paused: false };
    assert_eq!(fixture.store.wakes(&[claim.run_id]).await.unwrap(), [asked]);

    applied(&fixture.write(workflow_tests::builders::end(claim, workflow_engine::store::RunEnd::Canceled)).await);
    assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Ended(RunStatus::Canceled));
    session.close().await.unwrap();
}

pub async fn a_cancel_request_outlives_the_worker(fixture: Fixture) {
    let stale = fixture.held().await;
    assert_eq!(cancel(&fixture, stale.run_id).await, CancelOutcome::Requested);
    fixture.advance(LEASE);
    assert_eq!(fixture.status(stale.run_id).await, RunStatus::Running);
    let next = fixture.claim_only().await;
    assert!(next.cancel_requested);
    assert_eq!(next.wakes, 1);
    // A worker may finish the run before it learns of the request.
    applied(&fixture.write(succeed(next.claim, "1")).await);
    assert_eq!(fixture.status(stale.run_id).await, RunStatus::Succeeded);
}

pub async fn a_cancel_request_is_recorded_once(fixture: Fixture) {
    let claim = fixture.held().await;
    assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Requested);
    let asked = fixture.run(claim.run_id).await.cancel_requested_at;
    fixture.advance(Duration::from_secs(1));
    assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Requested);
    assert_eq!(fixture.run(claim.run_id).await.cancel_requested_at, asked, "the first request counts");

    // The same holds for two requests in one batch.
    let pending = fixture.started().await;
    let outcomes = fixture.commit(&[Write::Cancel(pending), Write::Cancel(pending)]).await;
    for outcome in &outcomes {
        let outcome = canceled(outcome);
        let is_canceled = matches!(outcome, CancelOutcome::Canceled | CancelOutcome::Ended(RunStatus::Canceled));
        assert!(is_canceled, "{outcome:?}");
    }
    assert_eq!(canceled(&outcomes[0]), CancelOutcome::Canceled);
}

pub async fn a_cancel_does_not_change_an_ended_run(fixture: Fixture) {
    let claim = fixture.held().await;
    applied(&fixture.write(succeed(claim, "1")).await);
    let before = fixture.snapshot(claim.run_id).await;
    assert_eq!(cancel(&fixture, claim.run_id).await, CancelOutcome::Ended(RunStatus::Succeeded));
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
}

pub async fn a_cancel_of_an_unknown_run_returns_unknown(fixture: Fixture) {
    assert_eq!(cancel(&fixture, RunId::generate()).await, CancelOutcome::Unknown);
}

/// Commits the writes in small batches. Returns the outcome of each run's write.
fn race(store: &Arc<dyn Store>, writes: Vec<(RunId, Write)>) -> tokio::task::JoinHandle<HashMap<RunId, Outcome>> {
    let store = store.clone();
    tokio::spawn(async move {
        let mut outcomes = HashMap::new();
        for batch in writes.chunks(BATCH) {
            let (ids, writes): (Vec<RunId>, Vec<Write>) = batch.iter().cloned().unzip();
            outcomes.extend(ids.into_iter().zip(store.commit(&writes).await.expect("commit")));
        }
        outcomes
    })
}

fn cancels(ids: impl IntoIterator<Item = RunId>) -> Vec<(RunId, Write)> {
    ids.into_iter().map(|id| (id, Write::Cancel(id))).collect()
}

async fn held_many(fixture: &Fixture) -> Vec<Claim> {
    fixture.started_many(RUNS).await;
    let claims: Vec<Claim> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    assert_eq!(claims.len(), RUNS);
    claims
}

pub async fn a_cancel_races_with_the_end(fixture: Fixture) {
    let second = fixture.second().await;
    let claims = held_many(&fixture).await;
    let ends = claims.iter().map(|claim| (claim.run_id, succeed(*claim, "1"))).collect();
    let ended = race(&fixture.store, ends);
    // The cancels start at the other end, so that both meet in the middle.
    let asked = race(&second, cancels(claims.iter().rev().map(|claim| claim.run_id)));
    let (ended, asked) = (ended.await.unwrap(), asked.await.unwrap());
    for claim in claims {
        applied(&ended[&claim.run_id]);
        let run = fixture.run(claim.run_id).await;
        assert_eq!((run.status, run.output.as_deref()), (RunStatus::Succeeded, Some("1")));
        match canceled(&asked[&claim.run_id]) {
            CancelOutcome::Requested => assert_ne!(run.cancel_requested_at, None),
            CancelOutcome::Ended(RunStatus::Succeeded) => assert_eq!(run.cancel_requested_at, None),
            other => panic!("{other:?}"),
        }
    }
}

pub async fn a_cancel_races_with_the_claim(fixture: Fixture) {
    let second = fixture.second().await;
    let ids = fixture.started_many(RUNS).await;
    let asked = race(&second, cancels(ids.iter().rev().copied()));
    let mut held = HashMap::new();
    while !asked.is_finished() {
        let request = Write::Claim(claim_by(WorkerId::generate(), 5));
        for run in claimed(one(fixture.commit(&[request]).await)).runs {
            held.insert(run.claim.run_id, run);
        }
    }
    let asked = asked.await.unwrap();
    for id in ids {
        let status = fixture.status(id).await;
        match (canceled(&asked[&id]), held.get(&id)) {
            (CancelOutcome::Canceled, None) => assert_eq!(status, RunStatus::Canceled),
            (CancelOutcome::Requested, Some(run)) => {
                assert_eq!(status, RunStatus::Running);
                assert!(!run.cancel_requested, "the request came after the claim");
                applied(&fixture.write(succeed(run.claim, "1")).await);
                assert_eq!(fixture.status(id).await, RunStatus::Succeeded);
            }
            (outcome, run) => panic!("{outcome:?} and {run:?}"),
        }
    }
    assert_eq!(fixture.claim_due().await, []);
}

pub async fn a_cancel_races_with_the_park(fixture: Fixture) {
    let second = fixture.second().await;
    let claims = held_many(&fixture).await;
    let parks = claims.iter().map(|claim| (claim.run_id, park(*claim, Timestamp::FAR_FUTURE))).collect();
    let parked = race(&fixture.store, parks);
    let asked = race(&second, cancels(claims.iter().rev().map(|claim| claim.run_id)));
    let (parked, asked) = (parked.await.unwrap(), asked.await.unwrap());

    let mut due = HashSet::new();
    for claim in claims {
        applied(&parked[&claim.run_id]);
        let run = fixture.run(claim.run_id).await;
        match canceled(&asked[&claim.run_id]) {
            CancelOutcome::Requested => {
                assert_eq!((run.status, run.available_at), (RunStatus::Parked, fixture.now()), "no wake is lost");
                due.insert(claim.run_id);
            }
            other => panic!("{other:?}"),
        }
    }
    let runs = fixture.claim(&claim_request()).await.runs;
    assert!(runs.iter().all(|run| run.cancel_requested));
    assert_eq!(runs.iter().map(|run| run.claim.run_id).collect::<HashSet<_>>(), due);
    for run in runs {
        lost(&fixture.write(succeed(Claim { epoch: 1, ..run.claim }, "1")).await);
    }
}
