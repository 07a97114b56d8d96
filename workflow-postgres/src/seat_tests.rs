//! Batches that give out seats of one line exclude each other.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::Connection;

use workflow_engine::model::{AttemptStatus, Effect, LimitChange, LimitRule, SeatLine};
use workflow_engine::store::{AskedSeat, AttemptWrite, LimitWrite, Outcome, Store, Write};

use super::fixture_tests::{Fixture, TestResult, recorded_fixture, step};
use super::seat;

#[tokio::test]
async fn a_seat_that_another_transaction_gives_out_is_counted() -> TestResult {
    let fixture = recorded_fixture().await?;
    let change = LimitChange::Declare(LimitRule::none().concurrency(1));
    fixture.commit(Write::Limit(LimitWrite { limit: "llm".into(), change })).await?;
    let claims = fixture.started_claims(2).await?;
    let line = SeatLine { limit: "llm".into(), key: "acct-42".into() };
    let (store, clock) = (&fixture.store, &fixture.clock);
    let mut connection = fixture.connect().await?;
    let mut other = connection.begin().await?;
    let asked = AskedSeat {
        run_id: claims[0].run_id,
        step_key: "ask",
        line: &line,
        epoch: Some(claims[0].epoch),
        asks_at: None,
    };
    seat::lock(&mut other, &store.sql, &BTreeSet::from([&line])).await.map_err(|failure| failure.during("lock"))?;
    seat::write(&mut other, &store.sql, clock, &[asked]).await.map_err(|failure| failure.during("write"))?;

    let Write::Attempt(AttemptWrite { claim, mut row, .. }) = step(claims[1]) else { return Err("no attempt".into()) };
    (row.status, row.position, row.output, row.completed_at) = (AttemptStatus::Running, None, None, None);
    let ask = Write::Attempt(AttemptWrite { claim, row, effect: Effect::TakeSeat(Box::new(line.clone())) });
    let batch = [ask];
    let ends = async {
        until_a_batch_waits(&fixture).await?;
        TestResult::Ok(other.commit().await?)
    };
    let (outcomes, ended) = tokio::join!(store.commit(&batch), ends);
    let outcomes = outcomes?;
    assert!(matches!(outcomes[..], [Outcome::SeatWaits { .. }]), "{outcomes:?}");
    ended
}

/// Waits until a session waits for the lock of a line.
async fn until_a_batch_waits(fixture: &Fixture) -> TestResult {
    let mut connection = fixture.connect().await?;
    let waiting = "SELECT count(*) FROM pg_locks AS l
                   WHERE NOT l.granted AND l.locktype = 'advisory'
                     AND l.classid::bigint = hashtext('\"' || $1 || '\"' || chr(1) || 'seats')::bigint & 4294967295";
    for _ in 0..1000 {
        if sqlx::query_scalar::<_, i64>(waiting).bind(&fixture.schema).fetch_one(&mut connection).await? > 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("no batch waits".into())
}
