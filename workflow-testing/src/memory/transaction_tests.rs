//! Writes that join a transaction in memory, and its commit.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use crate::memory::MemoryDatabase;
use workflow_engine::model::{
    AttemptStatus, Claim, Clock, Effect, KeyReuse, Lane, NewRun, RunId, StartTime, StepAttempt, StepKind, Timestamp,
    WorkerId,
};
use workflow_engine::store::{
    AttemptWrite, ClaimRequest, DatabaseErrorKind, ForeignTransaction, Outcome, StartOutcome, StepCommit,
    StepTransaction, Store, WithinError, Write,
};

const DAWN: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn new_run(key: Option<&str>) -> NewRun {
    NewRun {
        gate: None,
        id: RunId::generate(),
        lane: Lane { queue: "default".into(), workflow: "checkout".into(), version: "1".into() },
        input: "1".into(),
        key: key.map(Into::into),
        key_reuse: KeyReuse::Never,
        single: None,
        priority: None,
        start: StartTime::Now,
        deadline: None,
        tags: std::collections::BTreeMap::new(),
        parent: None,
        depth: 0,
        trace: None,
    }
}

async fn held(store: &Arc<dyn Store>) -> Claim {
    let run = new_run(None);
    let claim = ClaimRequest {
        worker: WorkerId::generate(),
        lanes: vec![run.lane.clone()],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit: 1,
        lease: Duration::from_secs(30),
    };
    let outcomes = store.commit(&[Write::Start(run), Write::Claim(claim)]).await.unwrap();
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

async fn begin(store: &Arc<dyn Store>, claim: Claim) -> Box<dyn StepTransaction> {
    store.begin(claim).await.unwrap().unwrap()
}

async fn start(
    transaction: &mut Box<dyn StepTransaction>,
    store: &Arc<dyn Store>,
    run: &NewRun,
) -> Result<StartOutcome, WithinError> {
    let (database, origin) = (transaction.database(), Some(transaction.store()));
    let foreign = ForeignTransaction { connection: transaction.connection(), database, origin };
    match store.commit_within(foreign, &Write::Start(run.clone())).await? {
        Outcome::Started(outcome) => Ok(outcome),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn joined_writes_are_seen_after_a_commit_and_not_after_a_roll_back() {
    let store = MemoryDatabase::new(Clock::manual(DAWN)).handle();
    let claim = held(&store).await;
    let new = new_run(Some("k"));
    for commit in [false, true] {
        let mut transaction = begin(&store, claim).await;
        assert_eq!(start(&mut transaction, &store, &new).await.unwrap(), StartOutcome::Created);
        // The transaction finds its own write.
        let second = start(&mut transaction, &store, &new_run(Some("k"))).await.unwrap();
        assert_eq!(second, StartOutcome::Existing { id: new.id, input: "1".into() });
        assert!(store.run(new.id).await.unwrap().is_none(), "other calls do not see it");
        if commit {
            assert!(matches!(transaction.commit(outcome(claim)).await, StepCommit::Committed));
        } else {
            transaction.roll_back().await;
        }
        assert_eq!(store.run(new.id).await.unwrap().is_some(), commit);
    }
    // The row is final, so a second transaction for it commits nothing.
    let mut transaction = begin(&store, claim).await;
    let late = new_run(None);
    start(&mut transaction, &store, &late).await.unwrap();
    assert!(matches!(transaction.commit(outcome(claim)).await, StepCommit::Unknown(_)));
    assert!(store.run(late.id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_transaction_with_an_outdated_outcome_is_not_committed() {
    let store = MemoryDatabase::new(Clock::manual(DAWN)).handle();
    let claim = held(&store).await;
    let mut transaction = begin(&store, claim).await;
    let (new, other) = (new_run(Some("k")), new_run(Some("k")));
    assert_eq!(start(&mut transaction, &store, &new).await.unwrap(), StartOutcome::Created);
    store.commit(&[Write::Start(other)]).await.unwrap();
    let commit = transaction.commit(outcome(claim)).await;
    assert!(matches!(&commit, StepCommit::RolledBack(error) if error.kind == DatabaseErrorKind::Busy), "{commit:?}");
    assert_eq!(store.history(claim.run_id).await.unwrap(), []);
    assert!(store.run(new.id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_run_of_another_database_is_refused() {
    let store = MemoryDatabase::new(Clock::manual(DAWN)).handle();
    let other = MemoryDatabase::new(Clock::manual(DAWN)).handle();
    let claim = held(&store).await;
    let mut transaction = begin(&store, claim).await;
    let error = start(&mut transaction, &other, &new_run(None)).await.unwrap_err();
    assert!(matches!(&error, WithinError::Database(error) if error.kind == DatabaseErrorKind::Invalid), "{error:?}");
}
