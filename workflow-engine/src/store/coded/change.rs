//! The version of the data below a codec, which it does not concern.

use async_trait::async_trait;

use super::CodedStore;
use crate::store::{ChangeStore, DatabaseError};

#[async_trait]
impl ChangeStore for CodedStore {
    async fn data_version(&self) -> Result<String, DatabaseError> {
        self.inner.data_version().await
    }
}
