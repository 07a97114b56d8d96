//! Versions of flows.

mod backend;
mod transfer;
mod version;

use std::fmt;
use std::sync::{Arc, Mutex};

use workflow_sdk::{ClientError, Timestamp, sqlx};

use crate::database::MissingFile;
use crate::graph::Flow;
use backend::Backend;

pub use version::FlowVersion;

/// A failure of a [`FlowStore`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowStoreError {
    /// There is no flow of this name.
    #[error("there is no flow {name:?}; deploy it first")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A version cannot be deployed twice with different bodies.
    #[error("F310: flow {name:?} has a version {version:?} with another body; choose another version")]
    VersionTaken {
        /// The name of the flow.
        name: String,
        /// The version.
        version: String,
    },
    /// A limit of the flow's steps is refused.
    #[error("limit {name:?} of the flow: {reason}")]
    Limit {
        /// The name of the limit.
        name: String,
        /// Why, and what to write.
        reason: String,
    },
    /// The input of a start does not fit the schema of the flow.
    #[error("flow {name:?} cannot start: {reason}")]
    Input {
        /// The name of the flow.
        name: String,
        /// The places that do not fit, and why.
        reason: String,
    },
    /// The stored flow was written by a newer release, or is damaged.
    #[error("flow {name:?} version {version:?} is not understood: {reason}")]
    Unreadable {
        /// The name of the flow.
        name: String,
        /// The version.
        version: String,
        /// Why.
        reason: String,
    },
    /// The URL names no database that this program knows.
    #[error("{url:?} is no URL of a database; write sqlite://flows.db or postgres://host/database")]
    Url {
        /// The URL, without its password.
        url: String,
    },
    /// The database failed.
    #[error("the database of flows: {0}")]
    Database(#[from] sqlx::Error),
    /// A call of the client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The outcome of [`FlowStore::deploy`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Deployed {
    /// The version that is now deployed.
    pub version: FlowVersion,
    /// `false` if the newest version, or the version of this name, had this body already.
    pub is_new: bool,
}

/// The deployed versions of flows: a table that is only added to, in the database of the runs or
/// in another one. A clone shares the connections.
///
/// No run needs it: a run carries its whole flow from its start on.
#[derive(Clone)]
pub struct FlowStore(Arc<Backend>);

