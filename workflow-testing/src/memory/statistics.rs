//! Counts of runs, groups of failures, and source lines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use workflow_engine::model::{
    FailureGroup, FailureRow, Lane, Run, RunId, RunStatistics, RunStatus, SourceLine, StatisticsRow, StatisticsSpan,
    Timestamp,
};
use workflow_engine::store::{
    DatabaseError, EndedInLane, MOST_FAILURE_GROUPS, MOST_SOURCE_LINES, RunTags, StatisticsScan, StatisticsStore,
    StatisticsTarget,
};

use super::MemoryStore;
use super::commit::Batch;

/// The key of a row.
type Key = (StatisticsSpan, Timestamp, Lane, Uuid);

/// The tables of counts and of source lines.
#[derive(Clone, Debug, Default)]
pub(super) struct StatisticsTables {
    rows: BTreeMap<Key, RunStatistics>,
    failures: BTreeMap<FailureGroup, FailureRow>,
    /// The lines of the steps of each version of a workflow.
    source_lines: BTreeMap<(String, String), BTreeMap<String, String>>,
}

impl StatisticsTables {
    fn list(&self, scan: &StatisticsScan) -> Vec<StatisticsRow> {
        let rows = self.rows.iter().rev().map(row).filter(|row| scan.wants(row));
        rows.take(scan.limit as usize).collect()
    }

    /// Returns the groups, those that failed last first.
    fn newest_failures(&self) -> Vec<FailureRow> {
        let mut rows: Vec<FailureRow> = self.failures.values().cloned().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.last_at));
        rows
    }

    fn source_lines_of(&self, workflow: &str, version: &str, steps: &BTreeSet<&str>) -> Vec<SourceLine> {
        let Some(of_version) = self.source_lines.get(&(workflow.to_owned(), version.to_owned())) else {
            return Vec::new();
        };
        let line = |(step, lines): (&String, &String)| SourceLine {
            workflow: workflow.to_owned(),
            version: version.to_owned(),
            step: step.clone(),
            lines: lines.clone(),
        };
        of_version.iter().filter(|(step, _)| steps.contains(step.as_str())).map(line).collect()
    }

    fn trim_failures(&mut self) {
        if let Some(oldest) = self.newest_failures().get(MOST_FAILURE_GROUPS as usize - 1) {
            self.failures.retain(|_, row| row.last_at >= oldest.last_at);
        }
    }
}

#[async_trait]
impl StatisticsStore for MemoryStore {
    async fn statistics(&self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError> {
        let database = self.handle.open("read statistics")?;
        Ok(database.look(|tables, _| tables.statistics.list(scan)))
    }

    async fn failures(&self) -> Result<Vec<FailureRow>, DatabaseError> {
        let database = self.handle.open("read failures")?;
        let mut rows = database.look(|tables, _| tables.statistics.newest_failures());
        rows.truncate(MOST_FAILURE_GROUPS as usize);
        Ok(rows)
    }

    async fn run_tags(&self, runs: &[RunId]) -> Result<RunTags, DatabaseError> {
        let database = self.handle.open("read the tags of runs")?;
        let tags = |run: &Run| (run.id, run.tags.clone());
        Ok(database.look(|tables, _| runs.iter().filter_map(|run| tables.run(*run)).map(tags).collect()))
    }

    async fn source_lines(
        &self,
        workflow: &str,
        version: &str,
        steps: &BTreeSet<&str>,
    ) -> Result<Vec<SourceLine>, DatabaseError> {
        let database = self.handle.open("read source lines")?;
        Ok(database.look(|tables, _| tables.statistics.source_lines_of(workflow, version, steps)))
    }
}

impl StatisticsTarget for Batch<'_> {
    async fn find_ended(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<EndedInLane>, DatabaseError> {
        let mut lanes: BTreeMap<Lane, EndedInLane> = BTreeMap::new();
        for run in runs.iter().filter_map(|run| self.tables.run(*run)) {
            let ended_at = run.completed_at.unwrap_or(self.now);
            let new = EndedInLane { lane: run.lane.clone(), failed: 0, canceled: 0, last_run: run.id, ended_at };
            let ended = lanes.entry(run.lane.clone()).or_insert(new);
            match run.status {
                RunStatus::Failed => ended.failed += 1,
                RunStatus::Canceled => ended.canceled += 1,
                _ => {}
            }
            (ended.last_run, ended.ended_at) = (ended.last_run.max(run.id), ended.ended_at.max(ended_at));
        }
        Ok(lanes.into_values().collect())
    }

    async fn add_ended(&mut self, ended: &[EndedInLane]) -> Result<(), DatabaseError> {
        let (span, process) = (StatisticsSpan::Minute, StatisticsRow::ALL_PROCESSES);
        for EndedInLane { lane, failed, canceled, .. } in ended {
            let key = (span, span.begin(self.now), lane.clone(), process);
            let counts = self.tables.statistics.rows.entry(key).or_default();
            (counts.failed, counts.canceled) = (counts.failed + failed, counts.canceled + canceled);
        }
        Ok(())
    }

    async fn put_statistics(&mut self, rows: &[StatisticsRow]) -> Result<(), DatabaseError> {
        for StatisticsRow { span, begins_at, process, lane, counts } in rows {
            let key = (*span, *begins_at, lane.clone(), *process);
            self.tables.statistics.rows.insert(key, counts.clone());
        }
        Ok(())
    }

    async fn add_failures(&mut self, rows: &[FailureRow]) -> Result<(), DatabaseError> {
        let tables = &mut self.tables.statistics;
        for row in rows {
            match tables.failures.get_mut(&row.group) {
                Some(known) => known.add(row),
                None => drop(tables.failures.insert(row.group.clone(), row.clone())),
            }
        }
        tables.trim_failures();
        Ok(())
    }

    async fn put_source_lines(&mut self, lines: &[SourceLine]) -> Result<(), DatabaseError> {
        for SourceLine { workflow, version, step, lines } in lines {
            let of_version =
                self.tables.statistics.source_lines.entry((workflow.clone(), version.clone())).or_default();
            if of_version.contains_key(step) || of_version.len() < MOST_SOURCE_LINES as usize {
                of_version.insert(step.clone(), lines.clone());
            }
        }
        Ok(())
    }

    /// The tables are behind one mutex, so there is nothing to lock.
    async fn lock_statistics(&mut self) -> Result<bool, DatabaseError> {
        Ok(true)
    }

    async fn take_statistics(
        &mut self,
        span: StatisticsSpan,
        age: Duration,
        limit: u32,
    ) -> Result<Vec<StatisticsRow>, DatabaseError> {
        let before = self.now - age;
        let rows = &mut self.tables.statistics.rows;
        let old = rows.keys().filter(|(of, begins_at, ..)| *of == span && *begins_at < before);
        let old: Vec<Key> = old.take(limit as usize).cloned().collect();
        Ok(old
            .into_iter()
            .filter_map(|key| rows.remove_entry(&key))
            .map(|(key, counts)| row((&key, &counts)))
            .collect())
    }

    async fn read_statistics(&mut self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError> {
        Ok(self.tables.statistics.list(scan))
    }
}

fn row(((span, begins_at, lane, process), counts): (&Key, &RunStatistics)) -> StatisticsRow {
    StatisticsRow { span: *span, begins_at: *begins_at, process: *process, lane: lane.clone(), counts: counts.clone() }
}
