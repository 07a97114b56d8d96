//! Claims of one limited queue exclude each other.

use sqlx::Connection;

use workflow_engine::model::{QueueChange, QueueLimits, WorkerId};
use workflow_engine::store::{ClaimRequest, Claimed, LockedQueue, Outcome, QueueWrite, Store, Write};

use super::fixture_tests::{Fixture, LEASE, TestResult, fixture, lane};
use super::queue;

const LIMIT: u32 = 2;

async fn claim(fixture: &Fixture) -> TestResult<Claimed> {
    let worker = WorkerId::generate();
    let limited = vec![lane().queue];
    let (gated, gates_first) = (Vec::new(), Vec::new());
    let request = ClaimRequest { worker, lanes: vec![lane()], limited, gated, gates_first, limit: 10, lease: LEASE };
    match fixture.store.commit(&[Write::Claim(request)]).await?.pop() {
        Some(Outcome::Claimed(claimed)) => Ok(claimed),
        outcome => Err(format!("{outcome:?}").into()),
    }
}

#[tokio::test]
async fn a_queue_that_another_claim_counts_is_left_to_it() -> TestResult {
    let fixture = fixture().await?;
    let queue = lane().queue;
    let change = QueueChange::Declare(QueueLimits::none().concurrency(LIMIT));
    fixture.commit(Write::Queue(QueueWrite { queue: queue.clone(), change })).await?;
    for _ in 0..4 {
        fixture.start().await?;
    }
    let mut other = fixture.connect().await?;
    let mut transaction = other.begin().await?;
    let lock = queue::lock(&mut transaction, &fixture.store.sql, std::slice::from_ref(&queue)).await;
    let expected = LockedQueue { limit: Some(LIMIT), ..LockedQueue::unlimited(&queue) };
    assert_eq!(lock.map_err(|failure| failure.during("lock"))?, [expected]);

    let claimed = claim(&fixture).await?;
    assert_eq!((claimed.runs.len(), claimed.held_back), (0, vec![queue.clone()]), "it waits for nothing");
    transaction.rollback().await?;
    let claimed = claim(&fixture).await?;
    assert_eq!((claimed.runs.len(), claimed.held_back), (2, vec![queue]));
    Ok(())
}
