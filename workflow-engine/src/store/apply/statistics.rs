//! The counts of a batch: of runs that end without their workers, of a process, and of old spans.

use std::collections::BTreeSet;

use crate::model::{FailureRow, RunId, StatisticsSpan};

use super::OpenBatch;
use crate::store::batch_target::BatchTarget;
use crate::store::statistics::{EndedInLane, StatisticsScan, StatisticsWrite, fold_rows};
use crate::store::{Outcome, StatisticsTarget};

impl<T: BatchTarget> OpenBatch<'_, T> {
    /// Returns the lanes of runs that have ended without their workers. A run that a worker ends is
    /// counted by that worker, after the commit.
    ///
    /// Call it before the deletions of the batch, because a deleted run has no lane.
    pub(super) async fn find_ended(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<EndedInLane>, T::Error> {
        if runs.is_empty() || !self.counts {
            return Ok(Vec::new());
        }
        let mut ended = self.target.find_ended(runs).await?;
        ended.sort_unstable_by(|one, other| one.lane.cmp(&other.lane));
        Ok(ended)
    }

    /// Writes counts, after all that locks runs: the rows that processes share are held for a
    /// moment only.
    pub(super) async fn write_statistics(&mut self, ended: Vec<EndedInLane>) -> Result<(), T::Error> {
        if !ended.is_empty() {
            self.target.add_ended(&ended).await?;
            self.add_failures(ended.iter().filter_map(EndedInLane::failures).collect()).await?;
        }
        for (index, write) in self.writes.statistics.iter() {
            let outcome = match write {
                StatisticsWrite::Count { rows, failures, source_lines } => {
                    if !rows.is_empty() {
                        self.target.put_statistics(rows).await?;
                    }
                    if !failures.is_empty() {
                        self.target.add_failures(failures).await?;
                    }
                    if !source_lines.is_empty() {
                        self.target.put_source_lines(source_lines).await?;
                    }
                    Outcome::Applied
                }
                StatisticsWrite::Fold { limit } => Outcome::Changed(fold(self.target, *limit).await?),
            };
            self.outcomes.set(index, outcome);
        }
        Ok(())
    }

    /// Adds the failures of lanes. Versions of one workflow share a group.
    async fn add_failures(&mut self, failures: Vec<FailureRow>) -> Result<(), T::Error> {
        let mut rows: Vec<FailureRow> = Vec::new();
        for failure in failures {
            match rows.iter_mut().find(|row| row.group == failure.group) {
                Some(row) => row.add(&failure),
                None => rows.push(failure),
            }
        }
        rows.sort_unstable_by(|one, other| one.group.cmp(&other.group));
        if rows.is_empty() { Ok(()) } else { self.target.add_failures(&rows).await }
    }
}

/// Folds old rows of each span. Returns how many.
async fn fold<T: StatisticsTarget>(target: &mut T, limit: u32) -> Result<u64, T::Error> {
    let mut folded = 0;
    if !target.lock_statistics().await? {
        return Ok(folded);
    }
    for (span, (into, age)) in StatisticsSpan::ALL.into_iter().filter_map(|span| Some((span, span.fold()?))) {
        let taken = target.take_statistics(span, age, limit).await?;
        let begins = || taken.iter().map(|row| into.begin(row.begins_at));
        let (Some(first), Some(last)) = (begins().min(), begins().max()) else { continue };
        let scan = StatisticsScan { span: into, from: first, before: last + into.length(), limit: u32::MAX };
        let existing = target.read_statistics(&scan).await?;
        folded += taken.len() as u64;
        target.put_statistics(&fold_rows(taken, existing, into)).await?;
    }
    Ok(folded)
}
