//! Moves a whole system from one database to another.

mod checksum;
mod error;
mod fence;
mod rows;

use std::error::Error;
use std::fmt;
use std::future::IntoFuture;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use workflow_engine::model::Timestamp;
use workflow_engine::store::{StoreOptions, TransferRole, redact};

pub use error::TransferError;
use fence::Place;

/// The most rows of a chunk.
const MOST_ROWS: u32 = 1000;

/// A move of a whole system from one database to another: set its options, then await it.
///
/// It copies runs with their histories, signals and waits, schedules, keys, tags, queues, gates,
/// limits, audit rows, statistics and bulk operations. Ids, positions, times and payloads
/// stay as they are, so encrypted payloads need no key. All workers must have been stopped.
///
/// Once it has begun, both databases refuse every write of other programs. If it is killed or
/// fails, the same move goes on where it stopped. At its end it compares a checksum of each table,
/// and opens the target; the source stays closed. [`Transfer::undo`] opens it again.
///
/// The role of a PostgreSQL URL must own the tables. [`Transfer::also`] copies further tables, as
/// `workflow move` does with versions of flows, the knowledge base, the inbox and secrets of flows.
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_sdk::Transfer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = std::env::temp_dir().join(format!("workflow-move-{}", std::process::id()));
/// # std::fs::create_dir(&directory)?;
/// let from = format!("sqlite://{}/old.db", directory.display());
/// let to = format!("sqlite://{}/new.db", directory.display());
/// let old = Client::connect(&from).await?;
/// let run = old.start_by_name("checkout", &"order 42".into()).key("order-42").await?;
///
/// let report = Transfer::new(&from, &to).await?;
/// assert!(report.tables.iter().any(|table| table.table == "workflow_runs" && table.rows == 1));
///
/// let new = Client::connect(&to).await?;
/// assert_eq!(new.handle::<()>(run.id()).await?.status().await?, RunStatus::Pending);
/// assert!(old.start_by_name("checkout", &"order 43".into()).await.is_err(), "it has moved");
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`TransferError`].
///
/// # Cancel safety
/// If the future is dropped, the move stops and can go on later.
#[must_use = "nothing is moved until this is awaited"]
pub struct Transfer {
    from: String,
    to: String,
    source: StoreOptions,
    target: StoreOptions,
    most_rows: u32,
    progress: Box<dyn FnMut(&TransferProgress) + Send>,
    also: Option<Also>,
}

/// A further copy.
type Also = BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>>;

/// How far a move has come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferProgress {
    /// The table that is being copied.
    pub table: &'static str,
    /// The rows of it that were copied.
    pub rows: u64,
}

/// A system that was moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TransferReport {
    /// `true` if an earlier attempt had copied rows.
    pub resumed: bool,
    /// The tables, which are equal in both databases.
    pub tables: Vec<TransferredTable>,
}

/// A table that was moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TransferredTable {
    /// The name.
    pub table: String,
    /// The rows.
    pub rows: u64,
    /// A hash of all rows in the order of the primary key.
    pub checksum: String,
}

