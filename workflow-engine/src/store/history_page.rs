//! Parts of a history, for display: rows with the sizes of their payloads, and small payloads.

use crate::model::{RunId, StepAttempt};

/// Which rows of a history to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryScan {
    /// The run.
    pub run: RunId,
    /// The rows, and their order.
    pub rows: HistoryRows,
    /// A payload or an error of more bytes is left out.
    pub payload_bytes: u32,
}

/// The rows of a part of a history. None has items of streams, except the last one of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryRows {
    /// In the order of [`Store::history`](super::Store::history).
    Delivered {
        /// Only rows after this place.
        after: Option<HistoryPlace>,
        /// The largest number of rows.
        limit: u32,
    },
    /// All rows of these steps, in the order in which the steps first began, then by attempt.
    /// Without patches, published values and streams.
    Begun {
        /// How many steps to leave out at the beginning.
        from: u32,
        /// The largest number of steps.
        limit: u32,
    },
    /// All rows of the steps that have no outcome, and the last outcome, by step key and attempt.
    /// Without patches, published values and streams.
    Open {
        /// The largest number of rows.
        limit: u32,
    },
    /// The row of one attempt.
    Attempt {
        /// The key of the step.
        step_key: String,
        /// The number of the attempt.
        attempt: i64,
    },
}

/// The place of a row in a history.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HistoryPlace {
    /// The position. `None`: the row has none, and stands behind those that have one.
    pub position: Option<i64>,
    /// The key of the step.
    pub step_key: String,
    /// The number of the attempt.
    pub attempt: i64,
}

impl HistoryPlace {
    /// Returns the place of this row.
    #[must_use]
    pub fn of(row: &StepAttempt) -> Self {
        Self { position: row.position, step_key: row.step_key.clone(), attempt: row.attempt }
    }

    /// Returns whether this row stands behind the place.
    #[must_use]
    pub fn is_before(&self, row: &StepAttempt) -> bool {
        let place = |position: Option<i64>, key: &str, attempt: i64| {
            (position.is_none(), position.unwrap_or_default(), key.to_owned(), attempt)
        };
        place(row.position, &row.step_key, row.attempt) > place(self.position, &self.step_key, self.attempt)
    }
}

/// A row of a history with the sizes of its payloads.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRow {
    /// The row, without payloads that are too large.
    pub row: StepAttempt,
    /// The size of the output. `None`: the row has none, or is an item of a stream.
    pub output_bytes: Option<u64>,
    /// The size of the stored error. `None`: the row has none.
    pub error_bytes: Option<u64>,
}

impl HistoryRow {
    /// Returns the row as a part of a history has it.
    #[must_use]
    pub fn of(row: &StepAttempt, payload_bytes: u32) -> Self {
        let bytes = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
        let is_item = row.kind == crate::model::StepKind::Emitted && row.attempt > 0;
        let output_bytes = row.output.as_deref().filter(|_| !is_item).map(bytes);
        let error_bytes =
            row.error.as_ref().and_then(|error| serde_json::to_string(error).ok()).map(|text| bytes(&text));
        let fits = |bytes: Option<u64>| bytes.is_some_and(|bytes| bytes <= u64::from(payload_bytes));
        let row = StepAttempt {
            output: row.output.clone().filter(|_| fits(output_bytes)),
            error: row.error.clone().filter(|_| fits(error_bytes)),
            ..row.clone()
        };
        Self { row, output_bytes, error_bytes }
    }
}
