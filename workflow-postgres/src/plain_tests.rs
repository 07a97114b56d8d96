//! That a batch of ordinary writes in one statement is what its writes are one by one, whatever comes between.

use sqlx::{AssertSqlSafe, Connection};

use workflow_engine::model::{AttemptStatus, Claim, ErrorKind, RunStatus, StepAttempt, StoredError, WorkerId};
use workflow_engine::store::{AttemptWrite, EndWrite, Outcome, ParkWrite, RunEnd, Store, Write};

use super::fixture_tests::{
    Fixture, LEASE, START, TestResult, all_applied, attempt, claim_write, end, knowing, new_run, recorded_fixture, step,
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

/// What becomes of a batch, if this statement of another session changes the run `$1` after the batch has begun and before it writes
/// the run.
async fn with_change(fixture: &Fixture, batch: &[Write], run: Claim, change: &str) -> TestResult<Vec<Outcome>> {
    let mut other = fixture.connect().await?;
    let mut changing = other.begin().await?;
    let change = AssertSqlSafe(change.replace("{schema}", &fixture.schema));
    sqlx::query(change).bind(run.run_id.as_uuid()).execute(&mut *changing).await?;
    fixture.commit_while(1, batch, async { Ok(changing.commit().await?) }).await
}

#[tokio::test]
async fn every_write_is_applied_and_answered_in_its_place() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(3).await?;
    let running = attempt(claims[0], "a", AttemptStatus::Running, None);
    fixture.commit(running).await?;
    let (run, worker) = (new_run(), WorkerId::generate());
    let batch = [claim_write(worker, 5), end(claims[1]), step(claims[0]), Write::Start(run.clone()), park(claims[2])];
    let outcomes = fixture.store.commit(&batch).await?;
    assert!(
        matches!(&outcomes[0], Outcome::Claimed(claimed) if claimed.runs[0].claim.run_id == run.id),
        "{outcomes:?}"
    );
    assert!(matches!(outcomes[3], Outcome::Started(_)), "{outcomes:?}");
    assert!(all_applied(&outcomes[1..3]) && all_applied(&outcomes[4..]), "{outcomes:?}");
    let history = fixture.store.history(claims[0].run_id).await?;
    assert!(history.len() == 1 && history[0].status == AttemptStatus::Succeeded, "{history:?}");
    for (claim, status) in claims.into_iter().zip([RunStatus::Running, RunStatus::Succeeded, RunStatus::Parked]) {
        assert_eq!(fixture.store.run(claim.run_id).await?.map(|run| run.status), Some(status));
    }
    Ok(())
}

#[tokio::test]
async fn attempts_come_before_the_end_of_their_claim_wherever_they_stand() -> TestResult {
    let fixture = recorded_fixture().await?;
    let refuse = "CREATE FUNCTION {schema}.too_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF (SELECT status FROM {schema}.workflow_runs WHERE id = NEW.run_id) <> 'running' THEN RAISE 'too late'; END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER too_late AFTER INSERT ON {schema}.step_attempts
             FOR EACH ROW EXECUTE FUNCTION {schema}.too_late();";
    fixture.execute(refuse).await?;
    let claims = fixture.started_claims(3).await?;
    let batch = [end(claims[0]), park(claims[1]), step(claims[0]), step(claims[1]), step(claims[2])];
    let outcomes = fixture.store.commit(&batch).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    Ok(())
}

/// A worker that was stopped for longer than its lease finds its runs due, and has what they recorded before on its way. Whoever looks when
/// the statement has ended finds the later epoch, though nobody else took them.
#[tokio::test]
async fn what_a_batch_records_comes_before_what_it_claims_though_that_is_the_same_run() -> TestResult {
    let (fixture, claims) = knowing(2).await?;
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
    fixture.clock.advance(LEASE * 2);
    let batch = [claim_write(fixture.worker, 5), step(claims[0]), step(claims[1])];
    let outcomes = fixture.store.commit(&batch).await?;
    assert!(all_applied(&outcomes[1..]), "{outcomes:?}");
    let Outcome::Claimed(claimed) = &outcomes[0] else { return Err(format!("{outcomes:?}").into()) };
    assert!(claimed.runs.iter().all(|run| (run.claim.epoch, run.crashes) == (2, 1)), "{claimed:?}");
    assert_eq!(claimed.runs.len(), claims.len());
    let later = AssertSqlSafe(format!("SELECT epoch FROM {}.later", fixture.schema));
    let later: Vec<i64> = sqlx::query_scalar(later).fetch_all(&mut fixture.connect().await?).await?;
    assert_eq!(later, [2, 2]);
    Ok(())
}

#[tokio::test]
async fn one_claim_that_is_lost_disturbs_no_other_write_of_its_batch() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(20).await?;
    let lost = Claim { epoch: 7, ..claims[10] };
    for bad in [step(lost), end(lost), park(lost)] {
        let mut batch: Vec<Write> = claims.iter().copied().map(step).collect();
        batch[10] = bad;
        batch.push(Write::Start(new_run()));
        batch.push(claim_write(WorkerId::generate(), 5));
        let outcomes = fixture.store.commit(&batch).await?;
        assert!(matches!(outcomes[10], Outcome::Lost), "{outcomes:?}");
        assert!(all_applied(&outcomes[..10]) && all_applied(&outcomes[11..20]), "{outcomes:?}");
        assert!(matches!(&outcomes[21], Outcome::Claimed(claimed) if claimed.runs.len() == 1), "{outcomes:?}");
        assert!(fixture.store.history(lost.run_id).await?.is_empty(), "nothing of what was rolled back is left");
    }
    Ok(())
}

