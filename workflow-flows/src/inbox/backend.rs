//! The statements of the inbox.

use std::sync::{Mutex, MutexGuard, PoisonError};

use workflow_sdk::{Timestamp, sqlx};

use super::{InboxEntry, InboxError, InboxMessage};
use crate::database::{Database, fetch};

pub(super) const TABLE: &str = "workflow_inbox";

const CREATE_RECEIVERS: &str = include_str!("../../sql/create_inbox_receivers.sql");
const INSERT: &str = include_str!("../../sql/insert_message.sql");
const LIST: &str = include_str!("../../sql/list_messages.sql");
const LIST_UPWARDS: &str = include_str!("../../sql/list_messages_upwards.sql");
const COPY: &str = include_str!("../../sql/copy_message.sql");
const READ: &str = include_str!("../../sql/read_message.sql");

/// In memory, the oldest message is the first one.
pub(super) type Backend = Database<Mutex<Vec<InboxEntry>>>;

/// A message as it is stored: id, key, receiver, actor, title, text, data, and when it was sent and
/// read.
pub(super) type Row = (i64, String, String, String, String, String, String, i64, Option<i64>);

fn read((id, key, to, actor, title, text, data, sent_at, read_at): Row) -> Result<InboxEntry, InboxError> {
    // A message is shown even if its part for programs is damaged.
    let data = serde_json::from_str(&data).unwrap_or_default();
    let message = InboxMessage { key, to, actor, title, text, data };
    let read_at = read_at.map(Timestamp::from_micros);
    Ok(InboxEntry { id, message, sent_at: Timestamp::from_micros(sent_at), read_at })
}

impl Backend {
    /// Creates the table.
    pub(super) async fn prepared(self) -> Result<Self, InboxError> {
        let sqlite = [include_str!("../../sql/create_inbox_sqlite.sql"), CREATE_RECEIVERS];
        let postgres = [include_str!("../../sql/create_inbox_postgres.sql"), CREATE_RECEIVERS];
        self.create(TABLE, &sqlite, &postgres).await?;
        Ok(self)
    }

    /// Returns whether the message was inserted. It was not if its key is taken.
    pub(super) async fn insert(
        &self,
        message: &InboxMessage,
        data: &str,
        sent_at: Timestamp,
    ) -> Result<bool, InboxError> {
        let InboxMessage { key, to, actor, title, text, data: _ } = message;
        macro_rules! insert {
            ($pool:expr) => {{
                let insert = sqlx::query(INSERT).bind(key).bind(to).bind(actor).bind(title).bind(text);
                Ok(insert.bind(data).bind(sent_at.as_micros()).execute($pool).await?.rows_affected() > 0)
            }};
        }
        match self {
            Self::Memory(messages) => Ok(insert_in_memory(&mut lock(messages), message, sent_at)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => insert!(pool),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => insert!(pool),
        }
    }

    pub(super) async fn list(
        &self,
        to: Option<&str>,
        unread: bool,
        before: i64,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, InboxError> {
        let in_memory = |messages: &Mutex<Vec<InboxEntry>>| {
            let messages = lock(messages);
            let earlier = messages.iter().rev().filter(|entry| entry.id < before);
            let wanted = earlier.filter(|entry| to.is_none_or(|to| entry.message.to == to));
            let wanted = wanted.filter(|entry| !unread || entry.read_at.is_none());
            wanted.take(limit as usize).cloned().collect()
        };
        fetch!(self, in_memory, LIST, LIST, read, [before, to, unread, i64::from(limit)])
    }

    /// Returns messages after an id as they are stored, the oldest first. Memory stores none.
    pub(super) async fn rows(&self, after: i64, limit: u32) -> Result<Vec<Row>, InboxError> {
        let none = |_: &Mutex<Vec<InboxEntry>>| Vec::new();
        fetch!(self, none, LIST_UPWARDS, LIST_UPWARDS, Ok, [after, i64::from(limit)])
    }

    /// Inserts a message as it was stored elsewhere, under a new id. Returns `false` if another
    /// message has its key.
    pub(super) async fn copy(&self, row: &Row) -> Result<bool, InboxError> {
        let (_, key, to, actor, title, text, data, sent_at, read_at) = row;
        macro_rules! copy {
            ($pool:expr) => {{
                let copy = sqlx::query(COPY).bind(key).bind(to).bind(actor).bind(title).bind(text);
                Ok(copy.bind(data).bind(sent_at).bind(read_at).execute($pool).await?.rows_affected() > 0)
            }};
        }
        match self {
            Self::Memory(_) => Ok(false),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => copy!(pool),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => copy!(pool),
        }
    }

    pub(super) async fn mark_read(&self, id: i64, now: Timestamp) -> Result<Option<InboxEntry>, InboxError> {
        let in_memory = |messages: &Mutex<Vec<InboxEntry>>| mark_in_memory(&mut lock(messages), id, now);
        let found: Result<_, InboxError> = fetch!(self, in_memory, READ, READ, read, [id, now.as_micros()]);
        Ok(found?.into_iter().next())
    }
}

fn mark_in_memory(messages: &mut [InboxEntry], id: i64, now: Timestamp) -> Vec<InboxEntry> {
    let mut found = messages.iter_mut().filter(|entry| entry.id == id);
    let marked = found.next().map(|entry| {
        entry.read_at.get_or_insert(now);
        entry.clone()
    });
    marked.into_iter().collect()
}

fn insert_in_memory(messages: &mut Vec<InboxEntry>, message: &InboxMessage, sent_at: Timestamp) -> bool {
    if messages.iter().any(|entry| entry.message.key == message.key) {
        return false;
    }
    let id = messages.last().map_or(1, |last| last.id + 1);
    messages.push(InboxEntry { id, message: message.clone(), sent_at, read_at: None });
    true
}

fn lock(messages: &Mutex<Vec<InboxEntry>>) -> MutexGuard<'_, Vec<InboxEntry>> {
    messages.lock().unwrap_or_else(PoisonError::into_inner)
}
