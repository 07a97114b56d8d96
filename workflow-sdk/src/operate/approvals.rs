//! Approvals that runs wait for.

use serde::{Deserialize, Serialize};

use workflow_engine::model::RunId;

use crate::{Client, PendingApproval};

use super::{OperateError, run};

/// Asks for the approvals that runs wait for: see
/// [`Operate::approvals`](super::Operate::approvals).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListApprovals {
    /// Only those of this run. Default: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The largest number of approvals. Default: 100. Range: 1 to [`ListApprovals::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    100
}

impl Default for ListApprovals {
    fn default() -> Self {
        Self { run: None, limit: default_limit() }
    }
}

impl ListApprovals {
    /// The largest limit. It is bounded because a whole page is held in memory.
    pub const MAX_LIMIT: u32 = 1_000;

    /// Asks for those of all runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks only for those of this run. Default: of all.
    #[must_use]
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Sets the largest number of approvals. Default: 100. Range: 1 to
    /// [`ListApprovals::MAX_LIMIT`]; another value is refused where the page is read.
    #[must_use]
    pub fn limit(mut self, approvals: u32) -> Self {
        self.limit = approvals;
        self
    }
}

/// The approvals that wait for the longest time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ApprovalPage {
    /// The approvals, the longest waiting first.
    pub items: Vec<PendingApproval>,
    /// `true` if no further approval waits.
    pub complete: bool,
}

/// See [`Operate::approvals`](super::Operate::approvals).
pub(super) async fn approvals(client: &Client, list: ListApprovals) -> Result<ApprovalPage, OperateError> {
    let ListApprovals { run: id, limit } = list;
    OperateError::check_limit(limit, ListApprovals::MAX_LIMIT, "approvals")?;
    let mut waiting = client.read(client.store().approvals(id, limit + 1)).await?;
    if let Some(id) = id.filter(|_| waiting.is_empty()) {
        run::found(client, id).await?;
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let complete = waiting.len() <= limit;
    waiting.truncate(limit);
    Ok(ApprovalPage { items: waiting.into_iter().map(PendingApproval::from).collect(), complete })
}