/// Steps that end the moment they begin, of which one has a row that nobody would expect: a crash was quicker than its body, or the
/// answer to its commit was lost.
#[tokio::test]
async fn an_attempt_that_is_there_against_all_expectation_is_not_written_twice() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(2).await?;
    let quick = |claim: Claim, output: &str| {
        let mut write = attempt(claim, "a", AttemptStatus::Succeeded, Some(output));
        if let Write::Attempt(write) = &mut write {
            write.row.completed_at = Some(START);
        }
        write
    };
    fixture.commit(quick(claims[0], "1")).await?;
    fixture.commit(attempt(claims[1], "b", AttemptStatus::Running, None)).await?;
    fixture.watch_attempts().await?;
    let shown = Write::Attempt(match quick(claims[1], "2") {
        Write::Attempt(write) => AttemptWrite { row: StepAttempt { step_key: "b".into(), ..write.row }, ..write },
        other => return Err(format!("{other:?}").into()),
    });
    for batch in [vec![quick(claims[0], "2"), quick(claims[1], "2")], vec![shown, quick(claims[1], "3")]] {
        let outcomes = fixture.store.commit(&batch).await?;
        assert!(all_applied(&outcomes), "{outcomes:?}");
    }
    let rows = fixture.store.history(claims[0].run_id).await?;
    let mut outputs: Vec<_> = rows.into_iter().map(|row| (row.step_key, row.output)).collect();
    outputs.extend(fixture.store.history(claims[1].run_id).await?.into_iter().map(|row| (row.step_key, row.output)));
    outputs.sort();
    assert_eq!(outputs, [("a", "1"), ("a", "2"), ("b", "2")].map(|(key, output)| (key.into(), Some(output.into()))));
    assert_eq!(fixture.plain_batches().await?.0, 0, "both went the long way");
    Ok(())
}

#[tokio::test]
async fn rows_of_attempts_that_have_shown_and_of_new_ones_are_one_statement() -> TestResult {
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
    assert_eq!(fixture.plain_batches().await?, (2, 2));
    Ok(())
}

/// A batch of first successes and of ends without an error has a shorter statement, which has no columns for anything else.
#[tokio::test]
async fn what_is_not_usual_is_written_as_it_is() -> TestResult {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(4).await?;
    let quick = |claim: Claim, change: &dyn Fn(&mut StepAttempt)| {
        let mut write = step(claim);
        if let Write::Attempt(write) = &mut write {
            write.row.completed_at = Some(START);
            change(&mut write.row);
        }
        write
    };
    let known: Vec<Write> = claims.iter().map(|claim| quick(*claim, &|_| ())).collect();
    assert!(all_applied(&fixture.store.commit(&known).await?));
    fixture.watch_attempts().await?;
    let error = StoredError::new(ErrorKind::Application, "no money");
    let second = |row: &mut StepAttempt| row.attempt = 2;
    let failed = |row: &mut StepAttempt| {
        row.step_key = "b".into();
        row.status = AttemptStatus::Failed;
        row.error = Some(error.clone());
    };
    let usual = |row: &mut StepAttempt| row.step_key = "c".into();
    let failed_end = |claim| {
        let end = RunEnd::Failed(error.clone());
        Write::End(EndWrite { claim, parent_run_id: None, has_children: false, end })
    };
    let batches = [
        [quick(claims[0], &usual), quick(claims[1], &second)],
        [quick(claims[1], &usual), quick(claims[0], &failed)],
        [quick(claims[2], &usual), failed_end(claims[3])],
    ];
    for batch in &batches {
        let outcomes = fixture.store.commit(batch).await?;
        assert!(all_applied(&outcomes), "{outcomes:?}");
    }
    assert_eq!(fixture.plain_batches().await?, (3, 3));
    let mut rows = Vec::new();
    for claim in &claims[..2] {
        let history = fixture.store.history(claim.run_id).await?;
        rows.extend(history.into_iter().map(|row| (row.step_key, row.attempt, row.status, row.error)));
    }
    rows.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let succeeded = |key: &str, attempt| (key.to_owned(), attempt, AttemptStatus::Succeeded, None);
    let failed = ("b".to_owned(), 1, AttemptStatus::Failed, Some(error.clone()));
    let usual = [succeeded("c", 1), succeeded("c", 1)];
    assert_eq!(rows, [vec![succeeded("a", 1), succeeded("a", 1), succeeded("a", 2), failed], usual.into()].concat());
    let ended = fixture.store.run(claims[3].run_id).await?.ok_or("no run")?;
    assert_eq!((ended.status, ended.error), (RunStatus::Failed, Some(error)));
    Ok(())
}

#[tokio::test]
async fn an_end_beside_a_take_over_is_lost_and_nothing_else() -> TestResult {
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

#[tokio::test]
async fn more_workers_than_are_remembered_lose_nothing() -> TestResult {
    let fixture = recorded_fixture().await?;
    let mut claims = fixture.started_claims(1).await?;
    for _ in 0..9 {
        fixture.start().await?;
        claims.push(fixture.claim_for(WorkerId::generate(), 1).await?[0].claim);
    }
    let batch: Vec<Write> = claims[1..].iter().copied().map(step).chain([end(claims[0])]).collect();
    let outcomes = fixture.store.commit(&batch).await?;
    assert!(all_applied(&outcomes), "{outcomes:?}");
    Ok(())
}
