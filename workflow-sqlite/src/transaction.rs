//! Transactions of steps: the statements of the author and the outcome of the step, committed
//! together.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;

use workflow_engine::faults::failpoint_error;
use workflow_engine::model::{Claim, RunId, StepAttempt};
use workflow_engine::store::{
    Asked, AttemptRow, AttemptWrite, DatabaseError, DatabaseErrorKind, StepCommit, StepTransaction, StoreId,
};

use super::database::Database;
use super::error::{During, closed, within_deadline};
use super::writer::WriterGuard;
use super::{attempt, fence, row, sql};

/// The transaction of one step, on the writer connection. While it is open the executor waits for
/// its turn, instead of being refused by the lock of the file.
#[derive(Debug)]
struct SqliteTransaction {
    database: Arc<Database>,
    writer: WriterGuard,
    /// The connection that an author gets if the real one is gone.
    none: (),
}

/// See [`Store::begin`]. From here on the transaction holds the write lock of the file, so the
/// fence holds until the commit.
pub(super) async fn begin(
    database: &Arc<Database>,
    claim: Claim,
) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
    const OPERATION: &str = "begin a transaction";
    let mut writer = database.writer.lock().await?;
    writer.begin_nesting().await?;
    let fence = fence::read(writer.connection()?, &Asked::from([(claim.run_id, Some(claim.epoch))])).await;
    let refused = match fence {
        Ok(fence) => fence.refusal(claim).is_some(),
        Err(error) => {
            writer.roll_back().await;
            return Err(error);
        }
    };
    if refused {
        writer.roll_back().await;
        return Ok(None);
    }
    sqlx::query(sql::MARK_TRANSACTION).execute(writer.connection()?).await.during(OPERATION)?;
    Ok(Some(Box::new(SqliteTransaction { database: Arc::clone(database), writer, none: () })))
}

/// See [`Store::recorded`]. Reads under the write lock, which an open transaction of this run would
/// hold.
pub(super) async fn recorded(
    database: &Database,
    run: RunId,
    step_key: &str,
    attempt: i64,
) -> Result<Option<StepAttempt>, DatabaseError> {
    const OPERATION: &str = "look for an outcome";
    let mut writer = database.writer.lock().await?;
    writer.begin().await?;
    let query = sqlx::query(sql::READ_HISTORY).bind(run.to_string());
    let rows = query.fetch_all(writer.connection()?).await.during(OPERATION);
    writer.roll_back().await;
    let rows = rows?.iter().map(row::step_attempt).collect::<Result<Vec<_>, _>>()?;
    Ok(rows.into_iter().find(|row| row.step_key == step_key && row.attempt == attempt))
}

#[async_trait]
impl StepTransaction for SqliteTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        match self.writer.connection() {
            Ok(connection) => connection,
            Err(_) => &mut self.none,
        }
    }

    fn database(&self) -> &'static str {
        super::DATABASE
    }

    fn store(&self) -> StoreId {
        self.database.id
    }

    async fn commit(self: Box<Self>, outcome: AttemptWrite) -> StepCommit {
        const OPERATION: &str = "commit a transaction";
        let Self { database, writer, .. } = *self;
        if let Err(error) = database.check_files(OPERATION) {
            writer.roll_back().await;
            return StepCommit::RolledBack(error);
        }
        let committing = async { Ok(commit(writer, outcome).await) };
        let committed = within_deadline(OPERATION, committing).await.unwrap_or_else(StepCommit::Unknown);
        match database.check_files(OPERATION) {
            Err(error) => StepCommit::Unknown(error),
            Ok(()) => committed,
        }
    }

    async fn roll_back(self: Box<Self>) {
        self.writer.roll_back().await;
    }
}

async fn commit(mut writer: WriterGuard, outcome: AttemptWrite) -> StepCommit {
    const OPERATION: &str = "commit a transaction";
    let Ok(connection) = writer.connection() else { return StepCommit::RolledBack(closed(OPERATION)) };
    // The statement fails if the transaction that set the mark has ended.
    if let Err(error) = sqlx::query(sql::UNMARK_TRANSACTION).execute(connection).await.during(OPERATION) {
        writer.roll_back().await;
        return if error.kind.is_transient() { StepCommit::RolledBack(error) } else { StepCommit::Broken(error) };
    }
    let written = match writer.connection() {
        Ok(connection) => attempt::record(connection, &AttemptRow::of(vec![&outcome])).await.map(|rows| rows == 1),
        Err(error) => Err(error),
    };
    let written = written.and_then(|written| Ok(failpoint_error("transaction.before_commit").map(|()| written)?));
    match written {
        Ok(true) => {}
        Ok(false) => {
            writer.roll_back().await;
            let why = format!("attempt {} of step {:?} has ended already", outcome.row.attempt, outcome.row.step_key);
            return StepCommit::Unknown(DatabaseError::new(DatabaseErrorKind::Other, OPERATION, why));
        }
        Err(error) => {
            writer.roll_back().await;
            return StepCommit::RolledBack(error);
        }
    }
    match writer.commit().await {
        Ok(()) => StepCommit::Committed,
        Err((error, true)) => StepCommit::Unknown(error),
        Err((error, false)) => StepCommit::RolledBack(error),
    }
}
