//! Commits a batch in one transaction: on the fast path if possible, else on the slow path.

use workflow_engine::store::{Asked, DatabaseError, Outcome, Write};

use super::database::Database;
use super::fast_path::{self, FastBatch};
use super::slow_path::slow_path;

/// See [`Store::commit`](workflow_engine::store::Store::commit).
pub(super) async fn commit(database: &Database, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let mut writer = database.writer.lock().await?;
    if fast_path::is_single(writes)
        && let Some(outcomes) = fast_path::apply_single(&mut writer, writes, database.now()).await?
    {
        writer.keep(writes, Asked::new(), &[]);
        return Ok(outcomes);
    }
    if let Some(batch) = FastBatch::prepare(writes, writer.fence_cache(), database.now())? {
        match batch.apply(&mut writer).await {
            Ok(Some(applied)) => return applied.commit(writer).await,
            Ok(None) => {
                writer.roll_back().await;
                writer = database.writer.lock().await?;
            }
            Err(error) => return writer.end(Err(error)).await,
        }
    }
    slow_path(database, writer, writes).await
}

/// Commits on the slow path, without an attempt on the fast path.
pub(super) async fn commit_on_slow_path(database: &Database, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    slow_path(database, database.writer.lock().await?, writes).await
}
