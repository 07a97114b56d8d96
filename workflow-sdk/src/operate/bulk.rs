//! Bulk operations over the database: previews, orders and reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use workflow_engine::model::{
    BulkFailure, BulkId, BulkRecord, BulkStatus, NameSubject, NewBulk, RunConditions, RunFilter, RunId, RunSummary,
    Timestamp, WorkerId, check_name, check_queue,
};
use workflow_engine::store::{
    BulkWrite, Direction, Outcome, RunList, RunScan, SCAN_BUDGET, ScanSource, Write, list_runs,
};

use crate::{Client, ClientError};

use super::blockers::Blockers;
use super::condition::conditions;
use super::counts::AT_MOST;
use super::{BulkAction, Count, Cursor, OperateError, OrderOutcome, Query, StartBulk};

/// The number of runs that a preview shows.
const EXAMPLES: usize = 10;

/// The number of times the [`SCAN_BUDGET`] that a preview reads.
const BUDGETS: u32 = 10;

/// The runs that a bulk operation would change, as far as they were counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BulkPreview {
    /// The number of runs that match, counted up to [`MOST_COUNTED`](super::MOST_COUNTED).
    pub runs: Count,
    /// The newest of them, at most ten.
    pub examples: Vec<RunSummary>,
    /// Up to which time the runs were searched, if the count ended because it had read as many rows
    /// as a preview may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched_to: Option<Timestamp>,
}

/// A bulk operation, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BulkView {
    /// The operation.
    pub id: BulkId,
    /// The verb of the single order, such as `run.cancel`.
    pub verb: String,
    /// The query.
    pub query: String,
    /// The status.
    pub status: BulkStatus,
    /// The number of runs that matched when the operation was ordered. `None`: more than were
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// The number of runs that were changed.
    pub done: u64,
    /// The number of runs at which there was nothing to change.
    pub skipped: u64,
    /// The number of runs that could not be changed.
    pub failed: u64,
    /// The first of them, at most 100.
    pub failures: Vec<BulkFailure>,
    /// Further names and limits of the action, as an object. Never a payload.
    pub arguments: Value,
    /// On whose behalf, if the order said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Why, if the order said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the order was committed.
    pub created_at: Timestamp,
    /// When the operation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The worker that claimed the operation last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// Runs that were started after this time are dealt with.
    pub reached: Timestamp,
}

/// Asks for one page of bulk operations, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListBulks {
    /// The place at which the page begins: [`BulkPage::next`]. Default: the newest operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The largest number of operations. Default: [`ListBulks::DEFAULT_LIMIT`]. Range: 1 to
    /// [`ListBulks::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    ListBulks::DEFAULT_LIMIT
}

impl ListBulks {
    /// The limit that applies by default.
    pub const DEFAULT_LIMIT: u32 = 50;
    /// The largest limit. It is bounded because a whole page is held in memory.
    pub const MAX_LIMIT: u32 = 500;
    /// The text to which a cursor of this list belongs.
    const IDENTITY: &str = "bulks";

    /// Asks for the newest operations.
    #[must_use]
    pub const fn new() -> Self {
        Self { cursor: None, limit: Self::DEFAULT_LIMIT }
    }

    /// Begins the page at this place. Default: the newest operation.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets the largest number of operations. Default: [`ListBulks::DEFAULT_LIMIT`]. Range: 1 to
    /// [`ListBulks::MAX_LIMIT`]; another value is refused where the page is read.
    #[must_use]
    pub const fn limit(mut self, operations: u32) -> Self {
        self.limit = operations;
        self
    }
}

impl Default for ListBulks {
    fn default() -> Self {
        Self::new()
    }
}

/// One page of bulk operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BulkPage {
    /// The operations, the newest first.
    pub items: Vec<BulkView>,
    /// The place at which the list goes on to older operations. `None` at the end of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

/// See [`OperateBulk::bulk_preview`](super::OperateBulk::bulk_preview).
pub(super) async fn preview(client: &Client, query: &Query) -> Result<BulkPreview, OperateError> {
    let store = client.store().as_ref();
    let now = client.now().await?;
    let blockers = client.read(Blockers::read(store, query, now)).await?;
    let mut list = RunList {
        conditions: conditions(query, now, blockers),
        from: None,
        direction: Direction::Older,
        limit: RunFilter::MAX_PAGE_SIZE,
        budget: SCAN_BUDGET,
        now,
    };
    let (mut runs, mut examples, mut cuts) = (0, Vec::new(), 0);
    let searched_to = loop {
        let page = client.read(list_runs(store, &list)).await?;
        runs += u32::try_from(page.runs.len()).unwrap_or(AT_MOST);
        examples.extend(page.runs.into_iter().take(EXAMPLES.saturating_sub(examples.len())));
        cuts += u32::from(page.is_cut);
        list.from = page.next;
        match page.next {
            None => break None,
            Some(_) if runs >= AT_MOST => break None,
            Some(next) if cuts >= BUDGETS => break Some(next.time()),
            Some(_) => {}
        }
    };
    let mut runs = Count::of(runs);
    runs.at_least |= searched_to.is_some();
    Ok(BulkPreview { runs, examples, searched_to })
}

