//! The things that runs wait for. They have no payloads.

use async_trait::async_trait;

use super::CodedStore;
use crate::model::{AwaitedStep, Run, RunId};
use crate::store::{DatabaseError, WaitStore};

#[async_trait]
impl WaitStore for CodedStore {
    async fn slot_holders(&self, queue: &str, gate: Option<&str>, limit: u32) -> Result<Vec<RunId>, DatabaseError> {
        self.inner.slot_holders(queue, gate, limit).await
    }

    async fn due_before(&self, run: &Run, at_most: u32) -> Result<u32, DatabaseError> {
        self.inner.due_before(run, at_most).await
    }

    async fn has_lane(&self, queue: &str) -> Result<bool, DatabaseError> {
        self.inner.has_lane(queue).await
    }

    async fn awaited_steps(&self, runs: &[RunId]) -> Result<Vec<(RunId, AwaitedStep)>, DatabaseError> {
        self.inner.awaited_steps(runs).await
    }
}
