//! Groups of failures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use workflow_engine::model::{ErrorKind, FailureRow, RunId, Timestamp};
use workflow_engine::store::MOST_FAILURE_GROUPS;

use crate::Client;

use super::{Moment, OperateError};

/// Asks for groups of failures: see
/// [`OperateStatistics::failures`](super::OperateStatistics::failures).
///
/// ```
/// use workflow_sdk::operate::ListFailures;
///
/// let today = ListFailures::new().since("-1d".parse()?).workflow("checkout");
/// let text = serde_json::to_string(&today)?;
/// assert_eq!(text, r#"{"since":"-1d","workflow":"checkout","limit":50}"#);
/// assert_eq!(serde_json::from_str::<ListFailures>(&text)?, today);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ListFailures {
    /// Only groups that have failed since this time. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Moment>,
    /// Only groups of this workflow. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The largest number of groups. Default: [`ListFailures::DEFAULT_LIMIT`]. Range: 1 to
    /// [`ListFailures::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    ListFailures::DEFAULT_LIMIT
}

impl ListFailures {
    /// The limit that applies by default.
    pub const DEFAULT_LIMIT: u32 = 50;
    /// The largest limit: a database keeps so many groups.
    pub const MAX_LIMIT: u32 = MOST_FAILURE_GROUPS;

    /// Asks for the groups that failed last.
    #[must_use]
    pub const fn new() -> Self {
        Self { since: None, workflow: None, limit: Self::DEFAULT_LIMIT }
    }

    /// Lists only groups that have failed since this time. Default: all.
    #[must_use]
    pub fn since(mut self, since: Moment) -> Self {
        self.since = Some(since);
        self
    }

    /// Lists only groups of this workflow. Default: all.
    #[must_use]
    pub fn workflow(mut self, workflow: impl Into<String>) -> Self {
        self.workflow = Some(workflow.into());
        self
    }

    /// Sets the largest number of groups. Default: [`ListFailures::DEFAULT_LIMIT`]. Range: 1 to
    /// [`ListFailures::MAX_LIMIT`]; another value is refused where the page is read.
    #[must_use]
    pub const fn limit(mut self, groups: u32) -> Self {
        self.limit = groups;
        self
    }
}

impl Default for ListFailures {
    fn default() -> Self {
        Self::new()
    }
}

/// Groups of failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct FailurePage {
    /// The groups, those that failed last first.
    pub items: Vec<FailureView>,
    /// `false` if further groups failed earlier: a larger limit shows them.
    pub complete: bool,
}

/// Failures that are alike: of one workflow, with one kind of error, in one step, and with messages
/// that differ only in words with digits, addresses and quoted text.
///
/// The numbers are close, but not exact: see [`StatsPage`](super::StatsPage).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct FailureView {
    /// The workflow.
    pub workflow: String,
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The key of the step that failed, with `#` for its numbers. `None` if no step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The common part of the messages, at most 200 bytes of it. `(encoded)` if a codec encodes
    /// errors.
    pub message: String,
    /// How many runs have failed so, since the group was first seen or last forgotten.
    pub count: u64,
    /// When the first one failed.
    pub first_at: Timestamp,
    /// When the last one failed.
    pub last_at: Timestamp,
    /// The version of the first one.
    pub first_version: String,
    /// The last one. It may have been deleted since.
    pub last_run: RunId,
    /// The tags of the last one, by which a flow is known. Empty if it was deleted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

impl From<FailureRow> for FailureView {
    fn from(row: FailureRow) -> Self {
        let kind = row.group.error_kind();
        let FailureRow { group, count, first_at, last_at, first_version, last_run } = row;
        let step = Some(group.step).filter(|step| !step.is_empty());
        let (workflow, message) = (group.workflow, group.message);
        Self { workflow, kind, step, message, count, first_at, last_at, first_version, last_run, tags: BTreeMap::new() }
    }
}

/// See [`OperateStatistics::failures`](super::OperateStatistics::failures).
pub(super) async fn failures(client: &Client, list: ListFailures) -> Result<FailurePage, OperateError> {
    OperateError::check_limit(list.limit, ListFailures::MAX_LIMIT, "groups of failures")?;
    let since = match list.since {
        Some(since) => Some(since.at(client.now().await?)),
        None => None,
    };
    let rows = client.read(client.store().failures()).await?;
    let is_wanted = |row: &FailureRow| {
        since.is_none_or(|since| row.last_at >= since)
            && list.workflow.as_ref().is_none_or(|workflow| *workflow == row.group.workflow)
    };
    let mut items: Vec<FailureView> = rows.into_iter().filter(is_wanted).map(FailureView::from).collect();
    let complete = items.len() <= list.limit as usize;
    items.truncate(list.limit as usize);
    let runs: Vec<RunId> = items.iter().map(|group| group.last_run).collect();
    let tags = client.read(client.store().run_tags(&runs)).await?;
    for group in &mut items {
        group.tags = tags.get(&group.last_run).cloned().unwrap_or_default();
    }
    Ok(FailurePage { items, complete })
}
