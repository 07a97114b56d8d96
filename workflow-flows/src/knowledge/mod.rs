//! The knowledge base: documents that flows write, and that later runs find.

mod backend;
mod index;
mod memory;
mod query;
mod search;
mod store;
mod transfer;
mod words;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_sdk::{RunId, Timestamp, Tx, sqlx};

use crate::ToolError;
use crate::database::OpenError;

pub use search::{KbSearch, KbSummary};
pub use store::KbStore;

/// A document that a flow writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KbDocument {
    /// The name of the base, of 1 to 255 bytes.
    pub base: String,
    /// A document of this key in this base is replaced. 1 to 1,024 bytes.
    pub key: String,
    /// The title, of at most 1,024 bytes.
    pub title: String,
    /// The text, of at most 256 KiB. Searches see the first 16,000 words of title and text.
    pub text: String,
    /// The tags: at most 32, each of 1 to 255 bytes.
    pub tags: Vec<String>,
    /// The run that wrote it. `None`: it was written without a run.
    pub run: Option<RunId>,
    /// When it was written, by the clock of the run.
    pub written_at: Timestamp,
}

/// The limits of a document, in bytes and, for the tags, in number.
const LONGEST_NAME: usize = 255;
const LONGEST_KEY: usize = 1_024;
const LONGEST_TITLE: usize = 1_024;
const LONGEST_TEXT: usize = 256 * 1_024;
const MOST_TAGS: usize = 32;

impl KbDocument {
    /// Creates a document without tags that no run writes, of this moment.
    #[must_use]
    pub fn new(
        base: impl Into<String>,
        key: impl Into<String>,
        title: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let (base, key, title, text) = (base.into(), key.into(), title.into(), text.into());
        let written_at = Timestamp::from(std::time::SystemTime::now());
        Self { base, key, title, text, tags: Vec::new(), run: None, written_at }
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Checks the limits.
    fn check(&self) -> Result<(), KbError> {
        let sized = |what: &str, text: &str, shortest: usize, longest: usize| match text.len() {
            bytes if bytes < shortest => Err(format!("the {what} is empty")),
            bytes if bytes > longest => Err(format!("the {what} has {bytes} bytes, at most {longest} are allowed")),
            _ if text.contains('\0') => Err(format!("the {what} has a NUL character, which no database stores")),
            _ => Ok(()),
        };
        let check = || {
            sized("base", &self.base, 1, LONGEST_NAME)?;
            sized("key", &self.key, 1, LONGEST_KEY)?;
            sized("title", &self.title, 0, LONGEST_TITLE)?;
            sized("text", &self.text, 0, LONGEST_TEXT)?;
            if self.tags.len() > MOST_TAGS {
                return Err(format!("there are {} tags, at most {MOST_TAGS} are allowed", self.tags.len()));
            }
            self.tags.iter().try_for_each(|tag| sized("tag", tag, 1, LONGEST_NAME))
        };
        check().map_err(|reason| KbError::Document { reason })
    }
}

/// A document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KbEntry {
    /// The document.
    #[serde(flatten)]
    pub document: KbDocument,
    /// How often a document of this key was written: 1 for the first one.
    pub revision: i64,
}

/// A failure of a [`KbStore`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KbError {
    /// The document is larger than it may be, or lacks a part.
    #[error("the document is refused: {reason}")]
    Document {
        /// Why.
        reason: String,
    },
    /// The query is larger than it may be, or names no word.
    #[error("the query is refused: {reason}")]
    Query {
        /// Why.
        reason: String,
    },
    /// The database has no tables of the knowledge base.
    #[error("the database has no knowledge base; open one with KbStore::connect, which creates it")]
    NoTables,
    /// The URL names no database that this program knows.
    #[error("{url:?} is no URL of a database; write sqlite://flows.db or postgres://host/database")]
    Url {
        /// The URL, without its password.
        url: String,
    },
    /// A stored document was written by a newer release, or is damaged.
    #[error("the document {key:?} of the base {base:?} is not understood: {reason}")]
    Unreadable {
        /// The base.
        base: String,
        /// The key.
        key: String,
        /// Why.
        reason: String,
    },
    /// The target of a copy has another document of this base and key.
    #[error("the target has another document {key:?} of the base {base:?}; use an empty database")]
    Taken {
        /// The base.
        base: String,
        /// The key.
        key: String,
    },
    /// The database failed.
    #[error("the database of the knowledge base: {0}")]
    Database(#[from] sqlx::Error),
}

impl From<OpenError> for KbError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Url(url) => Self::Url { url },
            OpenError::Database(error) => Self::Database(error),
        }
    }
}

/// Keeps the documents that flows write. The write is part of the step's transaction, so a document
/// is written exactly once. [`KbStore`] is one.
#[async_trait]
pub trait KnowledgeBase: Send + Sync + 'static {
    /// Writes a document within the transaction of the step. The transaction is the only one that
    /// may write to SQLite meanwhile: keep to one or two statements.
    ///
    /// # Errors
    /// A [`ToolError`] whose class decides whether the step is tried again.
    async fn write(&self, tx: Tx, document: &KbDocument) -> Result<Value, ToolError>;
}

#[cfg(test)]
mod tests {
    use super::{KbDocument, LONGEST_KEY, LONGEST_NAME, LONGEST_TEXT, LONGEST_TITLE, MOST_TAGS};

    #[test]
    fn documents_have_limits() {
        let with = |base: usize, key: usize, title: usize, text: usize, tags: usize| {
            let [base, key, title, text] = [base, key, title, text].map(|length| "x".repeat(length));
            (0..tags).fold(KbDocument::new(base, key, title, text), |document, _| document.tag("t")).check()
        };
        assert!(with(LONGEST_NAME, LONGEST_KEY, LONGEST_TITLE, LONGEST_TEXT, MOST_TAGS).is_ok());
        assert!(with(1, 1, 0, 0, 0).is_ok());
        for (document, reason) in [
            (with(0, 1, 0, 0, 0), "base is empty"),
            (with(LONGEST_NAME + 1, 1, 0, 0, 0), "256 bytes"),
            (with(1, 0, 0, 0, 0), "key is empty"),
            (with(1, LONGEST_KEY + 1, 0, 0, 0), "1025 bytes"),
            (with(1, 1, LONGEST_TITLE + 1, 0, 0), "title has"),
            (with(1, 1, 0, LONGEST_TEXT + 1, 0), "text has"),
            (with(1, 1, 0, 0, MOST_TAGS + 1), "33 tags"),
            (KbDocument::new("b", "k", "t", "a\0b").check(), "NUL"),
            (KbDocument::new("b", "k", "t", "").tag("").check(), "tag is empty"),
        ] {
            let error = document.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
