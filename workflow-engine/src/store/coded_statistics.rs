//! Counts and source lines beside a codec: they hold no payload, but a message of an error would
//! show a part of one.

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::model::{FailureRow, RunId, SourceLine, StatisticsRow};

use super::coded::CodedStore;
use super::{DatabaseError, RunTags, StatisticsScan, StatisticsStore, StatisticsWrite};

#[async_trait]
impl StatisticsStore for CodedStore {
    async fn statistics(&self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError> {
        self.inner().statistics(scan).await
    }

    async fn failures(&self) -> Result<Vec<FailureRow>, DatabaseError> {
        self.inner().failures().await
    }

    async fn run_tags(&self, runs: &[RunId]) -> Result<RunTags, DatabaseError> {
        self.inner().run_tags(runs).await
    }

    async fn source_lines(
        &self,
        workflow: &str,
        version: &str,
        steps: &BTreeSet<&str>,
    ) -> Result<Vec<SourceLine>, DatabaseError> {
        self.inner().source_lines(workflow, version, steps).await
    }
}

/// Returns the write without messages of errors, which a codec encodes where they are stored.
pub(super) fn without_messages(write: &StatisticsWrite) -> StatisticsWrite {
    let StatisticsWrite::Count { rows, failures, source_lines } = write else { return write.clone() };
    let mut grouped: Vec<FailureRow> = Vec::new();
    for failure in failures {
        let failure = FailureRow { group: failure.group.without_message(), ..failure.clone() };
        match grouped.iter_mut().find(|row| row.group == failure.group) {
            Some(row) => row.add(&failure),
            None => grouped.push(failure),
        }
    }
    grouped.sort_unstable_by(|one, other| one.group.cmp(&other.group));
    StatisticsWrite::Count { rows: rows.clone(), failures: grouped, source_lines: source_lines.clone() }
}
