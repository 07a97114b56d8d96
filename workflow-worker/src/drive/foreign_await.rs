//! Foreign awaits: a workflow waits for something that is not a call of its context.

use std::time::Duration;

use workflow_sdk::{ErrorKind, StoredError};

use super::Drive;
use super::exit::{Exit, ended};
use crate::{ForeignAwait, WorkerOptions};

impl Drive<'_> {
    /// Reports that something foreign has woken the workflow: once per workflow.
    pub(super) fn report_foreign_wake(&self) -> Result<(), Exit> {
        let workflow = &self.run.lane.workflow;
        let message = format!(
            "workflow {workflow:?} awaited something that is not durable, outside of its steps; \
             after a crash it may go another way: put it into a step, or use ctx.sleep"
        );
        self.fail_if_strict(&message)?;
        if self.shared.first_warning(workflow) {
            tracing::warn!(run_id = %self.run.claim.run_id, "{message}");
        }
        Ok(())
    }

    /// Returns the time until a foreign await is reported. `None` if the workflow also waits for a
    /// call of its context, or if the await was reported before.
    ///
    /// Such a run keeps its permit for as long as it waits, and nothing else shows it. It is
    /// reported after one lease, like a workflow that blocks its thread, but at the latest after
    /// the default lease.
    pub(super) fn until_stall_report(&mut self) -> Result<Option<Duration>, Exit> {
        if self.has_reported_stall || !self.writes.is_empty() || !self.workflow.cell().awaits_only_foreign() {
            return Ok(None);
        }
        let limit = self.shared.options.lease.min(WorkerOptions::DEFAULT_LEASE);
        let left = limit.saturating_sub(self.workflow.since_poll());
        if !left.is_zero() {
            return Ok(Some(left));
        }
        self.has_reported_stall = true;
        let before = self.workflow.cell().snapshot().before;
        let place = before.map_or_else(|| "before its first call".into(), |call| format!("after {:?}", call.key));
        let message = format!(
            "workflow {:?} has awaited something that is not a call of its context for {limit:?}, {place}; \
             it keeps its place in the worker until that wakes it: put it into a step, or use ctx.signal",
            self.run.lane.workflow
        );
        self.fail_if_strict(&message)?;
        tracing::warn!(run_id = %self.run.claim.run_id, "{message}");
        Ok(None)
    }

    fn fail_if_strict(&self, message: &str) -> Result<(), Exit> {
        match self.shared.options.foreign_await {
            ForeignAwait::Warn => Ok(()),
            ForeignAwait::Fail => {
                let error = StoredError::new(ErrorKind::Refused, message).fatal();
                Err(ended(Err(error), self.workflow.cell().interrupted()))
            }
        }
    }
}
