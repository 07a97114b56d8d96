//! Hints from other processes: SQLite has no messages, but it counts the commits of others.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::backend::{BackendError, Hints};

use super::database::Database;
use super::error::{During, within_deadline};
use super::sql;

/// One look costs a few microseconds.
const EVERY: Duration = Duration::from_millis(10);

const OPERATION: &str = "look for changes of other processes";

/// Looks at the data version from a connection of its own.
#[derive(Debug)]
struct DataVersion {
    database: Arc<Database>,
    connection: SqliteConnection,
    seen: i64,
}

/// A database in memory: there is no other process.
#[derive(Debug)]
struct Never;

/// See [`Backend::listen`](crate::backend::Backend::listen).
pub(super) async fn listen(database: &Arc<Database>) -> Result<Box<dyn Hints>, BackendError> {
    database.check_open(OPERATION)?;
    let Some(file) = &database.file else { return Ok(Box::new(Never)) };
    let mut connection = file.open_connection(OPERATION).await?;
    let seen = read(&mut connection).await?;
    Ok(Box::new(DataVersion { database: Arc::clone(database), connection, seen }))
}

#[async_trait]
impl Hints for DataVersion {
    async fn next(&mut self) -> Result<(), BackendError> {
        loop {
            self.database.check_open(OPERATION)?;
            let version = within_deadline(OPERATION, read(&mut self.connection)).await?;
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

#[async_trait]
impl Hints for Never {
    async fn next(&mut self) -> Result<(), BackendError> {
        pending().await
    }
}

async fn read(connection: &mut SqliteConnection) -> Result<i64, BackendError> {
    sqlx::query_scalar(sql::READ_DATA_VERSION).fetch_one(connection).await.during(OPERATION)
}
