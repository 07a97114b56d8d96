//! Batches on the fast path while other transactions change the same rows. The differential test
//! (`tests/tests/differential`) shows that both paths have the same effect.

use sqlx::{AssertSqlSafe, Connection};

use workflow_engine::model::{AttemptStatus, Claim, GateLimits, QueueChange, QueueLimits, RunStatus};
use workflow_engine::store::{Outcome, ParkWrite, QueueWrite, Store, Write};

use super::fixture_tests::{
    Fixture, LEASE, START, TestResult, all_applied, attempt, claim_write, end, recorded_fixture, step,
    with_cached_claims,
};

fn park(claim: Claim) -> Write {
    Write::Park(ParkWrite {
        claim,
        wakes: 0,
        until: START + LEASE,
        until_deadline: false,
        error: None,
        reset_crashes: false,
    })
}

/// Commits a batch while this statement of another session changes the run `$1`: after the batch
/// has begun and before it writes the run.
async fn with_change(fixture: &Fixture, batch: &[Write], run: Claim, change: &str) -> TestResult<Vec<Outcome>> {
    let mut other = fixture.connect().await?;
    let mut changing = other.begin().await?;
    let change = AssertSqlSafe(change.replace("{schema}", &fixture.schema));
    sqlx::query(change).bind(run.run_id.as_uuid()).execute(&mut *changing).await?;
    fixture.commit_while(1, batch, async { Ok(changing.commit().await?) }).await
}

#[tokio::test]
async fn attempts_and_the_end_of_their_claim_are_one_statement() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(3).await?;
    fixture.watch_attempts().await?;
    let batch = [end(claims[0]), park(claims[1]), step(claims[0]), step(claims[1]), step(claims[2])];
    let outcomes = fixture.store.commit(&batch).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    assert_eq!(fixture.fast_batches().await?, (1, 1));
    for (claim, status) in claims.iter().zip([RunStatus::Succeeded, RunStatus::Parked, RunStatus::Running]) {
        assert_eq!(fixture.store.history(claim.run_id).await?.len(), 1);
        assert_eq!(fixture.store.run(claim.run_id).await?.map(|run| run.status), Some(status));
    }
    Ok(())
}

/// Returns a fixture with claims that its fence cache does not have.
async fn with_unknown_claims(runs: usize) -> TestResult<(Fixture, Vec<Claim>)> {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(runs).await?;
    // The slow path empties the cache.
    fixture.commit(Write::Resume(claims[0].run_id)).await?;
    assert_eq!(fixture.store.session.known(&claims), 0);
    Ok((fixture, claims))
}

