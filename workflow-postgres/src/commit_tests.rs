use std::time::Duration;

use sqlx::Connection;

use workflow_engine::model::{
    AttemptStatus, Claim, ErrorKind, NewRun, RunId, RunStatus, StartTime, StoredError, Timestamp, WorkerId,
};
use workflow_engine::store::{
    CancelOutcome, DatabaseErrorKind, EndWrite, Outcome, ParkWrite, RunEnd, StartOutcome, Store, Write,
};

use super::PostgresStore;
use super::fixture_tests::{
    Fixture, LEASE, START, TestResult, attempt, claim_write, end, fixture, fixture_with_pool, lane, new_run,
};

fn park(claim: Claim, wakes: i64, until: Timestamp) -> Write {
    Write::Park(ParkWrite { claim, wakes, until, until_deadline: true, error: None, reset_crashes: true })
}

fn keyed(key: &str) -> NewRun {
    NewRun { key: Some(key.into()), ..new_run() }
}

async fn run(fixture: &Fixture, id: RunId) -> TestResult<workflow_engine::model::Run> {
    fixture.store.run(id).await?.ok_or_else(|| "no such run".into())
}

#[tokio::test]
async fn a_key_has_one_run_and_a_repeated_start_is_created() -> TestResult {
    let fixture = fixture().await?;
    let (first, second) = (keyed("order-1"), keyed("order-1"));
    let writes = [Write::Start(first.clone()), Write::Start(second.clone()), Write::Start(new_run())];
    for _ in 0..2 {
        let outcomes = fixture.store.commit(&writes).await?;
        let existing = StartOutcome::Existing { id: first.id, input: "null".into() };
        assert!(matches!(&outcomes[0], Outcome::Started(StartOutcome::Created)), "{outcomes:?}");
        assert!(matches!(&outcomes[1], Outcome::Started(found) if *found == existing), "{outcomes:?}");
        assert!(matches!(&outcomes[2], Outcome::Started(StartOutcome::Created)), "{outcomes:?}");
    }
    assert_eq!(fixture.store.list(&workflow_engine::model::RunFilter::new()).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn concurrent_batches_with_the_same_keys_in_other_orders_do_not_deadlock() -> TestResult {
    let fixture = fixture().await?;
    let batch = |offset: usize| -> Vec<Write> {
        (0..50).map(|n| Write::Start(keyed(&format!("order-{}", (n * 7 + offset) % 50)))).collect()
    };
    let batches: Vec<_> = (0..8).map(batch).collect();
    let commits = batches.iter().map(|writes| fixture.store.commit(writes));
    let outcomes: Vec<_> = futures::future::try_join_all(commits).await?.into_iter().flatten().collect();
    let created = outcomes.iter().filter(|o| matches!(o, Outcome::Started(StartOutcome::Created)));
    assert_eq!(created.count(), 50);
    Ok(())
}

#[tokio::test]
async fn start_and_deadline_are_counted_from_the_commit() -> TestResult {
    let fixture = fixture().await?;
    let hour = Duration::from_secs(3600);
    let late = NewRun { start: StartTime::After(hour), deadline: Some(StartTime::After(hour / 2)), ..new_run() };
    let never = NewRun { start: StartTime::After(Duration::MAX), ..new_run() };
    fixture.store.commit(&[Write::Start(late.clone()), Write::Start(never.clone())]).await?;
    let stored = run(&fixture, late.id).await?;
    assert_eq!((stored.available_at, stored.deadline_at), (START + hour / 2, Some(START + hour / 2)));
    assert_eq!(run(&fixture, never.id).await?.available_at, Timestamp::FAR_FUTURE);
    assert!(fixture.claim(10).await?.is_empty());
    let due = fixture.store.next_due(&[lane()]).await?;
    assert_eq!((due.now, due.at), (START, Some(START + hour / 2)));

    fixture.clock.advance(hour / 2);
    assert!(matches!(fixture.commit(Write::Expire { limit: 9, patience: Duration::ZERO }).await?, Outcome::Changed(1)));
    let stored = run(&fixture, late.id).await?;
    assert_eq!(stored.status, RunStatus::Failed);
    assert_eq!(stored.error.map(|error| error.kind), Some(ErrorKind::Deadline));
    assert_eq!(fixture.store.next_due(&[lane()]).await?.at, None);
    Ok(())
}

#[tokio::test]
async fn claims_are_the_longest_due_first_and_count_crashes() -> TestResult {
    let fixture = fixture().await?;
    let at = |seconds| NewRun { start: StartTime::At(START + Duration::from_secs(seconds)), ..new_run() };
    let (third, first, second, future) = (at(3), at(1), at(2), at(100));
    let writes = [&third, &first, &second, &future].map(|run| Write::Start(run.clone()));
    fixture.store.commit(&writes).await?;
    fixture.clock.advance(Duration::from_secs(10));
    let ids = |claimed: Vec<workflow_engine::store::ClaimedRun>| {
        claimed.iter().map(|run| run.claim.run_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(fixture.claim(2).await?), [first.id, second.id]);
    assert_eq!(ids(fixture.claim(2).await?), [third.id]);

    fixture.clock.advance(LEASE);
    let again = fixture.claim(10).await?;
    assert_eq!(again.len(), 3);
    for run in again {
        assert_eq!((run.claim.epoch, run.crashes), (2, 1));
        assert_eq!(run.started_at, START + Duration::from_secs(10));
        assert_eq!(run.lease_until, START + Duration::from_secs(10) + LEASE + LEASE);
    }
    Ok(())
}

#[tokio::test]
async fn workers_that_claim_at_once_never_share_a_run() -> TestResult {
    let fixture = fixture().await?;
    let starts: Vec<Write> = (0..60).map(|_| Write::Start(new_run())).collect();
    fixture.store.commit(&starts).await?;
    let mut claimed = Vec::new();
    while claimed.len() < 60 {
        let claims = (0..8).map(|_| fixture.claim_for(WorkerId::generate(), 7));
        for runs in futures::future::try_join_all(claims).await? {
            assert!(runs.len() <= 7);
            claimed.extend(runs.iter().map(|run| run.claim.run_id));
        }
    }
    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!(claimed.len(), 60);
    Ok(())
}

#[tokio::test]
async fn a_stale_claim_changes_nothing_and_does_not_disturb_others() -> TestResult {
    let fixture = fixture().await?;
    let stale = fixture.started_claim().await?;
    fixture.clock.advance(LEASE);
    let current = fixture.claim_for(WorkerId::generate(), 1).await?[0].claim;
    let unknown = Claim { run_id: RunId::generate(), epoch: 1 };
    let outcomes = fixture
        .store
        .commit(&[
            attempt(stale, "a", AttemptStatus::Succeeded, Some("1")),
            end(stale),
            attempt(current, "b", AttemptStatus::Succeeded, Some("2")),
            end(unknown),
        ])
        .await?;
    assert!(matches!(outcomes[..], [Outcome::Lost, Outcome::Lost, Outcome::Applied, Outcome::Lost]), "{outcomes:?}");
    let history = fixture.store.history(stale.run_id).await?;
    assert_eq!(history.iter().map(|row| row.step_key.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(run(&fixture, stale.run_id).await?.status, RunStatus::Running);
    Ok(())
}

#[tokio::test]
async fn a_batch_applied_again_is_a_duplicate() -> TestResult {
    let fixture = fixture().await?;
    let claim = fixture.started_claim().await?;
    let batch = [attempt(claim, "a", AttemptStatus::Succeeded, Some("1")), end(claim)];
    let first = fixture.store.commit(&batch).await?;
    assert!(matches!(first[..], [Outcome::Applied, Outcome::Applied]), "{first:?}");
    let before = run(&fixture, claim.run_id).await?;
    fixture.clock.advance(LEASE);
    let second = fixture.store.commit(&batch).await?;
    assert!(matches!(second[..], [Outcome::Duplicate, Outcome::Duplicate]), "{second:?}");
    assert_eq!(run(&fixture, claim.run_id).await?, before);
    assert_eq!(fixture.store.ended(&[claim.run_id, RunId::generate()]).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_final_attempt_never_changes_and_keeps_its_bytes() -> TestResult {
    let fixture = fixture().await?;
    let claim = fixture.started_claim().await?;
    let bytes = r#"{"b":1.0,"a":-0.0,"b":"\u0000 \ud83d\ude00 ü"  }"#;
    let running = |key| attempt(claim, key, AttemptStatus::Running, None);
    fixture.store.commit(&[running("a"), running("b")]).await?;
    fixture.store.commit(&[attempt(claim, "a", AttemptStatus::Succeeded, Some(bytes)), running("a")]).await?;
    fixture.store.commit(&[attempt(claim, "a", AttemptStatus::Failed, Some("2"))]).await?;
    let history = fixture.store.history(claim.run_id).await?;
    assert_eq!(history.len(), 2);
    assert_eq!((history[0].status, history[0].output.as_deref()), (AttemptStatus::Succeeded, Some(bytes)));
    assert_eq!((history[1].step_key.as_str(), history[1].status), ("b", AttemptStatus::Running));
    Ok(())
}

#[tokio::test]
async fn a_wake_between_looking_and_parking_is_not_lost() -> TestResult {
    let fixture = fixture().await?;
    let claim = fixture.started_claim().await?;
    let until = START + Duration::from_secs(600);
    let canceled = fixture.commit(Write::Cancel(claim.run_id)).await?;
    assert!(matches!(canceled, Outcome::Canceled(CancelOutcome::Requested)), "{canceled:?}");
    let lease_end = run(&fixture, claim.run_id).await?.available_at;
    assert_eq!(lease_end, START + LEASE, "a cancel leaves the lease alone");
    fixture.commit(park(claim, 0, until)).await?;
    let parked = run(&fixture, claim.run_id).await?;
    assert_eq!((parked.status, parked.available_at, parked.worker_id), (RunStatus::Parked, START, None));

    let again = &fixture.claim(1).await?[0];
    assert!(again.cancel_requested);
    assert_eq!((again.wakes, again.crashes), (1, 0));
    fixture.commit(park(again.claim, 1, until)).await?;
    assert_eq!(run(&fixture, claim.run_id).await?.available_at, until);
    Ok(())
}

#[tokio::test]
async fn a_cancel_ends_only_what_nobody_holds() -> TestResult {
    let fixture = fixture().await?;
    let pending = fixture.start().await?;
    let writes = [Write::Cancel(pending), Write::Cancel(pending), Write::Cancel(RunId::generate())];
    let outcomes = fixture.store.commit(&writes).await?;
    let ended = CancelOutcome::Ended(RunStatus::Canceled);
    assert!(matches!(outcomes[0], Outcome::Canceled(CancelOutcome::Canceled)), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::Canceled(found) if found == ended), "{outcomes:?}");
    assert!(matches!(outcomes[2], Outcome::Canceled(CancelOutcome::Unknown)), "{outcomes:?}");
    let stored = run(&fixture, pending).await?;
    assert_eq!((stored.completed_at, stored.cancel_requested_at), (Some(START), Some(START)));

    let claim = fixture.started_claim().await?;
    fixture.commit(end(claim)).await?;
    let outcome = fixture.commit(Write::Cancel(claim.run_id)).await?;
    let ended = CancelOutcome::Ended(RunStatus::Succeeded);
    assert!(matches!(outcome, Outcome::Canceled(found) if found == ended), "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn a_worker_gives_back_what_it_does_not_know() -> TestResult {
    let fixture = fixture().await?;
    fixture.start().await?;
    fixture.start().await?;
    let claimed = fixture.claim(2).await?;
    let (known, stray) = (claimed[0].claim, claimed[1].claim);
    let release = Write::ReleaseUnknown { worker: fixture.worker, known: vec![known] };
    assert!(matches!(fixture.commit(release).await?, Outcome::Changed(1)));
    assert_eq!(run(&fixture, known.run_id).await?.status, RunStatus::Running);
    let stray = run(&fixture, stray.run_id).await?;
    assert_eq!((stray.status, stray.available_at, stray.crashes), (RunStatus::Parked, START, 0));
    Ok(())
}

#[tokio::test]
async fn one_batch_of_every_kind_keeps_the_order_of_the_contract() -> TestResult {
    let fixture = fixture_with_pool(1).await?;
    let claim = fixture.started_claim().await?;
    let run = new_run();
    let outcomes = fixture
        .store
        .commit(&[
            claim_write(fixture.worker, 5),
            Write::Expire { limit: 5, patience: Duration::ZERO },
            Write::Cancel(claim.run_id),
            end(claim),
            attempt(claim, "a", AttemptStatus::Succeeded, None),
            Write::ReleaseUnknown { worker: fixture.worker, known: vec![] },
            Write::Start(run.clone()),
        ])
        .await?;
    assert!(
        matches!(&outcomes[0], Outcome::Claimed(claimed) if claimed.runs[0].claim.run_id == run.id),
        "{outcomes:?}"
    );
    let ended = CancelOutcome::Ended(RunStatus::Succeeded);
    assert!(matches!(outcomes[2], Outcome::Canceled(found) if found == ended), "{outcomes:?}");
    assert!(matches!(outcomes[4], Outcome::Applied) && matches!(outcomes[5], Outcome::Changed(0)), "{outcomes:?}");
    Ok(())
}

#[tokio::test]
async fn refused_data_fails_the_batch_and_changes_nothing() -> TestResult {
    let fixture = fixture_with_pool(1).await?;
    let claim = fixture.started_claim().await?;
    let fresh = new_run();
    let batch = [Write::Start(fresh.clone()), attempt(claim, "nul \0", AttemptStatus::Running, None)];
    let refused = fixture.store.commit(&batch).await;
    assert!(matches!(&refused, Err(error) if error.kind == DatabaseErrorKind::Invalid), "{refused:?}");
    assert_eq!(fixture.store.run(fresh.id).await?, None);
    fixture.commit(park(claim, 0, START)).await?;
    Ok(())
}

#[tokio::test]
async fn a_failed_run_keeps_its_error() -> TestResult {
    let fixture = fixture().await?;
    let claim = fixture.started_claim().await?;
    let error = StoredError::new(ErrorKind::Application, "no money").fatal().of_step("charge");
    fixture
        .commit(Write::End(EndWrite {
            claim,
            parent_run_id: None,
            has_children: false,
            end: RunEnd::Failed(error.clone()),
        }))
        .await?;
    let ended = fixture.store.ended(&[claim.run_id]).await?;
    assert_eq!((ended[0].status, ended[0].error.as_ref()), (RunStatus::Failed, Some(&error)));
    Ok(())
}

#[tokio::test]
async fn a_dropped_commit_leaves_no_half_used_connection() -> TestResult {
    let fixture = fixture_with_pool(1).await?;
    for polls in 1..40 {
        let batch: Vec<Write> = (0..20).map(|_| Write::Start(new_run())).collect();
        let mut commit = Box::pin(fixture.store.commit(&batch));
        for _ in 0..polls {
            if futures::poll!(commit.as_mut()).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        drop(commit);
        let claimed = fixture.claim(3).await?;
        assert!(claimed.iter().all(|run| run.claim.epoch == 1), "an answer of another call");
    }
    Ok(())
}

#[tokio::test]
async fn a_start_belongs_to_the_applications_transaction() -> TestResult {
    let fixture = fixture().await?;
    let mut connection = fixture.connect().await?;
    for (commits, run) in [(false, keyed("a")), (true, keyed("a"))] {
        let mut transaction = connection.begin().await?;
        let outcome = fixture.store.write_within(&mut transaction, &Write::Start(run.clone())).await?;
        assert!(matches!(outcome, Outcome::Started(StartOutcome::Created)), "{outcome:?}");
        if commits {
            transaction.commit().await?
        } else {
            transaction.rollback().await?
        }
        assert_eq!(fixture.store.run(run.id).await?.is_some(), commits);
    }
    let stranger = PostgresStore { sql: super::sql::Sql::load("nowhere").into(), ..fixture.store };
    let refused = stranger.write_within(&mut connection, &Write::Start(new_run())).await;
    assert!(matches!(&refused, Err(error) if error.kind == DatabaseErrorKind::Invalid), "{refused:?}");
    Ok(())
}
