//! A batch that is bound while another one is being committed relies on nothing that has changed by
//! its turn.

use std::pin::pin;

use futures::poll;
use sqlx::Connection;

use workflow_engine::model::{Claim, RunStatus};
use workflow_engine::store::{Outcome, Store, Write};

use super::fixture_tests::{
    Fixture, LEASE, START, TestResult, all_applied, claim_write, end, step_of as step, with_cached_claims,
};

/// Calls `commit` while another commit has the turn, runs `meanwhile`, and gives the turn to the
/// call.
async fn with_meanwhile(
    fixture: &Fixture,
    batch: &[Write],
    meanwhile: impl AsyncFnOnce() -> TestResult,
) -> TestResult<Vec<Outcome>> {
    let turn = fixture.store.session.turn().await;
    let mut commit = pin!(fixture.store.commit(batch));
    assert!(poll!(&mut commit).is_pending());
    meanwhile().await?;
    drop(turn);
    Ok(commit.await?)
}

async fn keys(fixture: &Fixture, claim: Claim) -> TestResult<Vec<String>> {
    Ok(fixture.store.history(claim.run_id).await?.into_iter().map(|row| row.step_key).collect())
}

#[tokio::test]
async fn each_write_of_a_waiting_batch_is_applied() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    fixture.watch_attempts().await?;
    let due = [fixture.start().await?, fixture.start().await?];
    let batch = [claim_write(fixture.worker, 5), end(claims[1]), step(claims[0], "late")];
    let outcomes = with_meanwhile(&fixture, &batch, async || Ok(())).await?;
    let Outcome::Claimed(claimed) = &outcomes[0] else { return Err(format!("{outcomes:?}").into()) };
    assert_eq!(claimed.runs.iter().map(|run| run.claim.run_id).collect::<Vec<_>>(), due);
    assert!(all_applied(&outcomes[1..]), "{outcomes:?}");
    assert_eq!(keys(&fixture, claims[0]).await?.len(), 2);
    assert_eq!(fixture.store.run(claims[1].run_id).await?.map(|run| run.status), Some(RunStatus::Succeeded));
    assert_eq!(fixture.fast_batches().await?, (1, 1));
    let new: Vec<Claim> = claimed.runs.iter().map(|run| run.claim).collect();
    assert_eq!(fixture.store.session.known(&new), 2, "claimed runs are cached once they are read");
    assert_eq!(fixture.store.session.known(&claims), 1, "an ended run is not cached");
    Ok(())
}

#[tokio::test]
async fn a_claim_taken_after_the_batch_was_bound_is_lost() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    let batch = [step(claims[0], "late"), step(claims[1], "late")];
    let taken = async || {
        fixture.second().await?.commit(&[Write::Terminate(claims[0].run_id)]).await?;
        Ok(())
    };
    let outcomes = with_meanwhile(&fixture, &batch, taken).await?;
    assert!(matches!(outcomes[..], [Outcome::Lost | Outcome::Duplicate, Outcome::Applied]), "{outcomes:?}");
    assert_eq!(keys(&fixture, claims[0]).await?, ["before"]);
    assert_eq!(keys(&fixture, claims[1]).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_claim_released_by_the_batch_before_is_lost() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    let late = [step(claims[0], "late"), step(claims[1], "late")];
    let mut third = fixture.connect().await?;
    let mut holder = third.begin().await?;
    fixture.hold(&mut holder, claims[0].run_id).await?;
    let mut commit = pin!(fixture.store.commit(&late));
    let under_way = [end(claims[0]), step(claims[1], "beside")];
    let outcomes = fixture.commit_while(1, &under_way, async {
        assert!(poll!(&mut commit).is_pending());
        Ok(holder.rollback().await?)
    });
    assert!(all_applied(&outcomes.await?));
    let outcomes = commit.await?;
    assert!(matches!(outcomes[..], [Outcome::Lost | Outcome::Duplicate, Outcome::Applied]), "{outcomes:?}");
    assert_eq!(keys(&fixture, claims[0]).await?, ["before"]);
    Ok(())
}

#[tokio::test]
async fn a_worker_recorded_again_after_the_batch_was_bound_is_not_relied_on() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    fixture.watch_attempts().await?;
    let batch = [step(claims[0], "late"), step(claims[1], "late")];
    let again = async || {
        fixture.store.session.recorded_again().note(fixture.worker);
        Ok(())
    };
    let outcomes = with_meanwhile(&fixture, &batch, again).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    assert_eq!(fixture.fast_batches().await?.0, 0, "the batch took the slow path");
    Ok(())
}

#[tokio::test]
async fn a_statement_that_was_bound_at_another_time_is_not_used() -> TestResult {
    let (fixture, claims) = with_cached_claims(3).await?;
    let ends = [end(claims[2]), step(claims[0], "later")];
    let later = async || {
        fixture.clock.advance(LEASE);
        Ok(())
    };
    assert!(all_applied(&with_meanwhile(&fixture, &ends, later).await?));
    let ended = fixture.store.run(claims[2].run_id).await?.ok_or("no run")?;
    assert_eq!(ended.completed_at, Some(START + LEASE));
    Ok(())
}

#[tokio::test]
async fn a_claimed_run_that_cannot_be_read_affects_no_other_write() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    let due = fixture.start().await?;
    fixture.execute("UPDATE {schema}.workflow_runs SET error = 'no JSON' WHERE status = 'pending'").await?;
    let batch = [step(claims[0], "late"), claim_write(fixture.worker, 1)];
    let outcomes = with_meanwhile(&fixture, &batch, async || Ok(())).await?;
    let [Outcome::Applied, Outcome::Claimed(claimed)] = &outcomes[..] else {
        return Err(format!("{outcomes:?}").into());
    };
    assert_eq!(claimed.runs.iter().map(|run| run.claim.run_id).collect::<Vec<_>>(), [due]);
    assert!(claimed.runs[0].unreadable.is_some(), "{claimed:?}");
    assert_eq!(keys(&fixture, claims[0]).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn claimed_runs_are_not_cached_if_the_worker_changes_before_they_are_read() -> TestResult {
    while !change_before_the_rows_are_read().await? {}
    Ok(())
}

/// Returns `false` if the server answered before the first poll returned, so that nothing was
/// tried.
async fn change_before_the_rows_are_read() -> TestResult<bool> {
    let (fixture, claims) = with_cached_claims(3).await?;
    fixture.start().await?;
    let batch = [step(claims[0], "late"), claim_write(fixture.worker, 1)];
    let mut commit = pin!(fixture.store.commit(&batch));
    if poll!(&mut commit).is_ready() {
        return Ok(false);
    }
    // A commit that waits gets its turn before the rows of this one are read.
    let turn = tokio::select! {
        biased;
        _ = &mut commit => return Err("its rows were read before the next turn".into()),
        turn = fixture.store.session.turn() => turn,
    };
    drop(turn);
    fixture.second().await?.commit(&[Write::Terminate(claims[2].run_id)]).await?;
    for key in ["after", "later"] {
        assert!(all_applied(&fixture.store.commit(&[step(claims[0], key), step(claims[1], key)]).await?));
    }
    assert_eq!(fixture.store.session.known(&claims), 2);
    let outcomes = commit.await?;
    let Outcome::Claimed(claimed) = &outcomes[1] else { return Err(format!("{outcomes:?}").into()) };
    assert_eq!(fixture.store.session.known(&[claimed.runs[0].claim]), 0);
    Ok(true)
}
