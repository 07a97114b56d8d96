//! The newest versions that have triggers, kept in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{FlowStore, FlowStoreError, FlowVersion};

/// A version with its number. `None`: it has no triggers, so it is not kept.
type Kept = (i64, Option<Arc<FlowVersion>>);

/// The newest version of each flow, as it was last read. A version never changes, so each is read
/// once.
#[derive(Default)]
pub(super) struct Newest(Mutex<BTreeMap<String, Kept>>);

impl Newest {
    /// Returns the newest versions that have triggers, in the order of their names.
    pub(super) async fn with_triggers(&self, store: &FlowStore) -> Result<Vec<Arc<FlowVersion>>, FlowStoreError> {
        let mut found = Vec::new();
        for (name, number) in store.heads().await? {
            let kept = self.kept().get(&name).filter(|kept| kept.0 >= number).cloned();
            let version = match kept {
                Some((_, version)) => version,
                None => self.read(store, &name).await?,
            };
            found.extend(version);
        }
        Ok(found)
    }

    async fn read(&self, store: &FlowStore, name: &str) -> Result<Option<Arc<FlowVersion>>, FlowStoreError> {
        let Some(newest) = store.find(name, None).await? else { return Ok(None) };
        let number = newest.number;
        let version = (!newest.definition.triggers.is_empty()).then(|| Arc::new(newest));
        self.kept().insert(name.to_owned(), (number, version.clone()));
        Ok(version)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
