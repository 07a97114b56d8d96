use std::time::Duration;

use super::DatabaseError;

/// Why a client could not connect. The database was not changed, except that a migration may have
/// been applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The database has no tables of this project, or those of an earlier release, and the options
    /// forbid to change that: see [`StoreOptions::migrate`](super::StoreOptions::migrate). Nothing
    /// was changed.
    #[error(
        "database {url:?} has the tables of schema version {found}, and this program needs version {known} (0: no \
         tables); migrate the database first, or check the URL"
    )]
    NotMigrated {
        /// The URL without its password.
        url: String,
        /// The version of the schema; 0 if there are no tables.
        found: i64,
        /// The version that this program needs.
        known: i64,
    },
    /// There is no database file, and the options forbid to create one.
    #[error("there is no database file {path:?}; check the path, or migrate a new database first")]
    NoFile {
        /// The file.
        path: String,
    },
    /// The URL begins with an unknown scheme.
    #[error(
        "database URL {url:?} has an unknown scheme; use sqlite://path/to/file.db, sqlite::memory: or postgres://user@host/database"
    )]
    UnknownScheme {
        /// The URL without its password.
        url: String,
    },
    /// The URL cannot be understood.
    #[error("database URL {url:?} cannot be understood: {reason}")]
    InvalidUrl {
        /// The URL without its password.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The program was built without this store.
    #[error("database URL {url:?} needs the feature `{feature}` of workflow-sdk, which this program was built without")]
    MissingFeature {
        /// The URL without its password.
        url: String,
        /// The feature.
        feature: &'static str,
    },
    /// The schema name does not have the accepted form.
    #[error("schema name {name:?} is refused; use 1 to 31 of a-z, 0-9 and _, not beginning with a digit")]
    InvalidSchema {
        /// The name.
        name: String,
    },
    /// The pool size is out of range.
    #[error("pool size {size} is out of range; use {min} to {max} connections")]
    InvalidPoolSize {
        /// The size.
        size: u32,
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
    /// A time-out is too short or too long.
    #[error("{option} {value:?} is refused; use {shortest:?} to {longest:?}")]
    InvalidTimeout {
        /// The name of the option.
        option: &'static str,
        /// The time that was asked for.
        value: Duration,
        /// The shortest accepted time.
        shortest: Duration,
        /// The longest accepted time.
        longest: Duration,
    },
    /// The database did not answer in time. It may answer a later try.
    #[error(
        "database {url:?} did not answer within {after:?}; check the host, the port, and what lies between, or raise the timeout of the connect"
    )]
    TimedOut {
        /// The URL without its password.
        url: String,
        /// How long the connect waited.
        after: Duration,
    },
    /// A pooler before the server lends its connections for single transactions or statements.
    #[error(
        "between this program and database {url:?} is a pooler that lends connections for single transactions; locks, settings and notifications of a session would get lost, or reach other clients: give the user or the database a pool in session mode, or connect to the server directly"
    )]
    TransactionPooler {
        /// The URL without its password.
        url: String,
    },
    /// The server, or a pooler before it, gave no second connection.
    #[error(
        "database {url:?}, or a pooler before it, gave no second connection; a client with a worker needs {needed}: raise the pool size of the pooler or max_connections of the server, or lower pool_size"
    )]
    TooFewConnections {
        /// The URL without its password.
        url: String,
        /// The connections that a client with one worker uses.
        needed: u32,
    },
    /// The application's pool cannot be used.
    #[error("workflows cannot use this connection pool: {reason}")]
    UnsuitablePool {
        /// Says what is wrong with the pool, and what to do.
        reason: &'static str,
    },
    /// The database file or its directory cannot be created or written.
    #[error("cannot write the database file {path:?}; its directory must exist and be writable for this user")]
    NotWritable {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The path leads to something that is not a file, for example to a device.
    #[error("{path:?} is not a file, so nothing could be kept in it; name a file, or one that does not exist yet")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// A file of the database belongs to another user, and this database is not shared with it.
    #[error(
        "{path:?} belongs to user {owner}, who could have put anything into it; move it away, or give it to the user of this program"
    )]
    ForeignOwner {
        /// The file.
        path: String,
        /// The number of its owner.
        owner: u32,
    },
    /// The database file lies on a file system on which SQLite's locks do not work.
    #[error(
        "database file {path:?} lies on the network file system {filesystem}, where SQLite's locks do not hold; use a local disk, or PostgreSQL for several machines"
    )]
    NetworkFilesystem {
        /// The file.
        path: String,
        /// The kind of file system.
        filesystem: &'static str,
    },
    /// The database is read-only.
    #[error(
        "database {url:?} is read-only; a client must be able to write: check the file's permissions, or the server's role"
    )]
    ReadOnly {
        /// The URL without its password.
        url: String,
    },
    /// The file is not a SQLite database, or it is damaged.
    #[error("{path:?} is not a readable SQLite database; move it away, or restore it from a backup")]
    NotADatabase {
        /// The file.
        path: String,
        /// The driver's error.
        source: DatabaseError,
    },
    /// The SQLite library has a defect that can damage databases.
    #[error(
        "SQLite {found} is older than {required}, the first without the WAL-reset corruption; build workflow-sdk with its bundled SQLite"
    )]
    OldSqlite {
        /// The library's version.
        found: String,
        /// The oldest that is accepted.
        required: &'static str,
    },
    /// The PostgreSQL server is too old.
    #[error("PostgreSQL {found} is older than {required}, the oldest that is supported")]
    OldPostgres {
        /// The version of the server.
        found: String,
        /// The oldest that is accepted.
        required: u32,
    },
    /// The server is a standby.
    #[error("database {url:?} is a standby; connect to the primary, for a standby shows the past and takes no writes")]
    Standby {
        /// The URL without its password.
        url: String,
    },
    /// The database was migrated by a newer release.
    #[error(
        "the database has schema version {found}, this program knows up to {known}; update the program (it was not changed)"
    )]
    NewerSchema {
        /// The version in the database.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The tables were made by a version before the first release.
    #[error(
        "the tables in database {url:?} were made by a version before the first release, whose layout this program does not read; use a new database or schema (it was not changed)"
    )]
    UnreleasedSchema {
        /// The URL without its password.
        url: String,
    },
    /// The database answered with an error.
    #[error("cannot connect to {url:?}")]
    Database {
        /// The URL without its password.
        url: String,
        /// The database's error.
        source: DatabaseError,
    },
}
