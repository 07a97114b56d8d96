//! That the lock of a worker is as good as locks on its runs: nobody takes a run between the fence and the commit.

use sqlx::Connection;

use crate::backend::{Backend, BackendOptions, ClaimRequest, ClaimedRun, Outcome, Write};
use crate::model::{AttemptStatus, Claim, RunId, WorkerId};

use super::fixture_tests::{Fixture, LEASE, TestResult, attempt, end, fixture, lane, until_one_waits, url};
use super::worker_lock::FEW;
use super::{PostgresBackend, claim};

fn step(claim: Claim) -> Write {
    attempt(claim, "a", AttemptStatus::Succeeded, Some("1"))
}

/// Claims of as many runs as it takes for the lock of their worker.
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

/// Another process on the same schema.
async fn neighbour(fixture: &Fixture) -> TestResult<Fixture> {
    let (schema, clock) = (fixture.schema.clone(), fixture.clock.clone());
    let options = BackendOptions { pool_size: 2, schema: schema.clone(), clock: clock.clone() };
    let backend = PostgresBackend::open(&url()?, options).await?;
    Ok(Fixture { backend, schema, clock, worker: WorkerId::generate() })
}

#[tokio::test]
async fn a_claim_passes_over_runs_whose_worker_commits_a_batch() -> TestResult {
    let fixture = fixture().await?;
    let other = neighbour(&fixture).await?;
    let (recorded, ended) = (claims(&fixture).await?, fixture.started_claim().await?);
    fixture.clock.advance(LEASE * 2);

    // The batch has its locks and then waits, for the run that it ends is locked by somebody else.
    let mut third = fixture.connect().await?;
    let mut holder = third.begin().await?;
    let hold = format!("SELECT FROM {}.workflow_runs WHERE id = $1 FOR UPDATE", fixture.schema);
    let hold = sqlx::query(sqlx::AssertSqlSafe(hold)).bind(ended.run_id.as_uuid());
    hold.execute(&mut *holder).await?;
    let mut batch: Vec<Write> = recorded.iter().copied().map(step).collect();
    batch.push(end(ended));
    let committing = fixture.backend.commit(&batch);
    let meanwhile = async {
        until_one_waits(&fixture, "transactionid").await?;
        let claimed = other.claim(100).await?;
        assert_eq!(runs(&claimed), [], "between the fence and the commit of its worker");
        TestResult::Ok(holder.rollback().await?)
    };
    let (outcomes, meanwhile) = tokio::join!(committing, meanwhile);
    meanwhile?;
    let outcomes = outcomes?;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied)), "{outcomes:?}");

    assert_eq!(runs(&other.claim(100).await?), ids(&recorded));
    let late = fixture.backend.commit(&batch[..FEW]).await?;
    assert!(late.iter().all(|outcome| matches!(outcome, Outcome::Lost)), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn a_batch_waits_for_who_takes_a_run_of_its_worker() -> TestResult {
    let fixture = fixture().await?;
    let recorded = claims(&fixture).await?;
    fixture.clock.advance(LEASE * 2);
    let mut other = fixture.connect().await?;
    let mut taker = other.begin().await?;
    let request = ClaimRequest { worker: WorkerId::generate(), lanes: vec![lane()], limit: 100, lease: LEASE };
    let sql = &fixture.backend.sql;
    let claimed = claim::claim(&mut taker, sql, &fixture.clock, &request).await;
    let claimed = claimed.map_err(|failure| failure.during("claim"))?;
    assert_eq!(runs(&claimed.runs), ids(&recorded));

    let batch: Vec<Write> = recorded.iter().copied().map(step).collect();
    let committing = fixture.backend.commit(&batch);
    let meanwhile = async {
        until_one_waits(&fixture, "advisory").await?;
        TestResult::Ok(taker.commit().await?)
    };
    let (outcomes, meanwhile) = tokio::join!(committing, meanwhile);
    meanwhile?;
    let outcomes = outcomes?;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Lost)), "{outcomes:?}");
    assert!(fixture.backend.history(recorded[0].run_id).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_run_of_a_worker_that_is_not_ours_is_locked_itself() -> TestResult {
    let fixture = fixture().await?;
    let other = neighbour(&fixture).await?;
    let claimed = claims(&fixture).await?;
    // The neighbour knows a worker, but not the one that holds the run.
    other.claim(1).await?;
    let mut third = fixture.connect().await?;
    let mut holder = third.begin().await?;
    let hold = format!("SELECT FROM {}.workflow_runs WHERE id = $1 FOR UPDATE", fixture.schema);
    sqlx::query(sqlx::AssertSqlSafe(hold)).bind(claimed[FEW / 2].run_id.as_uuid()).execute(&mut *holder).await?;
    let batch: Vec<Write> = claimed.iter().copied().map(step).collect();
    let committing = other.backend.commit(&batch);
    let meanwhile = async {
        until_one_waits(&fixture, "transactionid").await?;
        TestResult::Ok(holder.rollback().await?)
    };
    let (outcomes, meanwhile) = tokio::join!(committing, meanwhile);
    meanwhile?;
    let outcomes = outcomes?;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied)), "{outcomes:?}");
    Ok(())
}
