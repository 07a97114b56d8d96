use serde::{Deserialize, Serialize};
use serde_json::Value;

use workflow_engine::model::{AuditId, AuditRow, NewAudit, RunId, Timestamp};
use workflow_engine::store::{AuditList, ListedAudits, SCAN_BUDGET};

use crate::Client;

use super::{Cursor, OperateError, OperateErrorCode};

/// Asks for one page of the audit rows: see [`Operate::audit`](super::Operate::audit).
///
/// ```
/// use workflow_sdk::operate::ListAudit;
///
/// let pauses = ListAudit::new().verb("queue.").target("queue:mail");
/// let text = serde_json::to_string(&pauses)?;
/// assert_eq!(text, r#"{"verb":"queue.","target":"queue:mail","limit":50}"#);
/// assert_eq!(serde_json::from_str::<ListAudit>(&text)?, pauses);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ListAudit {
    /// Only orders whose verb begins with this text. Default: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// Only orders with this target, in the form of [`Action::target`](super::Action::target).
    /// Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Only orders of this actor. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The place at which the page begins: [`AuditPage::next`] of a page of this request. Default:
    /// the newest row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The largest number of rows. Default: [`ListAudit::DEFAULT_LIMIT`]. Range: 1 to
    /// [`ListAudit::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    ListAudit::DEFAULT_LIMIT
}

impl ListAudit {
    /// The limit that applies by default.
    pub const DEFAULT_LIMIT: u32 = 50;
    /// The largest limit. It is bounded because a whole page is held in memory.
    pub const MAX_LIMIT: u32 = 1000;

    /// Asks for the newest rows.
    #[must_use]
    pub const fn new() -> Self {
        Self { verb: String::new(), target: None, actor: None, cursor: None, limit: Self::DEFAULT_LIMIT }
    }

    /// Lists only orders whose verb begins with this text. Default: all.
    #[must_use]
    pub fn verb(mut self, prefix: impl Into<String>) -> Self {
        self.verb = prefix.into();
        self
    }

    /// Lists only orders with this target. Default: all.
    #[must_use]
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// Lists only orders of this actor. Default: all.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Begins the page at this place. Default: the newest row.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets the largest number of rows. Default: [`ListAudit::DEFAULT_LIMIT`]. Range: 1 to
    /// [`ListAudit::MAX_LIMIT`]; another value is refused where the page is read.
    #[must_use]
    pub const fn limit(mut self, rows: u32) -> Self {
        self.limit = rows;
        self
    }

    /// Returns the text to which a cursor of this request belongs.
    fn identity(&self) -> String {
        format!("audit {:?} {:?} {:?}", self.verb, self.target, self.actor)
    }
}

impl Default for ListAudit {
    fn default() -> Self {
        Self::new()
    }
}

/// One page of audit rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct AuditPage {
    /// The rows, the newest first.
    pub items: Vec<AuditEntry>,
    /// The place at which the list goes on to older rows. `None` at the end of the list. A page may
    /// be empty and have it: the search of one page ends after [`SCAN_BUDGET`] rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

/// An order that changed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct AuditEntry {
    /// Identifies the order. Ids sort by the time at which the orders were given.
    pub id: AuditId,
    /// When the change was committed, by the clock of the database.
    pub at: Timestamp,
    /// On whose behalf, if the order said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The verb, such as `run.cancel`: see [`Action::verb`](super::Action::verb).
    pub verb: String,
    /// The target, such as `queue:mail`: see [`Action::target`](super::Action::target).
    pub target: String,
    /// Why, if the order said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Further names, ids and limits of the order, as an object. Never a payload.
    pub arguments: Value,
    /// The outcome of the order: `canceled`, `requested`, `paused`, `resumed`, `accepted`,
    /// `deleted`, `applied`, `started RUN` or `delivered to NUMBER`.
    pub outcome: String,
}

impl AuditEntry {
    /// Returns the run that the order started, such as the new run of a fork. `None` if it started
    /// none.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::operate::{Action, ForkRun, ListAudit, Order, OrderOutcome};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &7.into()).await?.id();
    /// let fork = Order::new(Action::ForkRun(Box::new(ForkRun::new(run))));
    /// let done = client.operate().perform(fork).await?;
    /// let OrderOutcome::Started { run: copy } = done.outcome else {
    ///     return Err("no copy".into());
    /// };
    /// let audit = client.operate().audit(ListAudit::new().verb("run.fork")).await?;
    /// assert_eq!(audit.items[0].started(), Some(copy));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn started(&self) -> Option<RunId> {
        self.outcome.strip_prefix("started ")?.parse().ok()
    }
}

impl From<AuditRow> for AuditEntry {
    fn from(AuditRow { order, at, outcome }: AuditRow) -> Self {
        let NewAudit { id, actor, verb, target, reason, arguments } = order;
        let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
        Self { id, at, actor, verb, target, reason, arguments, outcome }
    }
}

/// See [`Operate::audit`](super::Operate::audit).
pub(super) async fn read(client: &Client, list: ListAudit) -> Result<AuditPage, OperateError> {
    let asked = check(&list)?;
    let ListedAudits { rows, next } = client.read(client.store().audits(&asked)).await?;
    let items = rows.into_iter().map(AuditEntry::from).collect();
    Ok(AuditPage { items, next: next.map(|id| Cursor::at_id(id.as_uuid(), &list.identity())) })
}

fn check(list: &ListAudit) -> Result<AuditList, OperateError> {
    if !(1..=ListAudit::MAX_LIMIT).contains(&list.limit) {
        let message = format!("a page of {} audit rows is refused", list.limit);
        let help = format!("ask for 1 to {} rows", ListAudit::MAX_LIMIT);
        return Err(OperateError::new(OperateErrorCode::BadLimit, message, help));
    }
    let older_than = list.cursor.as_ref().map(|cursor| cursor.id(&list.identity())).transpose()?;
    Ok(AuditList {
        older_than: older_than.map_or(AuditId::LAST, AuditId::from),
        verb: list.verb.clone(),
        target: list.target.clone(),
        actor: list.actor.clone(),
        limit: list.limit,
        budget: SCAN_BUDGET,
    })
}
