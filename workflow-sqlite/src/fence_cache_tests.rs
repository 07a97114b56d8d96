#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use workflow_engine::model::{AttemptStatus, Claim, WorkerId};
use workflow_engine::store::{Outcome, Store, Write};

use super::fixture_tests::*;

fn step(claim: Claim, key: &str) -> Write {
    attempt_write(claim, key, AttemptStatus::Succeeded, Some("1"))
}

/// Returns a store with these claims in its cache, after enough commits without another process.
async fn with_cached_claims(runs: u32) -> (Fixture, Vec<Claim>) {
    let f = Fixture::file().await;
    let starts: Vec<Write> = (0..runs).map(|_| Write::Start(new_run())).collect();
    f.store.commit(&starts).await.unwrap();
    let claims: Vec<Claim> = f.claim(WorkerId::generate(), runs).await.into_iter().map(|run| run.claim).collect();
    for number in 0..40 {
        let writes: Vec<Write> = claims.iter().map(|claim| step(*claim, &format!("before {number}"))).collect();
        applied(&f.store.commit(&writes).await.unwrap());
    }
    assert_eq!(cached(&f, &claims).await, claims.len());
    (f, claims)
}

/// Returns how many of these claims are known to hold.
async fn cached(f: &Fixture, claims: &[Claim]) -> usize {
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let cached = claims.iter().filter(|claim| writer.fence_cache().holds(**claim)).count();
    writer.keep(&[], Default::default(), &[]);
    drop(writer);
    cached
}

fn applied(outcomes: &[Outcome]) {
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied)), "{outcomes:?}");
}

/// Commits steps of two claims, of which the first one is lost.
async fn first_is_lost(f: &Fixture, claims: &[Claim]) {
    let outcomes = f.store.commit(&[step(claims[0], "late"), step(claims[1], "late")]).await.unwrap();
    assert!(matches!(outcomes[..], [Outcome::Lost | Outcome::Duplicate, Outcome::Applied]), "{outcomes:?}");
    assert_eq!(f.store.history(claims[0].run_id).await.unwrap().iter().filter(|row| row.step_key == "late").count(), 0);
}

#[tokio::test]
async fn claims_that_another_process_takes_leave_the_cache_if_the_writer_looked_before_the_batch() {
    let (f, claims) = with_cached_claims(2).await;
    f.second_process().await.commit(&[Write::Terminate(claims[0].run_id)]).await.unwrap();
    assert!(f.store.database.writer.try_look().await.unwrap());
    first_is_lost(&f, &claims).await;
}

#[tokio::test]
async fn the_cache_compares_epochs() {
    let (f, claims) = with_cached_claims(2).await;
    f.clock.advance(LEASE + Duration::from_secs(1));
    let again = f.store.commit(&[step(claims[1], "beside"), claim_write(WorkerId::generate(), 1)]).await.unwrap();
    let [Outcome::Applied, Outcome::Claimed(claimed)] = &again[..] else { panic!("{again:?}") };
    let taken = claimed.runs[0].claim;
    assert_eq!(cached(&f, &[taken]).await, 1);
    let (old, other) = if taken.run_id == claims[0].run_id { (claims[0], claims[1]) } else { (claims[1], claims[0]) };
    first_is_lost(&f, &[old, other]).await;
}

#[tokio::test]
async fn a_failed_batch_empties_the_cache() {
    let (f, claims) = with_cached_claims(2).await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let refuse = sqlx::query("CREATE UNIQUE INDEX one_a_key ON step_attempts (step_key) WHERE step_key = 'twice'");
    refuse.execute(writer.connection().unwrap()).await.unwrap();
    writer.keep(&[], Default::default(), &[]);
    drop(writer);
    let refused = f.store.commit(&[step(claims[0], "twice"), step(claims[1], "twice")]).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(cached(&f, &claims).await, 0);
}
