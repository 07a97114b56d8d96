//! One batch, one transaction: by the shortest way that its writes allow.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::backend::{Outcome, Write};
use crate::failpoint::failpoint_error;
use crate::model::Clock;

use super::batch::Batch;
use super::error::Failure;
use super::lone::Lone;
use super::plain::Plain;
use super::sql::Sql;
use super::worker_lock::Workers;

/// Stated in the transaction itself: behind a pooler, the session's settings may be another's.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Applies the writes in one transaction.
pub(super) async fn commit(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    workers: &Workers,
    writes: &[Write],
) -> Result<Vec<Outcome>, Failure> {
    if let Some(lone) = Lone::of(writes)
        && let Some(outcomes) = lone.apply(connection, sql, clock).await?
    {
        return Ok(outcomes);
    }
    if let Some(plain) = Plain::of(writes, workers) {
        let begin = plain.begin(workers);
        let apply = async |connection: &mut PgConnection| plain.apply(connection, sql, clock, workers).await;
        if let Some(outcomes) = transact(connection, begin, apply).await? {
            return Ok(outcomes);
        }
    }
    let mut batch = Batch::sort(writes);
    let wanted = batch.wanted(workers);
    let begin = if wanted.recorded.is_empty() { BEGIN.to_owned() } else { workers.begin() };
    let apply =
        async |connection: &mut PgConnection| batch.apply(connection, sql, clock, (wanted, workers)).await.map(Some);
    transact(connection, begin, apply).await?;
    batch.outcomes()
}

/// Applies writes in a transaction that these statements begin. It is rolled back if that fails, or says `None`.
async fn transact<T>(
    connection: &mut PgConnection,
    begin: String,
    apply: impl AsyncFnOnce(&mut PgConnection) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    // A transaction that could not get a lock was begun nevertheless, and the driver does not end it.
    let begun = connection.begin_with(AssertSqlSafe(begin)).await;
    let mut transaction = begun.map_err(|error| Failure::from(error).breaking())?;
    match apply(&mut transaction).await {
        Ok(Some(applied)) => {
            failpoint_error("backend.in_transaction")?;
            transaction.commit().await?;
            Ok(Some(applied))
        }
        Ok(None) => {
            transaction.rollback().await?;
            Ok(None)
        }
        Err(failure) => {
            // Of a broken connection nobody hears the answer, and the failure says that it is broken.
            if !failure.breaks_connection {
                transaction.rollback().await?;
            }
            Err(failure)
        }
    }
}
