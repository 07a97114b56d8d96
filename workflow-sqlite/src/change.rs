//! The version of the data, which shows whether anything was committed.

use async_trait::async_trait;

use workflow_engine::store::{ChangeStore, DatabaseError};

use super::SqliteStore;
use super::database::Database;
use super::error::{During, closed, within_deadline};
use super::sql;

const OPERATION: &str = "look for changes";

#[async_trait]
impl ChangeStore for SqliteStore {
    async fn data_version(&self) -> Result<String, DatabaseError> {
        within_deadline(OPERATION, data_version(&self.database)).await
    }
}

/// SQLite counts the commits of other connections for each connection. The anchor never writes, so
/// its number counts every commit. A database in memory has one connection, whose commits the
/// writer counts.
async fn data_version(database: &Database) -> Result<String, DatabaseError> {
    database.check_open(OPERATION)?;
    let Some(file) = &database.file else { return Ok(database.writer.seen().commits().to_string()) };
    database.check_files(OPERATION)?;
    let mut anchor = file.anchor.lock().await;
    let connection = anchor.as_mut().ok_or_else(|| closed(OPERATION))?;
    let version: i64 = sqlx::query_scalar(sql::READ_DATA_VERSION).fetch_one(connection).await.during(OPERATION)?;
    Ok(version.to_string())
}
