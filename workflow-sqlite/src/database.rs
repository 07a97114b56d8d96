//! The connections and the clock that the parts of this store share.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use workflow_engine::model::{Clock, Timestamp};
use workflow_engine::store::{DatabaseError, StoreId};

use super::error::{During, LOCK_TIMEOUT, closed};
use super::file_identity::FileIdentity;
use super::hint_socket::HintSockets;
use super::writer::{Writer, WriterGuard};

/// An open database.
pub(super) struct Database {
    pub(super) id: StoreId,
    pub(super) clock: Clock,
    pub(super) writer: Writer,
    /// `None`: the database is in memory.
    pub(super) file: Option<DatabaseFile>,
    pub(super) closed: AtomicBool,
}

/// The parts that only a database in a file has.
pub(super) struct DatabaseFile {
    /// The real path, without links, so that every process derives the same paths from it.
    pub(super) path: PathBuf,
    /// Opens a further connection.
    pub(super) connect: SqliteConnectOptions,
    /// Connections that only read; or the application's pool, of which reads take a connection.
    pub(super) readers: SqlitePool,
    /// `true` if the application uses the readers too, so that they must stay open.
    pub(super) readers_are_shared: bool,
    /// The files that are open.
    pub(super) identity: FileIdentity,
    /// The way to the listeners of other processes.
    pub(super) hints: HintSockets,
    /// A connection that keeps the files beside the database in place. `None` once it is closed.
    pub(super) anchor: Mutex<Option<SqliteConnection>>,
}

/// Shows no connect options, which may have a key.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.file.as_ref().map(|file| &file.path);
        f.debug_struct("Database").field("id", &self.id).field("path", &path).finish_non_exhaustive()
    }
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
        const OPERATION: &str = "acquire a connection";
        self.check_open(OPERATION)?;
        match &self.file {
            Some(file) => {
                // Before the pool opens a connection, which may lead to other files.
                self.check_files(OPERATION)?;
                Ok(Reader::Pooled(file.readers.acquire().await.during(OPERATION)?))
            }
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
        if let Some(file) = &self.file
            && !file.readers_are_shared
        {
            file.readers.close().await;
        }
        self.writer.close().await;
        if let Some(file) = &self.file
            && let Some(anchor) = file.anchor.lock().await.take()
            && let Err(error) = anchor.close().await
        {
            tracing::warn!(%error, "a connection did not close cleanly; nothing that was committed is lost");
        }
    }

    /// Fails if a file of the database was removed, moved or replaced. Checks nothing after
    /// [`Database::close`], which lets SQLite remove files.
    pub(super) fn check_files(&self, operation: &'static str) -> Result<(), DatabaseError> {
        self.open_file().map_or(Ok(()), |file| file.identity.check(operation))
    }

    /// Does what [`Database::check_files`] does if the files were not checked for a while.
    pub(super) fn check_files_after_pause(&self, operation: &'static str) -> Result<(), DatabaseError> {
        self.open_file().map_or(Ok(()), |file| file.identity.check_after_pause(operation))
    }

    fn open_file(&self) -> Option<&DatabaseFile> {
        self.file.as_ref().filter(|_| !self.closed.load(Ordering::Acquire))
    }
}

impl DatabaseFile {
    /// Opens a connection outside the pool.
    pub(super) async fn open_connection(&self, operation: &'static str) -> Result<SqliteConnection, DatabaseError> {
        self.identity.check(operation)?;
        self.connect.connect().await.during(operation)
    }

    /// Opens a connection outside the pool that writes. Its calls need
    /// [`with_write_lock`](super::error::with_write_lock).
    pub(super) async fn open_writing_connection(
        &self,
        operation: &'static str,
    ) -> Result<SqliteConnection, DatabaseError> {
        self.identity.check(operation)?;
        self.connect.clone().busy_timeout(LOCK_TIMEOUT).connect().await.during(operation)
    }
}
