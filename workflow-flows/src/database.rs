//! The database of a store of this crate: how it is opened, and how its tables are created.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use std::str::FromStr;

use workflow_sdk::internal::redact;
use workflow_sdk::sqlx;

/// The connections of a store of its own.
const CONNECTIONS: u32 = 2;

/// Where a store keeps its rows: in a database, or as `M` in the memory of this process.
#[derive(Debug)]
pub(crate) enum Database<M> {
    Memory(M),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
}

/// A URL does not lead to a database.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The URL, without its password, names no database that this program knows.
    Url(String),
    Database(sqlx::Error),
}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// Whether a file that is missing is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingFile {
    Create,
    Refuse,
}

impl<M: Default> Database<M> {
    /// Opens a database that has a table of this name. Creates nothing, not even a file.
    pub(crate) async fn find(url: &str, table: &str) -> Result<Option<Self>, OpenError> {
        let found = match Self::open(url, MissingFile::Refuse).await {
            Err(OpenError::Database(error)) if is_missing_file(&error) => return Ok(None),
            opened => opened?,
        };
        Ok(found.has(table).await?.then_some(found))
    }

    /// Opens a database with a few connections. `sqlite::memory:` stands for the memory of this
    /// process.
    pub(crate) async fn open(url: &str, missing: MissingFile) -> Result<Self, OpenError> {
        let unknown = || OpenError::Url(redact(url));
        match url.split_once(':') {
            Some(("sqlite", ":memory:")) => Ok(Self::Memory(M::default())),
            #[cfg(feature = "sqlite")]
            Some(("sqlite", _)) => {
                let options = sqlx::sqlite::SqliteConnectOptions::from_str(url).map_err(|_| unknown())?;
                let options = options.create_if_missing(missing == MissingFile::Create);
                let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(CONNECTIONS);
                Ok(Self::Sqlite(pool.connect_with(options).await?))
            }
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => {
                let options = sqlx::postgres::PgConnectOptions::from_str(url).map_err(|_| unknown())?;
                let pool = sqlx::postgres::PgPoolOptions::new().max_connections(CONNECTIONS);
                Ok(Self::Postgres(pool.connect_with(options).await?))
            }
            _ => Err(unknown()),
        }
    }
}

impl<M> Database<M> {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => "SQLite",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// Returns whether there is a table of this name. Memory needs none.
    pub(crate) async fn has(&self, table: &str) -> Result<bool, sqlx::Error> {
        match self {
            Self::Memory(_) => Ok(true),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => {
                let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = $1)";
                sqlx::query_scalar(exists).bind(table).fetch_one(pool).await
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => Ok(schema_of(pool, table).await?.is_some()),
        }
    }

    /// Creates a table, unless it exists. Each database has statements of its own.
    pub(crate) async fn create(
        &self,
        table: &str,
        sqlite: &[&'static str],
        postgres: &[&'static str],
    ) -> Result<(), sqlx::Error> {
        match self {
            Self::Memory(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => {
                for statement in sqlite {
                    sqlx::query(*statement).execute(pool).await?;
                }
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => create_in_postgres(pool, table, postgres).await,
        }
    }
}

/// Returns whether SQLite could not open the file (`SQLITE_CANTOPEN`).
fn is_missing_file(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "14")
}

/// Runs a query on the pool of either database and reads its rows, or looks into the memory.
macro_rules! fetch {
    ($database:expr, $memory:expr, $sqlite:expr, $postgres:expr, $read:expr, [$($bound:expr),*]) => {
        match $database {
            Database::Memory(memory) => Ok($memory(memory)),
            #[cfg(feature = "sqlite")]
            Database::Sqlite(pool) => {
                let rows = sqlx::query_as($sqlite)$(.bind($bound))*.fetch_all(pool).await?;
                rows.into_iter().map($read).collect::<Result<Vec<_>, _>>()
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(pool) => {
                let rows = sqlx::query_as($postgres)$(.bind($bound))*.fetch_all(pool).await?;
                rows.into_iter().map($read).collect::<Result<Vec<_>, _>>()
            }
        }
    };
}

pub(crate) use fetch;

/// Returns the quoted schema of a table that the search path finds.
#[cfg(feature = "postgres")]
pub(crate) async fn schema_of(
    connection: impl sqlx::PgExecutor<'_>,
    table: &str,
) -> Result<Option<String>, sqlx::Error> {
    let schema = "SELECT quote_ident(nspname::text) FROM pg_namespace
                  WHERE oid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass($1))";
    sqlx::query_scalar(schema).bind(table).fetch_optional(connection).await
}

/// Creates a table and its indexes, unless the table exists.
#[cfg(feature = "postgres")]
async fn create_in_postgres(pool: &sqlx::PgPool, table: &str, statements: &[&'static str]) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    // Two processes that create one table at once would both fail to find it.
    let lock = sqlx::query("SELECT pg_advisory_xact_lock(hashtext($1))").bind(table);
    lock.execute(&mut *transaction).await?;
    // A role that may not create tables is refused even if the table exists.
    if schema_of(&mut *transaction, table).await?.is_none() {
        for statement in statements {
            sqlx::query(*statement).execute(&mut *transaction).await?;
        }
    }
    transaction.commit().await
}

/// Puts the schema, which the database has quoted, into a statement. The transaction of a step has
/// another search path than the store.
#[cfg(feature = "postgres")]
pub(crate) fn in_schema(statement: &'static str, schema: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(statement.replace("{schema}", schema))
}
