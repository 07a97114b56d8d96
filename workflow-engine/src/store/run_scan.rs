//! Which rows a list reads: the index that serves it, and how far it reads.

use crate::model::{NamePattern, Run, RunConditions, RunId, RunStatus, Timestamp};

/// The largest number of rows that one page of a list reads.
pub const SCAN_BUDGET: u32 = 20_000;

/// The direction in which a list goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To older runs.
    #[default]
    Older,
    /// To newer runs.
    Newer,
}

/// The runs among which a list searches, in the order of their ids. An index serves each of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScanSource {
    /// All runs.
    All,
    /// Runs with a tag.
    Tagged(String, String),
    /// Runs that are pending.
    Pending,
    /// Runs that are parked.
    Parked,
    /// Runs that are paused and have not ended.
    Paused,
    /// Runs that are running.
    Running,
    /// Runs that failed or were canceled.
    Failed,
    /// Runs with an idempotency key, of any workflow.
    Keyed(String),
}

/// One part of a list: reads at most `rows` runs of the source, in the direction, and returns those
/// of them that fulfill the conditions.
#[derive(Clone, Debug)]
pub struct RunScan {
    /// The runs among which to search.
    pub source: ScanSource,
    /// Only runs with a larger id.
    pub newer_than: RunId,
    /// Only runs with a smaller id.
    pub older_than: RunId,
    /// The direction.
    pub direction: Direction,
    /// The largest number of rows to read. Range: 1 to [`SCAN_BUDGET`].
    pub rows: u32,
    /// The largest number of runs to return.
    pub limit: u32,
    /// The conditions.
    pub conditions: RunConditions,
}

impl RunScan {
    /// Returns the bounds, both exclusive, of the range that ends with this id, if there is one.
    #[must_use]
    pub fn bounds_to(&self, end: Option<RunId>) -> (RunId, RunId) {
        match (end, self.direction) {
            (None, _) => (self.newer_than, self.older_than),
            (Some(end), Direction::Older) => (end.before(), self.older_than),
            (Some(end), Direction::Newer) => (self.newer_than, end.after()),
        }
    }
}

/// The result of a [`RunScan`].
#[derive(Debug, Default)]
pub struct ScannedRuns {
    /// The runs in the direction of the scan, without inputs and outputs. An error of more than
    /// [`ErrorSummary::MAX_STORED_BYTES`](crate::model::ErrorSummary::MAX_STORED_BYTES) is cut.
    pub runs: Vec<Run>,
    /// How far the scan came if the source has more rows in its range: this row was the last.
    /// `None` if the scan read the whole range.
    pub end: Option<RunId>,
}

impl ScanSource {
    /// Returns the sources that together have every run that can fulfill the conditions: as few
    /// runs as possible.
    #[must_use]
    pub fn of(conditions: &RunConditions) -> Vec<Self> {
        if let [NamePattern { text, is_prefix: false }] = &conditions.key.any_of[..] {
            return vec![Self::Keyed(text.clone())];
        }
        let is_running = |status: &RunStatus| *status == RunStatus::Running;
        let failed = |status: &RunStatus| matches!(status, RunStatus::Failed | RunStatus::Canceled);
        let statuses = &conditions.statuses;
        if statuses.is_empty() || !conditions.workers.is_empty() && !statuses.iter().any(is_running) {
            return Vec::new();
        }
        if !conditions.workers.is_empty() || statuses.iter().all(is_running) {
            return vec![Self::Running];
        }
        let tag = conditions.tags.iter().find(|tag| !tag.negated && tag.values.len() == 1);
        if let Some((tag, value)) = tag.and_then(|tag| Some((tag, tag.values.first()?))) {
            return vec![Self::Tagged(tag.name.clone(), value.clone())];
        }
        if conditions.paused == Some(true) {
            return vec![Self::Paused];
        }
        if statuses.contains(&RunStatus::Succeeded) {
            return vec![Self::All];
        }
        let mut sources = Vec::new();
        if statuses.contains(&RunStatus::Pending) {
            sources.push(Self::Pending);
        }
        if statuses.contains(&RunStatus::Parked) {
            sources.push(Self::Parked);
        }
        if statuses.iter().any(is_running) {
            sources.push(Self::Running);
        }
        if statuses.iter().any(failed) {
            sources.push(Self::Failed);
        }
        sources
    }

    /// Returns whether the source has the run.
    #[must_use]
    pub fn has(&self, run: &Run) -> bool {
        match self {
            Self::All => true,
            Self::Tagged(name, value) => run.tags.get(name) == Some(value),
            Self::Pending => run.status == RunStatus::Pending,
            Self::Parked => run.status == RunStatus::Parked,
            Self::Paused => run.paused_at.is_some() && !run.status.is_terminal(),
            Self::Running => run.status == RunStatus::Running,
            Self::Failed => matches!(run.status, RunStatus::Failed | RunStatus::Canceled),
            Self::Keyed(key) => run.key.as_ref() == Some(key),
        }
    }
}

/// How far the clock that generates an id may differ from the clock of the database.
const CLOCK_SKEW: std::time::Duration = std::time::Duration::from_secs(3600);

/// Returns an id that is larger than that of every run whose start was committed before this time.
/// An id is generated before its start is committed. `None` if the clocks of this process and of
/// the database differ, as under a clock that a test moves: ids then say nothing about that time.
#[must_use]
pub fn first_id_after(time: Timestamp, now: Timestamp) -> Option<RunId> {
    let here = RunId::generate().time();
    let agree = here.since(now) < CLOCK_SKEW && now.since(here) < CLOCK_SKEW;
    agree.then(|| RunId::first_at(time + CLOCK_SKEW))
}
