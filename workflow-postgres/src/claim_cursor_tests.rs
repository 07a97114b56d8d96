//! A claim that resumes where the last one ended passes over no run for long.

use std::time::Duration;

use workflow_engine::model::{AttemptStatus, Claim, NewRun, RunId, StartTime, WorkerId};
use workflow_engine::store::{ClaimedRun, Outcome, Store, Write};

use super::fixture_tests::{Fixture, START, TestResult, attempt, claim_write, new_run, recorded_fixture};

/// Returns a fixture whose claims resume however long the test takes, and a claim for steps beside
/// them.
async fn busy_fixture() -> TestResult<(Fixture, Claim)> {
    let fixture = recorded_fixture().await?;
    let busy = fixture.started_claim().await?;
    fixture.store.resume_claims_within(Duration::MAX);
    Ok((fixture, busy))
}

/// Starts a run that has been due for this many seconds.
async fn due_since(fixture: &Fixture, seconds: u64) -> TestResult<RunId> {
    let start = StartTime::At(START - Duration::from_secs(seconds));
    let run = NewRun { start, ..new_run() };
    let id = run.id;
    fixture.commit(Write::Start(run)).await?;
    Ok(id)
}

/// Ends the lease of this run, under a worker other than the fixture's.
async fn lapse(fixture: &Fixture, run: RunId) -> TestResult {
    let before = START.as_micros() - 1;
    let change = format!("SET available_at = {before}, worker_id = gen_random_uuid() WHERE id = '{run}'");
    fixture.execute(&format!("UPDATE {{schema}}.workflow_runs {change}")).await
}

/// Claims in a batch with a step of another run, as a busy worker does.
async fn claim_beside(fixture: &Fixture, busy: Claim, worker: WorkerId, limit: u32) -> TestResult<Vec<RunId>> {
    claim_within(fixture, &[step(busy), claim_write(worker, limit)]).await
}

/// Returns a step with a new key that took no time. The table can have no row of it, so a batch of
/// such steps has the shortest statement.
fn step(busy: Claim) -> Write {
    let mut step = attempt(busy, &RunId::generate().to_string(), AttemptStatus::Succeeded, Some("1"));
    if let Write::Attempt(write) = &mut step {
        write.row.completed_at = Some(write.row.started_at);
    }
    step
}

/// Returns the runs of the claim that comes last in this batch.
async fn claim_within(fixture: &Fixture, batch: &[Write]) -> TestResult<Vec<RunId>> {
    match &fixture.store.commit(batch).await?[..] {
        [Outcome::Applied, .., Outcome::Claimed(claimed)] => {
            let id = |run: &ClaimedRun| run.claim.run_id;
            Ok(claimed.runs.iter().map(id).collect())
        }
        outcomes => Err(format!("{outcomes:?}").into()),
    }
}

#[tokio::test]
async fn a_claim_that_follows_a_full_one_resumes_where_it_ended() -> TestResult {
    let (fixture, busy) = busy_fixture().await?;
    let (first, second) = (due_since(&fixture, 30).await?, due_since(&fixture, 20).await?);
    let third = due_since(&fixture, 20).await?;
    assert_eq!(claim_beside(&fixture, busy, fixture.worker, 2).await?, [first, second]);
    let passed_over = [due_since(&fixture, 40).await?, due_since(&fixture, 25).await?];
    assert_eq!(
        claim_beside(&fixture, busy, fixture.worker, 1).await?,
        [third],
        "the run has been due as long, and its id comes next"
    );
    assert_eq!(
        claim_beside(&fixture, busy, fixture.worker, 5).await?,
        passed_over,
        "a claim that could take more gets all"
    );
    Ok(())
}

#[tokio::test]
async fn a_short_claim_looks_at_all_due_runs() -> TestResult {
    let (fixture, busy) = busy_fixture().await?;
    let first = due_since(&fixture, 30).await?;
    assert_eq!(claim_beside(&fixture, busy, fixture.worker, 1).await?, [first]);
    let (second, longest_due) = (due_since(&fixture, 20).await?, due_since(&fixture, 40).await?);
    assert_eq!(claim_beside(&fixture, busy, fixture.worker, 2).await?, [longest_due, second]);
    let last = due_since(&fixture, 50).await?;
    assert_eq!(
        claim_beside(&fixture, busy, fixture.worker, 1).await?,
        [last],
        "the claim begins at the beginning again"
    );
    Ok(())
}

#[tokio::test]
async fn another_worker_of_the_process_begins_at_the_beginning() -> TestResult {
    let (fixture, busy) = busy_fixture().await?;
    let (first, second) = (due_since(&fixture, 30).await?, due_since(&fixture, 20).await?);
    assert_eq!(claim_beside(&fixture, busy, fixture.worker, 1).await?, [first]);
    let longest_due = due_since(&fixture, 40).await?;
    let other = WorkerId::generate();
    assert_eq!(claim_beside(&fixture, busy, other, 1).await?, [longest_due]);
    assert_eq!(claim_beside(&fixture, busy, other, 1).await?, [second]);
    Ok(())
}

#[tokio::test]
async fn a_run_whose_lease_has_ended_is_not_passed_over_for_long() -> TestResult {
    let (fixture, busy) = busy_fixture().await?;
    let lapsed = due_since(&fixture, 60).await?;
    assert_eq!(claim_beside(&fixture, busy, WorkerId::generate(), 1).await?, [lapsed]);
    let first = due_since(&fixture, 30).await?;
    assert_eq!(claim_beside(&fixture, busy, fixture.worker, 1).await?, [first]);
    let (second, third) = (due_since(&fixture, 20).await?, due_since(&fixture, 10).await?);
    lapse(&fixture, lapsed).await?;
    assert_eq!(claim_beside(&fixture, busy, fixture.worker, 1).await?, [second]);
    assert_eq!(claim_beside(&fixture, busy, fixture.worker, 5).await?, [lapsed, third]);
    lapse(&fixture, lapsed).await?;
    assert_eq!(
        claim_beside(&fixture, busy, WorkerId::generate(), 1).await?,
        [lapsed],
        "the claim begins at the beginning"
    );
    Ok(())
}

#[tokio::test]
async fn a_claim_beside_starts_resumes_too() -> TestResult {
    let (fixture, busy) = busy_fixture().await?;
    let (first, second) = (due_since(&fixture, 30).await?, due_since(&fixture, 20).await?);
    let third = due_since(&fixture, 10).await?;
    let start = || Write::Start(new_run());
    assert_eq!(claim_within(&fixture, &[step(busy), start(), claim_write(fixture.worker, 1)]).await?, [first]);
    let longest_due = due_since(&fixture, 40).await?;
    assert_eq!(claim_within(&fixture, &[step(busy), start(), claim_write(fixture.worker, 1)]).await?, [second]);
    let claimed = claim_within(&fixture, &[step(busy), start(), claim_write(fixture.worker, 5)]).await?;
    assert!(claimed.len() == 5 && claimed[..2] == [longest_due, third], "{claimed:?}");
    Ok(())
}