impl FlowStore {
    /// Creates a store in the memory of this process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Arc::new(Backend::Memory(Mutex::default())))
    }

    /// Opens a store by the URL of a database, as
    /// [`Client::connect`](workflow_sdk::Client::connect) does, with at most two connections.
    /// Creates the table if there is none. The URL `sqlite::memory:` gives a store in memory.
    ///
    /// # Errors
    /// [`FlowStoreError::Url`], [`FlowStoreError::Database`].
    pub async fn connect(url: &str) -> Result<Self, FlowStoreError> {
        let backend = Backend::open(url, MissingFile::Create).await?;
        Ok(Self(Arc::new(backend.prepared().await?)))
    }

    /// Opens a store over the application's own pool of a SQLite database.
    ///
    /// # Errors
    /// [`FlowStoreError::Database`].
    #[cfg(feature = "sqlite")]
    pub async fn with_sqlite(pool: sqlx::SqlitePool) -> Result<Self, FlowStoreError> {
        Ok(Self(Arc::new(Backend::Sqlite(pool).prepared().await?)))
    }

    /// Opens a store over the application's own pool of a PostgreSQL database. The table stands in
    /// the first schema of the pool's search path.
    ///
    /// # Errors
    /// [`FlowStoreError::Database`].
    #[cfg(feature = "postgres")]
    pub async fn with_postgres(pool: sqlx::PgPool) -> Result<Self, FlowStoreError> {
        Ok(Self(Arc::new(Backend::Postgres(pool).prepared().await?)))
    }

    /// Deploys a flow. If the newest version has this body, nothing changes. Otherwise the flow
    /// gets one more version, whose name is `version` or its number. A number that is the name of
    /// another version is left out.
    ///
    /// # Errors
    /// [`FlowStoreError::VersionTaken`] if `version` stands for another body,
    /// [`FlowStoreError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the flow may or may not be deployed. Deploying it again is safe.
    pub async fn deploy(&self, flow: &Flow, by: &str, version: Option<&str>) -> Result<Deployed, FlowStoreError> {
        let digest = flow.digest();
        loop {
            if let Some(version) = version
                && let Some(found) = self.find(&flow.name, Some(version)).await?
            {
                return version::is_same(found, &digest);
            }
            let newest = self.0.newest(&flow.name).await?;
            let mut number = newest.as_ref().map_or(1, |newest| newest.number + 1);
            if let Some(newest) = newest.filter(|newest| version.is_none() && newest.digest == digest) {
                return Ok(Deployed { version: newest, is_new: false });
            }
            while version.is_none() && self.find(&flow.name, Some(&number.to_string())).await?.is_some() {
                number += 1;
            }
            let new = FlowVersion {
                name: flow.name.clone(),
                number,
                version: version.map_or_else(|| number.to_string(), ToOwned::to_owned),
                digest: digest.clone(),
                definition: flow.clone(),
                created_at: Timestamp::from(std::time::SystemTime::now()),
                created_by: by.to_owned(),
            };
            if self.0.insert(&new).await? {
                return Ok(Deployed { version: new, is_new: true });
            }
            // Another deploy was first: look again.
        }
    }

    /// Returns a version of a flow, or the newest one.
    ///
    /// # Errors
    /// [`FlowStoreError::Database`], [`FlowStoreError::Unreadable`].
    pub async fn find(&self, name: &str, version: Option<&str>) -> Result<Option<FlowVersion>, FlowStoreError> {
        match version {
            Some(version) => self.0.version(name, version).await,
            None => self.0.newest(name).await,
        }
    }

    /// Returns the newest version of each flow, in the order of their names.
    ///
    /// # Errors
    /// [`FlowStoreError::Database`], [`FlowStoreError::Unreadable`].
    pub async fn list(&self) -> Result<Vec<FlowVersion>, FlowStoreError> {
        self.0.list(i64::MAX).await
    }

    /// Does what [`FlowStore::list`] does, for this many flows at most.
    pub(crate) async fn list_first(&self, most: u32) -> Result<Vec<FlowVersion>, FlowStoreError> {
        self.0.list(most.into()).await
    }

    /// Returns the name of each flow and the number of its newest version, in the order of the
    /// names.
    pub(crate) async fn heads(&self) -> Result<Vec<(String, i64)>, FlowStoreError> {
        self.0.heads().await
    }

    /// Returns the name of each flow and how many versions it has, in the order of the names.
    pub(crate) async fn counts(&self) -> Result<Vec<(String, i64)>, FlowStoreError> {
        self.0.counts().await
    }

    /// Returns the versions of a flow, the newest first.
    ///
    /// # Errors
    /// [`FlowStoreError::Database`], [`FlowStoreError::Unreadable`].
    pub async fn versions(&self, name: &str) -> Result<Vec<FlowVersion>, FlowStoreError> {
        self.0.versions(name, i64::MAX).await
    }

    /// Does what [`FlowStore::versions`] does, for this many versions at most.
    pub(crate) async fn versions_first(&self, name: &str, most: u32) -> Result<Vec<FlowVersion>, FlowStoreError> {
        self.0.versions(name, most.into()).await
    }
}

impl fmt::Debug for FlowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlowStore").field(&self.0.kind()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::FlowStore;

    #[tokio::test]
    async fn the_error_of_a_url_shows_no_password() {
        for url in ["mysql://ann:pass@db/app", "mysql://db/app?password=pass", "postgres://ann:pass@db:port/app"] {
            let error = FlowStore::connect(url).await.unwrap_err().to_string();
            assert!(
                error.contains("is no URL of a database") && !error.contains("pass@") && !error.contains("=pass"),
                "{error}"
            );
        }
    }
}
