//! Commits a batch in one transaction: on the fast path if possible, else on the slow path.

use workflow_engine::store::{DatabaseError, Outcome, Write};

use super::database::Database;
use super::fast_path::{Fast, fast_path};
use super::slow_path::slow_path;

/// See [`Store::commit`](workflow_engine::store::Store::commit).
pub(super) async fn commit(database: &Database, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let mut writer = database.writer.lock().await?;
    match fast_path(&mut writer, writes, database.now()).await? {
        Fast::Done(outcomes) => return Ok(outcomes),
        Fast::NotApplicable => {}
        Fast::Refused => {
            writer.roll_back().await;
            writer = database.writer.lock().await?;
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
