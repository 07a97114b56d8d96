use std::sync::Arc;

use workflow_engine::store::{ConnectError, Store, StoreOptions, TransferStore, redact};

/// Opens the store at the URL and brings its schema up to date.
///
/// # Errors
/// [`ConnectError`]. The options are checked before the database is touched.
pub async fn open(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>, ConnectError> {
    Ok(open_transferable(url, options).await?)
}

/// Returns the SQL that a migration executes in a database like this one whose schema has the
/// version `found`, 0 without tables. Connects to nothing.
///
/// # Errors
/// [`ConnectError::UnknownScheme`], also for a database whose feature is missing.
pub fn migration_script(url: &str, schema: &str, found: i64) -> Result<String, ConnectError> {
    // SQLite has no schemas, and a build may have neither driver.
    let _ = (schema, found);
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(workflow_sqlite::migration_script(found)),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(workflow_postgres::migration_script(schema, found)),
        _ => Err(ConnectError::UnknownScheme { url: redact(url) }),
    }
}

/// Opens a store as [`open`] does, so that its whole system can be copied.
///
/// # Errors
/// See [`open`].
pub(crate) async fn open_transferable(
    url: &str,
    options: StoreOptions,
) -> Result<Arc<dyn TransferStore>, ConnectError> {
    options.check()?;
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(Arc::new(workflow_sqlite::SqliteStore::open(url, options).await?)),
        #[cfg(not(feature = "sqlite"))]
        Some("sqlite") => Err(ConnectError::MissingFeature { url: redact(url), feature: "sqlite" }),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Arc::new(workflow_postgres::PostgresStore::open(url, options).await?)),
        #[cfg(not(feature = "postgres"))]
        Some("postgres" | "postgresql") => Err(ConnectError::MissingFeature { url: redact(url), feature: "postgres" }),
        _ => Err(ConnectError::UnknownScheme { url: redact(url) }),
    }
}
