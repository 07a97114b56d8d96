//! Schedules whose input this program cannot decode.

use crate::model::StoredSchedule;

use super::CodedStore;
use crate::store::coded_writes::is_mark;
use crate::store::{DatabaseError, ScheduleWrite};

impl CodedStore {
    /// Returns a change of a schedule in its stored form. A writer that could not decode the input
    /// has read its mark and writes that back: the input then stays as it is stored.
    pub(super) async fn encode_schedule(&self, write: &ScheduleWrite) -> Result<ScheduleWrite, DatabaseError> {
        let Some(row) = write.next.as_ref().filter(|row| row.input.as_deref().is_some_and(is_mark)) else {
            return self.coding.encode_schedule(write);
        };
        let stored = self.inner.schedule(&write.name).await?;
        let next = StoredSchedule { input: None, ..row.clone() };
        let mut encoded = self.coding.encode_schedule(&ScheduleWrite { next: Some(next), ..write.clone() })?;
        match stored.filter(|stored| Some(stored.revision) == write.seen) {
            // The commit compares the revision again, so this is the input that it finds.
            Some(stored) => encoded.next.iter_mut().for_each(|row| row.input = stored.input.clone()),
            // Another change came before. A write that has seen its own revision changes nothing.
            None => encoded.seen = Some(row.revision),
        }
        Ok(encoded)
    }
}
