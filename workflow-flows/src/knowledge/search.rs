//! Searches and what they find.

use serde::{Deserialize, Serialize};
use workflow_sdk::{RunId, Timestamp};

use super::index::{beginning, excerpt};
use super::query::Query;
use super::{KbDocument, KbEntry, KbError};

/// A search in a [`KbStore`](super::KbStore).
///
/// A query has words, `"phrases"`, beginnings of words (`print*`) and words that a document must
/// not have (`-ink`). A word is a run of letters and digits; case does not matter, and endings do.
/// A word with a sign in it, such as `e-mail`, is a phrase. Nothing else has a meaning.
///
/// ```
/// use workflow_flows::{KbDocument, KbSearch, KbStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), workflow_flows::KbError> {
/// let kb = KbStore::in_memory();
/// let jam = KbDocument::new("support", "t-1", "Printer jam", "The tray was bent.");
/// kb.put(&jam.tag("resolved")).await?;
///
/// let search = KbSearch::new("printer tray -ink")?.base("support").tag("resolved");
/// assert_eq!(kb.search(&search).await?[0].key, "t-1");
/// assert!(kb.search(&KbSearch::new("toner tray")?).await?.is_empty(), "all words are wanted");
/// assert_eq!(kb.search(&KbSearch::new("toner tray")?.any()).await?.len(), 1);
/// assert!(KbSearch::new("?!").is_err(), "a query needs a word");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KbSearch {
    pub(super) query: Query,
    pub(super) base: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) limit: u32,
}

impl KbSearch {
    /// The most documents that a search gives.
    pub const MAX_LIMIT: u32 = 50;

    /// Creates a search in all bases for documents that have all these words.
    ///
    /// # Errors
    /// [`KbError::Query`] if the query has more than 1,024 bytes or 32 words, or no word to look
    /// for.
    pub fn new(query: &str) -> Result<Self, KbError> {
        Ok(Self { query: Query::parse(query)?, base: None, tags: Vec::new(), limit: 10 })
    }

    /// Lets one of the words be enough. Documents that fit better come first.
    #[must_use]
    pub fn any(mut self) -> Self {
        self.query.any = true;
        self
    }

    /// Searches this base alone.
    #[must_use]
    pub fn base(mut self, base: impl Into<String>) -> Self {
        self.base = Some(base.into());
        self
    }

    /// Finds only documents with this tag. With several calls, a document needs each of the tags.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the most documents that the search gives. Default: 10, range: 1 to 50; a number outside
    /// is taken as the nearest one inside.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit.clamp(1, Self::MAX_LIMIT);
        self
    }
}

/// A document in a list, without its whole text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KbSummary {
    /// The base.
    pub base: String,
    /// The key.
    pub key: String,
    /// The title.
    pub title: String,
    /// The part of the text around the first word that was found, or its beginning: at most 400
    /// characters.
    pub excerpt: String,
    /// The tags.
    pub tags: Vec<String>,
    /// How often a document of this key was written.
    pub revision: i64,
    /// The run that wrote it.
    pub run: Option<RunId>,
    /// When it was written.
    pub written_at: Timestamp,
}

impl KbSummary {
    pub(super) fn of_search(entry: KbEntry, query: &Query) -> Self {
        let excerpt = excerpt(&entry.document.text, query);
        Self::new(entry, excerpt)
    }

    pub(super) fn of_list(entry: KbEntry) -> Self {
        let excerpt = beginning(&entry.document.text);
        Self::new(entry, excerpt)
    }

    fn new(entry: KbEntry, excerpt: String) -> Self {
        let KbDocument { base, key, title, text: _, tags, run, written_at } = entry.document;
        Self { base, key, title, excerpt, tags, revision: entry.revision, run, written_at }
    }
}
