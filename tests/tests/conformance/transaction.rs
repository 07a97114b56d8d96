//! Transactions of steps: an author's rows, the outcome and the check of the claim in one commit.

use workflow_engine::model::{Claim, Effect};
use workflow_engine::store::{AttemptWrite, Store};
use workflow_engine::store::{StepCommit, StepTransaction};
use workflow_sdk::sqlx::{AssertSqlSafe, Executor, PgConnection, SqliteConnection, raw_sql};
use workflow_sdk::{AttemptStatus, StepAttempt, StepKind};
use workflow_tests::builders::{LEASE, attempt, begun, claim_request, failed, succeed, succeeded};
use workflow_tests::outcome::{applied, claimed, one};
use workflow_tests::{Database, Fixture};

/// Returns whether the database has author's rows to check. The store in memory has none, so only
/// the engine's rows are checked there.
fn has_rows(fixture: &Fixture) -> bool {
    fixture.database != Database::Memory
}

async fn table(fixture: &Fixture) {
    if !has_rows(fixture) {
        return;
    }
    fixture.raw().await.execute("CREATE TABLE effects (note TEXT NOT NULL)").await;
}

async fn has_effects(fixture: &Fixture, expected: &[&str]) {
    if has_rows(fixture) {
        let notes = fixture.raw().await.lines("SELECT note FROM effects ORDER BY note", "note").await;
        assert_eq!(notes, expected);
    }
}

/// Returns the prefix of the fixture's schema, because the connections of transactions do not have
/// the test's search path.
async fn schema(fixture: &Fixture) -> String {
    match fixture.database {
        Database::Sqlite | Database::Memory => String::new(),
        Database::Postgres => format!("{}.", fixture.raw().await.text("SELECT current_schema()::text").await),
    }
}

async fn add(transaction: &mut Box<dyn StepTransaction>, schema: &str, note: &str) {
    let insert = raw_sql(AssertSqlSafe(format!("INSERT INTO {schema}effects (note) VALUES ('{note}')")));
    let connection = transaction.connection();
    if let Some(connection) = connection.downcast_mut::<SqliteConnection>() {
        connection.execute(insert).await.unwrap();
    } else if let Some(connection) = connection.downcast_mut::<PgConnection>() {
        connection.execute(insert).await.unwrap();
    } else {
        assert_eq!(transaction.database(), "a database in memory");
    }
}

fn outcome(step_key: &str, position: i64) -> StepAttempt {
    StepAttempt { kind: StepKind::Transaction, ..succeeded(step_key, position, "1") }
}

fn write(claim: Claim, row: StepAttempt) -> AttemptWrite {
    AttemptWrite { claim, row, effect: Effect::None }
}

async fn open(store: &dyn Store, claim: Claim) -> Box<dyn StepTransaction> {
    store.begin(claim).await.unwrap().expect("the claim holds")
}

#[track_caller]
fn committed(commit: &StepCommit) {
    assert!(matches!(commit, StepCommit::Committed), "{commit:?}");
}

pub async fn the_rows_and_the_outcome_are_committed_together(fixture: Fixture) {
    table(&fixture).await;
    let schema = schema(&fixture).await;
    let claim = fixture.held().await;
    let mut transaction = open(fixture.store.as_ref(), claim).await;
    add(&mut transaction, &schema, "a").await;
    has_effects(&fixture, &[]).await;
    assert_eq!(fixture.history(claim.run_id).await, [], "nothing is visible before the commit");
    committed(&transaction.commit(write(claim, outcome("debit", 3))).await);
    has_effects(&fixture, &["a"]).await;
    let history = fixture.history(claim.run_id).await;
    assert_eq!(history, [StepAttempt { epoch: claim.epoch, ..outcome("debit", 3) }]);
    assert_eq!(fixture.store.recorded(claim.run_id, "debit", 1).await.unwrap().as_ref(), Some(&history[0]));
    assert_eq!(fixture.store.recorded(claim.run_id, "debit", 2).await.unwrap(), None);
    assert_eq!(fixture.store.recorded(claim.run_id, "credit", 1).await.unwrap(), None);
}

pub async fn a_rolled_back_or_dropped_transaction_leaves_nothing(fixture: Fixture) {
    table(&fixture).await;
    let schema = schema(&fixture).await;
    let claim = fixture.held().await;
    for explicit in [true, false] {
        let mut transaction = open(fixture.store.as_ref(), claim).await;
        add(&mut transaction, &schema, "a").await;
        if explicit {
            transaction.roll_back().await
        } else {
            drop(transaction)
        }
        // No lock and no transaction is left behind: the next write succeeds at once.
        applied(&fixture.write(attempt(claim, begun("after"))).await);
        has_effects(&fixture, &[]).await;
    }
    let mut transaction = open(fixture.store.as_ref(), claim).await;
    add(&mut transaction, &schema, "b").await;
    committed(&transaction.commit(write(claim, outcome("debit", 1))).await);
    has_effects(&fixture, &["b"]).await;
}

