//! Approvals and decisions that runs wait for.

use serde::{Deserialize, Serialize};

use workflow_engine::model::{RunId, Timestamp};
use workflow_engine::store::{ApprovalCursor, ApprovalList, ListedApprovals, WaitingApproval};

use crate::{Client, PendingApproval};

use super::{Cursor, Operate, OperateError, run};

/// Asks for the approvals and decisions that runs wait for: see
/// [`Operate::approvals`](super::Operate::approvals).
///
/// ```
/// use workflow_sdk::operate::ListApprovals;
///
/// let text = serde_json::to_string(&ListApprovals::new().limit(20))?;
/// assert_eq!(text, r#"{"limit":20}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListApprovals {
    /// Only those of this run. Default: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The place at which the page begins: [`ApprovalPage::next`] of a page of this request.
    /// Default: the one that waits for the longest time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The largest number of approvals and decisions. Default: 100. Range: 1 to
    /// [`ListApprovals::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    100
}

impl Default for ListApprovals {
    fn default() -> Self {
        Self { run: None, cursor: None, limit: default_limit() }
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

    /// Begins the page at this place. Default: the one that waits for the longest time.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets the largest number of approvals and decisions. Default: 100. Range: 1 to
    /// [`ListApprovals::MAX_LIMIT`]; another value is refused where the page is read.
    #[must_use]
    pub fn limit(mut self, approvals: u32) -> Self {
        self.limit = approvals;
        self
    }

    /// Reads the first page that has an approval or a decision, or the last page. A page may have
    /// none although others follow: it passes over the waits of runs that have ended.
    ///
    /// # Errors
    /// Those of [`Operate::approvals`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn first_page(mut self, operate: &dyn Operate) -> Result<ApprovalPage, OperateError> {
        loop {
            let page = operate.approvals(self.clone()).await?;
            match page.next {
                Some(next) if page.items.is_empty() => self.cursor = Some(next),
                next => return Ok(ApprovalPage { next, ..page }),
            }
        }
    }

    /// Returns the text to which a cursor of this request belongs.
    fn identity(&self) -> String {
        format!("approvals {:?}", self.run)
    }
}

/// The approvals and decisions that wait for the longest time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ApprovalPage {
    /// The approvals and decisions, the longest waiting first.
    pub items: Vec<PendingApproval>,
    /// `true` if no further one waits. `false`: the next page may have further ones. A page ends
    /// early, and may be empty, if 5,000 waits were looked at, because the waits of runs that ended
    /// without success are passed over.
    pub complete: bool,
    /// The place at which the list goes on. `None` at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

/// The place of an approval or a decision in the list.
#[derive(Debug, Serialize, Deserialize)]
struct LastApproval {
    since: Timestamp,
    run: RunId,
    step: String,
}

impl From<ApprovalCursor> for LastApproval {
    fn from(ApprovalCursor { started_at: since, run_id: run, step_key: step }: ApprovalCursor) -> Self {
        Self { since, run, step }
    }
}

impl From<LastApproval> for ApprovalCursor {
    fn from(LastApproval { since: started_at, run: run_id, step: step_key }: LastApproval) -> Self {
        Self { started_at, run_id, step_key }
    }
}

/// See [`Operate::approvals`](super::Operate::approvals).
pub(super) async fn approvals(client: &Client, list: ListApprovals) -> Result<ApprovalPage, OperateError> {
    let identity = list.identity();
    let ListApprovals { run: id, cursor, limit } = list;
    OperateError::check_limit(limit, ListApprovals::MAX_LIMIT, "approvals")?;
    let place = cursor.as_ref().map(|cursor| cursor.place::<LastApproval>(&identity)).transpose()?;
    let after = place.map_or_else(ApprovalCursor::first, ApprovalCursor::from);
    let asked = ApprovalList { run: id, decisions: true, after, limit: limit + 1 };
    let ListedApprovals { mut waiting, end } = client.read(client.store().approvals(&asked)).await?;
    if let Some(id) = id.filter(|_| waiting.is_empty()) {
        run::found(client, id).await?;
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_full = waiting.len() > limit;
    waiting.truncate(limit);
    let last = if is_full { waiting.last().map(WaitingApproval::cursor) } else { end };
    let next = last.map(|last| Cursor::at_place(&LastApproval::from(last), &identity)).transpose()?;
    let complete = next.is_none();
    Ok(ApprovalPage { items: waiting.into_iter().map(PendingApproval::from).collect(), complete, next })
}
