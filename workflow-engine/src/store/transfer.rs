//! Copies of whole systems, from one store into another.

mod checksum;
mod table;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::{MoveView, Timestamp};

use super::{DatabaseError, Store};

pub use checksum::Checksum;
pub use table::{TRANSFER_TABLES, TransferColumn, TransferColumnKind, TransferTable};

/// Why the database refuses a write while it is fenced. Part of statements, so it has no quotes.
pub const FENCE_REFUSAL: &str = "the system in this database was moved to another one, or is being moved; \
                                 the table workflow_transfer says where, and workflow move --undo ends that";

/// The code of an error that a fence of PostgreSQL raises.
pub const FENCE_SQLSTATE: &str = "WF001";

/// A value of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TransferValue {
    /// No value.
    Null,
    /// A number.
    Integer(i64),
    /// A text, or an id in its usual form.
    Text(String),
}

impl TransferValue {
    /// Returns about how many bytes the value takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Integer(_) => 8,
            Self::Text(text) => 8 + text.len(),
        }
    }
}

/// The values of a row, in the order of the columns of its [`TransferTable`].
pub type TransferRow = Vec<TransferValue>;

/// Returns about how many bytes a row takes.
#[must_use]
pub fn bytes_of(row: &TransferRow) -> usize {
    row.iter().map(TransferValue::bytes).sum()
}

/// Which part a database has in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferRole {
    /// Its system is copied.
    Source,
    /// The copy goes into it.
    Target,
}

impl TransferRole {
    /// Returns the word that is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Target => "target",
        }
    }

    /// Returns the role of a stored word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Source, Self::Target].into_iter().find(|role| role.as_str() == word)
    }
}

/// The row that a database has while it takes part in a transfer. While it exists, the database is
/// fenced: it refuses every other write. The source keeps it after the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferRecord {
    /// The transfer.
    pub id: Uuid,
    /// The part of this database.
    pub role: TransferRole,
    /// The URL of the other database, without its password.
    pub other: String,
    /// When it began.
    pub begun_at: Timestamp,
    /// When all was copied and compared. `None`: not yet.
    pub ended_at: Option<Timestamp>,
    /// How far the copy has come. `None`: no row is copied.
    pub cursor: Option<TransferCursor>,
}

impl From<TransferRecord> for MoveView {
    fn from(TransferRecord { role, other, begun_at, ended_at, .. }: TransferRecord) -> Self {
        Self { arrives: role == TransferRole::Target, other, begun_at, ended_at }
    }
}

/// How far the copy has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferCursor {
    /// The table that is being copied. Those before it are complete.
    pub table: String,
    /// The primary key of the last row that was copied.
    pub key: Vec<TransferValue>,
    /// The rows of this table that were copied.
    pub rows: u64,
}

/// The answer to [`TransferStore::begin_transfer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferBegin {
    /// The database is fenced.
    Begun,
    /// Workers are recorded in the source. Nothing was changed.
    HasWorkers,
    /// The target has rows. Nothing was changed.
    HasRows {
        /// The first table with rows.
        table: &'static str,
    },
}

/// The largest part of a table that is read at once.
#[derive(Clone, Copy, Debug)]
pub struct TransferChunk {
    /// The most rows.
    pub rows: u32,
    /// A chunk ends with the row that makes it larger than this.
    pub bytes: usize,
}

/// A store from which, or into which, a whole system can be copied. Each store reads and writes its
/// own tables; the order of the tables and the checksums are common.
#[async_trait]
pub trait TransferStore: Store {
    /// Returns the record of the transfer in which this database takes part.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails, or if the record cannot be understood.
    async fn transfer_record(&self) -> Result<Option<TransferRecord>, DatabaseError>;

    /// Fences the database and writes the record, in one transaction: it waits for the transactions
    /// under way, and every later write of another program fails with
    /// [`Moved`](super::DatabaseErrorKind::Moved), whatever its release. Refused if the source has
    /// recorded workers, or the target has rows.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails, for example because the role does not own the
    /// tables.
    async fn begin_transfer(&self, record: &TransferRecord) -> Result<TransferBegin, DatabaseError>;

    /// Returns rows of a table in the order of its primary key, after the row with this key.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn read_transfer(
        &self,
        table: &TransferTable,
        after: Option<&[TransferValue]>,
        chunk: TransferChunk,
    ) -> Result<Vec<TransferRow>, DatabaseError>;

    /// Inserts rows into the target and moves its cursor, in one transaction.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails; the rows may be there, and then the cursor says so.
    async fn write_transfer(
        &self,
        table: &TransferTable,
        rows: &[TransferRow],
        cursor: &TransferCursor,
    ) -> Result<(), DatabaseError>;

    /// Notes in the source that the transfer has ended. The fence stays.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn end_transfer(&self, at: Timestamp) -> Result<(), DatabaseError>;

    /// Removes the fence and the record, so that the database can be used. In a target, makes sure
    /// that later lanes and gates get numbers of their own.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn open_fence(&self) -> Result<(), DatabaseError>;
}
