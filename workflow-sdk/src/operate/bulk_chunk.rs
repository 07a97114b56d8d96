//! The next runs of a bulk operation, as one write. Each run gets the write of the single order.

use std::time::Duration;

use futures::StreamExt;

use workflow_engine::model::{
    AuditId, BulkCounts, BulkFailure, BulkRecord, Lane, NewAudit, RunId, RunStatus, RunSummary, UnreadablePayload,
};
use workflow_engine::store::{
    AuditedWrite, BulkChunk, BulkClaim, DatabaseError, DatabaseErrorKind, DeleteWrite, Direction, PlaceChange,
    PlaceWrite, RunList, SCAN_BUDGET, Write, list_runs,
};

use crate::{Client, ClientError};

use super::blockers::Blockers;
use super::condition::conditions;
use super::{BulkAction, OperateError, Order, Payload, Query};

/// The number of runs that are prepared at once: a retry reads the history of its run.
const AT_ONCE: usize = 8;

/// The part of a run in a chunk.
enum Prepared {
    Write(Box<Write>),
    Skipped,
    Failed(String),
}

/// Returns the next chunk of an operation: at most `limit` runs behind its cursor, which are
/// searched for among at most [`SCAN_BUDGET`] rows.
///
/// # Errors
/// [`DatabaseError`] if the database fails; kind [`Corrupt`](DatabaseErrorKind::Corrupt) or
/// [`Codec`](DatabaseErrorKind::Codec) if this program does not understand the operation.
#[doc(hidden)]
pub async fn next_bulk_chunk(
    client: &Client,
    row: &BulkRecord,
    limit: u32,
    lease: Duration,
) -> Result<BulkChunk, DatabaseError> {
    let (query, action) = understood(row)?;
    let store = client.store().as_ref();
    let now = store.now().await?;
    let blockers = Blockers::read(store, &query, now).await?;
    let list = RunList {
        conditions: conditions(&query, row.created_at, blockers),
        from: Some(row.progress.cursor),
        direction: Direction::Older,
        limit,
        budget: SCAN_BUDGET,
        now,
    };
    let page = list_runs(store, &list).await?;
    // Checked by the clock of the store, because the time in an id is from the clock of a client. A
    // condition of the list would bound the ids, too, and miss those of a clock that is ahead.
    let meant = page.runs.into_iter().filter(|run| run.created_at <= row.created_at);
    let each = meant.map(|run| prepared(client, row, &action, run));
    let prepared: Vec<_> = futures::stream::iter(each).buffered(AT_ONCE).collect().await;
    let (mut writes, mut known) = (Vec::new(), BulkCounts::default());
    for one in prepared {
        match one? {
            (run, Prepared::Write(write)) => writes.push((run, *write)),
            (_, Prepared::Skipped) => known.skipped += 1,
            (run, Prepared::Failed(reason)) => known.failures.push(BulkFailure::new(run, reason)),
        }
    }
    Ok(BulkChunk {
        claim: BulkClaim { id: row.order.id, epoch: row.progress.epoch },
        seen: row.progress.cursor,
        cursor: page.next.unwrap_or(RunId::FIRST),
        writes,
        known,
        is_last: page.next.is_none(),
        lease,
    })
}

/// Returns the query and the action of an operation.
fn understood(row: &BulkRecord) -> Result<(Query, BulkAction), DatabaseError> {
    const OPERATION: &str = "read a bulk operation";
    let corrupt = |error: String| DatabaseError::new(DatabaseErrorKind::Corrupt, OPERATION, error);
    let query: Query = row.order.query.parse().map_err(|error| corrupt(format!("{error}")))?;
    let mut action: BulkAction = serde_json::from_str(&row.order.action).map_err(|error| corrupt(error.to_string()))?;
    if let Some(payload) = &row.order.payload {
        if let Some(unreadable) = UnreadablePayload::in_place_of(payload) {
            return Err(DatabaseError::new(DatabaseErrorKind::Codec, OPERATION, unreadable.to_string()));
        }
        action.set_payload(Payload::new(payload.clone()).map_err(|error| corrupt(error.to_string()))?);
    }
    Ok((query, action))
}

