//! Attempts that another transaction records at the same moment.

use sqlx::Connection;

use workflow_engine::model::{AttemptStatus, Claim, Effect, StepAttempt, StepKind};
use workflow_engine::store::{AttemptWrite, DatabaseError, DatabaseErrorKind, Outcome, Store, Write};

use super::fixture_tests::{Fixture, LEASE, START, TestResult, fixture, until_one_waits};

fn attempt(claim: Claim, key: &str, status: AttemptStatus) -> Write {
    let ended = status != AttemptStatus::Running;
    let row = StepAttempt {
        step_key: key.into(),
        attempt: 1,
        kind: StepKind::Step,
        status,
        position: ended.then_some(1),
        output: ended.then(|| "1".into()),
        error: None,
        epoch: claim.epoch,
        started_at: if ended { START + LEASE } else { START },
        completed_at: ended.then_some(START + LEASE),
    };
    Write::Attempt(AttemptWrite { claim, row, effect: Effect::None })
}

/// Commits these attempts while another transaction has inserted the attempt "a" of the run, and
/// commits it once our commit waits.
async fn committed_beside_theirs(
    fixture: &Fixture,
    claim: Claim,
    ours: &[Write],
) -> TestResult<Result<Vec<Outcome>, DatabaseError>> {
    let mut other = fixture.connect().await?;
    let mut transaction = other.begin().await?;
    let insert = format!(
        "INSERT INTO {}.step_attempts (run_id, step_key, attempt, kind, status, position, output, epoch, started_at)
         VALUES ($1, 'a', 1, 'step', 'succeeded', 1, '\"theirs\"', 1, 0)",
        fixture.schema
    );
    let insert = sqlx::query(sqlx::AssertSqlSafe(insert)).bind(claim.run_id.as_uuid());
    insert.execute(&mut *transaction).await?;
    let theirs = async {
        until_one_waits(fixture).await?;
        TestResult::Ok(transaction.commit().await?)
    };
    let (committed, theirs) = tokio::join!(fixture.store.commit(ours), theirs);
    theirs?;
    Ok(committed)
}

/// The only write of a batch takes the fast path, even for a worker that is not recorded, and then
/// the slow one.
#[tokio::test]
async fn an_attempt_that_another_transaction_records_meanwhile_stays_theirs() -> TestResult {
    let fixture = fixture().await?;
    let claim = fixture.started_claim().await?;
    let outcomes = committed_beside_theirs(&fixture, claim, &[attempt(claim, "a", AttemptStatus::Succeeded)]).await??;
    assert!(matches!(outcomes[..], [Outcome::Applied]), "{outcomes:?}");
    let history = fixture.store.history(claim.run_id).await?;
    assert_eq!(history.iter().map(|row| row.output.as_deref()).collect::<Vec<_>>(), [Some("\"theirs\"")]);
    Ok(())
}

#[tokio::test]
async fn attempts_of_which_another_transaction_records_one_meanwhile_are_tried_again() -> TestResult {
    let fixture = fixture().await?;
    let claim = fixture.started_claim().await?;
    let ours = ["a", "b"].map(|key| attempt(claim, key, AttemptStatus::Succeeded));
    let refused = committed_beside_theirs(&fixture, claim, &ours).await?;
    assert!(matches!(&refused, Err(error) if error.kind == DatabaseErrorKind::Busy), "{refused:?}");
    let outcomes = fixture.store.commit(&ours).await?;
    assert!(matches!(outcomes[..], [Outcome::Applied, Outcome::Applied]), "{outcomes:?}");
    let history = fixture.store.history(claim.run_id).await?;
    assert_eq!(history[0].output.as_deref(), Some("\"theirs\""));
    Ok(())
}
