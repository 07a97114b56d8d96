#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use workflow_engine::model::{
    AttemptStatus, Claim, ErrorKind, Lane, NewRun, RunId, RunStatus, StartTime, StoredError, Timestamp, WorkerId,
};
use workflow_engine::store::{CancelOutcome, EndWrite, Outcome, ParkWrite, RunEnd, StartOutcome, Store, Write};

use super::fixture_tests::*;

/// Texts that a path through JSON or C strings could damage.
const AWKWARD: &[&str] = &[
    r#""\u0000""#,
    r#""\\u0000 \ud83d\ude00 \u2028""#,
    r#"{"b":1,"a":1,"a":-0.0,"c":1e400, "d" : [ ] }"#,
    r#""quote \" slash \/ back \\ é 𝄞 '; DROP TABLE workflow_runs; --""#,
    "\"raw \u{7f} \u{2028} nul \u{0} end\"",
    " 12345678901234567890.000000000000000000001\n",
];

fn started(outcome: &Outcome) -> &StartOutcome {
    match outcome {
        Outcome::Started(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn keyed(key: &str, input: &str) -> NewRun {
    NewRun { key: Some(key.into()), input: input.into(), ..new_run() }
}

#[tokio::test]
async fn a_key_starts_one_run() {
    let f = Fixture::file().await;
    let (first, second, third) = (keyed("k", "1"), keyed("k", "2"), keyed("k", "3"));
    // The later id first: the place in the batch decides, not the order of the ids.
    let outcomes = f.store.commit(&[Write::Start(second.clone()), Write::Start(first.clone())]).await.unwrap();
    let existing = StartOutcome::Existing { id: second.id, input: "2".into() };
    assert_eq!(started(&outcomes[0]), &StartOutcome::Created);
    assert_eq!(started(&outcomes[1]), &existing);
    let again = [Write::Start(third), Write::Start(second), Write::Start(first)];
    let outcomes = f.store.commit(&again).await.unwrap();
    assert_eq!(started(&outcomes[0]), &existing);
    assert_eq!(started(&outcomes[1]), &StartOutcome::Created, "the reply to the first commit may have been lost");
    assert_eq!(started(&outcomes[2]), &existing);
    let other = NewRun { lane: Lane { workflow: "refund".into(), ..lane() }, ..keyed("k", "4") };
    assert_eq!(started(&f.commit_one(Write::Start(other)).await), &StartOutcome::Created);
}

#[tokio::test]
async fn payloads_come_back_byte_for_byte() {
    let f = Fixture::file().await;
    for text in AWKWARD {
        let run =
            NewRun { input: (*text).into(), tags: [("a.\"b'$[0]".to_owned(), "é\"".to_owned())].into(), ..new_run() };
        f.commit_one(Write::Start(run.clone())).await;
        let claimed = f.claim(WorkerId::generate(), 1).await.remove(0);
        assert_eq!(claimed.input, *text);
        let step = attempt_write(claimed.claim, "s", AttemptStatus::Succeeded, Some(text));
        f.store.commit(&[step, end_write(claimed.claim, text)]).await.unwrap();
        assert_eq!(f.store.history(run.id).await.unwrap()[0].output.as_deref(), Some(*text));
        let stored = f.run(run.id).await;
        assert_eq!((stored.output.as_deref(), stored.input.as_str(), &stored.tags), (Some(*text), *text, &run.tags));
        assert_eq!(f.store.ended(&[run.id]).await.unwrap()[0].output.as_deref(), Some(*text));
    }
}

#[tokio::test]
async fn a_start_is_due_at_its_time_or_its_deadline() {
    let f = Fixture::file().await;
    let later = START + Duration::from_secs(60);
    let delayed = NewRun { start: StartTime::After(Duration::from_secs(60)), ..new_run() };
    let hopeless =
        NewRun { start: StartTime::At(Timestamp::FAR_FUTURE), deadline: Some(StartTime::At(later)), ..new_run() };
    for run in [&delayed, &hopeless] {
        f.commit_one(Write::Start(run.clone())).await;
        assert_eq!(f.run(run.id).await.available_at, later);
    }
    assert_eq!(f.store.next_due(&[lane()]).await.unwrap().at, Some(later));
    f.clock.advance(Duration::from_secs(60));
    let writes = [Write::Expire { limit: 5, patience: Duration::ZERO }, claim_write(WorkerId::generate(), 5)];
    let outcomes = f.store.commit(&writes).await.unwrap();
    assert!(matches!(outcomes[0], Outcome::Changed(1)));
    assert!(matches!(&outcomes[1], Outcome::Claimed(claimed) if claimed.runs.len() == 1));
    let failed = f.run(hopeless.id).await;
    assert_eq!((failed.status, failed.error.map(|e| e.kind)), (RunStatus::Failed, Some(ErrorKind::Deadline)));
    assert_eq!(failed.completed_at, Some(later));
}

#[tokio::test]
async fn a_stale_claim_changes_nothing() {
    let f = Fixture::file().await;
    let old = f.started_and_claimed().await;
    f.clock.advance(LEASE);
    let new = f.claim(WorkerId::generate(), 1).await.remove(0);
    assert_eq!((new.claim.epoch, new.crashes), (2, 1));
    let stale = attempt_write(old, "s", AttemptStatus::Succeeded, Some("1"));
    let fresh = attempt_write(new.claim, "t", AttemptStatus::Succeeded, Some("2"));
    let unknown = Claim { run_id: RunId::generate(), epoch: 1 };
    let batch = [stale, fresh, end_write(old, "0"), park_write(old, 0, START), end_write(unknown, "0")];
    let outcomes = f.store.commit(&batch).await.unwrap();
    assert!(matches!(outcomes[..], [Outcome::Lost, Outcome::Applied, Outcome::Lost, Outcome::Lost, Outcome::Lost]));
    assert_eq!(f.run(old.run_id).await.status, RunStatus::Running);
    assert_eq!(f.store.history(old.run_id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_batch_may_be_applied_again() {
    let f = Fixture::file().await;
    let claim = f.started_and_claimed().await;
    let batch = [attempt_write(claim, "s", AttemptStatus::Succeeded, Some("1")), end_write(claim, "2")];
    let outcomes = f.store.commit(&batch).await.unwrap();
    assert!(matches!(outcomes[..], [Outcome::Applied, Outcome::Applied]));
    let before = f.run(claim.run_id).await;
    f.clock.advance(LEASE);
    let outcomes = f.store.commit(&batch).await.unwrap();
    assert!(matches!(outcomes[..], [Outcome::Duplicate, Outcome::Duplicate]));
    assert_eq!(f.run(claim.run_id).await, before);
    assert_eq!((before.status, before.worker_id, before.completed_at), (RunStatus::Succeeded, None, Some(START)));
}

#[tokio::test]
async fn attempts_merge_and_a_final_row_stays() {
    use AttemptStatus::{Failed, Running, Succeeded};
    let f = Fixture::file().await;
    let claim = f.started_and_claimed().await;
    let begun = attempt_write(claim, "s", Running, None);
    let mut ended = attempt_write(claim, "s", Succeeded, Some("1"));
    if let Write::Attempt(write) = &mut ended {
        write.row.started_at = START + LEASE;
    }
    let late = attempt_write(claim, "s", Failed, Some("2"));
    f.store.commit(&[begun.clone(), ended, begun.clone(), late.clone()]).await.unwrap();
    f.store.commit(&[late, begun]).await.unwrap();
    let history = f.store.history(claim.run_id).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].status, history[0].output.as_deref(), history[0].started_at), (Succeeded, Some("1"), START));
}

#[tokio::test]
async fn history_is_in_the_order_of_delivery() {
    let f = Fixture::file().await;
    let claim = f.started_and_claimed().await;
    let rows = [("b", Some(1), 1), ("z", None, 1), ("c", Some(0), 2), ("c", None, 1), ("a", None, 1)];
    let write = |(key, position, attempt): (&str, Option<i64>, i64)| {
        let mut write = attempt_write(claim, key, AttemptStatus::Failed, None);
        if let Write::Attempt(write) = &mut write {
            (write.row.position, write.row.attempt) = (position, attempt);
        }
        write
    };
    f.store.commit(&rows.map(write)).await.unwrap();
    let history = f.store.history(claim.run_id).await.unwrap();
    let order: Vec<_> = history.iter().map(|row| (row.step_key.as_str(), row.attempt)).collect();
    assert_eq!(order, [("c", 2), ("b", 1), ("a", 1), ("c", 1), ("z", 1)]);
}

#[tokio::test]
async fn a_park_misses_no_wake() {
    let f = Fixture::file().await;
    let until = START + Duration::from_secs(300);
    let claim = f.started_and_claimed().await;
    assert!(matches!(f.commit_one(Write::Cancel(claim.run_id)).await, Outcome::Canceled(CancelOutcome::Requested)));
    f.commit_one(park_write(claim, 0, until)).await;
    let woken = f.run(claim.run_id).await;
    assert_eq!((woken.status, woken.available_at, woken.wakes), (RunStatus::Parked, START, 1));
    let claimed = f.claim(WorkerId::generate(), 1).await.remove(0);
    assert!(claimed.cancel_requested);
    let why = StoredError::new(ErrorKind::Divergence, "other steps");
    let park = ParkWrite {
        claim: claimed.claim,
        wakes: 1,
        until,
        until_deadline: true,
        error: Some(why.clone()),
        reset_crashes: false,
    };
    f.commit_one(Write::Park(park)).await;
    let parked = f.run(claim.run_id).await;
    assert_eq!((parked.available_at, parked.error, parked.worker_id), (until, Some(why), None));
}

#[tokio::test]
async fn a_park_ends_at_the_deadline() {
    let f = Fixture::file().await;
    let deadline = START + Duration::from_secs(10);
    let run = NewRun { deadline: Some(StartTime::At(deadline)), ..new_run() };
    f.commit_one(Write::Start(run.clone())).await;
    let claimed = f.claim(WorkerId::generate(), 1).await.remove(0);
    assert_eq!((claimed.lease_until, claimed.deadline_at), (START + LEASE, Some(deadline)));
    f.commit_one(park_write(claimed.claim, 0, Timestamp::FAR_FUTURE)).await;
    assert_eq!(f.run(run.id).await.available_at, deadline);
}

#[tokio::test]
async fn a_cancel_says_what_it_did() {
    let f = Fixture::file().await;
    let running = f.started_and_claimed().await.run_id;
    let ending = f.started_and_claimed().await;
    let pending = f.start().await;
    let batch = [
        Write::Cancel(pending),
        Write::Cancel(pending),
        Write::Cancel(running),
        Write::Cancel(ending.run_id),
        Write::Cancel(RunId::generate()),
        end_write(ending, "1"),
    ];
    let outcomes = f.store.commit(&batch).await.unwrap();
    let canceled: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| if let Outcome::Canceled(canceled) = outcome { Some(*canceled) } else { None })
        .collect();
    use CancelOutcome::{Canceled, Ended, Requested, Unknown};
    let expected = [Canceled, Ended(RunStatus::Canceled), Requested, Ended(RunStatus::Succeeded), Unknown];
    assert_eq!(canceled, expected);
    let run = f.run(pending).await;
    assert_eq!(
        (run.status, run.completed_at, run.cancel_requested_at),
        (RunStatus::Canceled, Some(START), Some(START))
    );
    let run = f.run(running).await;
    assert_eq!((run.status, run.available_at, run.completed_at), (RunStatus::Running, START + LEASE, None));
}

#[tokio::test]
async fn claims_go_to_the_longest_due_over_all_lanes() {
    let f = Fixture::file().await;
    let other = Lane { queue: "other".into(), ..lane() };
    let foreign = Lane { version: "2".into(), ..lane() };
    let mut expected = Vec::new();
    for (seconds, lane) in
        [(5, lane()), (3, other.clone()), (4, lane()), (1, foreign), (2, other.clone()), (99, lane())]
    {
        let start = StartTime::After(Duration::from_secs(seconds));
        let run = NewRun { lane: lane.clone(), start, ..new_run() };
        f.commit_one(Write::Start(run.clone())).await;
        expected.push((seconds, run.id));
    }
    expected.retain(|(seconds, _)| (2..5).contains(seconds));
    expected.sort_unstable();
    f.clock.advance(Duration::from_secs(10));
    let Write::Claim(mut request) = claim_write(WorkerId::generate(), 3) else { panic!() };
    request.lanes = vec![lane(), other.clone(), other];
    let outcomes = f.store.commit(&[Write::Claim(request.clone()), Write::Claim(request)]).await.unwrap();
    let ids = |outcome: &Outcome| match outcome {
        Outcome::Claimed(claimed) => claimed.runs.iter().map(|run| run.claim.run_id).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ids(&outcomes[0]), expected.iter().map(|(_, id)| *id).collect::<Vec<_>>());
    assert_eq!(ids(&outcomes[1]).len(), 1, "the second claim takes what the first one left");
}

#[tokio::test]
async fn claims_that_the_worker_does_not_know_are_released() {
    let f = Fixture::file().await;
    let worker = WorkerId::generate();
    for _ in 0..3 {
        f.start().await;
    }
    let claims: Vec<Claim> = f.claim(worker, 3).await.into_iter().map(|run| run.claim).collect();
    let stale = Claim { epoch: 7, ..claims[1] };
    let release = Write::ReleaseUnknown { worker, known: vec![claims[0], stale] };
    assert!(matches!(f.commit_one(release).await, Outcome::Changed(2)));
    let status = async |claim: Claim| f.run(claim.run_id).await.status;
    assert_eq!(status(claims[0]).await, RunStatus::Running);
    assert_eq!(status(claims[1]).await, RunStatus::Parked);
    assert_eq!(f.claim(worker, 3).await.len(), 2);
}

#[tokio::test]
async fn a_failed_end_keeps_its_error() {
    let f = Fixture::memory().await;
    let claim = f.started_and_claimed().await;
    let error = StoredError::new(ErrorKind::Application, "no \"money\"");
    f.commit_one(Write::End(EndWrite {
        claim,
        parent_run_id: None,
        has_children: false,
        end: RunEnd::Failed(error.clone()),
    }))
    .await;
    let ended = f.store.ended(&[claim.run_id, RunId::generate()]).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].status, ended[0].error.as_ref()), (RunStatus::Failed, Some(&error)));
}

