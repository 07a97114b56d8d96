use crate::model::{Lane, RunId, Timestamp};

/// A step of kind approval that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingApproval {
    /// The run.
    pub run_id: RunId,
    /// The queue, workflow and version of the run.
    pub lane: Lane,
    /// The key of the step.
    pub step_key: String,
    /// The output that the step wrote when it began, as JSON text.
    pub output: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
}
