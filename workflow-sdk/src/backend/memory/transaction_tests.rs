//! What joins a transaction in memory, and what commits it.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use crate::backend::memory::{MemoryDatabase, Within};
use crate::backend::{
    AttemptWrite, Backend, BackendErrorKind, ClaimRequest, Outcome, StartOutcome, StepCommit, StepTransaction, Write,
};
use crate::model::{
    AttemptStatus, Claim, Clock, Effect, Lane, NewRun, RunId, StartTime, StepAttempt, StepKind, Timestamp, WorkerId,
};

const DAWN: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn new_run(key: Option<&str>) -> NewRun {
    NewRun {
        id: RunId::generate(),
        lane: Lane { queue: "default".into(), workflow: "checkout".into(), version: "1".into() },
        input: "1".into(),
        key: key.map(Into::into),
        start: StartTime::Now,
        deadline: None,
        tags: std::collections::BTreeMap::new(),
        parent: None,
        depth: 0,
    }
}

async fn held(backend: &Arc<dyn Backend>) -> Claim {
    let run = new_run(None);
    let claim = ClaimRequest {
        worker: WorkerId::generate(),
        lanes: vec![run.lane.clone()],
        limit: 1,
        lease: Duration::from_secs(30),
    };
    let outcomes = backend.commit(&[Write::Start(run), Write::Claim(claim)]).await.unwrap();
    let Some(Outcome::Claimed(claimed)) = outcomes.last() else { panic!("{outcomes:?}") };
    claimed.runs[0].claim
}

fn outcome(claim: Claim) -> AttemptWrite {
    let row = StepAttempt {
        step_key: "debit".into(),
        attempt: 1,
        kind: StepKind::Transaction,
        status: AttemptStatus::Succeeded,
        position: Some(1),
        output: Some("1".into()),
        error: None,
        epoch: 0,
        started_at: DAWN,
        completed_at: Some(DAWN),
    };
    AttemptWrite { claim, row, effect: Effect::None }
}

async fn begin(backend: &Arc<dyn Backend>, claim: Claim) -> Box<dyn StepTransaction> {
    backend.begin(claim).await.unwrap().unwrap()
}

fn within(transaction: &mut Box<dyn StepTransaction>) -> &mut Within {
    transaction.connection().downcast_mut().unwrap()
}

#[tokio::test]
async fn what_joins_is_seen_with_the_commit_and_not_without() {
    let backend = MemoryDatabase::new(Clock::manual(DAWN)).handle();
    let claim = held(&backend).await;
    let new = new_run(Some("k"));
    for commit in [false, true] {
        let mut transaction = begin(&backend, claim).await;
        assert_eq!(within(&mut transaction).start(&*backend, &new).unwrap(), StartOutcome::Created);
        // What the transaction has done itself it finds.
        let second = within(&mut transaction).start(&*backend, &new_run(Some("k"))).unwrap();
        assert_eq!(second, StartOutcome::Existing { id: new.id, input: "1".into() });
        assert!(backend.run(new.id).await.unwrap().is_none(), "nobody else sees it");
        if commit {
            assert!(matches!(transaction.commit(outcome(claim)).await, StepCommit::Committed));
        } else {
            transaction.roll_back().await;
        }
        assert_eq!(backend.run(new.id).await.unwrap().is_some(), commit);
    }
    // The row is final, so nothing of another transaction for it is committed.
    let mut transaction = begin(&backend, claim).await;
    let late = new_run(None);
    within(&mut transaction).start(&*backend, &late).unwrap();
    assert!(matches!(transaction.commit(outcome(claim)).await, StepCommit::Unknown(_)));
    assert!(backend.run(late.id).await.unwrap().is_none());
}

#[tokio::test]
async fn what_was_told_and_is_no_longer_true_is_not_committed() {
    let backend = MemoryDatabase::new(Clock::manual(DAWN)).handle();
    let claim = held(&backend).await;
    let mut transaction = begin(&backend, claim).await;
    let (new, other) = (new_run(Some("k")), new_run(Some("k")));
    assert_eq!(within(&mut transaction).start(&*backend, &new).unwrap(), StartOutcome::Created);
    backend.commit(&[Write::Start(other)]).await.unwrap();
    let commit = transaction.commit(outcome(claim)).await;
    assert!(matches!(&commit, StepCommit::RolledBack(error) if error.kind == BackendErrorKind::Busy), "{commit:?}");
    assert_eq!(backend.history(claim.run_id).await.unwrap(), []);
    assert!(backend.run(new.id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_run_of_another_database_is_refused() {
    let backend = MemoryDatabase::new(Clock::manual(DAWN)).handle();
    let other = MemoryDatabase::new(Clock::manual(DAWN)).handle();
    let claim = held(&backend).await;
    let mut transaction = begin(&backend, claim).await;
    let error = within(&mut transaction).start(&*other, &new_run(None)).unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::Invalid);
    assert!(!transaction.belongs_to(&*other) && transaction.belongs_to(&*backend));
}
