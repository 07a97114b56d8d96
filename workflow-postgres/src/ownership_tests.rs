//! The lock of a worker replaces locks on its runs: no transaction takes a run between the check of
//! its claim and the commit.

use sqlx::{Connection, PgConnection, Postgres, Transaction};

use workflow_engine::model::{Claim, NewRun, Priority, Retention, RunId, StepAttempt, WorkerId};
use workflow_engine::store::{ClaimRequest, ClaimedRun, DueRuns, Outcome, Store, Write};

use super::claim;
use super::fixture_tests::{
    Fixture, LEASE, TestResult, all_applied, end, fixture, lane, new_run, recorded_fixture, step,
};
use super::ownership::FEW;

fn steps(claims: &[Claim]) -> Vec<Write> {
    claims.iter().copied().map(step).collect()
}

/// Claims enough runs that even the slow path locks their worker instead of the runs.
async fn claims(fixture: &Fixture) -> TestResult<Vec<Claim>> {
    fixture.started_claims(FEW).await
}

fn ids(claims: &[Claim]) -> Vec<RunId> {
    claims.iter().map(|claim| claim.run_id).collect()
}

fn runs(claimed: &[ClaimedRun]) -> Vec<RunId> {
    claimed.iter().map(|run| run.claim.run_id).collect()
}

fn all_lost(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Outcome::Lost))
}

/// Claims all due runs for another worker, in a transaction that stays open.
async fn take(transaction: &mut PgConnection, fixture: &Fixture) -> TestResult<Vec<RunId>> {
    let request = ClaimRequest {
        worker: WorkerId::generate(),
        lanes: vec![lane()],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit: 100,
        lease: LEASE,
    };
    let claimed = claim::claim(transaction, &fixture.store.sql, &fixture.clock, (&request, &[]), DueRuns::All).await;
    Ok(runs(&claimed.map_err(|failure| failure.during("claim"))?.runs))
}

