use std::collections::{BTreeSet, HashMap};
use std::future::Future;

use crate::model::{BulkId, BulkProgress, BulkRecord, Timestamp};

use super::target::Target;

/// The bulk operations of a [`BatchTarget`](super::BatchTarget).
pub trait BulkTarget: Target {
    /// Returns the time now, and the rows of those of these bulk operations that exist, which hold
    /// until the commit. A store that locks rows locks them here, in the order of their ids.
    fn lock_bulks(
        &mut self,
        ids: &BTreeSet<BulkId>,
    ) -> impl Future<Output = Result<(Timestamp, HashMap<BulkId, BulkRecord>), Self::Error>> + Send;

    /// Returns the bulk operation that is due for the longest time, which holds until the commit.
    /// Leaves out those that another transaction has locked, and does not wait for them.
    fn find_due_bulk(&mut self) -> impl Future<Output = Result<Option<BulkRecord>, Self::Error>> + Send;

    /// Inserts the row of a bulk operation, unless another transaction has inserted one meanwhile.
    fn insert_bulk(&mut self, row: &BulkRecord) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Writes how far a bulk operation has come, whose row it has locked.
    fn update_bulk(
        &mut self,
        id: BulkId,
        progress: &BulkProgress,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}
