//! One batch, one transaction, a handful of statements.

use sqlx::SqliteConnection;

use workflow_engine::faults::failpoint_error;
use workflow_engine::model::Timestamp;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{Asked, asked_by};
use workflow_engine::store::{DatabaseError, Outcome, Write};

use super::database::Database;
use super::plain::Plain;
use super::{attempt, claim, family, fence, finish, generation, plain, rerun, settle, signal, start};

/// See [`Store::commit`](workflow_engine::store::Store::commit).
pub(super) async fn commit(database: &Database, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let mut writer = database.writer.lock().await?;
    if plain::is_lone(writes)
        && let Some(outcomes) = plain::apply_lone(&mut writer, writes, database.now()).await?
    {
        writer.keep(writes, Asked::new(), &[]);
        return Ok(outcomes);
    }
    if let Some(plain) = Plain::prepare(writes, writer.known(), database.now())? {
        match plain.apply(&mut writer).await {
            Ok(Some(applied)) => return applied.commit(writer).await,
            Ok(None) => {
                writer.roll_back().await;
                writer = database.writer.lock().await?;
            }
            Err(error) => return writer.end(Err(error)).await,
        }
    }
    writer.begin().await?;
    let asked = asked_by(writes);
    // The time is read under the write lock, so that the times of commits rise with their order.
    let outcomes = apply(writer.connection()?, writes, &asked, database.now()).await;
    let outcomes = outcomes.and_then(|outcomes| Ok(failpoint_error("store.in_transaction").map(|()| outcomes)?));
    writer.end(outcomes).await
}

/// The order is part of the contract: what one kind does, a later kind finds.
async fn apply(
    connection: &mut SqliteConnection,
    writes: &[Write],
    asked: &Asked,
    now: Timestamp,
) -> Result<Vec<Outcome>, DatabaseError> {
    let mut outcomes = Outcomes::of(writes);
    start::apply(connection, writes, now, &mut outcomes).await?;
    rerun::fork(connection, writes, now, &mut outcomes).await?;
    let mut fence = fence::read(connection, asked).await?;
    attempt::apply(connection, writes, now, &fence, &mut outcomes).await?;
    signal::apply(connection, writes, now, &fence, &mut outcomes).await?;
    finish::end(connection, writes, now, &mut fence, &mut outcomes).await?;
    finish::park(connection, writes, now, &mut fence, &mut outcomes).await?;
    generation::begin(connection, writes, now, &mut fence, &mut outcomes).await?;
    rerun::retry(connection, writes, now, &mut fence, &mut outcomes).await?;
    rerun::change(connection, writes, now, &mut outcomes).await?;
    settle::disown(connection, writes, now, &mut outcomes).await?;
    settle::cancel(connection, writes, now, &mut outcomes).await?;
    settle::terminate(connection, writes, now, &mut outcomes).await?;
    let expired = settle::expire(connection, writes, now, &mut outcomes).await?;
    family::tell(connection, outcomes.ended(writes, expired), now).await?;
    claim::apply(connection, writes, now, &mut outcomes).await?;
    Ok(outcomes.complete()?)
}