#[tokio::test]
async fn an_attempt_beside_the_end_of_a_lost_claim_is_not_recorded() -> TestResult {
    for (fixture, claims) in [with_cached_claims(2).await?, with_unknown_claims(2).await?] {
        let mut other = fixture.connect().await?;
        // As a claim of a lapsed lease does (`ownership.rs`).
        for change in [
            "UPDATE {schema}.workflow_workers SET started_at = started_at",
            "UPDATE {schema}.workflow_runs SET epoch = epoch + 1 WHERE id = $1",
        ] {
            let query = sqlx::query(AssertSqlSafe(change.replace("{schema}", &fixture.schema)));
            let query = if change.contains("$1") { query.bind(claims[0].run_id.as_uuid()) } else { query };
            query.execute(&mut other).await?;
        }
        for neighbours in [vec![], vec![step(claims[1])]] {
            let batch: Vec<Write> = [step(claims[0]), end(claims[0])].into_iter().chain(neighbours).collect();
            let outcomes = fixture.store.commit(&batch).await?;
            assert!(matches!(outcomes[..2], [Outcome::Lost, Outcome::Lost]), "{outcomes:?}");
            assert!(all_applied(&outcomes[2..]), "{outcomes:?}");
        }
        let history = fixture.store.history(claims[0].run_id).await?;
        assert!(history.iter().all(|row| row.step_key == "before"), "{history:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_end_of_a_claim_leaves_no_claim_in_the_cache() -> TestResult {
    let (fixture, claims) = with_unknown_claims(2).await?;
    let outcomes = fixture.store.commit(&[step(claims[0]), end(claims[0]), step(claims[1])]).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    assert_eq!(fixture.store.session.known(&claims), 1);
    Ok(())
}

#[tokio::test]
async fn attempts_of_a_run_are_recorded_though_the_batch_claims_the_run_anew() -> TestResult {
    let (fixture, claims) = with_cached_claims(2).await?;
    fixture
        .execute(
            "CREATE TABLE {schema}.later (epoch bigint);
             CREATE FUNCTION {schema}.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO {schema}.later SELECT r.epoch FROM {schema}.workflow_runs AS r
                 WHERE r.id = NEW.run_id AND r.epoch <> NEW.epoch AND r.xmin = pg_current_xact_id()::xid;
                 RETURN NULL;
             END $$;
             CREATE TRIGGER look AFTER INSERT ON {schema}.step_attempts FOR EACH ROW EXECUTE FUNCTION {schema}.look();",
        )
        .await?;
    // A claim that is not full, so that the next one begins at the beginning.
    fixture.store.commit(&[claim_write(fixture.worker, 5)]).await?;
    fixture.clock.advance(LEASE * 2);
    let batch = [claim_write(fixture.worker, 5), step(claims[0]), step(claims[1])];
    let outcomes = fixture.store.commit(&batch).await?;
    assert!(all_applied(&outcomes[1..]), "{outcomes:?}");
    let Outcome::Claimed(claimed) = &outcomes[0] else { return Err(format!("{outcomes:?}").into()) };
    assert!(claimed.runs.iter().all(|run| (run.claim.epoch, run.crashes) == (2, 0)), "{claimed:?}");
    assert_eq!(claimed.runs.len(), claims.len());
    let later = AssertSqlSafe(format!("SELECT epoch FROM {}.later", fixture.schema));
    let later: Vec<i64> = sqlx::query_scalar(later).fetch_all(&mut fixture.connect().await?).await?;
    assert_eq!(later, [2, 2]);
    Ok(())
}

#[tokio::test]
async fn new_attempts_and_running_ones_are_one_statement() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(3).await?;
    let running: Vec<Write> =
        claims[..2].iter().map(|claim| attempt(*claim, "a", AttemptStatus::Running, None)).collect();
    fixture.watch_attempts().await?;
    for batch in [running, claims.iter().copied().map(step).collect()] {
        let outcomes = fixture.store.commit(&batch).await?;
        assert!(all_applied(&outcomes), "{outcomes:?}");
    }
    for claim in claims {
        let history = fixture.store.history(claim.run_id).await?;
        assert!(history.len() == 1 && history[0].status == AttemptStatus::Succeeded, "{history:?}");
    }
    assert_eq!(fixture.fast_batches().await?, (2, 2));
    Ok(())
}

#[tokio::test]
async fn a_limited_queue_adds_no_statement_to_batches_of_another_one() -> TestResult {
    let fixture = recorded_fixture().await?;
    let limits = QueueLimits::none().concurrency(1).per_gate(GateLimits::none().concurrency(1));
    let change = QueueChange::Declare(limits);
    fixture.commit(Write::Queue(QueueWrite { queue: "mail".into(), change })).await?;
    let claims = fixture.started_claims(2).await?;
    fixture.start().await?;
    fixture.watch_attempts().await?;
    let batch = [claim_write(fixture.worker, 5), step(claims[0]), end(claims[1])];
    let outcomes = fixture.store.commit(&batch).await?;
    let Outcome::Claimed(claimed) = &outcomes[0] else { return Err(format!("{outcomes:?}").into()) };
    assert_eq!(claimed.runs.len(), 1);
    assert!(all_applied(&outcomes[1..]), "{outcomes:?}");
    assert_eq!(fixture.fast_batches().await?, (1, 1));
    Ok(())
}

#[tokio::test]
async fn an_end_beside_a_take_over_is_lost_and_its_neighbours_are_applied() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(2).await?;
    let take = "UPDATE {schema}.workflow_runs SET epoch = epoch + 1 WHERE id = $1";
    let outcomes = with_change(&fixture, &[step(claims[0]), end(claims[1])], claims[1], take).await?;
    assert!(matches!(outcomes[..], [Outcome::Applied, Outcome::Lost]), "{outcomes:?}");
    assert_eq!(fixture.store.history(claims[0].run_id).await?.len(), 1);
    assert_eq!(fixture.store.run(claims[1].run_id).await?.map(|run| run.status), Some(RunStatus::Running));
    Ok(())
}

#[tokio::test]
async fn a_wake_beside_a_park_is_not_lost() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(2).await?;
    let wake = "UPDATE {schema}.workflow_runs SET wakes = wakes + 1 WHERE id = $1";
    let outcomes = with_change(&fixture, &[step(claims[0]), park(claims[1])], claims[1], wake).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    assert_eq!(fixture.store.run(claims[1].run_id).await?.map(|run| run.available_at), Some(START));
    Ok(())
}
