//! That the lock of a worker is as good as locks on its runs: nobody takes a run between the look at it and the commit.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Transaction};

use crate::backend::{Backend, BackendOptions, ClaimRequest, ClaimedRun, Outcome, Write};
use crate::model::{AttemptStatus, Claim, RunId, WorkerId};

use super::fixture_tests::{
    Fixture, LEASE, TestResult, attempt, end, fixture, lane, recorded_fixture, until_one_waits, until_wait, url,
};
use super::worker_lock::FEW;
use super::{PostgresBackend, claim};

fn step(claim: Claim) -> Write {
    attempt(claim, "a", AttemptStatus::Succeeded, Some("1"))
}

fn steps(claims: &[Claim]) -> Vec<Write> {
    claims.iter().copied().map(step).collect()
}

/// Claims of as many runs as it takes for the lock of their worker, whatever the way.
async fn claims(fixture: &Fixture) -> TestResult<Vec<Claim>> {
    let mut claims = Vec::new();
    for _ in 0..FEW {
        claims.push(fixture.started_claim().await?);
    }
    Ok(claims)
}

fn ids(claims: &[Claim]) -> Vec<RunId> {
    claims.iter().map(|claim| claim.run_id).collect()
}

fn runs(claimed: &[ClaimedRun]) -> Vec<RunId> {
    claimed.iter().map(|run| run.claim.run_id).collect()
}

fn all_applied(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied))
}

fn all_lost(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Outcome::Lost))
}

/// Another process on the same schema.
async fn neighbour(fixture: &Fixture) -> TestResult<Fixture> {
    let (schema, clock) = (fixture.schema.clone(), fixture.clock.clone());
    let options = BackendOptions { pool_size: 2, schema: schema.clone(), clock: clock.clone() };
    let backend = PostgresBackend::open(&url()?, options).await?;
    Ok(Fixture { backend, schema, clock, worker: WorkerId::generate() })
}

/// Holds this run as another transaction does.
async fn hold<'c>(
    connection: &'c mut PgConnection,
    fixture: &Fixture,
    claim: Claim,
) -> TestResult<Transaction<'c, Postgres>> {
    let mut holder = connection.begin().await?;
    let hold = format!("SELECT FROM {}.workflow_runs WHERE id = $1 FOR UPDATE", fixture.schema);
    sqlx::query(AssertSqlSafe(hold)).bind(claim.run_id.as_uuid()).execute(&mut *holder).await?;
    Ok(holder)
}

/// Commits the batch, and lets the other work go on once the batch waits for somebody.
async fn while_it_waits(
    fixture: &Fixture,
    batch: &[Write],
    other: impl Future<Output = TestResult>,
) -> TestResult<Vec<Outcome>> {
    let meanwhile = async {
        until_one_waits(fixture).await?;
        other.await
    };
    let (outcomes, meanwhile) = tokio::join!(fixture.backend.commit(batch), meanwhile);
    meanwhile?;
    Ok(outcomes?)
}

/// All that is due, claimed by another worker in a transaction that is open.
async fn take(transaction: &mut PgConnection, fixture: &Fixture) -> TestResult<Vec<RunId>> {
    let request = ClaimRequest { worker: WorkerId::generate(), lanes: vec![lane()], limit: 100, lease: LEASE };
    let claimed = claim::claim(transaction, &fixture.backend.sql, &fixture.clock, &request).await;
    Ok(runs(&claimed.map_err(|failure| failure.during("claim"))?.runs))
}

