//! The history of a run, in pages.

use serde::{Deserialize, Serialize};

use workflow_engine::model::{AttemptStatus, RunId, StepKind, StoredError, Timestamp};
use workflow_engine::store::{HistoryPlace, HistoryRow, HistoryRows, HistoryScan};

use crate::Client;

use super::{Cursor, OperateError, SHOWN_BYTES, StoredPayload, run};

/// Asks for one page of a history: see [`OperateRuns::history`](super::OperateRuns::history).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListHistory {
    /// The run.
    pub run: RunId,
    /// The step whose attempts are read: see [`ListHistory::step`]. Default: all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The place at which the page begins: [`HistoryPage::next`] of a page of this run, and of this
    /// step if there is one. Default: the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The largest number of attempts. Default: 100. Range: 1 to [`ListHistory::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    100
}

impl ListHistory {
    /// The largest limit. It is bounded because a whole page is held in memory.
    pub const MAX_LIMIT: u32 = 1_000;

    /// Asks for the first page of the history of this run.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        Self { run, step: None, cursor: None, limit: default_limit() }
    }

    /// Reads only the attempts of the step with this key and of its repetitions, by key and
    /// attempt: of the keys that are this one, or that go on with a colon, as `ask:2` does. A page
    /// then reads no other rows of the run, however many it has. Default: all steps.
    #[must_use]
    pub fn step(mut self, key: impl Into<String>) -> Self {
        self.step = Some(key.into());
        self
    }

    /// Begins the page at this place. Default: the beginning.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets the largest number of attempts. Default: 100. Range: 1 to [`ListHistory::MAX_LIMIT`];
    /// another value is refused where the page is read.
    #[must_use]
    pub fn limit(mut self, attempts: u32) -> Self {
        self.limit = attempts;
        self
    }
}

/// One page of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct HistoryPage {
    /// The outcomes in the order in which the workflow got them, then the attempts that are no
    /// outcome, by step and number. Of one step: all its attempts by key and number.
    pub items: Vec<HistoryItem>,
    /// The place at which the next page begins. `None` at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

/// One attempt of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct HistoryItem {
    /// The key of the step.
    pub step: String,
    /// The number of the attempt, from 1.
    pub attempt: i64,
    /// The kind of the operation.
    pub kind: StepKind,
    /// The status of the attempt.
    pub status: AttemptStatus,
    /// The position of the outcome. `None`: the attempt is no outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i64>,
    /// The number of the claim under which the row was last written.
    pub epoch: i64,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The value of a step, or the condition of a wait. Items of streams are shown without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<StoredPayload>,
    /// The error of a failed attempt. `None` for a larger one than [`SHOWN_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StoredError>,
    /// The size of an error that is left out, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<u64>,
}

impl From<HistoryRow> for HistoryItem {
    fn from(HistoryRow { row, output_bytes, error_bytes, .. }: HistoryRow) -> Self {
        let output = match row.output {
            Some(text) => Some(StoredPayload::of(text, u64::from(SHOWN_BYTES))),
            None => output_bytes.map(StoredPayload::left_out),
        };
        Self {
            step: row.step_key,
            attempt: row.attempt,
            kind: row.kind,
            status: row.status,
            position: row.position,
            epoch: row.epoch,
            started_at: row.started_at,
            completed_at: row.completed_at,
            output,
            error_bytes: error_bytes.filter(|_| row.error.is_none()),
            error: row.error,
        }
    }
}

/// See [`OperateRuns::history`](super::OperateRuns::history).
pub(super) async fn history(client: &Client, list: ListHistory) -> Result<HistoryPage, OperateError> {
    let ListHistory { run: id, step, cursor, limit } = list;
    OperateError::check_limit(limit, ListHistory::MAX_LIMIT, "attempts")?;
    let of = match &step {
        None => format!("history of {id}"),
        Some(step) => format!("history of step {step:?} of {id}"),
    };
    let after = cursor.map(|cursor| cursor.place::<HistoryPlace>(&of)).transpose()?;
    let rows = match step {
        None => HistoryRows::Delivered { after, limit: limit + 1 },
        Some(step_key) => HistoryRows::OfStep { step_key, after, limit: limit + 1 },
    };
    let scan = HistoryScan { run: id, rows, payload_bytes: SHOWN_BYTES };
    let mut rows = client.read(client.store().history_page(&scan)).await?;
    if rows.is_empty() {
        run::found(client, id).await?;
    }
    let has_more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if has_more {
        rows.pop();
    }
    let last = rows.last().filter(|_| has_more).map(|row| HistoryPlace::of(&row.row));
    let next = last.map(|place| Cursor::at_place(&place, &of)).transpose()?;
    Ok(HistoryPage { items: rows.into_iter().map(HistoryItem::from).collect(), next })
}
