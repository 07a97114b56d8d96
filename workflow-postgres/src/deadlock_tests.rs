//! Each way to lock takes its locks in one order, so that no transactions wait in a circle.

use sqlx::Connection;

use workflow_engine::model::{Retention, RunStatus, WorkerId};
use workflow_engine::store::{Outcome, Store, Write};

use super::fixture_tests::{TestResult, all_applied, claim_write, end, recorded_fixture, step, until_one_waits};

/// A transaction that locks runs in the order of their ids, as a batch of signals does, has the run
/// that this batch ends, and wants the run that it claims.
#[tokio::test]
async fn a_batch_that_waits_to_end_a_run_has_not_claimed_one() -> TestResult {
    let fixture = recorded_fixture().await?;
    let ended = fixture.started_claim().await?;
    let due = fixture.start().await?;
    let mut third = fixture.connect().await?;
    let mut holder = third.begin().await?;
    fixture.hold(&mut holder, ended.run_id).await?;
    let batch = [end(ended), claim_write(fixture.worker, 1)];
    let outcomes = fixture.commit_while(1, &batch, async {
        fixture.hold(&mut holder, due).await?;
        Ok(holder.rollback().await?)
    });
    let outcomes = outcomes.await?;
    assert!(matches!(&outcomes[1], Outcome::Claimed(claimed) if claimed.runs[0].claim.run_id == due), "{outcomes:?}");
    Ok(())
}

/// Two runs are terminated. While another transaction has the first one, the second one is claimed,
/// and its worker ends it in a batch that waits for a third transaction too.
#[tokio::test]
async fn a_termination_locks_the_worker_that_has_the_run_by_then() -> TestResult {
    let fixture = recorded_fixture().await?;
    let other = fixture.neighbour().await?;
    let claims = fixture.started_claims(2).await?;
    let (first, second) = (fixture.start().await?, fixture.start().await?);
    let (mut one, mut two) = (fixture.connect().await?, fixture.connect().await?);
    let (mut holds_first, mut holds_ended) = (one.begin().await?, two.begin().await?);
    fixture.hold(&mut holds_first, first).await?;
    fixture.hold(&mut holds_ended, claims[1].run_id).await?;

    let terminations = [Write::Terminate(first), Write::Terminate(second)];
    let terminate = async {
        other.store.commit(&terminations).await?;
        // Not before: it must not wait for the batch.
        TestResult::Ok(holds_ended.rollback().await?)
    };
    let batch = async {
        until_one_waits(&fixture).await?;
        let claimed = fixture.claim(1).await?[0].claim;
        assert_eq!(claimed.run_id, second, "the first is passed over");
        let batch = [step(claims[0]), end(claims[1]), end(claimed)];
        fixture.commit_while(2, &batch, async { Ok(holds_first.rollback().await?) }).await
    };
    let (terminated, outcomes) = tokio::join!(terminate, batch);
    terminated?;
    let outcomes = outcomes?;
    assert!(all_applied(&outcomes[..2]) && matches!(outcomes[2], Outcome::Lost), "{outcomes:?}");
    for run in [first, second] {
        assert_eq!(fixture.store.run(run).await?.map(|run| run.status), Some(RunStatus::Canceled));
    }
    Ok(())
}

/// A transaction that forgets a worker has the run that the worker's batch ends, and waits for
/// another run.
#[tokio::test]
async fn the_removal_of_a_worker_locks_it_before_its_runs() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(3).await?;
    let second = fixture.second().await?;
    let mut watching = second.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
    let mut third = fixture.connect().await?;
    let mut holder = third.begin().await?;
    fixture.hold(&mut holder, claims[2].run_id).await?;
    let batch = [step(claims[0]), end(claims[1])];
    let batch = async {
        until_one_waits(&fixture).await?;
        fixture.commit_while(2, &batch, async { Ok(holder.rollback().await?) }).await
    };
    let (released, outcomes) = tokio::join!(watching.release_worker(fixture.worker), batch);
    let outcomes = outcomes?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    assert_eq!(released?, claims.len() as u64);
    Ok(())
}

/// A transaction that terminates runs has the row of the worker, and wants the run that the
/// worker's batch ends.
#[tokio::test]
async fn a_batch_that_waits_for_its_worker_has_ended_nothing() -> TestResult {
    let fixture = recorded_fixture().await?;
    let ended = fixture.started_claim().await?;
    let due = fixture.start().await?;
    let mut third = fixture.connect().await?;
    let mut holder = third.begin().await?;
    let lock = fixture.store.sql.lock_workers.query().bind(vec![fixture.worker.as_uuid()]).bind(false);
    lock.execute(&mut *holder).await?;
    // The batch records no attempt, so it needs the row for nothing else.
    let batch = [end(ended), claim_write(fixture.worker, 1)];
    let outcomes = fixture.commit_while(1, &batch, async {
        fixture.hold(&mut holder, ended.run_id).await?;
        Ok(holder.rollback().await?)
    });
    let outcomes = outcomes.await?;
    assert!(all_applied(&outcomes[..1]), "{outcomes:?}");
    assert!(matches!(&outcomes[1], Outcome::Claimed(claimed) if claimed.runs[0].claim.run_id == due), "{outcomes:?}");
    Ok(())
}
