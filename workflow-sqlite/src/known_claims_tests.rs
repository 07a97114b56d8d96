#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use workflow_engine::model::{AttemptStatus, Claim, WorkerId};
use workflow_engine::store::{Outcome, Store, Write};

use super::fixture_tests::*;

fn step(claim: Claim, key: &str) -> Write {
    attempt_write(claim, key, AttemptStatus::Succeeded, Some("1"))
}

/// A store that knows that these claims hold: nobody else has committed for a while.
async fn knowing(runs: u32) -> (Fixture, Vec<Claim>) {
    let f = Fixture::file().await;
    let starts: Vec<Write> = (0..runs).map(|_| Write::Start(new_run())).collect();
    f.store.commit(&starts).await.unwrap();
    let claims: Vec<Claim> = f.claim(WorkerId::generate(), runs).await.into_iter().map(|run| run.claim).collect();
    for number in 0..40 {
        let writes: Vec<Write> = claims.iter().map(|claim| step(*claim, &format!("before {number}"))).collect();
        applied(&f.store.commit(&writes).await.unwrap());
    }
    assert_eq!(known(&f, &claims).await, claims.len());
    (f, claims)
}

/// How many of these are known to hold.
async fn known(f: &Fixture, claims: &[Claim]) -> usize {
    let writer = f.store.database.writer.lock().await.unwrap();
    let known = claims.iter().filter(|claim| writer.known().holds(**claim)).count();
    writer.keep(&[], Default::default(), &[]);
    known
}

fn applied(outcomes: &[Outcome]) {
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied)), "{outcomes:?}");
}

/// Steps of two claims, of which the first does not hold any more.
async fn first_is_lost(f: &Fixture, claims: &[Claim]) {
    let outcomes = f.store.commit(&[step(claims[0], "late"), step(claims[1], "late")]).await.unwrap();
    assert!(matches!(outcomes[..], [Outcome::Lost | Outcome::Duplicate, Outcome::Applied]), "{outcomes:?}");
    assert_eq!(f.store.history(claims[0].run_id).await.unwrap().iter().filter(|row| row.step_key == "late").count(), 0);
}

#[tokio::test]
async fn what_another_process_takes_is_not_known_any_more() {
    let (f, claims) = knowing(2).await;
    f.second_process().await.commit(&[Write::Terminate(claims[0].run_id)]).await.unwrap();
    first_is_lost(&f, &claims).await;
}

#[tokio::test]
async fn nor_is_it_where_the_writer_has_looked_before_the_batch() {
    let (f, claims) = knowing(2).await;
    f.second_process().await.commit(&[Write::Terminate(claims[0].run_id)]).await.unwrap();
    assert!(f.store.database.writer.try_look().await.unwrap());
    first_is_lost(&f, &claims).await;
}

#[tokio::test]
async fn nor_is_what_this_process_takes_by_a_batch_that_is_not_plain() {
    let (f, claims) = knowing(2).await;
    f.store.commit(&[Write::Terminate(claims[0].run_id)]).await.unwrap();
    first_is_lost(&f, &claims).await;
}

#[tokio::test]
async fn what_a_lone_end_or_a_plain_batch_ended_is_not_known_any_more() {
    let (f, claims) = knowing(4).await;
    applied(&f.store.commit(&[end_write(claims[0], "1")]).await.unwrap());
    assert_eq!(known(&f, &claims).await, 3);
    applied(&f.store.commit(&[end_write(claims[1], "1"), park_write(claims[2], 0, START)]).await.unwrap());
    assert_eq!(known(&f, &claims).await, 1);
    first_is_lost(&f, &[claims[0], claims[3]]).await;
    assert_eq!(known(&f, &claims).await, 0, "nothing is, after a batch that went the long way");
}

#[tokio::test]
async fn a_claim_is_known_by_its_epoch() {
    let (f, claims) = knowing(2).await;
    f.clock.advance(LEASE + Duration::from_secs(1));
    let again = f.store.commit(&[step(claims[1], "beside"), claim_write(WorkerId::generate(), 1)]).await.unwrap();
    let [Outcome::Applied, Outcome::Claimed(claimed)] = &again[..] else { panic!("{again:?}") };
    let taken = claimed.runs[0].claim;
    assert_eq!(known(&f, &[taken]).await, 1);
    let (old, other) = if taken.run_id == claims[0].run_id { (claims[0], claims[1]) } else { (claims[1], claims[0]) };
    first_is_lost(&f, &[old, other]).await;
}

#[tokio::test]
async fn a_batch_that_fails_leaves_nothing_known() {
    let (f, claims) = knowing(2).await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let refuse = sqlx::query("CREATE UNIQUE INDEX one_a_key ON step_attempts (step_key) WHERE step_key = 'twice'");
    refuse.execute(writer.connection().unwrap()).await.unwrap();
    writer.keep(&[], Default::default(), &[]);
    let refused = f.store.commit(&[step(claims[0], "twice"), step(claims[1], "twice")]).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(known(&f, &claims).await, 0);
}