/// Orders an operation. The client leaves the audit row.
pub(super) async fn start(
    client: &Client,
    start: StartBulk,
    actor: Option<String>,
    reason: Option<String>,
) -> Result<OrderOutcome, OperateError> {
    let StartBulk { query, apply, id } = start;
    check(client, &apply)?;
    let Count { runs, at_least, .. } = preview(client, &query).await?.runs;
    let (bare, payload) = apply.split();
    let id = id.unwrap_or_else(BulkId::generate);
    let order = NewBulk {
        id,
        verb: apply.verb().into(),
        query: query.to_string(),
        action: serde_json::to_string(&bare).map_err(|error| OperateError::not_understood(error.to_string()))?,
        payload,
        actor,
        reason,
        upto: upto(client).await?,
        matched: (!at_least).then_some(i64::from(runs)),
    };
    match client.commit(Write::Bulk(Box::new(BulkWrite::Order(order)))).await? {
        Outcome::Applied => Ok(OrderOutcome::BulkStarted { bulk: id }),
        Outcome::Duplicate => Ok(OrderOutcome::BulkExisted { bulk: id }),
        other => Err(ClientError::unexpected(other).into()),
    }
}

/// Returns an id above those of all runs. A client whose clock is ahead generates greater ids than
/// this process, so the greatest one is read.
async fn upto(client: &Client) -> Result<RunId, ClientError> {
    let newest = RunScan {
        source: ScanSource::All,
        newer_than: RunId::FIRST,
        older_than: RunId::LAST,
        direction: Direction::Older,
        rows: 1,
        limit: 1,
        conditions: RunConditions::none(),
    };
    let newest = client.read(client.store().scan(&newest)).await?.runs.first().map(|run| run.id.after());
    Ok(RunId::generate().max(newest.unwrap_or(RunId::FIRST)))
}

/// Refuses an action that every run would refuse.
fn check(client: &Client, apply: &BulkAction) -> Result<(), ClientError> {
    match apply {
        BulkAction::SignalRun { name, payload, key } => {
            let signal = client.signal(RunId::FIRST, name.clone(), payload);
            let signal = key.iter().fold(signal, |signal, key| signal.key(key));
            signal.checked().map(drop)
        }
        BulkAction::MoveTo { queue } => Ok(check_queue(queue)?),
        BulkAction::ForkRun { version, queue, .. } => {
            if let Some(version) = version {
                check_name(NameSubject::Version, version)?;
            }
            if let Some(queue) = queue {
                check_queue(queue)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Ends an operation. The client leaves the audit row.
pub(super) async fn stop(client: &Client, id: BulkId) -> Result<OrderOutcome, OperateError> {
    match client.commit(Write::Bulk(Box::new(BulkWrite::Stop(id)))).await? {
        Outcome::Applied => Ok(OrderOutcome::BulkStopped),
        Outcome::Duplicate => Ok(OrderOutcome::Unchanged),
        Outcome::Lost => Err(unknown(id)),
        other => Err(ClientError::unexpected(other).into()),
    }
}

/// See [`OperateBulk::bulk`](super::OperateBulk::bulk).
pub(super) async fn read(client: &Client, id: BulkId) -> Result<BulkView, OperateError> {
    client.read(client.store().bulk(id)).await?.map(BulkView::from).ok_or_else(|| unknown(id))
}

/// See [`OperateBulk::bulks`](super::OperateBulk::bulks).
pub(super) async fn list(client: &Client, list: ListBulks) -> Result<BulkPage, OperateError> {
    OperateError::check_limit(list.limit, ListBulks::MAX_LIMIT, "bulk operations")?;
    let older_than = list.cursor.as_ref().map(|cursor| cursor.id(ListBulks::IDENTITY)).transpose()?;
    let older_than = older_than.map_or(BulkId::LAST, BulkId::from);
    let mut rows = client.read(client.store().bulks(older_than, list.limit.saturating_add(1))).await?;
    let is_full = rows.len() > list.limit as usize;
    rows.truncate(list.limit as usize);
    let last = rows.last().filter(|_| is_full).map(|row| row.order.id);
    let next = last.map(|id| Cursor::at_id(id.as_uuid(), ListBulks::IDENTITY));
    Ok(BulkPage { items: rows.into_iter().map(BulkView::from).collect(), next })
}

fn unknown(id: BulkId) -> OperateError {
    OperateError::not_found(format!("there is no bulk operation {id}"), "list the bulk operations")
}

impl From<BulkRecord> for BulkView {
    fn from(BulkRecord { order, created_at, progress }: BulkRecord) -> Self {
        let number = |count: i64| u64::try_from(count).unwrap_or_default();
        let mut arguments = serde_json::from_str(&order.action).unwrap_or(Value::Null);
        if let Value::Object(fields) = &mut arguments {
            fields.remove("action");
            fields.remove("payload");
            fields.remove("key");
        }
        Self {
            id: order.id,
            verb: order.verb,
            query: order.query,
            status: progress.status,
            matched: order.matched.map(number),
            done: number(progress.done),
            skipped: number(progress.skipped),
            failed: number(progress.failed),
            failures: progress.failures,
            arguments,
            actor: order.actor,
            reason: order.reason,
            created_at,
            ended_at: progress.ended_at,
            worker: progress.worker,
            reached: progress.cursor.time(),
        }
    }
}
