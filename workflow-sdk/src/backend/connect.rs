use std::sync::Arc;

use crate::model::Clock;

use super::{Backend, ConnectError, redact};

/// How a backend is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendOptions {
    /// Connections for reads and, on PostgreSQL, for the transactions of steps. One more writes. Default: 8. Range: 1 to 1000.
    pub pool_size: u32,
    /// PostgreSQL schema that holds the tables; created if missing. SQLite has none and ignores it.
    /// Default: `workflow`. Range: 1 to 31 of `a-z`, `0-9`, `_`, not beginning with a digit.
    pub schema: String,
    /// Where time comes from. Default: the database's clock on PostgreSQL, the host's on SQLite.
    pub clock: Clock,
}

impl BackendOptions {
    /// Default of [`BackendOptions::pool_size`].
    pub const DEFAULT_POOL_SIZE: u32 = 8;
    /// Largest [`BackendOptions::pool_size`]: a mistyped size should not open a server's last connection.
    pub const MAX_POOL_SIZE: u32 = 1000;
    /// Default of [`BackendOptions::schema`].
    pub const DEFAULT_SCHEMA: &'static str = "workflow";
}

impl Default for BackendOptions {
    fn default() -> Self {
        Self { pool_size: Self::DEFAULT_POOL_SIZE, schema: Self::DEFAULT_SCHEMA.into(), clock: Clock::default() }
    }
}

/// Opens the backend that the URL names and brings its schema up to date.
///
/// # Errors
/// [`ConnectError`]; the options are checked before the database is touched.
pub async fn connect(url: &str, options: BackendOptions) -> Result<Arc<dyn Backend>, ConnectError> {
    check_pool_size(options.pool_size)?;
    check_schema(&options.schema)?;
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(Arc::new(super::sqlite::SqliteBackend::open(url, options).await?)),
        #[cfg(not(feature = "sqlite"))]
        Some("sqlite") => Err(ConnectError::MissingFeature { url: redact(url), feature: "sqlite" }),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Arc::new(super::postgres::PostgresBackend::open(url, options).await?)),
        #[cfg(not(feature = "postgres"))]
        Some("postgres" | "postgresql") => Err(ConnectError::MissingFeature { url: redact(url), feature: "postgres" }),
        _ => Err(ConnectError::UnknownScheme { url: redact(url) }),
    }
}

fn check_pool_size(size: u32) -> Result<(), ConnectError> {
    if (1..=BackendOptions::MAX_POOL_SIZE).contains(&size) {
        return Ok(());
    }
    Err(ConnectError::InvalidPoolSize { size, min: 1, max: BackendOptions::MAX_POOL_SIZE })
}

/// The schema name becomes part of statements, so it may hold nothing that would need quoting. 31 bytes leave room for
/// suffixes within PostgreSQL's limit of 63.
fn check_schema(name: &str) -> Result<(), ConnectError> {
    let fits = (1..=31).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if fits { Ok(()) } else { Err(ConnectError::InvalidSchema { name: name.to_owned() }) }
}
