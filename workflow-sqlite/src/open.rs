//! Opens a database: first the checks, then WAL, then the migrations, then the readers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{ConnectOptions, SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use workflow_engine::store::{ConnectError, DatabaseError, DatabaseErrorKind, StoreId, StoreOptions, redact};

use workflow_engine::faults::altered;

use super::database::{Database, DatabaseFile};
use super::error::{DEADLINE, During, LOCK_TIMEOUT, sqlite_code, within_deadline};
use super::file_identity::FileIdentity;
use super::hint_socket::HintSockets;
use super::location::{self, Location};
use super::migrate::{self, MigrateError};
use super::pool;
use super::sql;
use super::writer::Writer;

/// How long SQLite itself waits for another connection's lock. Connections that write wait in
/// another way: see [`with_write_lock`](super::error::with_write_lock).
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The size to which SQLite truncates the WAL after a large transaction.
const WAL_BYTES_KEPT: &str = "67108864";
/// The first version without the WAL-reset corruption.
const OLDEST_SQLITE: &str = "3.51.3";

/// Opens the database at the URL.
pub(super) async fn open(url: &str, options: StoreOptions) -> Result<Database, ConnectError> {
    let connect = with_settings(SqliteConnectOptions::new());
    let (path, connect) = match location::parse(url)? {
        Location::Memory => (None, connect.filename(":memory:")),
        Location::File(path) => {
            // A directory that may not be searched tells nothing about the file.
            if !options.migrate && path.try_exists().is_ok_and(|exists| !exists) {
                return Err(ConnectError::NoFile { path: path.display().to_string() });
            }
            let path = location::prepare(&path, url)?;
            let connect = connect.filename(&path);
            (Some(path), connect)
        }
    };
    open_connections(url, path, connect, Readers::Own, options).await
}

/// Opens the database of the application's pool. The pool stays open when the database is closed.
pub(super) async fn open_pool(pool: SqlitePool, options: StoreOptions) -> Result<Database, ConnectError> {
    let file = pool::find_file(&pool).await?;
    let url = format!("sqlite://{}", file.display());
    let path = location::prepare(&file, &url)?;
    // The pool's options, because they may have a key, a VFS or collations that the file needs. But
    // always WAL, because each of our connections would set another mode among the options.
    let connect = with_settings(pool.connect_options().as_ref().clone());
    let connect = connect.journal_mode(SqliteJournalMode::Wal).filename(&path);
    let database = open_connections(&url, Some(path), connect, Readers::Shared(pool.clone()), options).await?;
    pool::check(&pool, &url).await?;
    Ok(database)
}

/// The connections to read from.
enum Readers {
    /// A pool of the store's own.
    Own,
    /// The pool of the application.
    Shared(SqlitePool),
}

async fn open_connections(
    url: &str,
    path: Option<PathBuf>,
    connect: SqliteConnectOptions,
    readers: Readers,
    options: StoreOptions,
) -> Result<Database, ConnectError> {
    let writing = connect.clone().busy_timeout(LOCK_TIMEOUT);
    let opening = tokio::time::timeout(options.connect_timeout, open_writer(&writing, path.is_some()));
    let timed_out = |_| ConnectError::TimedOut { url: redact(url), after: options.connect_timeout };
    let opened = opening.await.map_err(timed_out)?;
    let mut connection = opened.map_err(|error| explain(error, url, path.as_deref()))?;
    let migrating = async {
        let migrated = if options.migrate {
            migrate::migrate(&mut connection).await
        } else {
            migrate::check(&mut connection).await
        };
        Ok(migrated.map_err(OpenError::Migrate))
    };
    let migrated = within_deadline("migrate the database", migrating).await;
    migrated.unwrap_or_else(|late| Err(late.into())).map_err(|error| explain(error, url, path.as_deref()))?;
    let writer = Writer::new(connection, writing, path.is_none());
    let file = match path {
        None => None,
        Some(path) => {
            let anchor = within_deadline("open the database", open_anchor(&connect)).await;
            let anchor = anchor.map_err(|error| explain(error.into(), url, Some(&path)))?;
            let (readers, readers_are_shared) = match readers {
                Readers::Own => (own_readers(connect.clone(), options.pool_size), false),
                Readers::Shared(pool) => (pool, true),
            };
            let (identity, hints) = (FileIdentity::of(&path), HintSockets::of(&path));
            let anchor = Mutex::new(Some(anchor));
            Some(DatabaseFile { path, connect, readers, readers_are_shared, identity, hints, anchor })
        }
    };
    Ok(Database { id: StoreId::next(), clock: options.clock, writer, file, closed: false.into() })
}

/// Returns these options with the settings of our connections.
fn with_settings(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .busy_timeout(BUSY_TIMEOUT)
        .row_buffer_size(512)
        .pragma("synchronous", altered("normal-sync", "FULL", "FULL", "NORMAL"))
        .pragma("journal_size_limit", WAL_BYTES_KEPT)
        // Otherwise each statement that changes many rows keeps its undo data in a file, which it
        // creates and removes.
        .pragma("temp_store", "MEMORY")
        .disable_statement_logging()
}

