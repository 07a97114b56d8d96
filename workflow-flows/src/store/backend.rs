//! Where versions are kept.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use workflow_sdk::internal::redact;
use workflow_sdk::{Timestamp, sqlx};

use super::{FlowStoreError, FlowVersion};

/// The connections of a store of its own.
const CONNECTIONS: u32 = 2;

const CREATE: &str = include_str!("../../sql/create_flows.sql");
const INSERT: &str = include_str!("../../sql/insert_flow.sql");
const FIND: &str = include_str!("../../sql/find_flow.sql");
const FIND_NEWEST: &str = include_str!("../../sql/find_newest_flow.sql");
const LIST_HEADS: &str = include_str!("../../sql/list_flow_heads.sql");
const LIST: &str = include_str!("../../sql/list_flows.sql");
const LIST_VERSIONS: &str = include_str!("../../sql/list_flow_versions.sql");
const LIST_ALL: &str = include_str!("../../sql/list_all_flow_versions.sql");

#[cfg(feature = "postgres")]
const HAS_TABLE: &str = "SELECT to_regclass('workflow_flows') IS NOT NULL";

/// The versions of each flow, the oldest first.
type Versions = BTreeMap<String, Vec<FlowVersion>>;

pub(super) enum Backend {
    Memory(Mutex<Versions>),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
}

/// A version as it is stored: name, number, version, digest, body, and when and by whose order it
/// was deployed.
pub(super) type Row = (String, i64, String, String, String, i64, String);

fn read((name, number, version, digest, body, created_at, created_by): Row) -> Result<FlowVersion, FlowStoreError> {
    match serde_json::from_str(&body) {
        Ok(definition) => Ok(FlowVersion {
            name,
            number,
            version,
            digest,
            definition,
            created_at: Timestamp::from_micros(created_at),
            created_by,
        }),
        Err(error) => Err(FlowStoreError::Unreadable { name, version, reason: error.to_string() }),
    }
}

/// Runs a query on the pool of either database.
macro_rules! fetch {
    ($backend:expr, $sql:expr, [$($bound:expr),*], $memory:expr) => {
        match $backend {
            Backend::Memory(versions) => {
                let versions = lock(versions);
                Ok($memory(&versions))
            }
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(pool) => {
                let rows: Vec<Row> = sqlx::query_as($sql)$(.bind($bound))*.fetch_all(pool).await?;
                rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()
            }
            #[cfg(feature = "postgres")]
            Backend::Postgres(pool) => {
                let rows: Vec<Row> = sqlx::query_as($sql)$(.bind($bound))*.fetch_all(pool).await?;
                rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()
            }
        }
    };
}

impl Backend {
    pub(super) fn in_memory() -> Self {
        Self::Memory(Mutex::default())
    }

    pub(super) async fn connect(url: &str) -> Result<Self, FlowStoreError> {
        match Self::open(url, true).await? {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => Self::with_sqlite(pool).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => Self::with_postgres(pool).await,
            memory @ Self::Memory(_) => Ok(memory),
        }
    }

    /// Opens a database that has the table of flows. Changes nothing.
    pub(super) async fn find(url: &str) -> Result<Option<Self>, FlowStoreError> {
        let found = match Self::open(url, false).await {
            Err(FlowStoreError::Database(error)) if is_missing_file(&error) => return Ok(None),
            opened => opened?,
        };
        let has_table = match &found {
            Self::Memory(_) => true,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => {
                let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'workflow_flows')";
                sqlx::query_scalar(exists).fetch_one(pool).await?
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => sqlx::query_scalar(HAS_TABLE).fetch_one(pool).await?,
        };
        Ok(has_table.then_some(found))
    }

