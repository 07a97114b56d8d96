use std::time::Duration;

use workflow_engine::model::{NewRun, StartTime};
use workflow_engine::store::{ParkWrite, Write};
use workflow_sdk::{CancelOutcome, ErrorKind, RunStatus, StoredError, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{LEASE, claim_request, crashes, new_run, park, park_write, signal};
use workflow_tests::outcome::{applied, canceled};

const HOUR: Duration = Duration::from_secs(3600);

pub async fn a_parked_run_is_due_at_its_wake_time(fixture: Fixture) {
    let claim = fixture.held().await;
    fixture.advance(Duration::from_secs(1));
    let before = fixture.run(claim.run_id).await;
    let until = fixture.now() + HOUR;
    applied(&fixture.write(park(claim, until)).await);

    let run = fixture.run(claim.run_id).await;
    assert_eq!(run.status, RunStatus::Parked);
    assert_eq!(run.available_at, until);
    assert_eq!(run.worker_id, None);
    assert_eq!((run.epoch, run.wakes, run.crashes), (1, 0, 0));
    assert_eq!((run.started_at, run.completed_at, &run.error), (before.started_at, None, &None));
    assert_eq!(fixture.next_due().await, Some(until));

    fixture.advance(HOUR - Duration::from_micros(1));
    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(Duration::from_micros(1));
    assert_eq!(fixture.claim_only().await.claim.epoch, 2);
}

pub async fn an_unseen_wake_keeps_the_run_due(fixture: Fixture) {
    let claim = fixture.held().await;
    for _ in 0..3 {
        fixture.write(Write::Signal(signal(claim.run_id, "paid", "1"))).await;
    }
    for (seen, until) in [(0, Timestamp::FAR_FUTURE), (2, fixture.now() + HOUR), (4, fixture.now() + HOUR)] {
        let current = fixture.run(claim.run_id).await.epoch;
        let claim = workflow_engine::model::Claim { epoch: current, ..claim };
        applied(&fixture.write(Write::Park(park_write(claim, seen, until))).await);
        let run = fixture.run(claim.run_id).await;
        assert_eq!((run.status, run.available_at), (RunStatus::Parked, fixture.now()), "seen {seen}");
        let again = fixture.claim_only().await;
        assert_eq!((again.wakes, again.crashes), (3, 0));
    }
    let claim = workflow_engine::model::Claim { epoch: fixture.run(claim.run_id).await.epoch, ..claim };
    applied(&fixture.write(Write::Park(park_write(claim, 3, fixture.now() + HOUR))).await);
    assert_eq!(fixture.claim_due().await, [], "this park has seen every wake");
}

pub async fn a_cancel_before_the_park_keeps_the_run_due(fixture: Fixture) {
    let claim = fixture.held().await;
    assert_eq!(canceled(&fixture.write(Write::Cancel(claim.run_id)).await), CancelOutcome::Requested);
    assert_eq!(fixture.run(claim.run_id).await.available_at, fixture.now() + LEASE, "the lease is not cut short");
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    assert_eq!(fixture.run(claim.run_id).await.available_at, fixture.now());
    let run = fixture.claim_only().await;
    assert!(run.cancel_requested);
    assert_eq!(run.wakes, 1, "a cancel is a wake");
}

pub async fn a_cancel_after_the_park_makes_the_run_due(fixture: Fixture) {
    let claim = fixture.held().await;
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    assert_eq!(canceled(&fixture.write(Write::Cancel(claim.run_id)).await), CancelOutcome::Requested);
    assert_eq!(fixture.claim_due().await, [claim.run_id]);

    // Parks are applied before cancels, whatever their order in the batch.
    for cancel_first in [false, true] {
        let claim = fixture.held().await;
        let mut writes = [park(claim, Timestamp::FAR_FUTURE), Write::Cancel(claim.run_id)];
        if cancel_first {
            writes.reverse();
        }
        let outcomes = fixture.commit(&writes).await;
        applied(&outcomes[usize::from(cancel_first)]);
        assert_eq!(canceled(&outcomes[usize::from(!cancel_first)]), CancelOutcome::Requested);
        assert_eq!(fixture.claim_due().await, [claim.run_id]);
    }
}

pub async fn a_wake_time_in_the_past_counts_as_now(fixture: Fixture) {
    let claim = fixture.held().await;
    let passed = fixture.now();
    fixture.advance(Duration::from_secs(5));
    applied(&fixture.write(park(claim, passed)).await);
    assert_eq!(fixture.run(claim.run_id).await.available_at, fixture.now(), "the run does not overtake waiting runs");
    assert_eq!(fixture.claim_due().await, [claim.run_id]);
}

pub async fn the_deadline_caps_the_wake_time(fixture: Fixture) {
    let deadline = fixture.now() + HOUR;
    fixture.start(&NewRun { deadline: Some(StartTime::At(deadline)), ..new_run() }).await;
    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    assert_eq!(fixture.run(claim.run_id).await.available_at, deadline);
    assert_eq!(fixture.next_due().await, Some(deadline));

    fixture.advance(HOUR);
    let claim = fixture.claim_only().await.claim;
    fixture.advance(Duration::from_secs(1));
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    assert!(fixture.run(claim.run_id).await.available_at <= fixture.now(), "a run past its deadline is due");
}

pub async fn a_seen_deadline_does_not_cap_the_wake_time(fixture: Fixture) {
    let deadline = fixture.now() + HOUR;
    fixture.start(&NewRun { deadline: Some(StartTime::At(deadline)), ..new_run() }).await;
    let claim = fixture.claim_only().await.claim;
    fixture.advance(2 * HOUR);
    let until = fixture.now() + HOUR;
    let seen = ParkWrite { until_deadline: false, ..park_write(claim, 0, until) };
    applied(&fixture.write(Write::Park(seen)).await);
    assert_eq!(fixture.run(claim.run_id).await.available_at, until);
}

pub async fn a_run_without_a_wake_time_is_not_due(fixture: Fixture) {
    let claim = fixture.held().await;
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    assert_eq!(fixture.next_due().await, None);
    fixture.advance(24 * 365 * 1000 * HOUR);
    assert_eq!(fixture.claim_due().await, []);
    let other = fixture.held().await;
    assert_eq!(fixture.next_due().await, Some(fixture.now() + LEASE), "only the other run counts");
    assert_ne!(other.run_id, claim.run_id);
}

pub async fn the_reason_is_kept_until_the_next_park(fixture: Fixture) {
    let claim = fixture.held().await;
    let reason = StoredError::new(ErrorKind::Divergence, "recorded \"a\", now \"b\"").of_step("a");
    let with_reason = ParkWrite { error: Some(reason.clone()), ..park_write(claim, 0, fixture.now()) };
    applied(&fixture.write(Write::Park(with_reason)).await);
    assert_eq!(fixture.run(claim.run_id).await.error.as_ref(), Some(&reason));
    let run = fixture.claim_only().await;
    assert_eq!(run.error, Some(reason));
    applied(&fixture.write(park(run.claim, fixture.now())).await);
    assert_eq!(fixture.run(claim.run_id).await.error, None);
    assert_eq!(fixture.claim_only().await.error, None);
}

pub async fn crashes_are_reset_only_on_request(fixture: Fixture) {
    let claim = fixture.held().await;
    applied(&fixture.write(crashes(claim, 2, 1)).await);
    applied(&fixture.write(park(claim, fixture.now())).await);
    assert_eq!(fixture.run(claim.run_id).await.crashes, 2);
    let run = fixture.claim_only().await;
    assert_eq!((run.crashes, run.lone_crashes), (2, 1));
    let with_reset = ParkWrite { reset_crashes: true, ..park_write(run.claim, 0, fixture.now()) };
    applied(&fixture.write(Write::Park(with_reset)).await);
    let reset = fixture.run(claim.run_id).await;
    assert_eq!((reset.crashes, reset.lone_crashes), (0, 0));
    assert_eq!(fixture.claim_only().await.crashes, 0);
}

pub async fn a_parked_run_waits_for_its_own_time(fixture: Fixture) {
    fixture.started_many(20).await;
    let claims: Vec<_> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    // All parks are in one batch. Each has its own time; every fifth states another number of wakes
    // than its run has, and every second has a reason.
    let writes: Vec<Write> = claims
        .iter()
        .zip(1_u32..)
        .map(|(claim, number)| {
            Write::Park(ParkWrite {
                error: (number % 2 == 0).then(|| workflow_tests::builders::error(&number.to_string())),
                ..park_write(*claim, i64::from(number % 5 == 0), fixture.now() + HOUR * number)
            })
        })
        .collect();
    fixture.commit(&writes).await.iter().for_each(applied);
    for (claim, number) in claims.iter().zip(1_u32..) {
        let run = fixture.run(claim.run_id).await;
        let due = if number % 5 == 0 { fixture.now() } else { fixture.now() + HOUR * number };
        assert_eq!(run.available_at, due, "{number}");
        assert_eq!(run.error.map(|error| error.message), (number % 2 == 0).then(|| number.to_string()));
    }
}
