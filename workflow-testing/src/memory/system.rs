//! The facts about the store itself.

use async_trait::async_trait;

use workflow_engine::model::DatabaseView;
use workflow_engine::store::{DatabaseError, SystemStore};

use super::MemoryStore;

#[async_trait]
impl SystemStore for MemoryStore {
    /// A store in memory has neither files nor migrations, and looks for due runs at every gate.
    async fn system(&self) -> Result<DatabaseView, DatabaseError> {
        self.handle.open("look at the database")?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(DatabaseView { kind: "memory".to_owned(), version, ..DatabaseView::default() })
    }
}
