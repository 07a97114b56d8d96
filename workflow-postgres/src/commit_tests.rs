//! Batches on PostgreSQL beside the conformance list: keys, refused data, dropped commits and the
//! application's transaction.

use std::time::Duration;

use sqlx::Connection;

use workflow_engine::model::{AttemptStatus, NewRun};
use workflow_engine::store::{DatabaseErrorKind, Outcome, StartOutcome, Store, Write};

use super::PostgresStore;
use super::fixture_tests::{TestResult, attempt, end, fixture, fixture_with_pool, new_run};

fn keyed(key: &str) -> NewRun {
    NewRun { key: Some(key.into()), ..new_run() }
}

#[tokio::test]
async fn concurrent_batches_with_the_same_keys_in_other_orders_do_not_deadlock() -> TestResult {
    let fixture = fixture().await?;
    let batch = |offset: usize| -> Vec<Write> {
        (0..50).map(|n| Write::Start(keyed(&format!("order-{}", (n * 7 + offset) % 50)))).collect()
    };
    let batches: Vec<_> = (0..8).map(batch).collect();
    let commits = batches.iter().map(|writes| fixture.store.commit(writes));
    let outcomes: Vec<_> = futures::future::try_join_all(commits).await?.into_iter().flatten().collect();
    let created = outcomes.iter().filter(|o| matches!(o, Outcome::Started(StartOutcome::Created)));
    assert_eq!(created.count(), 50);
    Ok(())
}

#[tokio::test]
async fn refused_data_fails_the_batch_and_changes_nothing() -> TestResult {
    let fixture = fixture_with_pool(1).await?;
    let claim = fixture.started_claim().await?;
    let fresh = new_run();
    let batch = [Write::Start(fresh.clone()), attempt(claim, "nul \0", AttemptStatus::Running, None)];
    let refused = fixture.store.commit(&batch).await;
    assert!(matches!(&refused, Err(error) if error.kind == DatabaseErrorKind::Invalid), "{refused:?}");
    assert_eq!(fixture.store.run(fresh.id).await?, None);
    let ended = fixture.commit(end(claim)).await?;
    assert!(matches!(ended, Outcome::Applied), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn a_dropped_commit_leaves_no_half_used_connection() -> TestResult {
    let fixture = fixture_with_pool(1).await?;
    for polls in 1..40 {
        let batch: Vec<Write> = (0..20).map(|_| Write::Start(new_run())).collect();
        let mut commit = Box::pin(fixture.store.commit(&batch));
        for _ in 0..polls {
            if futures::poll!(commit.as_mut()).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        drop(commit);
        let claimed = fixture.claim(3).await?;
        assert!(claimed.iter().all(|run| run.claim.epoch == 1), "this is the answer of another call");
    }
    Ok(())
}

#[tokio::test]
async fn a_start_belongs_to_the_applications_transaction() -> TestResult {
    let fixture = fixture().await?;
    let mut connection = fixture.connect().await?;
    for (commits, run) in [(false, keyed("a")), (true, keyed("a"))] {
        let mut transaction = connection.begin().await?;
        let outcome = fixture.store.write_within(&mut transaction, &Write::Start(run.clone())).await?;
        assert!(matches!(outcome, Outcome::Started(StartOutcome::Created)), "{outcome:?}");
        if commits {
            transaction.commit().await?
        } else {
            transaction.rollback().await?
        }
        assert_eq!(fixture.store.run(run.id).await?.is_some(), commits);
    }
    let elsewhere = PostgresStore { sql: super::sql::Sql::load("nowhere").into(), ..fixture.store };
    let refused = elsewhere.write_within(&mut connection, &Write::Start(new_run())).await;
    assert!(matches!(&refused, Err(error) if error.kind == DatabaseErrorKind::Invalid), "{refused:?}");
    Ok(())
}