pub async fn an_invalid_claim_begins_no_transaction(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    assert!(fixture.store.begin(stale).await.unwrap().is_none());
    let future = Claim { epoch: current.epoch + 1, ..current };
    assert!(fixture.store.begin(future).await.unwrap().is_none());
    let unknown = Claim { run_id: workflow_sdk::RunId::generate(), epoch: 1 };
    assert!(fixture.store.begin(unknown).await.unwrap().is_none());
    open(fixture.store.as_ref(), current).await.roll_back().await;
    applied(&fixture.write(succeed(current, "1")).await);
    assert!(fixture.store.begin(current).await.unwrap().is_none());
}

/// The body may take long. What counts is whether the claim is still valid at the commit.
pub async fn a_transaction_of_a_lost_claim_commits_nothing(fixture: Fixture) {
    if fixture.database == Database::Sqlite {
        // On SQLite no run can be claimed while the transaction is open: see the next case.
        return;
    }
    table(&fixture).await;
    let schema = schema(&fixture).await;
    let stale = fixture.held().await;
    let mut transaction = open(fixture.store.as_ref(), stale).await;
    add(&mut transaction, &schema, "a").await;
    fixture.advance(LEASE);
    let current = fixture.claim_only().await.claim;
    let before = fixture.snapshot(stale.run_id).await;
    let commit = transaction.commit(write(stale, outcome("debit", 1))).await;
    assert!(matches!(commit, StepCommit::Lost), "{commit:?}");
    has_effects(&fixture, &[]).await;
    assert_eq!(fixture.snapshot(stale.run_id).await, before);
    applied(&fixture.write(succeed(current, "1")).await);
}

/// A claim loads the history once. If rows appeared after that, they would be an effect that the
/// new owner does not know.
pub async fn a_claim_never_gets_between_the_check_and_the_commit(fixture: Fixture) {
    table(&fixture).await;
    let schema = schema(&fixture).await;
    let second = fixture.second().await;
    let mut claim = fixture.held().await;
    let mut kept = Vec::new();
    for round in 0..30 {
        let note = format!("{round:02}");
        let mut transaction = open(fixture.store.as_ref(), claim).await;
        add(&mut transaction, &schema, &note).await;
        fixture.advance(LEASE);
        let take = async {
            loop {
                let write = workflow_engine::store::Write::Claim(claim_request());
                let runs = claimed(one(second.commit(&[write]).await.expect("commit"))).runs;
                if let Some(run) = runs.first() {
                    return (run.claim, second.history(run.claim.run_id).await.expect("history"));
                }
            }
        };
        let commit = transaction.commit(write(claim, outcome(&note, round + 1)));
        let (commit, (next, seen)) = futures::join!(commit, take);
        let stored = seen.iter().any(|row| row.step_key == note);
        match commit {
            StepCommit::Committed => kept.push(note),
            StepCommit::Lost => assert!(!stored, "round {round}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(stored, kept.last().is_some_and(|last| *last == format!("{round:02}")), "round {round}");
        assert_eq!(fixture.history(next.run_id).await, seen, "no row appears after the claim");
        claim = next;
    }
    has_effects(&fixture, &kept.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

pub async fn an_ended_attempt_is_not_committed_again(fixture: Fixture) {
    table(&fixture).await;
    let schema = schema(&fixture).await;
    let claim = fixture.held().await;
    applied(&fixture.write(attempt(claim, failed("failed", 1))).await);
    applied(&fixture.write(attempt(claim, StepAttempt { kind: StepKind::Transaction, ..begun("debit") })).await);
    for (round, step) in ["debit", "debit", "failed"].into_iter().enumerate() {
        let mut transaction = open(fixture.store.as_ref(), claim).await;
        add(&mut transaction, &schema, step).await;
        let commit = transaction.commit(write(claim, outcome(step, 1 + i64::try_from(round).unwrap()))).await;
        assert_eq!(matches!(commit, StepCommit::Committed), round == 0, "{commit:?}");
        assert!(round == 0 || matches!(commit, StepCommit::Unknown(_)), "{commit:?}");
    }
    has_effects(&fixture, &["debit"]).await;
    let row = fixture.store.recorded(claim.run_id, "debit", 1).await.unwrap().unwrap();
    assert_eq!((row.status, row.position), (AttemptStatus::Succeeded, Some(1)));
}

pub async fn a_closed_store_begins_no_transaction(fixture: Fixture) {
    let claim = fixture.held().await;
    let second = fixture.second().await;
    second.close().await;
    let error = second.begin(claim).await.unwrap_err();
    assert_eq!(error.kind, workflow_sdk::DatabaseErrorKind::Unreachable);
}