/// Returns what this run gets, and its audit row.
async fn prepared(
    client: &Client,
    row: &BulkRecord,
    action: &BulkAction,
    run: RunSummary,
) -> Result<(RunId, Prepared), DatabaseError> {
    let id = run.id;
    if !concerns(action, &run) {
        return Ok((id, Prepared::Skipped));
    }
    let write = match write(client, row, action, &run).await {
        Ok(write) => write,
        Err(ClientError::UnknownRun { .. } | ClientError::NotFailed { .. }) => return Ok((id, Prepared::Skipped)),
        Err(ClientError::Database(error)) => return Err(error),
        Err(error @ ClientError::TimedOut { .. }) => {
            return Err(DatabaseError::new(DatabaseErrorKind::Unreachable, "read a run", error));
        }
        Err(error) => return Ok((id, Prepared::Failed(OperateError::from(error).message))),
    };
    let order = audit_row(row, action, id);
    Ok((id, Prepared::Write(Box::new(Write::Audited(Box::new(AuditedWrite { write, order }))))))
}

/// Returns `false` if there is nothing to change at this run.
fn concerns(action: &BulkAction, run: &RunSummary) -> bool {
    let is_open = !run.status.is_terminal();
    match action {
        BulkAction::CancelRun => is_open && run.cancel_requested_at.is_none(),
        BulkAction::PauseRun => is_open && run.paused_at.is_none(),
        BulkAction::ResumeRun => is_open && run.paused_at.is_some(),
        BulkAction::TerminateRun | BulkAction::SignalRun { .. } => is_open,
        BulkAction::SetPriority { priority } => is_open && run.priority != Some(*priority),
        BulkAction::MoveTo { queue } => is_open && run.lane.queue != *queue,
        BulkAction::RetryRun { .. } => run.status == RunStatus::Failed,
        BulkAction::ForkRun { .. } | BulkAction::DeleteRun => true,
    }
}

/// Returns the write of the single order, as the client would commit it.
async fn write(
    client: &Client,
    row: &BulkRecord,
    action: &BulkAction,
    summary: &RunSummary,
) -> Result<Write, ClientError> {
    let run = summary.id;
    Ok(match action {
        BulkAction::CancelRun => Write::Cancel(run),
        BulkAction::TerminateRun => Write::Terminate(run),
        BulkAction::PauseRun => Write::Pause(run),
        BulkAction::ResumeRun => Write::Resume(run),
        BulkAction::DeleteRun => Write::Delete(DeleteWrite { run_id: run, ended_before: None }),
        BulkAction::SetPriority { priority } => {
            Write::Place(PlaceWrite { run_id: run, change: PlaceChange::Priority(*priority) })
        }
        BulkAction::MoveTo { queue } => {
            let lane = Lane { queue: queue.clone(), ..summary.lane.clone() };
            Write::Place(PlaceWrite { run_id: run, change: PlaceChange::Queue { lane, gate: summary.gate.clone() } })
        }
        BulkAction::RetryRun { deadline_ms } => {
            let retry = client.retry(run);
            let retry = deadline_ms.iter().fold(retry, |retry, ms| retry.deadline(Duration::from_millis(*ms)));
            Write::Revive(retry.write().await?)
        }
        BulkAction::ForkRun { from, version, queue } => {
            let mut fork = client.fork(run);
            if let Some(from) = from {
                fork = fork.from(from);
            }
            if let Some(version) = version {
                fork = fork.version(version);
            }
            if let Some(queue) = queue {
                fork = fork.queue(queue);
            }
            Write::Fork(Box::new(fork.write().await?))
        }
        BulkAction::SignalRun { name, payload, key } => {
            // Even if the cursor were lost, a run would receive the signal once.
            let key = key.clone().unwrap_or_else(|| format!("bulk:{}", row.order.id));
            let (_, signal) = client.signal(run, name.clone(), payload).key(key).checked()?;
            Write::Signal(signal)
        }
    })
}

/// Returns the audit row of one run: that of the single order, with the operation.
fn audit_row(row: &BulkRecord, action: &BulkAction, run: RunId) -> NewAudit {
    let mut audit = Order::new(action.on(run)).audit();
    let mut arguments: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&audit.arguments).unwrap_or_default();
    arguments.insert("bulk".into(), row.order.id.to_string().into());
    audit.id = AuditId::generate();
    audit.actor.clone_from(&row.order.actor);
    audit.reason.clone_from(&row.order.reason);
    audit.arguments = serde_json::Value::Object(arguments).to_string();
    audit
}
