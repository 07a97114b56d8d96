//! The version of the data: how many calls have changed it.

use async_trait::async_trait;

use workflow_engine::store::{ChangeStore, DatabaseError};

use super::MemoryStore;

#[async_trait]
impl ChangeStore for MemoryStore {
    async fn data_version(&self) -> Result<String, DatabaseError> {
        Ok(self.handle.open("look for changes")?.changes().to_string())
    }
}
