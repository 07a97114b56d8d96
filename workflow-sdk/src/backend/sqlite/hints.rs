//! Hints from other processes: SQLite has no messages, but it counts the commits of others.

use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::backend::{BackendError, Hints};

use super::database::Database;
use super::error::{During, within_deadline};
use super::sql;
use super::wal_file::WalFile;

const OPERATION: &str = "look for changes of other processes";

/// Looks at the WAL and, when that has changed, at the data version from a connection of its own.
#[derive(Debug)]
struct DataVersion {
    database: Arc<Database>,
    connection: SqliteConnection,
    wal: WalFile,
    seen: i64,
    /// When the next look is due: a wait that is dropped and begun again does not put it off.
    next_look: Instant,
}

/// A database in memory: there is no other process.
#[derive(Debug)]
struct Never;

/// See [`Backend::listen`](crate::backend::Backend::listen).
pub(super) async fn listen(database: &Arc<Database>) -> Result<Box<dyn Hints>, BackendError> {
    database.check_open(OPERATION)?;
    let Some(file) = &database.file else { return Ok(Box::new(Never)) };
    let mut connection = file.open_connection(OPERATION).await?;
    let now = Instant::now();
    // Before the version: what is committed between the two shows in the file.
    let wal = WalFile::of(&file.path, now);
    let seen = read(&mut connection).await?;
    Ok(Box::new(DataVersion { database: Arc::clone(database), connection, wal, seen, next_look: now }))
}

#[async_trait]
impl Hints for DataVersion {
    async fn next(&mut self) -> Result<(), BackendError> {
        loop {
            tokio::time::sleep_until(self.next_look.into()).await;
            self.database.check_open(OPERATION)?;
            let now = Instant::now();
            let ask = self.wal.is_to_be_asked(now);
            self.next_look = self.wal.next_look(now);
            if !ask {
                continue;
            }
            let version = within_deadline(OPERATION, read(&mut self.connection)).await?;
            self.wal.answered(now);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::backend::sqlite::fixture_tests::Fixture;

    use super::*;

    #[tokio::test]
    async fn a_commit_that_leaves_no_trace_in_the_file_is_seen() {
        let fixture = Fixture::file().await;
        let file = fixture.backend.database.file.as_ref().unwrap();
        let mut connection = file.open_connection(OPERATION).await.unwrap();
        let seen = read(&mut connection).await.unwrap();
        let now = Instant::now();
        // The WAL of another database, which there is not: it never changes, and is not taken for changed.
        let long_ago = now.checked_sub(std::time::Duration::from_secs(60)).unwrap();
        let wal = WalFile::of(&fixture.directory.path().join("none.db"), long_ago);
        let database = Arc::clone(&fixture.backend.database);
        let mut hints = DataVersion { database, connection, wal, seen, next_look: now };
        for _ in 0..3 {
            fixture.start().await;
            hints.next().await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_commit_after_the_file_began_anew_is_seen() {
        let fixture = Fixture::file().await;
        let mut hints = listen(&fixture.backend.database).await.unwrap();
        let path = fixture.directory.path().join("runs.db");
        for _ in 0..3 {
            fixture.start().await;
            hints.next().await.unwrap();
            // From the beginning of the file again, which becomes empty before.
            let file = fixture.backend.database.file.as_ref().unwrap();
            let mut connection = file.open_connection(OPERATION).await.unwrap();
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
            assert_eq!(std::fs::metadata(path.with_extension("db-wal")).unwrap().len(), 0);
        }
    }
}
