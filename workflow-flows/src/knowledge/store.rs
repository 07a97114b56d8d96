use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_sdk::{Tx, sqlx};

use super::backend::{Backend, WriteError};
use super::{KbDocument, KbEntry, KbError, KbSearch, KbSummary, KnowledgeBase};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::database::Database;
use crate::{ErrorClass, ToolError};

/// The knowledge base in a table: documents by base and key, with a full-text index (FTS5 on
/// SQLite, GIN on PostgreSQL). A clone shares the connections.
///
/// A flow's step `kb` writes in the transaction of its record, so the base stands in the database
/// of the runs. A base in memory is for tests: it stands beside the transaction.
///
/// ```
/// use workflow_flows::{FlowRuntime, KbDocument, KbStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), workflow_flows::KbError> {
/// let kb = KbStore::connect("sqlite::memory:").await?;
/// let jam = |text: &str| KbDocument::new("support", "t-1", "Printer jam", text);
/// assert_eq!(kb.put(&jam("Turn it off.")).await?, 1);
/// assert_eq!(kb.put(&jam("Empty the tray.")).await?, 2);
/// assert_eq!(kb.find("support", "t-1").await?.unwrap().document.text, "Empty the tray.");
///
/// let runtime = FlowRuntime::builder().knowledge_base(kb).build();
/// # drop(runtime);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KbStore(Arc<Backend>);

impl KbStore {
    /// The most documents that [`list`](Self::list) gives.
    pub const MAX_LIMIT: u32 = 1_000;

    /// Creates a base in the memory of this process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Arc::new(Backend::in_memory()))
    }

    /// Opens a base by the URL of a database, with at most two connections. Creates its tables if
    /// there are none: on PostgreSQL, in the first schema of the search path. The URL
    /// `sqlite::memory:` gives a base in memory.
    ///
    /// # Errors
    /// [`KbError::Url`], [`KbError::Database`].
    pub async fn connect(url: &str) -> Result<Self, KbError> {
        Ok(Self(Arc::new(Backend::connect(url).await?)))
    }

    /// Opens a base as [`connect`](Self::connect) does, and creates nothing.
    ///
    /// # Errors
    /// [`KbError::NoTables`] if there is no base, [`KbError::Url`], [`KbError::Database`].
    pub async fn attach(url: &str) -> Result<Self, KbError> {
        Ok(Self(Arc::new(Backend::attach(url).await?)))
    }

    /// Opens a base over the application's own pool of a SQLite database.
    ///
    /// # Errors
    /// [`KbError::Database`].
    #[cfg(feature = "sqlite")]
    pub async fn with_sqlite(pool: sqlx::SqlitePool) -> Result<Self, KbError> {
        Ok(Self(Arc::new(Backend::prepared(Database::Sqlite(pool)).await?)))
    }

    /// Opens a base over the application's own pool of a PostgreSQL database. The table stands in
    /// the first schema of the pool's search path.
    ///
    /// # Errors
    /// [`KbError::Database`].
    #[cfg(feature = "postgres")]
    pub async fn with_postgres(pool: sqlx::PgPool) -> Result<Self, KbError> {
        Ok(Self(Arc::new(Backend::prepared(Database::Postgres(pool)).await?)))
    }

    /// Writes a document without a flow, for example to fill a base. A document of the same base
    /// and key is replaced. Returns how often a document of this key was written.
    ///
    /// # Errors
    /// [`KbError::Document`] if the document is larger than it may be, [`KbError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the document may or may not be written.
    pub async fn put(&self, document: &KbDocument) -> Result<i64, KbError> {
        document.check()?;
        Ok(self.0.put(document).await?)
    }

    /// Returns a document.
    ///
    /// # Errors
    /// [`KbError::Database`], [`KbError::Unreadable`].
    pub async fn find(&self, base: &str, key: &str) -> Result<Option<KbEntry>, KbError> {
        if is_nowhere([base, key]) {
            return Ok(None);
        }
        self.0.find(base, key).await
    }

    /// Returns the documents of one base, or of all, in the order of base and key, with the
    /// beginnings of their texts. `after` is the base and the key behind which the list begins, and
    /// `limit` its longest length: 1 to 1,000; a number outside is taken as the nearest one inside.
    ///
    /// # Errors
    /// [`KbError::Database`], [`KbError::Unreadable`].
    pub async fn list(
        &self,
        base: Option<&str>,
        after: Option<(&str, &str)>,
        limit: u32,
    ) -> Result<Vec<KbSummary>, KbError> {
        let after = after.unwrap_or_default();
        if is_nowhere([base.unwrap_or_default(), after.0, after.1]) {
            return Ok(Vec::new());
        }
        let found = self.0.list(base, after, limit.clamp(1, Self::MAX_LIMIT)).await?;
        Ok(found.into_iter().map(KbSummary::of_list).collect())
    }

    /// Returns the documents that a search finds, those that fit best first. Words in the title
    /// count more; the newest of equals comes first.
    ///
    /// # Errors
    /// [`KbError::Database`], [`KbError::Unreadable`].
    pub async fn search(&self, search: &KbSearch) -> Result<Vec<KbSummary>, KbError> {
        if is_nowhere(search.base.iter().chain(&search.tags)) {
            return Ok(Vec::new());
        }
        let found = self.0.search(search).await?;
        Ok(found.into_iter().map(|entry| KbSummary::of_search(entry, &search.query)).collect())
    }
}

/// Returns whether no document has one of these texts: PostgreSQL refuses a NUL character.
fn is_nowhere(texts: impl IntoIterator<Item = impl AsRef<str>>) -> bool {
    texts.into_iter().any(|text| text.as_ref().contains('\0'))
}

#[async_trait]
impl KnowledgeBase for KbStore {
    async fn write(&self, tx: Tx, document: &KbDocument) -> Result<Value, ToolError> {
        document.check().map_err(|error| ToolError::new(ErrorClass::Invalid, error.to_string()))?;
        let revision = self.0.write(tx, document).await.map_err(|error| self.failure(&error))?;
        Ok(json!({ "base": document.base, "key": document.key, "revision": revision }))
    }
}

/// The codes of PostgreSQL for a table or a schema that is missing, and for a right that is.
const MISSING: [&str; 2] = ["42P01", "3F000"];
const DENIED: &str = "42501";

impl KbStore {
    /// Returns the failure of a write. A text of the database could hold a part of the document, so
    /// it is left out.
    fn failure(&self, error: &WriteError) -> ToolError {
        let WriteError::Database(error) = error else {
            let message = format!(
                "the knowledge base is on {}, and the run is not; open the base by the URL of the runs",
                self.0.kind()
            );
            return ToolError::new(ErrorClass::Invalid, message);
        };
        let Some(error) = error.as_database_error() else {
            return ToolError::new(ErrorClass::Connection, "the connection to the knowledge base broke");
        };
        let code = error.code().unwrap_or_default();
        if MISSING.contains(&&*code) || error.message().starts_with("no such table") {
            let message = "the database of the run has no knowledge base; open one there with KbStore::connect";
            return ToolError::new(ErrorClass::Unavailable, message);
        }
        if code == DENIED {
            let message = "the role of this worker may not write to workflow_knowledge; grant it INSERT and UPDATE";
            return ToolError::new(ErrorClass::Invalid, message);
        }
        ToolError::new(ErrorClass::Unavailable, format!("the database did not take the document, code {code:?}"))
    }
}

impl fmt::Debug for KbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KbStore").field(&self.0.kind()).finish()
    }
}