    /// Opens a database, whose table may be missing.
    async fn open(url: &str, create: bool) -> Result<Self, FlowStoreError> {
        let unknown = || FlowStoreError::Url { url: redact(url) };
        match url.split_once(':') {
            Some(("sqlite", ":memory:")) => Ok(Self::in_memory()),
            #[cfg(feature = "sqlite")]
            Some(("sqlite", _)) => {
                let options = sqlx::sqlite::SqliteConnectOptions::from_str(url).map_err(|_| unknown())?;
                let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(CONNECTIONS);
                Ok(Self::Sqlite(pool.connect_with(options.create_if_missing(create)).await?))
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

    #[cfg(feature = "sqlite")]
    pub(super) async fn with_sqlite(pool: sqlx::SqlitePool) -> Result<Self, FlowStoreError> {
        sqlx::query(CREATE).execute(&pool).await?;
        Ok(Self::Sqlite(pool))
    }

    #[cfg(feature = "postgres")]
    pub(super) async fn with_postgres(pool: sqlx::PgPool) -> Result<Self, FlowStoreError> {
        let mut transaction = pool.begin().await?;
        // Two processes that create one table at once would both fail to find it.
        sqlx::query("SELECT pg_advisory_xact_lock(hashtext('workflow_flows'))").execute(&mut *transaction).await?;
        // A role that may not create tables is refused even if the table exists.
        let exists = sqlx::query_scalar(HAS_TABLE);
        if !exists.fetch_one(&mut *transaction).await? {
            sqlx::query(CREATE).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(Self::Postgres(pool))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => "SQLite",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// Returns whether the version was inserted. It was not if its number or its name is taken.
    pub(super) async fn insert(&self, new: &FlowVersion) -> Result<bool, FlowStoreError> {
        if let Self::Memory(versions) = self {
            let mut versions = lock(versions);
            let versions = versions.entry(new.name.clone()).or_default();
            let is_free = versions.iter().all(|old| old.number != new.number && old.version != new.version);
            if is_free {
                versions.push(new.clone());
            }
            return Ok(is_free);
        }
        let body = serde_json::to_string(&new.definition).map_err(|error| FlowStoreError::Unreadable {
            name: new.name.clone(),
            version: new.version.clone(),
            reason: error.to_string(),
        })?;
        let FlowVersion { name, number, version, digest, created_at, created_by, .. } = new.clone();
        self.insert_row(&(name, number, version, digest, body, created_at.as_micros(), created_by)).await
    }

    /// Inserts a version as it is stored. See [`Backend::insert`].
    pub(super) async fn insert_row(&self, row: &Row) -> Result<bool, FlowStoreError> {
        let (name, number, version, digest, body, created_at, created_by) = row;
        macro_rules! insert {
            ($pool:expr) => {{
                let insert = sqlx::query(INSERT).bind(name).bind(number).bind(version).bind(digest);
                let insert = insert.bind(body).bind(created_at).bind(created_by);
                Ok(insert.execute($pool).await?.rows_affected() > 0)
            }};
        }
        match self {
            Self::Memory(_) => Box::pin(self.insert(&read(row.clone())?)).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => insert!(pool),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => insert!(pool),
        }
    }

    /// Returns all versions as they are stored. Those in memory are not stored.
    pub(super) async fn rows(&self) -> Result<Vec<Row>, FlowStoreError> {
        match self {
            Self::Memory(_) => Ok(Vec::new()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => Ok(sqlx::query_as(LIST_ALL).fetch_all(pool).await?),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => Ok(sqlx::query_as(LIST_ALL).fetch_all(pool).await?),
        }
    }

    pub(super) async fn newest(&self, name: &str) -> Result<Option<FlowVersion>, FlowStoreError> {
        let in_memory = |versions: &Versions| -> Vec<FlowVersion> {
            versions.get(name).and_then(|versions| versions.last()).cloned().into_iter().collect()
        };
        fetch!(self, FIND_NEWEST, [name], in_memory).map(|found| found.into_iter().next())
    }

    pub(super) async fn version(&self, name: &str, version: &str) -> Result<Option<FlowVersion>, FlowStoreError> {
        let in_memory = |versions: &Versions| -> Vec<FlowVersion> {
            versions.get(name).into_iter().flatten().filter(|found| found.version == version).cloned().collect()
        };
        fetch!(self, FIND, [name, version], in_memory).map(|found| found.into_iter().next())
    }

    pub(super) async fn list(&self) -> Result<Vec<FlowVersion>, FlowStoreError> {
        let in_memory = |versions: &Versions| -> Vec<FlowVersion> {
            versions.values().filter_map(|versions| versions.last()).cloned().collect()
        };
        fetch!(self, LIST, [], in_memory)
    }

    pub(super) async fn heads(&self) -> Result<Vec<(String, i64)>, FlowStoreError> {
        match self {
            Self::Memory(versions) => {
                let versions = lock(versions);
                let heads = versions.iter().filter_map(|(name, all)| Some((name.clone(), all.last()?.number)));
                Ok(heads.collect())
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => Ok(sqlx::query_as(LIST_HEADS).fetch_all(pool).await?),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => Ok(sqlx::query_as(LIST_HEADS).fetch_all(pool).await?),
        }
    }

    pub(super) async fn versions(&self, name: &str) -> Result<Vec<FlowVersion>, FlowStoreError> {
        let in_memory = |versions: &Versions| -> Vec<FlowVersion> {
            versions.get(name).into_iter().flatten().rev().cloned().collect()
        };
        fetch!(self, LIST_VERSIONS, [name], in_memory)
    }
}

/// Returns `true` if SQLite could not open the file (`SQLITE_CANTOPEN`).
fn is_missing_file(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "14")
}

fn lock(versions: &Mutex<Versions>) -> MutexGuard<'_, Versions> {
    versions.lock().unwrap_or_else(PoisonError::into_inner)
}
