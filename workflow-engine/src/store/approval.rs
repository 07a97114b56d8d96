use std::collections::BTreeMap;

use crate::model::{Lane, RunId, StepKind, Timestamp};

/// The most waits for approvals and decisions that one read of all runs looks at. The waits of runs
/// that ended without success count, because they stay in the history.
pub const APPROVAL_BUDGET: u32 = 5_000;

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
    /// The cursor before all waits.
    #[must_use]
    pub fn first() -> Self {
        Self {
            started_at: Timestamp::from_micros(i64::MIN),
            run_id: RunId::from(uuid::Uuid::nil()),
            step_key: String::new(),
        }
    }

    /// The cursor behind all waits.
    #[must_use]
    pub const fn last() -> Self {
        Self { started_at: Timestamp::from_micros(i64::MAX), run_id: RunId::LAST, step_key: String::new() }
    }
}

/// A part of the list of approvals and decisions.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedApprovals {
    /// The approvals and decisions, the longest waiting first.
    pub waiting: Vec<WaitingApproval>,
    /// The cursor of the last wait that was looked at, if these are [`APPROVAL_BUDGET`]: further
    /// ones may follow. `None`: all were looked at, as far as the limit of the list allows.
    pub end: Option<ApprovalCursor>,
}

/// A step that waits for an approval or a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingApproval {
    /// The run.
    pub run_id: RunId,
    /// The queue, workflow and version of the run.
    pub lane: Lane,
    /// The tags of the run. Empty if they cannot be read.
    pub tags: BTreeMap<String, String>,
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