#[tokio::test]
async fn steps_of_a_recorded_worker_are_one_statement() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = claims(&fixture).await?;
    fixture.watch_attempts().await?;
    assert!(all_applied(&fixture.backend.commit(&steps(&claims)).await?));
    assert_eq!(fixture.plain_batches().await?, (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_claim_passes_over_runs_whose_worker_commits_a_batch() -> TestResult {
    let fixture = recorded_fixture().await?;
    let other = neighbour(&fixture).await?;
    let (recorded, ended) = (claims(&fixture).await?, fixture.started_claim().await?);
    fixture.clock.advance(LEASE * 2);

    // The batch has its locks and then waits, for the run that it ends is locked by somebody else.
    let mut third = fixture.connect().await?;
    let holder = hold(&mut third, &fixture, ended).await?;
    let mut batch = steps(&recorded);
    batch.push(end(ended));
    let outcomes = while_it_waits(&fixture, &batch, async {
        assert_eq!(runs(&other.claim(100).await?), [], "between the look and the commit of its worker");
        Ok(holder.rollback().await?)
    });
    let outcomes = outcomes.await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");

    assert_eq!(runs(&other.claim(100).await?), ids(&recorded));
    let late = fixture.backend.commit(&batch[..FEW]).await?;
    assert!(all_lost(&late), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn a_batch_waits_for_who_takes_a_run_of_its_worker_and_sees_that_it_was_taken() -> TestResult {
    let fixture = recorded_fixture().await?;
    let recorded = claims(&fixture).await?;
    fixture.clock.advance(LEASE * 2);
    let mut other = fixture.connect().await?;
    let mut taker = other.begin().await?;
    assert_eq!(take(&mut taker, &fixture).await?, ids(&recorded));
    let outcomes = while_it_waits(&fixture, &steps(&recorded), async { Ok(taker.commit().await?) }).await?;
    assert!(all_lost(&outcomes), "{outcomes:?}");
    assert!(fixture.backend.history(recorded[0].run_id).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_batch_beside_a_take_over_that_did_not_happen_is_applied() -> TestResult {
    let fixture = recorded_fixture().await?;
    let recorded = claims(&fixture).await?;
    fixture.clock.advance(LEASE * 2);
    let mut other = fixture.connect().await?;
    let mut taker = other.begin().await?;
    assert_eq!(take(&mut taker, &fixture).await?, ids(&recorded));
    let outcomes = while_it_waits(&fixture, &steps(&recorded), async { Ok(taker.rollback().await?) }).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    Ok(())
}

#[tokio::test]
async fn only_one_of_two_takes_the_runs_of_a_worker() -> TestResult {
    let fixture = recorded_fixture().await?;
    let recorded = claims(&fixture).await?;
    let fresh = fixture.start().await?;
    fixture.clock.advance(LEASE * 2);
    let (mut one, mut two) = (fixture.connect().await?, fixture.connect().await?);
    let (mut first, mut second) = (one.begin().await?, two.begin().await?);
    let few = ClaimRequest { worker: WorkerId::generate(), lanes: vec![lane()], limit: 3, lease: LEASE };
    let claimed = claim::claim(&mut first, &fixture.backend.sql, &fixture.clock, &few).await;
    assert_eq!(
        runs(&claimed.map_err(|failure| failure.during("claim"))?.runs),
        [fresh, recorded[0].run_id, recorded[1].run_id]
    );
    assert_eq!(take(&mut second, &fixture).await?, [], "their worker is another's to take from");
    first.commit().await?;
    assert_eq!(take(&mut second, &fixture).await?, ids(&recorded[2..]));
    Ok(())
}

#[tokio::test]
async fn a_run_of_a_worker_that_is_not_ours_is_locked_itself() -> TestResult {
    let fixture = recorded_fixture().await?;
    let other = neighbour(&fixture).await?;
    other.record_worker().await?;
    let claimed = claims(&fixture).await?;
    // The neighbour knows a worker, but not the one that holds the run.
    other.claim(1).await?;
    locks_its_runs(&other, &claimed).await
}

#[tokio::test]
async fn a_run_of_a_worker_that_is_not_recorded_is_locked_itself() -> TestResult {
    let fixture = fixture().await?;
    let claimed = claims(&fixture).await?;
    locks_its_runs(&fixture, &claimed).await
}

#[tokio::test]
async fn a_worker_that_was_recorded_again_does_not_rely_on_its_row_at_once() -> TestResult {
    let fixture = fixture().await?;
    let mut lease = fixture.backend.open_lease(fixture.worker, &[lane()]).await?;
    let claimed = claims(&fixture).await?;
    let mut watching = fixture.backend.open_lease(WorkerId::generate(), &[]).await?;
    assert_eq!(watching.release_worker(fixture.worker).await?, claimed.len() as u64);
    assert_eq!(lease.renew(&claimed, LEASE).await?.len(), claimed.len());
    let recorded: Vec<WorkerId> = fixture.backend.workers().await?.iter().map(|worker| worker.id).collect();
    assert!(recorded.contains(&fixture.worker), "{recorded:?}");
    locks_its_runs(&fixture, &claimed).await?;
    lease.close().await?;
    Ok(watching.close().await?)
}

/// That steps of these claims wait for who holds one of their runs.
async fn locks_its_runs(fixture: &Fixture, claims: &[Claim]) -> TestResult {
    let mut third = fixture.connect().await?;
    let holder = hold(&mut third, fixture, claims[FEW / 2]).await?;
    let outcomes = while_it_waits(fixture, &steps(claims), async { Ok(holder.rollback().await?) }).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    Ok(())
}

#[tokio::test]
async fn who_forgets_a_worker_locks_it_before_its_runs_as_its_batch_does() -> TestResult {
    let fixture = recorded_fixture().await?;
    let (recorded, mut others) = (claims(&fixture).await?, vec![fixture.started_claim().await?]);
    others.push(fixture.started_claim().await?);
    others.sort();
    let [ended, held] = others[..] else { return Err("two".into()) };
    let second = fixture.second().await?;
    let mut watching = second.open_lease(WorkerId::generate(), &[]).await?;
    let mut third = fixture.connect().await?;
    let holder = hold(&mut third, &fixture, held).await?;
    let mut batch = steps(&recorded);
    batch.push(end(ended));
    // Who forgets the worker has the run that the batch ends, and waits for the other.
    let batch = async {
        until_one_waits(&fixture).await?;
        let (outcomes, freed) = tokio::join!(fixture.backend.commit(&batch), async {
            until_wait(&fixture, 2).await?;
            TestResult::Ok(holder.rollback().await?)
        });
        freed?;
        TestResult::Ok(outcomes?)
    };
    let (released, outcomes) = tokio::join!(watching.release_worker(fixture.worker), batch);
    let outcomes = outcomes?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    assert_eq!(released?, recorded.len() as u64 + 2);
    Ok(())
}