#[tokio::test]
async fn steps_of_a_recorded_worker_are_one_statement() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = claims(&fixture).await?;
    fixture.watch_attempts().await?;
    assert!(all_applied(&fixture.store.commit(&steps(&claims)).await?));
    assert_eq!(fixture.fast_batches().await?, (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_claim_passes_over_runs_whose_worker_commits_a_batch() -> TestResult {
    let fixture = recorded_fixture().await?;
    let other = fixture.neighbour().await?;
    let (recorded, ended) = (claims(&fixture).await?, fixture.started_claim().await?);
    fixture.clock.advance(LEASE * 2);

    // The batch has its locks and then waits, because another transaction has locked the run that
    // it ends.
    let mut third = fixture.connect().await?;
    let mut holder = third.begin().await?;
    fixture.hold(&mut holder, ended.run_id).await?;
    let mut batch = steps(&recorded);
    batch.push(end(ended));
    let outcomes = fixture.commit_while(1, &batch, async {
        assert_eq!(
            runs(&other.claim(100).await?),
            [],
            "the claim falls between the check and the commit of the worker"
        );
        Ok(holder.rollback().await?)
    });
    let outcomes = outcomes.await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");

    assert_eq!(runs(&other.claim(100).await?), ids(&recorded));
    let late = fixture.store.commit(&batch[..FEW]).await?;
    assert!(all_lost(&late), "{late:?}");
    Ok(())
}

/// Commits a batch of a worker while a transaction that has taken all its runs comes to this end.
/// Returns the outcomes and the history of one of the runs.
async fn beside_a_take_over(
    end: impl AsyncFnOnce(Transaction<'_, Postgres>) -> sqlx::Result<()>,
) -> TestResult<(Vec<Outcome>, Vec<StepAttempt>)> {
    let fixture = recorded_fixture().await?;
    let recorded = claims(&fixture).await?;
    fixture.clock.advance(LEASE * 2);
    let mut other = fixture.connect().await?;
    let mut taker = other.begin().await?;
    assert_eq!(take(&mut taker, &fixture).await?, ids(&recorded));
    let outcomes = fixture.commit_while(1, &steps(&recorded), async { Ok(end(taker).await?) }).await?;
    Ok((outcomes, fixture.store.history(recorded[0].run_id).await?))
}

#[tokio::test]
async fn a_batch_waits_for_a_take_over_and_sees_that_its_runs_were_taken() -> TestResult {
    let (outcomes, history) = beside_a_take_over(async |taker| taker.commit().await).await?;
    assert!(all_lost(&outcomes) && history.is_empty(), "{outcomes:?}");
    Ok(())
}

#[tokio::test]
async fn a_batch_beside_a_take_over_that_is_rolled_back_is_applied() -> TestResult {
    let (outcomes, history) = beside_a_take_over(async |taker| taker.rollback().await).await?;
    assert!(all_applied(&outcomes) && history.len() == 1, "{outcomes:?}");
    Ok(())
}

#[tokio::test]
async fn only_one_of_two_takes_the_runs_of_a_worker() -> TestResult {
    let fixture = recorded_fixture().await?;
    let recorded = claims(&fixture).await?;
    let fresh = NewRun { priority: Some(Priority::Urgent), ..new_run() };
    fixture.commit(Write::Start(fresh.clone())).await?;
    fixture.clock.advance(LEASE * 2);
    let (mut one, mut two) = (fixture.connect().await?, fixture.connect().await?);
    let (mut first, mut second) = (one.begin().await?, two.begin().await?);
    let few = ClaimRequest {
        worker: WorkerId::generate(),
        lanes: vec![lane()],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit: 3,
        lease: LEASE,
    };
    let claimed = claim::claim(&mut first, &fixture.store.sql, &fixture.clock, (&few, &[]), DueRuns::All).await;
    assert_eq!(
        runs(&claimed.map_err(|failure| failure.during("claim"))?.runs),
        [fresh.id, recorded[0].run_id, recorded[1].run_id]
    );
    assert_eq!(take(&mut second, &fixture).await?, [], "another transaction takes from their worker");
    first.commit().await?;
    assert_eq!(take(&mut second, &fixture).await?, ids(&recorded[2..]));
    Ok(())
}

#[tokio::test]
async fn a_run_of_another_process_is_locked_itself() -> TestResult {
    let fixture = recorded_fixture().await?;
    let other = fixture.neighbour().await?;
    other.record_worker().await?;
    let claimed = claims(&fixture).await?;
    // The neighbour has a worker, but not the one that holds the run.
    other.claim(1).await?;
    locks_its_runs(&other, &claimed).await
}

#[tokio::test]
async fn a_run_of_an_unrecorded_worker_is_locked_itself() -> TestResult {
    let fixture = fixture().await?;
    let claimed = claims(&fixture).await?;
    locks_its_runs(&fixture, &claimed).await
}

#[tokio::test]
async fn a_worker_that_was_recorded_again_does_not_rely_on_its_row_at_once() -> TestResult {
    let fixture = fixture().await?;
    let mut lease = fixture.store.open_lease(fixture.worker, &[lane()], &Retention::default()).await?;
    let claimed = claims(&fixture).await?;
    let mut watching = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await?;
    assert_eq!(watching.release_worker(fixture.worker).await?, claimed.len() as u64);
    assert_eq!(lease.renew(&claimed, LEASE).await?.len(), claimed.len());
    assert_eq!(lease.look().await?.unlocked, []);
    let recorded: Vec<WorkerId> = fixture.store.workers().await?.iter().map(|worker| worker.id).collect();
    assert!(recorded.contains(&fixture.worker), "{recorded:?}");
    locks_its_runs(&fixture, &claimed).await?;
    lease.close().await?;
    Ok(watching.close().await?)
}

/// Requires that steps of these claims wait for a transaction that has locked one of their runs.
async fn locks_its_runs(fixture: &Fixture, claims: &[Claim]) -> TestResult {
    let mut third = fixture.connect().await?;
    let mut holder = third.begin().await?;
    fixture.hold(&mut holder, claims[FEW / 2].run_id).await?;
    let outcomes = fixture.commit_while(1, &steps(claims), async { Ok(holder.rollback().await?) }).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    Ok(())
}
