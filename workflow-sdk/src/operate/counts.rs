//! How many runs are in which state.

use serde::{Deserialize, Serialize};

use workflow_engine::store::RunCounts;

use crate::Client;

use super::OperateError;

/// The largest number to which rows are counted.
pub const MOST_COUNTED: u32 = 10_000;

/// How many rows are read to know that there are more than [`MOST_COUNTED`].
pub(super) const AT_MOST: u32 = MOST_COUNTED + 1;

/// A number of rows, counted up to a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Count {
    /// The rows that were counted.
    pub runs: u32,
    /// `true` if there may be more: the count ended at its bound.
    pub at_least: bool,
}

impl Count {
    /// Returns the count of rows of which at most [`AT_MOST`] were looked at.
    pub(super) fn of(rows: u32) -> Self {
        Self::up_to(MOST_COUNTED, rows)
    }

    /// Returns the count of rows that were counted to one more than `bound` at most.
    pub(crate) fn up_to(bound: u32, rows: u32) -> Self {
        Self { runs: rows.min(bound), at_least: rows > bound }
    }

    /// Returns the count of the rows with a property among those that were looked at.
    fn among(looked_at: u32, rows: u32) -> Self {
        Self { runs: rows.min(MOST_COUNTED), at_least: looked_at > MOST_COUNTED }
    }
}

/// How many runs have not ended, have failed or were canceled, by state.
///
/// Each number is counted over a partial index to [`MOST_COUNTED`], so a count costs the same
/// whatever the database holds. If more runs wait than that, the newest ones are looked at: a
/// number beside [`at_least`](Count::at_least) is then that among these, and may be 0. Succeeded
/// runs are not counted: no index has them alone, because it would cost every run that succeeds a
/// write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Counts {
    /// Runs that wait for their first claim, their start time or their next attempt.
    pub pending: Count,
    /// Runs that may be claimed now, pending or parked.
    pub due: Count,
    /// Pending runs whose start time or next attempt lies in the future.
    pub delayed: Count,
    /// Runs that a worker has claimed.
    pub running: Count,
    /// Runs that wait without a worker.
    pub parked: Count,
    /// Runs that are paused, whatever their status.
    pub paused: Count,
    /// Parked runs with an error, which wait for code or an operator.
    pub stuck: Count,
    /// Runs that failed and were not deleted.
    pub failed: Count,
    /// Runs that were canceled and not deleted.
    pub canceled: Count,
}

impl From<RunCounts> for Counts {
    fn from(counts: RunCounts) -> Self {
        let waiting = |rows| Count::among(counts.waiting, rows);
        let ended = |rows| Count::among(counts.ended, rows);
        let paused = counts.paused.saturating_add(counts.running_paused);
        Self {
            pending: waiting(counts.pending),
            due: Count::of(counts.due),
            delayed: waiting(counts.delayed),
            running: Count::of(counts.running),
            parked: waiting(counts.parked),
            paused: Count::among(counts.waiting.max(counts.running), paused),
            stuck: Count::of(counts.stuck),
            failed: ended(counts.failed),
            canceled: ended(counts.ended.saturating_sub(counts.failed)),
        }
    }
}

/// See [`Operate::counts`](super::Operate::counts).
pub(super) async fn counts(client: &Client) -> Result<Counts, OperateError> {
    Ok(client.read(client.store().run_counts(AT_MOST)).await?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_says_whether_there_may_be_more() {
        assert_eq!(Count::of(10_000), Count { runs: 10_000, at_least: false });
        assert_eq!(Count::of(10_001), Count { runs: 10_000, at_least: true });
        let many =
            RunCounts { waiting: 10_001, parked: 10_001, ended: 3, failed: 1, running: 2, ..RunCounts::default() };
        let counts = Counts::from(many);
        assert_eq!(counts.pending, Count { runs: 0, at_least: true });
        assert_eq!(counts.parked, Count { runs: 10_000, at_least: true });
        assert_eq!((counts.failed.runs, counts.canceled.runs, counts.running.at_least), (1, 2, false));
    }
}
