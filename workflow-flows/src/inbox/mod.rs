//! The inbox of the application: messages of flows to people, which stay in a table.

mod backend;
mod transfer;

use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_sdk::{Timestamp, sqlx};

use crate::database::{MissingFile, OpenError};
use backend::{Backend, TABLE};

/// A message to a person or a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxMessage {
    /// A message of a key that is there already is not kept twice. 1 to 1,024 bytes.
    pub key: String,
    /// The receiver, in words of the operator. Empty: the channel's default. At most 255 bytes.
    pub to: String,
    /// The account on whose behalf the flow runs. At most 255 bytes.
    pub actor: String,
    /// One line. Empty: none.
    pub title: String,
    /// The text. Title, text and data have at most 256 KiB together.
    pub text: String,
    /// The part for programs.
    pub data: Value,
}

/// The limits of a message, in bytes.
const LONGEST_KEY: usize = 1_024;
const LONGEST_NAME: usize = 255;
const LONGEST: usize = 256 * 1_024;

impl InboxMessage {
    /// Creates a message without a receiver, an actor, a title and data.
    #[must_use]
    pub fn new(key: impl Into<String>, text: impl Into<String>) -> Self {
        let (key, text) = (key.into(), text.into());
        Self { key, to: String::new(), actor: String::new(), title: String::new(), text, data: Value::Null }
    }

    /// Checks the limits. `data` is the part for programs as text.
    fn check(&self, data: &str) -> Result<(), InboxError> {
        let refused = |reason: String| Err(InboxError::Message { reason });
        if self.key.is_empty() {
            return refused("the key is empty".to_owned());
        }
        let bytes = self.title.len() + self.text.len() + data.len();
        for (what, bytes, longest) in [
            ("key", self.key.len(), LONGEST_KEY),
            ("receiver", self.to.len(), LONGEST_NAME),
            ("actor", self.actor.len(), LONGEST_NAME),
            ("content", bytes, LONGEST),
        ] {
            if bytes > longest {
                return refused(format!("the {what} has {bytes} bytes, at most {longest} are allowed"));
            }
        }
        if [&self.key, &self.to, &self.actor, &self.title, &self.text].iter().any(|text| text.contains('\0')) {
            return refused("it has a NUL character, which no database stores".to_owned());
        }
        Ok(())
    }
}

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxEntry {
    /// A later message has a larger id.
    pub id: i64,
    /// The message.
    #[serde(flatten)]
    pub message: InboxMessage,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// When it was read first.
    pub read_at: Option<Timestamp>,
}

/// A failure of an [`InboxStore`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The message is larger than it may be, or has no key.
    #[error("the message is refused: {reason}")]
    Message {
        /// Why.
        reason: String,
    },
    /// The database has no inbox.
    #[error("the database has no inbox; open one with InboxStore::connect, which creates it")]
    NoTable,
    /// The URL names no database that this program knows.
    #[error("{url:?} is no URL of a database; write sqlite://flows.db or postgres://host/database")]
    Url {
        /// The URL, without its password.
        url: String,
    },
    /// The target of a copy has another message of this key.
    #[error("the target has another message of the key {key:?}; use an empty database")]
    Taken {
        /// The key.
        key: String,
    },
    /// The database failed.
    #[error("the database of the inbox: {0}")]
    Database(#[from] sqlx::Error),
}

impl From<OpenError> for InboxError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Url(url) => Self::Url { url },
            OpenError::Database(error) => Self::Database(error),
        }
    }
}

/// The inbox in a table. A clone shares the connections.
///
/// ```
/// use workflow_flows::{InboxMessage, InboxStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), workflow_flows::InboxError> {
/// let inbox = InboxStore::connect("sqlite::memory:").await?;
/// let mut message = InboxMessage::new("run-1/tell", "Ticket t-1 is resolved.");
/// message.to = "billing".to_owned();
/// assert!(inbox.put(&message).await?);
/// assert!(!inbox.put(&message).await?, "a message of one key is kept once");
///
/// let unread = inbox.list(Some("billing"), true, None, 10).await?;
/// let read = inbox.mark_read(unread[0].id).await?;
/// assert!(read.is_some_and(|entry| entry.read_at.is_some()));
/// assert!(inbox.list(Some("billing"), true, None, 10).await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InboxStore(Arc<Backend>);

