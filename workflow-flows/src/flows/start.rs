use workflow_sdk::Workflow;
use workflow_sdk::operate::{OperateError, OperateErrorCode, Payload, StartRun};

use super::failure::unfit_input;
use crate::check::check_input;
use crate::client::{deadline_of, limits_of, tags_of};
use crate::{FlowStart, FlowWorkflow};

/// Returns the key of a run for a key of a flow. All flows are one workflow, whose keys they share,
/// so the name of the flow stands before it.
#[must_use]
pub fn flow_key(flow: &str, key: &str) -> String {
    format!("{flow}/{key}")
}

impl FlowStart {
    /// Checks the input against the schema of the flow.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) with all findings (F060).
    pub fn check_input(&self) -> Result<(), OperateError> {
        let findings = check_input(&self.definition, &self.input);
        if findings.is_empty() { Ok(()) } else { Err(unfit_input(&findings)) }
    }

    /// Checks the input and returns what starts the run, with the flow's timeout as its deadline,
    /// its name and version as tags, and the [`flow_key`] of `key`. The start declares the limits
    /// of the flow's steps that have no rule, unless a server performs it.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) if the input does not fit the schema of the flow.
    pub fn into_run(self, key: Option<&str>) -> Result<StartRun, OperateError> {
        self.check_input()?;
        let input = serde_json::to_string(&self).map_err(|error| {
            OperateError::new(OperateErrorCode::BadInput, format!("the flow is not JSON: {error}"), "check it")
        })?;
        let mut run = StartRun::new(FlowWorkflow::NAME, Payload::new(input)?);
        run.key = key.map(|key| flow_key(&self.name, key));
        run.deadline_ms = deadline_of(&self.definition).map(|deadline| {
            // A flow's timeout was read as whole milliseconds.
            u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)
        });
        run.limits = limits_of(&self.definition);
        run.tags =
            tags_of(&self.name, &self.version).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(run)
    }
}
