use std::time::Duration;

use crate::model::Clock;

use super::ConnectError;

/// The options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Connections for reads and, on PostgreSQL, for the transactions of steps. The executor uses
    /// one more. Default: 8. Range: 1 to 1000.
    pub pool_size: u32,
    /// The PostgreSQL schema that holds the tables; it is created if missing. SQLite ignores it.
    /// Default: `workflow`. Range: 1 to 31 of `a-z`, `0-9`, `_`, not beginning with a digit.
    pub schema: String,
    /// The longest time for the database to answer while a store is opened, without migrations.
    /// Default: 30 seconds. Range: 1 ms to 1 hour.
    pub connect_timeout: Duration,
    /// Whether a store that is opened makes missing tables and brings the schema up to date. If
    /// not, a database that lacks either is refused, and a missing file is not created. Default:
    /// `true`.
    pub migrate: bool,
    /// Whether a store may be opened on a standby. It then reads, and takes no writes. Default:
    /// `false`.
    pub allow_standby: bool,
    /// The source of time. Default: the database's clock on PostgreSQL, the host's clock on SQLite.
    pub clock: Clock,
}

impl StoreOptions {
    /// The default of [`StoreOptions::pool_size`].
    pub const DEFAULT_POOL_SIZE: u32 = 8;
    /// The largest [`StoreOptions::pool_size`]: a mistyped size must not take the last connection
    /// of a server.
    pub const MAX_POOL_SIZE: u32 = 1000;
    /// The default of [`StoreOptions::connect_timeout`].
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
    /// The default of [`StoreOptions::schema`].
    pub const DEFAULT_SCHEMA: &'static str = "workflow";
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            pool_size: Self::DEFAULT_POOL_SIZE,
            schema: Self::DEFAULT_SCHEMA.into(),
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            migrate: true,
            allow_standby: false,
            clock: Clock::default(),
        }
    }
}

impl StoreOptions {
    /// Checks the options before a database is touched.
    ///
    /// # Errors
    /// [`ConnectError::InvalidPoolSize`], [`ConnectError::InvalidTimeout`],
    /// [`ConnectError::InvalidSchema`].
    pub fn check(&self) -> Result<(), ConnectError> {
        check_pool_size(self.pool_size)?;
        check_timeout("timeout", self.connect_timeout)?;
        check_schema(&self.schema)
    }
}

fn check_pool_size(size: u32) -> Result<(), ConnectError> {
    if (1..=StoreOptions::MAX_POOL_SIZE).contains(&size) {
        return Ok(());
    }
    Err(ConnectError::InvalidPoolSize { size, min: 1, max: StoreOptions::MAX_POOL_SIZE })
}

/// Checks a time-out of this name.
///
/// # Errors
/// [`ConnectError::InvalidTimeout`].
pub fn check_timeout(option: &'static str, value: Duration) -> Result<(), ConnectError> {
    const SHORTEST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_secs(3600);
    if (SHORTEST..=LONGEST).contains(&value) {
        return Ok(());
    }
    Err(ConnectError::InvalidTimeout { option, value, shortest: SHORTEST, longest: LONGEST })
}

/// Checks the schema name. It becomes part of statements, so it may hold nothing that needs
/// quoting. 31 bytes leave room for suffixes within PostgreSQL's limit of 63.
fn check_schema(name: &str) -> Result<(), ConnectError> {
    let fits = (1..=31).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if fits { Ok(()) } else { Err(ConnectError::InvalidSchema { name: name.to_owned() }) }
}
