//! Where versions are kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use workflow_sdk::{Timestamp, sqlx};

use super::{FlowStoreError, FlowVersion};
use crate::database::{Database, OpenError, fetch};

pub(super) const TABLE: &str = "workflow_flows";

const CREATE: &str = include_str!("../../sql/create_flows.sql");
const INSERT: &str = include_str!("../../sql/insert_flow.sql");
const FIND: &str = include_str!("../../sql/find_flow.sql");
const FIND_NEWEST: &str = include_str!("../../sql/find_newest_flow.sql");
const COUNT_VERSIONS: &str = include_str!("../../sql/count_flow_versions.sql");
const LIST_HEADS: &str = include_str!("../../sql/list_flow_heads.sql");
const LIST: &str = include_str!("../../sql/list_flows.sql");
const LIST_VERSIONS: &str = include_str!("../../sql/list_flow_versions.sql");
const LIST_ALL: &str = include_str!("../../sql/list_all_flow_versions.sql");

/// The versions of each flow, the oldest first.
type Versions = BTreeMap<String, Vec<FlowVersion>>;

pub(super) type Backend = Database<Mutex<Versions>>;

impl From<OpenError> for FlowStoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Url(url) => Self::Url { url },
            OpenError::Database(error) => Self::Database(error),
        }
    }
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

impl Backend {
    /// Creates the table.
    pub(super) async fn prepared(self) -> Result<Self, FlowStoreError> {
        self.create(TABLE, &[CREATE], &[CREATE]).await?;
        Ok(self)
    }

    /// Returns whether the version was inserted. It was not if its number or its name is taken.
    pub(super) async fn insert(&self, new: &FlowVersion) -> Result<bool, FlowStoreError> {
        if let Self::Memory(versions) = self {
            return Ok(insert_in_memory(&mut lock(versions), new.clone()));
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
            Self::Memory(versions) => Ok(insert_in_memory(&mut lock(versions), read(row.clone())?)),
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
        let in_memory = |versions: &Mutex<Versions>| -> Vec<FlowVersion> {
            let versions = lock(versions);
            versions.get(name).and_then(|versions| versions.last()).cloned().into_iter().collect()
        };
        fetch!(self, in_memory, FIND_NEWEST, FIND_NEWEST, read, [name]).map(|found| found.into_iter().next())
    }

    pub(super) async fn version(&self, name: &str, version: &str) -> Result<Option<FlowVersion>, FlowStoreError> {
        let in_memory = |versions: &Mutex<Versions>| -> Vec<FlowVersion> {
            let versions = lock(versions);
            versions.get(name).into_iter().flatten().filter(|found| found.version == version).cloned().collect()
        };
        fetch!(self, in_memory, FIND, FIND, read, [name, version]).map(|found| found.into_iter().next())
    }

    /// Returns the newest version of each flow, at most this many.
    pub(super) async fn list(&self, most: i64) -> Result<Vec<FlowVersion>, FlowStoreError> {
        let in_memory = |versions: &Mutex<Versions>| -> Vec<FlowVersion> {
            let versions = lock(versions);
            versions.values().filter_map(|versions| versions.last()).take(rows_of(most)).cloned().collect()
        };
        fetch!(self, in_memory, LIST, LIST, read, [most])
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

    pub(super) async fn counts(&self) -> Result<Vec<(String, i64)>, FlowStoreError> {
        match self {
            Self::Memory(versions) => {
                let versions = lock(versions);
                let count = |all: &Vec<FlowVersion>| i64::try_from(all.len()).unwrap_or(i64::MAX);
                Ok(versions.iter().map(|(name, all)| (name.clone(), count(all))).collect())
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => Ok(sqlx::query_as(COUNT_VERSIONS).fetch_all(pool).await?),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => Ok(sqlx::query_as(COUNT_VERSIONS).fetch_all(pool).await?),
        }
    }

    /// Returns the newest versions of a flow, at most this many.
    pub(super) async fn versions(&self, name: &str, most: i64) -> Result<Vec<FlowVersion>, FlowStoreError> {
        let in_memory = |versions: &Mutex<Versions>| -> Vec<FlowVersion> {
            let versions = lock(versions);
            versions.get(name).into_iter().flatten().rev().take(rows_of(most)).cloned().collect()
        };
        fetch!(self, in_memory, LIST_VERSIONS, LIST_VERSIONS, read, [name, most])
    }
}

/// Returns a bound of rows as one of versions in memory.
fn rows_of(most: i64) -> usize {
    usize::try_from(most).unwrap_or(usize::MAX)
}

fn insert_in_memory(versions: &mut Versions, new: FlowVersion) -> bool {
    let versions = versions.entry(new.name.clone()).or_default();
    let is_free = versions.iter().all(|old| old.number != new.number && old.version != new.version);
    if is_free {
        versions.push(new);
    }
    is_free
}

fn lock(versions: &Mutex<Versions>) -> MutexGuard<'_, Versions> {
    versions.lock().unwrap_or_else(PoisonError::into_inner)
}
