//! Changes of the rules of queues and of limits for steps in a batch.

use super::OpenBatch;
use crate::store::Outcome;
use crate::store::batch_target::BatchTarget;

impl<T: BatchTarget> OpenBatch<'_, T> {
    /// Changes the records of queues. This comes first, because a claim of another process may hold
    /// the record of a queue for as long as its commit takes, and this batch must hold nothing
    /// while it waits for that.
    pub(super) async fn write_queues(&mut self) -> Result<(), T::Error> {
        let mut writes = self.writes.queues.writes().to_vec();
        if writes.is_empty() {
            return Ok(());
        }
        writes.sort_by(|a, b| a.queue.cmp(&b.queue));
        self.target.write_queues(&writes).await?;
        self.writes.queues.indexes().for_each(|index| self.outcomes.set(index, Outcome::Applied));
        Ok(())
    }

    /// Changes the rules of limits. This comes first, with the queues, because the new rule answers
    /// the requests for seats in the batch.
    pub(super) async fn write_limits(&mut self) -> Result<(), T::Error> {
        let mut writes = self.writes.limits.writes().to_vec();
        if writes.is_empty() {
            return Ok(());
        }
        writes.sort_by(|a, b| a.limit.cmp(&b.limit));
        self.target.write_limits(&writes).await?;
        self.writes.limits.indexes().for_each(|index| self.outcomes.set(index, Outcome::Applied));
        Ok(())
    }
}
