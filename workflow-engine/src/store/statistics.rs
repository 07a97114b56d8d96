//! Counts of runs as a store keeps them: per lane and span of time, and per group of failures. A
//! process writes the source lines of steps with them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{
    FailureGroup, FailureRow, Lane, RunId, RunStatistics, SourceLine, StatisticsRow, StatisticsSpan, StoredError,
    Timestamp,
};

use super::DatabaseError;
use super::target::Target;

/// How many groups of failures a database keeps. Those whose last failure is the oldest go.
pub const MOST_FAILURE_GROUPS: u32 = 1000;

/// The most steps of a version whose source lines a database keeps.
pub const MOST_SOURCE_LINES: u32 = 1000;

/// The tags of runs, by run.
pub type RunTags = BTreeMap<RunId, BTreeMap<String, String>>;

/// A write of counts and source lines. It concerns no run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatisticsWrite {
    /// Writes what a process has counted, and where it has seen steps called.
    Count {
        /// Replaces the rows of the same span, lane and process, which only that process writes.
        /// Sorted, and each row once. Applying the write again changes nothing.
        rows: Vec<StatisticsRow>,
        /// Adds to the rows of these groups, which all processes share. Sorted, and each group
        /// once. If the reply to a commit is lost, its failures may be counted twice.
        failures: Vec<FailureRow>,
        /// Replaces the lines of these steps, which all processes share. Sorted, and each step
        /// once. Of a version with [`MOST_SOURCE_LINES`] steps, a further step is left out.
        source_lines: Vec<SourceLine>,
    },
    /// Folds old rows into rows of longer spans, over all processes: see [`StatisticsSpan::fold`].
    /// The outcome is the number of rows that were folded. If another transaction folds, this one
    /// folds nothing.
    Fold {
        /// The largest number of rows of each span that are folded.
        limit: u32,
    },
}

/// Asks for rows of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatisticsScan {
    /// The length of their spans.
    pub span: StatisticsSpan,
    /// Only spans that begin at this time or later.
    pub from: Timestamp,
    /// Only spans that begin before this time.
    pub before: Timestamp,
    /// The largest number of rows.
    pub limit: u32,
}

impl StatisticsScan {
    /// `true` if the scan wants this row.
    #[must_use]
    pub fn wants(&self, row: &StatisticsRow) -> bool {
        row.span == self.span && (self.from..self.before).contains(&row.begins_at)
    }
}

/// The reads of counts and source lines.
#[async_trait]
pub trait StatisticsStore: Send + Sync {
    /// Returns rows of the statistics, those of the newest spans first. Reads them by their key.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn statistics(&self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError>;

    /// Returns the groups of failures, those that failed last first, at most
    /// [`MOST_FAILURE_GROUPS`].
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn failures(&self) -> Result<Vec<FailureRow>, DatabaseError>;

    /// Returns the tags of these runs, by their keys. A run that does not exist, or whose tags
    /// cannot be read, is left out.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn run_tags(&self, runs: &[RunId]) -> Result<RunTags, DatabaseError>;

    /// Returns the source lines of those of these steps that have some, in the order of the names.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn source_lines(
        &self,
        workflow: &str,
        version: &str,
        steps: &BTreeSet<&str>,
    ) -> Result<Vec<SourceLine>, DatabaseError>;
}

/// The runs of a lane that a batch has ended without their workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedInLane {
    /// The lane.
    pub lane: Lane,
    /// How many have failed.
    pub failed: u64,
    /// How many were canceled.
    pub canceled: u64,
    /// The last one of them, by its id.
    pub last_run: RunId,
    /// When the last one ended.
    pub ended_at: Timestamp,
}

impl EndedInLane {
    /// Returns the failures of the lane. A run that fails without its worker has failed at its
    /// deadline.
    pub(super) fn failures(&self) -> Option<FailureRow> {
        let Self { lane, failed: count @ 1.., last_run, ended_at, .. } = self else { return None };
        let group = FailureGroup::of(&lane.workflow, &StoredError::deadline());
        let (first_at, last_at, first_version) = (*ended_at, *ended_at, lane.version.clone());
        Some(FailureRow { group, count: *count, first_at, last_at, first_version, last_run: *last_run })
    }
}

/// An open transaction, as far as it counts runs: see [`BatchTarget`](super::BatchTarget).
pub trait StatisticsTarget: Target {
    /// Returns how many of these runs, which have ended, were in which lane, in any order.
    fn find_ended(
        &mut self,
        runs: &BTreeSet<RunId>,
    ) -> impl Future<Output = Result<Vec<EndedInLane>, Self::Error>> + Send;

    /// Adds the runs to the rows of the present minute that all processes share, in their order.
    fn add_ended(&mut self, ended: &[EndedInLane]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Inserts rows, or replaces the counts of those that exist, in their order.
    fn put_statistics(&mut self, rows: &[StatisticsRow]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Inserts groups of failures, or adds to those that exist, in their order. Deletes the groups
    /// above [`MOST_FAILURE_GROUPS`] whose last failure is the oldest.
    fn add_failures(&mut self, rows: &[FailureRow]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Inserts source lines, or replaces those of the same step, in their order. Leaves out a step
    /// that is new to a version with [`MOST_SOURCE_LINES`] steps or more.
    fn put_source_lines(&mut self, lines: &[SourceLine]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Keeps other transactions from folding until the commit. Returns `false` if another one
    /// folds.
    fn lock_statistics(&mut self) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Deletes and returns rows whose spans began longer ago than `age`, the oldest first, at most
    /// `limit`.
    fn take_statistics(
        &mut self,
        span: StatisticsSpan,
        age: Duration,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<StatisticsRow>, Self::Error>> + Send;

    /// See [`StatisticsStore::statistics`].
    fn read_statistics(
        &mut self,
        scan: &StatisticsScan,
    ) -> impl Future<Output = Result<Vec<StatisticsRow>, Self::Error>> + Send;
}

/// Returns the rows of the longer span that change when these rows are folded into them.
/// `existing` are rows of the longer span.
pub(super) fn fold_rows(
    taken: Vec<StatisticsRow>,
    existing: Vec<StatisticsRow>,
    into: StatisticsSpan,
) -> Vec<StatisticsRow> {
    let mut folded: BTreeMap<(Timestamp, Lane), RunStatistics> = BTreeMap::new();
    for StatisticsRow { begins_at, lane, counts, .. } in taken {
        folded.entry((into.begin(begins_at), lane)).or_default().add(&counts);
    }
    for StatisticsRow { begins_at, lane, counts, .. } in existing {
        if let Some(sum) = folded.get_mut(&(begins_at, lane)) {
            sum.add(&counts);
        }
    }
    let row = |((begins_at, lane), counts)| {
        let process = StatisticsRow::ALL_PROCESSES;
        StatisticsRow { span: into, begins_at, process, lane, counts }
    };
    folded.into_iter().map(row).collect()
}
