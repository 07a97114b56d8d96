//! Audit rows of a batch.

use super::OpenBatch;
use crate::model::NewAudit;
use crate::store::audit::{InsertedAudit, audited_outcome};
use crate::store::batch_target::BatchTarget;

impl<'b, T: BatchTarget> OpenBatch<'b, T> {
    /// Inserts the audit rows of the writes that have changed something. This comes last, because a
    /// row has the outcome of its write.
    pub(super) async fn insert_audits(&mut self) -> Result<(), T::Error> {
        if self.writes.audits.is_empty() {
            return Ok(());
        }
        let row = |(index, order): (usize, &'b NewAudit)| {
            let write = self.writes.all.get(index)?.inner();
            let outcome = audited_outcome(write, self.outcomes.get(index)?)?;
            Some(InsertedAudit { order, outcome })
        };
        let rows: Vec<InsertedAudit<'_>> = self.writes.audits.iter().filter_map(row).collect();
        if rows.is_empty() { Ok(()) } else { self.target.insert_audits(&rows).await }
    }
}
