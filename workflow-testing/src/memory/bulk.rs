//! Bulk operations.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;

use workflow_engine::model::{BulkId, BulkProgress, BulkRecord, Timestamp};
use workflow_engine::store::{BulkStore, BulkTarget, DatabaseError, Target};

use super::MemoryStore;
use super::commit::Batch;
use super::tables::Tables;

impl Target for Batch<'_> {
    type Error = DatabaseError;
}

impl BulkTarget for Batch<'_> {
    async fn lock_bulks(
        &mut self,
        ids: &BTreeSet<BulkId>,
    ) -> Result<(Timestamp, HashMap<BulkId, BulkRecord>), DatabaseError> {
        let rows = ids.iter().filter_map(|id| Some((*id, self.tables.bulks().get(id)?.clone())));
        Ok((self.now, rows.collect()))
    }

    async fn find_due_bulk(&mut self) -> Result<Option<BulkRecord>, DatabaseError> {
        let due = self.tables.bulks().values().filter(|row| row.is_due(self.now));
        Ok(due.min_by_key(|row| (row.progress.available_at, row.order.id)).cloned())
    }

    async fn insert_bulk(&mut self, row: &BulkRecord) -> Result<(), DatabaseError> {
        self.tables.bulks_mut().insert(row.order.id, row.clone());
        Ok(())
    }

    async fn update_bulk(&mut self, id: BulkId, progress: &BulkProgress) -> Result<(), DatabaseError> {
        let row = self.tables.bulks_mut().get_mut(&id);
        row.into_iter().for_each(|row| row.progress = progress.clone());
        Ok(())
    }
}

#[async_trait]
impl BulkStore for MemoryStore {
    async fn bulk(&self, id: BulkId) -> Result<Option<BulkRecord>, DatabaseError> {
        let database = self.handle.open("read a bulk operation")?;
        Ok(database.look(|tables, _| tables.bulks().get(&id).cloned()))
    }

    async fn bulks(&self, older_than: BulkId, limit: u32) -> Result<Vec<BulkRecord>, DatabaseError> {
        let database = self.handle.open("list bulk operations")?;
        Ok(database.look(|tables, _| list(tables, older_than, limit)))
    }

    async fn next_bulk(&self) -> Result<Option<Duration>, DatabaseError> {
        let database = self.handle.open("look for bulk operations")?;
        Ok(database.look(|tables, now| {
            let running = tables.bulks().values().filter(|row| !row.progress.status.has_ended());
            running.map(|row| row.progress.available_at.since(now)).min()
        }))
    }
}

fn list(tables: &Tables, older_than: BulkId, limit: u32) -> Vec<BulkRecord> {
    let rows = tables.bulks().range(..older_than).rev().map(|(_, row)| row.clone());
    rows.map(without_payload).take(limit as usize).collect()
}

fn without_payload(mut row: BulkRecord) -> BulkRecord {
    row.order.payload = None;
    row
}
