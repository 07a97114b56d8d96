//! Transactions of steps: the statements of the author and the outcome of the step, committed
//! together.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::{Database, PgConnection, Postgres, SqlStr};
use sqlx_core::transaction::TransactionManager;
use tokio::sync::OwnedSemaphorePermit;

use workflow_engine::faults::failpoint_error;
use workflow_engine::model::{Claim, RunId, StepAttempt};
use workflow_engine::store::{Asked, AttemptRow, AttemptWrite, DatabaseError, StepCommit, StepTransaction, StoreId};

use super::call::Limit;
use super::error::Failure;
use super::slow_path::begin_statement;
use super::sql::Sql;
use super::{PostgresStore, attempt, fence, read};

const BEGIN_OPERATION: &str = "begin a transaction";
const COMMIT_OPERATION: &str = "commit a transaction";

/// Begins the transaction of a step. It states what it needs, because the connection may be one of
/// the application's pool, which has other settings. A session that demands more of a commit than
/// this store gets it.
pub(super) const BEGIN_STEP: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
     SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') \
         WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true); \
     SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// The driver's manager, which counts transactions, so that an author's transaction inside this one
/// becomes a savepoint.
type Manager = <Postgres as Database>::TransactionManager;

/// The transaction of one step, on a connection of the pool. The connection goes back only after an
/// end that the server has answered; otherwise it is closed and the server rolls back. The pool
/// would first check whether it lives, and could wait for ever on a connection that went silent.
#[derive(Debug)]
struct PostgresTransaction {
    /// The store that began it.
    id: StoreId,
    transaction: PoolConnection<Postgres>,
    /// `true` if other calls may use the connection.
    sound: bool,
    sql: Arc<Sql>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// See [`Store::begin`]. The check here only refuses early; the check that counts comes before the
/// commit.
pub(super) async fn begin(
    store: &PostgresStore,
    claim: Claim,
) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
    store.refuse_if_closed(BEGIN_OPERATION)?;
    let opening = async {
        // It fails only if the semaphore is closed, which never happens.
        let permit = Arc::clone(&store.transactions).acquire_owned().await.ok();
        let transaction = store.pool.acquire().await?;
        let sql = Arc::clone(&store.sql);
        let mut opened = PostgresTransaction { id: store.id, transaction, sound: false, sql, _permit: permit };
        if store.is_shared {
            // The application has opened the session. Our own ones are looked at when they open.
            store.sql.timeline.check(&mut opened.transaction, &store.sql.read_timeline).await?;
        }
        Manager::begin(&mut opened.transaction, Some(SqlStr::from_static(BEGIN_STEP))).await?;
        let fence = fence::read(&mut opened.transaction, &store.sql, claim).await?;
        if fence.refusal(claim).is_some() {
            Manager::rollback(&mut opened.transaction).await?;
            opened.sound = true;
            return Ok(None);
        }
        store.sql.mark_transaction.query().execute(&mut *opened.transaction).await?;
        Ok(Some(opened))
    };
    let opened = Limit::from_now().run(opening).await.map_err(|failure| failure.during(BEGIN_OPERATION))?;
    Ok(opened.map(|transaction| Box::new(transaction) as Box<dyn StepTransaction>))
}

/// See [`Store::recorded`]. Waits for the lock on the run, which a transaction takes before it is
/// told to commit.
pub(super) async fn recorded(
    connection: &mut PgConnection,
    sql: &Sql,
    run: RunId,
    step_key: &str,
    attempt: i64,
) -> Result<Option<StepAttempt>, Failure> {
    let mut transaction = sqlx::Connection::begin_with(connection, begin_statement()).await?;
    fence::lock(&mut transaction, sql, &Asked::from([(run, None)])).await?;
    let rows = read::history(&mut transaction, sql, run).await?;
    transaction.rollback().await?;
    Ok(rows.into_iter().find(|row| row.step_key == step_key && row.attempt == attempt))
}

#[async_trait]
impl StepTransaction for PostgresTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        &mut *self.transaction
    }

    fn database(&self) -> &'static str {
        super::DATABASE
    }

    fn store(&self) -> StoreId {
        self.id
    }

    async fn commit(mut self: Box<Self>, outcome: AttemptWrite) -> StepCommit {
        let limit = Limit::from_now();
        let preparing = limit.run(prepare(&mut self.transaction, &self.sql, &outcome)).await;
        match preparing {
            Ok(Prepared::Ready) => {}
            Ok(Prepared::Lost) => {
                self.roll_back().await;
                return StepCommit::Lost;
            }
            Ok(Prepared::Recorded) => {
                self.roll_back().await;
                let why =
                    format!("attempt {} of step {:?} has ended already", outcome.row.attempt, outcome.row.step_key);
                return StepCommit::Unknown(Failure::invalid(why).during(COMMIT_OPERATION));
            }
            Ok(Prepared::Broken(failure)) => {
                self.roll_back().await;
                return StepCommit::Broken(failure.during(COMMIT_OPERATION));
            }
            // The server was not told to commit, so it does not. On a broken connection no answer
            // arrives.
            Err(failure) => {
                if !failure.breaks_connection {
                    self.roll_back().await;
                }
                return StepCommit::RolledBack(failure.during(COMMIT_OPERATION));
            }
        }
        let committed = limit.run(async { Ok(Manager::commit(&mut self.transaction).await?) }).await;
        self.sound = committed.is_ok();
        match committed {
            Ok(()) => StepCommit::Committed,
            Err(failure) if failure.breaks_connection => StepCommit::Unknown(failure.during(COMMIT_OPERATION)),
            // The server refused: a deferred constraint, or a serialization failure.
            Err(failure) => StepCommit::RolledBack(failure.during(COMMIT_OPERATION)),
        }
    }

    async fn roll_back(mut self: Box<Self>) {
        let rolled_back = Limit::from_now().run(async { Ok(Manager::rollback(&mut self.transaction).await?) }).await;
        self.sound = rolled_back.is_ok();
        if let Err(failure) = rolled_back {
            let error = failure.during("roll a transaction back");
            tracing::debug!(%error, "the server ends the transaction with the connection");
        }
    }
}

impl Drop for PostgresTransaction {
    fn drop(&mut self) {
        if !self.sound {
            self.transaction.close_on_drop();
        }
    }
}

/// The result of the checks before a commit.
enum Prepared {
    Ready,
    Lost,
    Recorded,
    Broken(Failure),
}

/// Checks that the transaction is still the one that was begun, takes the fence and writes the
/// outcome. From the fence on, no other worker can claim the run before this transaction has ended.
async fn prepare(connection: &mut PgConnection, sql: &Sql, outcome: &AttemptWrite) -> Result<Prepared, Failure> {
    if let Err(error) = sql.unmark_transaction.query().execute(&mut *connection).await {
        let failure = Failure::from(error);
        return if failure.kind.is_transient() { Err(failure) } else { Ok(Prepared::Broken(failure)) };
    }
    let claim = outcome.claim;
    let fence = fence::lock(connection, sql, &Asked::from([(claim.run_id, Some(claim.epoch))])).await?;
    if fence.refusal(claim).is_some() {
        return Ok(Prepared::Lost);
    }
    let written = attempt::record(connection, sql, &AttemptRow::of(vec![outcome])).await?;
    failpoint_error("transaction.before_commit")?;
    Ok(if written == 1 { Prepared::Ready } else { Prepared::Recorded })
}