impl InboxStore {
    /// The most messages that [`list`](Self::list) gives.
    pub const MAX_LIMIT: u32 = 200;

    /// Creates an inbox in the memory of this process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Arc::new(Backend::Memory(Mutex::default())))
    }

    /// Opens an inbox by the URL of a database, with at most two connections. Creates its table if
    /// there is none: on PostgreSQL, in the first schema of the search path. The URL
    /// `sqlite::memory:` gives an inbox in memory.
    ///
    /// # Errors
    /// [`InboxError::Url`], [`InboxError::Database`].
    pub async fn connect(url: &str) -> Result<Self, InboxError> {
        let backend = Backend::open(url, MissingFile::Create).await?;
        Ok(Self(Arc::new(backend.prepared().await?)))
    }

    /// Opens an inbox as [`connect`](Self::connect) does, and creates nothing.
    ///
    /// # Errors
    /// [`InboxError::NoTable`] if there is no inbox, [`InboxError::Url`], [`InboxError::Database`].
    pub async fn attach(url: &str) -> Result<Self, InboxError> {
        let backend = Backend::open(url, MissingFile::Refuse).await?;
        if !backend.has(TABLE).await? {
            return Err(InboxError::NoTable);
        }
        Ok(Self(Arc::new(backend)))
    }

    /// Opens an inbox over the application's own pool of a SQLite database.
    ///
    /// # Errors
    /// [`InboxError::Database`].
    #[cfg(feature = "sqlite")]
    pub async fn with_sqlite(pool: sqlx::SqlitePool) -> Result<Self, InboxError> {
        Ok(Self(Arc::new(Backend::Sqlite(pool).prepared().await?)))
    }

    /// Opens an inbox over the application's own pool of a PostgreSQL database. The table stands in
    /// the first schema of the pool's search path.
    ///
    /// # Errors
    /// [`InboxError::Database`].
    #[cfg(feature = "postgres")]
    pub async fn with_postgres(pool: sqlx::PgPool) -> Result<Self, InboxError> {
        Ok(Self(Arc::new(Backend::Postgres(pool).prepared().await?)))
    }

    /// Keeps a message. Returns `false` if one of its key was kept before; that one stays.
    ///
    /// # Errors
    /// [`InboxError::Message`] if the message is larger than it may be, [`InboxError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not be kept. Keeping it again is safe.
    pub async fn put(&self, message: &InboxMessage) -> Result<bool, InboxError> {
        let data = message.data.to_string();
        message.check(&data)?;
        self.0.insert(message, &data, now()).await
    }

    /// Returns the messages of one receiver, or of all, the newest first. With `unread`, those that
    /// were read are left out. `before` is the id before which the list begins, and `limit` its
    /// longest length: 1 to 200; a number outside is taken as the nearest one inside.
    ///
    /// # Errors
    /// [`InboxError::Database`].
    pub async fn list(
        &self,
        to: Option<&str>,
        unread: bool,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, InboxError> {
        if to.is_some_and(|to| to.contains('\0')) {
            return Ok(Vec::new());
        }
        let limit = limit.clamp(1, Self::MAX_LIMIT);
        self.0.list(to, unread, before.unwrap_or(i64::MAX), limit).await
    }

    /// Marks a message as read and returns it, or `None` if there is no message of this id. A
    /// message that was read keeps its first time.
    ///
    /// # Errors
    /// [`InboxError::Database`].
    pub async fn mark_read(&self, id: i64) -> Result<Option<InboxEntry>, InboxError> {
        self.0.mark_read(id, now()).await
    }
}

fn now() -> Timestamp {
    Timestamp::from(std::time::SystemTime::now())
}

impl fmt::Debug for InboxStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InboxStore").field(&self.0.kind()).finish()
    }
}
