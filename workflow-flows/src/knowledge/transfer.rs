//! Copies the knowledge base to another database.

use super::backend::Backend;
use super::{KbError, KbStore};

/// The documents that are read at once: with the longest texts they take a few megabytes.
const DOCUMENTS: u32 = 32;

impl KbStore {
    /// Copies all documents from the database at `from` to the one at `to`, with their revisions
    /// and times. Creates the tables there if there is a document. Does nothing if the first
    /// database has no knowledge base or is no file. Returns the number of documents in the first
    /// database. Copying them again is safe.
    ///
    /// # Errors
    /// [`KbError::Taken`] if the second database has another document of the base and key of one of
    /// them, [`KbError::Url`], [`KbError::Database`], [`KbError::Unreadable`].
    ///
    /// # Cancel safety
    /// If the future is dropped, some documents may be copied.
    pub async fn transfer(from: &str, to: &str) -> Result<usize, KbError> {
        let Some(source) = Backend::find_database(from).await? else { return Ok(0) };
        let (mut target, mut after, mut copied) = (None, (String::new(), String::new()), 0);
        loop {
            let entries = source.list_whole((&after.0, &after.1), DOCUMENTS).await?;
            let Some(last) = entries.last() else { return Ok(copied) };
            after = (last.document.base.clone(), last.document.key.clone());
            copied += entries.len();
            let target = match &target {
                Some(target) => target,
                None => target.insert(Backend::connect(to).await?),
            };
            for entry in entries {
                if !target.copy(&entry).await? {
                    return Err(KbError::Taken { base: entry.document.base, key: entry.document.key });
                }
            }
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use crate::{KbDocument, KbError, KbSearch, KbStore};

    #[tokio::test]
    async fn documents_are_copied_with_their_revisions_and_found() {
        let directory = tempfile::tempdir().unwrap();
        let url = |name: &str| format!("sqlite://{}/{name}", directory.path().display());
        let (from, to) = (url("from.db"), url("to.db"));
        assert_eq!(KbStore::transfer(&from, &to).await.unwrap(), 0, "there is no file");
        let source = KbStore::connect(&from).await.unwrap();
        assert_eq!(KbStore::transfer(&from, &to).await.unwrap(), 0);
        assert!(matches!(KbStore::attach(&to).await, Err(KbError::Database(_))), "nothing was created");

        let text = format!("{} last", "word ".repeat(2_000));
        for number in 0..70 {
            source.put(&KbDocument::new("support", format!("t-{number}"), "Jam", &text).tag("paper")).await.unwrap();
        }
        source.put(&KbDocument::new("support", "t-3", "Smoke", "Turn it off.")).await.unwrap();
        for _ in 0..2 {
            assert_eq!(KbStore::transfer(&from, &to).await.unwrap(), 70);
            let copy = KbStore::connect(&to).await.unwrap();
            for key in ["t-3", "t-69"] {
                let found = copy.find("support", key).await.unwrap();
                assert_eq!(found, source.find("support", key).await.unwrap());
            }
            let smoke = KbSearch::new("smoke").unwrap();
            assert_eq!(copy.search(&smoke).await.unwrap(), source.search(&smoke).await.unwrap());
            let last = KbSearch::new("last").unwrap();
            assert_eq!(copy.search(&last).await.unwrap().len(), source.search(&last).await.unwrap().len());
        }

        KbStore::connect(&to).await.unwrap().put(&KbDocument::new("support", "t-3", "Fire", "Run.")).await.unwrap();
        let refused = KbStore::transfer(&from, &to).await.unwrap_err();
        assert!(matches!(refused, KbError::Taken { key, .. } if key == "t-3"));
    }
}
