//! The facts about the database below a codec, which they do not concern.

use async_trait::async_trait;

use super::CodedStore;
use crate::model::DatabaseView;
use crate::store::{DatabaseError, Standby, SystemStore};

#[async_trait]
impl SystemStore for CodedStore {
    async fn system(&self) -> Result<DatabaseView, DatabaseError> {
        self.inner.system().await
    }

    fn standby(&self) -> Option<&Standby> {
        self.inner.standby()
    }
}
