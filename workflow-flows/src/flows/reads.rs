//! Reads of the rows by which the gates and the steps outside are answered.

use serde_json::Value;
use workflow_sdk::operate::{HistoryItem, ListApprovals, ListHistory, Operate, OperateError, PayloadOf, StoredPayload};
use workflow_sdk::{PendingApproval, RunId};

use super::gate::StepKey;
use crate::interpreter::prepared_key;

/// The rows by which a gate is answered. However many other steps the run has, their rows are not
/// read.
pub(super) struct GateRows {
    /// The approvals and decisions that the run waits for.
    pub(super) waits: Vec<PendingApproval>,
    /// The attempts that [`read_prepared`] reads.
    pub(super) prepared: Vec<HistoryItem>,
}

impl GateRows {
    /// Reads the waits first. If the run goes on between the reads, a visit that the answer names
    /// is then an earlier one, and the answer never reaches the later visit.
    pub(super) async fn read(operate: &dyn Operate, run: RunId, step: &StepKey<'_>) -> Result<Self, OperateError> {
        let waits = read_waits(operate, run).await?;
        Ok(Self { waits, prepared: read_prepared(operate, run, step).await? })
    }
}

/// Reads the approvals and decisions that a run waits for.
async fn read_waits(operate: &dyn Operate, run: RunId) -> Result<Vec<PendingApproval>, OperateError> {
    let mut list = ListApprovals::new().run(run).limit(ListApprovals::MAX_LIMIT);
    let mut waits = Vec::new();
    loop {
        let page = operate.approvals(list.clone()).await?;
        waits.extend(page.items);
        match page.next {
            Some(next) => list = list.cursor(next),
            None => return Ok(waits),
        }
    }
}

/// Reads all attempts of a run.
pub(super) async fn read_history(operate: &dyn Operate, run: RunId) -> Result<Vec<HistoryItem>, OperateError> {
    read_pages(operate, ListHistory::new(run)).await
}

/// Reads the attempts of the waits for the signal of this kind in the scope that the key of a step
/// names.
pub(super) async fn read_signal_waits(
    operate: &dyn Operate,
    run: RunId,
    step: &StepKey<'_>,
    kind: &str,
) -> Result<Vec<HistoryItem>, OperateError> {
    let scope = step.name.rfind('/').map_or("", |at| &step.name[..=at]);
    read_pages(operate, ListHistory::new(run).step(format!("{scope}{}", step.signal(kind)))).await
}

/// Reads the attempts that have rendered values for the visits of a step, and perhaps some of other
/// steps. However many other steps the run has, their rows are not read.
pub(super) async fn read_prepared(
    operate: &dyn Operate,
    run: RunId,
    step: &StepKey<'_>,
) -> Result<Vec<HistoryItem>, OperateError> {
    read_pages(operate, ListHistory::new(run).step(prepared_key(step.name))).await
}

async fn read_pages(operate: &dyn Operate, list: ListHistory) -> Result<Vec<HistoryItem>, OperateError> {
    let mut list = list.limit(ListHistory::MAX_LIMIT);
    let mut history = Vec::new();
    loop {
        let page = operate.history(list.clone()).await?;
        history.extend(page.items);
        match page.next {
            Some(next) => list = list.cursor(next),
            None => return Ok(history),
        }
    }
}

/// Returns the value of a row. A large one does not stand in the history.
pub(super) async fn read_output(operate: &dyn Operate, run: RunId, row: &HistoryItem) -> Result<Value, OperateError> {
    let Some(output) = &row.output else { return Ok(Value::Null) };
    let read =
        |payload: &StoredPayload| payload.json.as_ref().and_then(|json| serde_json::from_str(json.as_str()).ok());
    if output.json.is_some() || output.unreadable.is_some() {
        return Ok(read(output).unwrap_or_default());
    }
    let of = PayloadOf::Step { step: row.step.clone(), attempt: row.attempt };
    Ok(read(&operate.payload(run, of).await?).unwrap_or_default())
}
