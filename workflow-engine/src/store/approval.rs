use crate::model::{Lane, RunId, StepKind, Timestamp};

/// Says which approvals and decisions are read: see [`Store::approvals`](super::Store::approvals).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalList {
    /// Reads only the waits of this run. `None` reads the waits of all runs.
    pub run: Option<RunId>,
    /// `true`: decisions are read beside approvals.
    pub decisions: bool,
    /// Reads only waits after this one.
    pub after: ApprovalCursor,
    /// The largest number of rows.
    pub limit: u32,
}

/// The place of an approval or a decision in the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApprovalCursor {
    /// When the run began to wait.
    pub started_at: Timestamp,
    /// The run.
    pub run_id: RunId,
    /// The key of the step.
    pub step_key: String,
}

impl ApprovalCursor {
    /// The place before all others.
    #[must_use]
    pub fn first() -> Self {
        Self {
            started_at: Timestamp::from_micros(i64::MIN),
            run_id: RunId::from(uuid::Uuid::nil()),
            step_key: String::new(),
        }
    }
}

/// A step that waits for an approval or a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingApproval {
    /// The run.
    pub run_id: RunId,
    /// The queue, workflow and version of the run.
    pub lane: Lane,
    /// The key of the step.
    pub step_key: String,
    /// The kind of the step: an approval, or a signal that is a decision.
    pub kind: StepKind,
    /// The output that the step wrote when it began, as JSON text.
    pub output: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
}

impl WaitingApproval {
    /// Returns the place of the step in the list.
    #[must_use]
    pub fn cursor(&self) -> ApprovalCursor {
        ApprovalCursor { started_at: self.started_at, run_id: self.run_id, step_key: self.step_key.clone() }
    }
}