impl Transfer {
    /// Returns a move between the databases at these URLs, which are those of
    /// [`Client::connect`](crate::Client::connect). Creates the tables of the target.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            source: StoreOptions { migrate: false, ..StoreOptions::default() },
            target: StoreOptions::default(),
            most_rows: MOST_ROWS,
            progress: Box::new(|_| {}),
            also: None,
        }
    }

    /// Sets the PostgreSQL schema of the tables in both databases. SQLite ignores it. Default:
    /// `workflow`. Range: see [`Connect::schema`](crate::Connect::schema).
    pub fn schema(mut self, name: &str) -> Self {
        self.source.schema = name.to_owned();
        self.target_schema(name)
    }

    /// Sets the PostgreSQL schema of the tables in the target. Default: that of
    /// [`Transfer::schema`].
    pub fn target_schema(mut self, name: &str) -> Self {
        self.target.schema = name.to_owned();
        self
    }

    /// Sets how long each database may take to answer the connect.
    /// Default: 30 seconds. Range: 1 ms to 1 hour.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.source.connect_timeout = timeout;
        self.target.connect_timeout = timeout;
        self
    }

    /// Sets a function that is called after each chunk. It must return quickly. Default: none.
    pub fn progress(mut self, progress: impl FnMut(&TransferProgress) + Send + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Sets the further copy, for example of tables of your own; a second call replaces it. It runs
    /// when both databases are closed and all rows are copied, before the target is opened. A move
    /// that goes on after it was killed may run it again, so it has to be safe to repeat. Default:
    /// none.
    pub fn also<E>(mut self, copy: impl Future<Output = Result<(), E>> + Send + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.also = Some(Box::pin(async { copy.await.map_err(Into::into) }));
        self
    }

    /// Sets the most rows of a chunk. For tests, which stop a move in the middle.
    #[doc(hidden)]
    pub fn most_rows(mut self, rows: u32) -> Self {
        self.most_rows = rows;
        self
    }

    /// Opens the source again after a move that has begun. The copy in the target is useless from
    /// then on. A source whose move has ended is opened only if `even_if_moved` is set: if the
    /// target is used too, both execute the same runs.
    ///
    /// # Errors
    /// [`TransferError::NotMoving`], [`TransferError::AlreadyMoved`], [`TransferError::Connect`],
    /// [`TransferError::Database`]; [`TransferError::OtherSource`] if the database is the target of
    /// a move, because its copy must not be used.
    ///
    /// # Cancel safety
    /// If the future is dropped, the source may or may not be open. Undoing again is safe.
    pub async fn undo(self, even_if_moved: bool) -> Result<(), TransferError> {
        let source = Place::open(&self.from, self.source).await?;
        let undone = undo(&source, even_if_moved).await;
        source.store.close().await;
        undone
    }

    async fn run(mut self) -> Result<TransferReport, TransferError> {
        if self.from == self.to && self.source.schema == self.target.schema {
            return Err(TransferError::SameDatabase { database: redact(&self.from) });
        }
        let source = Place::open(&self.from, self.source.clone()).await?;
        let moved = match Place::open(&self.to, self.target.clone()).await {
            Ok(target) => {
                let moved = self.between(&source, &target).await;
                target.store.close().await;
                moved
            }
            Err(error) => Err(error),
        };
        source.store.close().await;
        moved
    }

    async fn between(&mut self, source: &Place, target: &Place) -> Result<TransferReport, TransferError> {
        let cursor = fence::close(source, target).await?;
        let (source, target) = (&*source.store, &*target.store);
        let resumed = cursor.is_some();
        rows::copy(source, target, cursor, self.most_rows, &mut *self.progress).await?;
        if let Some(also) = self.also.take() {
            also.await.map_err(TransferError::Also)?;
        }
        let tables = checksum::compare(source, target).await?;
        source.end_transfer(Timestamp::from(SystemTime::now())).await?;
        target.open_fence().await?;
        Ok(TransferReport { resumed, tables })
    }
}

async fn undo(source: &Place, even_if_moved: bool) -> Result<(), TransferError> {
    let database = source.name.clone();
    let Some(record) = source.store.transfer_record().await? else {
        return Err(TransferError::NotMoving { database });
    };
    match (record.role, record.ended_at) {
        (TransferRole::Target, _) => Err(TransferError::OtherSource { database, from: record.other }),
        (TransferRole::Source, Some(at)) if !even_if_moved => {
            Err(TransferError::AlreadyMoved { database, to: record.other, at })
        }
        (TransferRole::Source, _) => Ok(source.store.open_fence().await?),
    }
}

impl IntoFuture for Transfer {
    type Output = Result<TransferReport, TransferError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("from", &redact(&self.from)).field("to", &redact(&self.to)).finish()
    }
}