fn own_readers(connect: SqliteConnectOptions, size: u32) -> sqlx::SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(size)
        .acquire_timeout(DEADLINE)
        // There is no server that could have closed the connection.
        .test_before_acquire(false)
        .connect_lazy_with(connect.pragma("query_only", "ON"))
}

/// Opens a connection that has read, so that it holds the WAL.
async fn open_anchor(connect: &SqliteConnectOptions) -> Result<SqliteConnection, DatabaseError> {
    const OPERATION: &str = "open the database";
    let mut anchor = connect.clone().pragma("query_only", "ON").connect().await.during(OPERATION)?;
    sqlx::query(sql::READ_SCHEMA_VERSION).fetch_optional(&mut anchor).await.during(OPERATION)?;
    Ok(anchor)
}

enum OpenError {
    OldSqlite(String),
    Migrate(MigrateError),
    Database(DatabaseError),
}

impl From<DatabaseError> for OpenError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

async fn open_writer(connect: &SqliteConnectOptions, in_file: bool) -> Result<SqliteConnection, OpenError> {
    let mut connection = connect_writer(connect).await?;
    check_library(&mut connection).await?;
    if in_file {
        use_wal(&mut connection).await?;
    }
    Ok(connection)
}

/// Opens the connection, which may switch the file to WAL. See [`use_wal`].
async fn connect_writer(connect: &SqliteConnectOptions) -> Result<SqliteConnection, DatabaseError> {
    loop {
        match connect.connect().await.during("open the database") {
            Err(error) if error.kind == DatabaseErrorKind::Busy => pause().await,
            settled => return settled,
        }
    }
}

/// Waits before the next try to get the file alone.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(2..20))).await;
}

/// Refuses an old library before the switch to WAL, because its WAL mode can damage databases.
async fn check_library(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    let found: String =
        sqlx::query_scalar(sql::READ_SQLITE_VERSION).fetch_one(connection).await.during("read SQLite's version")?;
    if is_old(&found) { Err(OpenError::OldSqlite(found)) } else { Ok(()) }
}

/// `true` if a version is older than [`OLDEST_SQLITE`]. A text that is not a version counts as old.
pub(super) fn is_old(found: &str) -> bool {
    let parts = |version: &str| version.split('.').map(str::parse::<u32>).collect::<Result<Vec<_>, _>>();
    match (parts(found), parts(OLDEST_SQLITE)) {
        (Ok(found), Ok(oldest)) => found < oldest,
        _ => true,
    }
}

/// Switches to WAL. The switch needs the file alone and does not wait: if several processes open a
/// new file at once, all but one get BUSY. The caller's deadline ends the loop.
async fn use_wal(connection: &mut SqliteConnection) -> Result<(), DatabaseError> {
    loop {
        match try_wal(connection).await {
            Err(error) if error.kind == DatabaseErrorKind::Busy => pause().await,
            settled => return settled,
        }
    }
}

async fn try_wal(connection: &mut SqliteConnection) -> Result<(), DatabaseError> {
    const OPERATION: &str = "switch the database to WAL";
    let mode: String =
        sqlx::query_scalar(sql::READ_JOURNAL_MODE).fetch_one(&mut *connection).await.during(OPERATION)?;
    if mode == "wal" {
        return Ok(());
    }
    let mode: String = sqlx::query_scalar(sql::SET_JOURNAL_MODE).fetch_one(connection).await.during(OPERATION)?;
    if mode == "wal" {
        return Ok(());
    }
    Err(DatabaseError::new(DatabaseErrorKind::Other, OPERATION, format!("SQLite stays in mode {mode}")))
}

/// Turns an error into one that says what to do, as far as that is known.
fn explain(error: OpenError, url: &str, path: Option<&Path>) -> ConnectError {
    let error = match error {
        OpenError::OldSqlite(found) => return ConnectError::OldSqlite { found, required: OLDEST_SQLITE },
        OpenError::Migrate(MigrateError::Newer { found, known }) => return ConnectError::NewerSchema { found, known },
        OpenError::Migrate(MigrateError::Missing { found, known }) => {
            return ConnectError::NotMigrated { url: redact(url), found, known };
        }
        OpenError::Migrate(MigrateError::Unreleased) => return ConnectError::UnreleasedSchema { url: redact(url) },
        OpenError::Migrate(MigrateError::Database(error)) | OpenError::Database(error) => error,
    };
    let Some(path) = path else { return ConnectError::Database { url: redact(url), source: error } };
    let code = sqlite_code(error.source.as_ref());
    match error.kind {
        _ if code == Some(libsqlite3_sys::SQLITE_READONLY_DIRECTORY) => cannot_create_beside(path, error),
        DatabaseErrorKind::ReadOnly => ConnectError::ReadOnly { url: redact(url) },
        DatabaseErrorKind::Corrupt => ConnectError::NotADatabase { path: path.display().to_string(), source: error },
        // The file itself existed a moment ago, so SQLite cannot create the files beside it.
        DatabaseErrorKind::Unreachable if code.is_some() => cannot_create_beside(path, error),
        _ => ConnectError::Database { url: redact(url), source: error },
    }
}

fn cannot_create_beside(path: &Path, error: DatabaseError) -> ConnectError {
    location::not_writable(path, std::io::Error::new(std::io::ErrorKind::PermissionDenied, error))
}
