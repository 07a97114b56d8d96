//! Bulk operations of a store that encodes payloads.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::{BulkId, BulkRecord};

use super::CodedStore;
use crate::store::DatabaseError;
use crate::store::bulk::{BulkStore, BulkWrite};

impl CodedStore {
    /// Refuses a whole chunk if the payload of one of its runs cannot be encoded.
    pub(super) async fn encode_bulk(&self, write: &BulkWrite) -> Result<BulkWrite, DatabaseError> {
        let mut write = write.clone();
        match &mut write {
            BulkWrite::Order(order) => *order = self.coding.encode_bulk(order)?,
            BulkWrite::Advance(chunk) => {
                for (_, write) in &mut chunk.writes {
                    *write = Box::pin(self.encode(write)).await?.into_owned();
                }
            }
            BulkWrite::Claim { .. } | BulkWrite::Stop(_) => {}
        }
        Ok(write)
    }
}

#[async_trait]
impl BulkStore for CodedStore {
    async fn bulk(&self, id: BulkId) -> Result<Option<BulkRecord>, DatabaseError> {
        let mut row = self.inner.bulk(id).await?;
        row.iter_mut().for_each(|row| self.coding.show_bulk(row));
        Ok(row)
    }

    async fn bulks(&self, older_than: BulkId, limit: u32) -> Result<Vec<BulkRecord>, DatabaseError> {
        self.inner.bulks(older_than, limit).await
    }

    async fn next_bulk(&self) -> Result<Option<Duration>, DatabaseError> {
        self.inner.next_bulk().await
    }
}
