#![allow(clippy::unwrap_used, clippy::panic)]

use workflow_engine::model::{AttemptStatus, Claim, RunStatus, WorkerId};
use workflow_engine::store::{Outcome, Store, Write};

use super::fixture_tests::*;
use super::sql;

/// Returns an attempt under this claim, with a key of its own.
fn step(claim: Claim, number: usize) -> Write {
    attempt_write(claim, &format!("s{number}"), AttemptStatus::Succeeded, Some("1"))
}

async fn claimed(f: &Fixture, runs: u32) -> Vec<Claim> {
    let starts: Vec<Write> = (0..runs).map(|_| Write::Start(new_run())).collect();
    f.store.commit(&starts).await.unwrap();
    f.claim(WorkerId::generate(), runs).await.into_iter().map(|run| run.claim).collect()
}

fn all_applied(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied))
}

#[tokio::test]
async fn any_number_of_attempts_is_written() {
    // Around the sizes of the texts, and above the largest one.
    for count in [1, 2, 16, 17, 64, 65, 256, 257, 512, 513, 1100] {
        let f = Fixture::file().await;
        let claim = f.started_and_claimed().await;
        let mut writes: Vec<Write> = (0..count).map(|number| step(claim, number)).collect();
        writes.push(end_write(claim, "2"));
        assert!(all_applied(&f.store.commit(&writes).await.unwrap()), "{count}");
        assert_eq!(f.store.history(claim.run_id).await.unwrap().len(), count);
        assert_eq!(f.run(claim.run_id).await.status, RunStatus::Succeeded);
    }
}

/// Where no limit is declared, only a start looks for one: `max_waiting` may have been set since.
#[test]
fn batches_read_nothing_of_limits() {
    let tables = ["queues", "gates", "turns", "limits", "seats", "line_rates"];
    for script in [sql::FAST_BATCH_OF_WORK, sql::CLAIM, sql::CLAIM_AND_COMMIT] {
        assert!(tables.iter().all(|table| !script.contains(&format!("workflow_{table}"))), "{script}");
    }
}

#[tokio::test]
async fn attempts_are_written_before_the_end_of_their_run() {
    let f = Fixture::file().await;
    let claims = claimed(&f, 2).await;
    let refuse = "CREATE TRIGGER too_late AFTER INSERT ON step_attempts \
         WHEN (SELECT status FROM workflow_runs WHERE id = NEW.run_id) <> 'running' \
         BEGIN SELECT RAISE(ABORT, 'too late'); END";
    let mut writer = f.store.database.writer.lock().await.unwrap();
    sqlx::query(refuse).execute(writer.connection().unwrap()).await.unwrap();
    drop(writer);
    let writes = [end_write(claims[0], "1"), park_write(claims[1], 0, START), step(claims[0], 0), step(claims[1], 0)];
    assert!(all_applied(&f.store.commit(&writes).await.unwrap()));
}

#[tokio::test]
async fn an_unreadable_run_does_not_disturb_other_writes_of_its_batch() {
    let f = Fixture::file().await;
    let claim = f.started_and_claimed().await;
    let broken = f.start().await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let damage = sqlx::query("UPDATE workflow_runs SET error = 'no JSON' WHERE id = ?").bind(broken.to_string());
    damage.execute(writer.connection().unwrap()).await.unwrap();
    drop(writer);
    let outcomes = f.store.commit(&[step(claim, 0), claim_write(WorkerId::generate(), 5)]).await.unwrap();
    assert!(matches!(outcomes[0], Outcome::Applied));
    let Outcome::Claimed(claimed) = &outcomes[1] else { panic!("{:?}", outcomes[1]) };
    assert_eq!(claimed.runs.iter().map(|run| run.claim.run_id).collect::<Vec<_>>(), [broken]);
    assert!(claimed.runs[0].unreadable.is_some(), "{claimed:?}");
    assert_eq!(f.store.history(claim.run_id).await.unwrap().len(), 1, "the row is committed, as its outcome says");
}

#[tokio::test]
async fn a_failed_batch_changes_nothing() {
    let f = Fixture::file().await;
    let claims = claimed(&f, 3).await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let refuse = sqlx::query("CREATE UNIQUE INDEX one_a_key ON step_attempts (step_key)");
    refuse.execute(writer.connection().unwrap()).await.unwrap();
    drop(writer);
    let new = new_run();
    let refused = f.store.commit(&[Write::Start(new.clone()), step(claims[0], 0), step(claims[1], 0)]).await;
    assert!(refused.is_err(), "{refused:?}");
    for claim in &claims {
        assert!(f.store.history(claim.run_id).await.unwrap().is_empty());
    }
    assert!(f.store.run(new.id).await.unwrap().is_none());
    assert!(
        all_applied(&f.store.commit(&[step(claims[2], 1), end_write(claims[2], "1")]).await.unwrap()),
        "the next batch is committed"
    );
}

#[test]
fn statements_that_write_many_rows_use_or_fail() {
    for (batch, count) in [(sql::FAST_BATCH, 5), (sql::FAST_BATCH_OF_WORK, 3)] {
        let script = [batch, sql::CLAIM_AND_COMMIT].concat();
        let writes: Vec<&str> =
            script.lines().filter(|line| ["INSERT", "UPDATE"].iter().any(|w| line.starts_with(w))).collect();
        assert_eq!(writes.len(), count, "{writes:?}");
        assert!(writes.iter().all(|line| line.contains(" OR FAIL ")), "{writes:?}");
    }
}