#[tokio::test]
async fn a_dropped_commit_leaves_no_transaction() {
    for f in [Fixture::file().await, Fixture::memory().await] {
        for micros in 0..200 {
            let batch: Vec<Write> = (0..20).map(|_| Write::Start(new_run())).collect();
            let _ = tokio::time::timeout(Duration::from_micros(micros * 5), f.store.commit(&batch)).await;
        }
        let id = f.start().await;
        assert_eq!(f.run(id).await.status, RunStatus::Pending);
        let all = f.store.next_due(&[lane()]).await.unwrap();
        assert_eq!(all.at, Some(START));
    }
}

/// SQLite itself rolls back when the disk is full. A driver that counts open transactions does not
/// notice, and its count stays wrong.
#[tokio::test]
async fn the_writer_works_again_after_a_full_disk() {
    let f = Fixture::file().await;
    let limit = async |pages: &'static str| {
        let mut writer = f.store.database.writer.lock().await.unwrap();
        sqlx::query(pages).execute(writer.connection().unwrap()).await.unwrap();
    };
    limit("PRAGMA max_page_count = 60").await;
    let large = NewRun { input: format!("\"{}\"", "x".repeat(1 << 20)), ..new_run() };
    let error = f.store.commit(&[Write::Start(large.clone())]).await.unwrap_err();
    assert_eq!(error.kind, workflow_engine::store::DatabaseErrorKind::Busy, "{error:?}");
    f.start().await;
    limit("PRAGMA max_page_count = 1000000").await;
    f.commit_one(Write::Start(large)).await;
}
