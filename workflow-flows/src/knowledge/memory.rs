//! A knowledge base in the memory of this process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::index::Indexed;
use super::{KbDocument, KbEntry, KbSearch};

/// The documents by base and key.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<BTreeMap<(String, String), KbEntry>>);

impl Memory {
    /// Writes a document. A repeated equal write of one run counts once, because memory has no
    /// transaction that a failed commit could roll back.
    pub(super) fn write(&self, document: &KbDocument) -> i64 {
        let mut documents = self.lock();
        let place = (document.base.clone(), document.key.clone());
        let revision = match documents.get(&place) {
            Some(old) if old.document == *document && document.run.is_some() => old.revision,
            old => old.map_or(0, |old| old.revision) + 1,
        };
        documents.insert(place, KbEntry { document: document.clone(), revision });
        revision
    }

    pub(super) fn find(&self, base: &str, key: &str) -> Option<KbEntry> {
        self.lock().get(&(base.to_owned(), key.to_owned())).cloned()
    }

    pub(super) fn list(&self, base: Option<&str>, after: (&str, &str), limit: usize) -> Vec<KbEntry> {
        let documents = self.lock();
        let after = Bound::Excluded((after.0.to_owned(), after.1.to_owned()));
        let later = documents.range((after, Bound::Unbounded)).map(|(_, entry)| entry);
        later.filter(|entry| is_in(entry, base)).take(limit).cloned().collect()
    }

    pub(super) fn search(&self, search: &KbSearch) -> Vec<KbEntry> {
        let documents = self.lock();
        let mut found: Vec<(usize, &KbEntry)> = documents
            .values()
            .filter(|entry| is_in(entry, search.base.as_deref()))
            .filter(|entry| search.tags.iter().all(|tag| entry.document.tags.contains(tag)))
            .filter_map(|entry| {
                let words = Indexed::new(&entry.document.title, &entry.document.text);
                Some((words.score(&search.query)?, entry))
            })
            .collect();
        // The sort keeps the order of base and key among equals.
        found.sort_by(|(left, a), (right, b)| {
            right.cmp(left).then_with(|| b.document.written_at.cmp(&a.document.written_at))
        });
        found.into_iter().take(search.limit as usize).map(|(_, entry)| entry.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), KbEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_in(entry: &KbEntry, base: Option<&str>) -> bool {
    base.is_none_or(|base| entry.document.base == base)
}
