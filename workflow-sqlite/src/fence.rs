//! The fence of a batch: reads the runs that decide about it.

use sqlx::SqliteConnection;

use workflow_engine::store::{Asked, DatabaseError, Fence};

use super::error::During;
use super::{row, sql};

const OPERATION: &str = "check claims";

/// Reads the runs with one statement, or with none if nothing is asked. The answer holds until the
/// commit, because the transaction has the write lock.
pub(super) async fn read(connection: &mut SqliteConnection, asked: &Asked) -> Result<Fence, DatabaseError> {
    if asked.is_empty() {
        return Ok(Fence::default());
    }
    let query = sqlx::query(sql::READ_FENCE).bind(serde_json::to_string(asked).during(OPERATION)?);
    let rows = query.fetch_all(connection).await.during(OPERATION)?;
    Fence::of(rows.iter().map(|row| {
        let fact = match row::get::<Option<i64>>(row, "epoch")? {
            Some(epoch) => Some((epoch, row::status(row)?)),
            None => None,
        };
        Ok((row::id(row, "id")?, fact))
    }))
}
