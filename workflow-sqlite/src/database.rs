//! The connections and the clock that the parts of this store share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Sqlite, SqliteConnection, SqlitePool};

use workflow_engine::model::{Clock, Timestamp};
use workflow_engine::store::{DatabaseError, StoreId};

use super::error::{During, closed};
use super::writer::{Writer, WriterGuard};

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) id: StoreId,
    pub(super) clock: Clock,
    pub(super) writer: Writer,
    /// `None`: the database is in memory.
    pub(super) file: Option<DatabaseFile>,
    pub(super) closed: AtomicBool,
}

/// The parts that only a database in a file has.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    /// The real path, without links, so that every process derives the same paths from it.
    pub(super) path: PathBuf,
    /// Opens a further connection.
    pub(super) connect: SqliteConnectOptions,
    /// Connections that only read.
    pub(super) readers: SqlitePool,
}

/// A connection to read from.
pub(super) enum Reader {
    Pooled(PoolConnection<Sqlite>),
    Shared(WriterGuard),
}

impl Reader {
    /// Returns the connection.
    pub(super) fn connection(&mut self) -> Result<&mut SqliteConnection, DatabaseError> {
        match self {
            Self::Pooled(connection) => Ok(connection),
            Self::Shared(guard) => guard.connection(),
        }
    }
}

impl Database {
    /// Returns the time now.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.host_now()
    }

    /// A connection to read from.
    pub(super) async fn reader(&self) -> Result<Reader, DatabaseError> {
        match &self.file {
            Some(file) => Ok(Reader::Pooled(file.readers.acquire().await.during("acquire a connection")?)),
            None => Ok(Reader::Shared(self.writer.lock().await?)),
        }
    }

    /// Fails if the store was closed.
    pub(super) fn check_open(&self, operation: &'static str) -> Result<(), DatabaseError> {
        if self.closed.load(Ordering::Acquire) { Err(closed(operation)) } else { Ok(()) }
    }

    /// Ends all connections that belong to no session.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(file) = &self.file {
            file.readers.close().await;
        }
        self.writer.close().await;
    }
}

impl DatabaseFile {
    /// Opens a connection outside the pool.
    pub(super) async fn open_connection(&self, operation: &'static str) -> Result<SqliteConnection, DatabaseError> {
        self.connect.connect().await.during(operation)
    }
}
