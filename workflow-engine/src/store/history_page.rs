//! Parts of a history, for display: rows with the sizes of their payloads, and small payloads.

use crate::model::{RunId, StepAttempt};

/// The most attempts without an outcome that one read of [`HistoryRows::Steps`] or
/// [`HistoryRows::Open`] looks at. A run that fails and tries again may have any number of them.
pub const MOST_UNDECIDED: u32 = 2_000;

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

/// The rows of a part of a history. None has items of streams, except the last one of each; only
/// [`OfStep`](Self::OfStep) has all, if it is asked for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryRows {
    /// In the order of [`Store::history`](super::Store::history).
    Delivered {
        /// Only rows after this place.
        after: Option<HistoryPlace>,
        /// The largest number of rows.
        limit: u32,
    },
    /// The last attempts of the steps of a window. The outcomes have their positions as numbers,
    /// and the steps without an outcome follow them, by step key. In this order, then by attempt.
    /// Without patches, published values and streams.
    ///
    /// Steps without an outcome are found among the first [`MOST_UNDECIDED`] attempts without one.
    Steps {
        /// Only steps with a number above this one.
        after: i64,
        /// The largest number of steps.
        limit: u32,
        /// The largest number of attempts of one step.
        attempts: u32,
    },
    /// All rows of the steps that have no outcome, and the last outcome, by step key and attempt.
    /// Without patches, published values and streams. Those without an outcome are found among the
    /// first [`MOST_UNDECIDED`] attempts without one.
    Open {
        /// The largest number of rows.
        limit: u32,
    },
    /// The rows of a step and of its repetitions, by step key and attempt: all whose key is this
    /// one, or goes on with a colon, as `ask:2` does. Reads no other rows.
    OfStep {
        /// The key of the step.
        step_key: String,
        /// Only rows after this place, whose position counts for nothing.
        after: Option<HistoryPlace>,
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

    /// Returns the places behind which the rows of a page stand: one among the outcomes and one
    /// among the rows without a position. On the first page, each place lies before all rows of its
    /// kind. On a page that has rows without a position alone, the first place lies behind all
    /// outcomes.
    #[must_use]
    pub fn bounds(after: Option<&Self>) -> HistoryBounds<'_> {
        let (first, none) = ((i64::MIN, "", i64::MIN), ("", i64::MIN));
        let (outcome, undecided) = match after {
            None => (first, none),
            Some(Self { position: Some(position), step_key, attempt }) => ((*position, &**step_key, *attempt), none),
            Some(Self { position: None, step_key, attempt }) => ((i64::MAX, "", i64::MAX), (&**step_key, *attempt)),
        };
        HistoryBounds { outcome, undecided }
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

/// The places behind which the rows of a page stand: see [`HistoryPlace::bounds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds<'a> {
    /// Position, step key and attempt of an outcome.
    pub outcome: (i64, &'a str, i64),
    /// Step key and attempt of a row without a position.
    pub undecided: (&'a str, i64),
}

/// The places behind which the rows of a page of [`HistoryRows::OfStep`] stand: one among the rows
/// of the step itself and one among those of its repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepBounds<'a> {
    /// The key of the step.
    pub step_key: &'a str,
    /// The attempt of the step itself.
    pub attempt: i64,
    /// Step key and attempt of a repetition.
    pub repetition: (String, i64),
    /// The key that stands behind those of all repetitions.
    pub end: String,
}

impl<'a> StepBounds<'a> {
    /// Returns the bounds of a page that begins after this place.
    #[must_use]
    pub fn new(step_key: &'a str, after: Option<&HistoryPlace>) -> Self {
        let first = (format!("{step_key}:"), i64::MIN);
        let (attempt, repetition) = match after {
            None => (i64::MIN, first),
            Some(place) if place.step_key == step_key => (place.attempt, first),
            Some(place) => (i64::MAX, first.max((place.step_key.clone(), place.attempt))),
        };
        Self { step_key, attempt, repetition, end: format!("{step_key};") }
    }

    /// Returns whether this row stands within the bounds.
    #[must_use]
    pub fn contains(&self, row: &StepAttempt) -> bool {
        let (key, attempt) = &self.repetition;
        let is_repetition = (&row.step_key, row.attempt) > (key, *attempt) && row.step_key < self.end;
        is_repetition || row.step_key == self.step_key && row.attempt > self.attempt
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
    /// `true` if the run has more than [`MOST_UNDECIDED`] attempts without an outcome, and the read
    /// looked for steps without one. All rows of a read have the same value.
    pub is_cut: bool,
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
        Self { row, output_bytes, error_bytes, is_cut: false }
    }
}
