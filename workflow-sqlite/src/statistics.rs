//! Counts of runs, groups of failures, and source lines.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{
    Durations, FailureGroup, FailureRow, RunId, RunStatistics, SourceLine, StatisticsRow, StatisticsSpan,
};
use workflow_engine::store::{
    DatabaseError, EndedInLane, MOST_FAILURE_GROUPS, MOST_SOURCE_LINES, RunTags, StatisticsScan, StatisticsStore,
    StatisticsTarget,
};

use super::error::{During, corrupt, within_deadline};
use super::slow_path::SlowPath;
use super::{SqliteStore, row, sql};

const WRITE: &str = "write statistics";
const READ: &str = "read statistics";

#[async_trait]
impl StatisticsStore for SqliteStore {
    async fn statistics(&self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError> {
        within_deadline(READ, async {
            let mut reader = self.database.reader().await?;
            list(reader.connection()?, scan).await
        })
        .await
    }

    async fn failures(&self) -> Result<Vec<FailureRow>, DatabaseError> {
        within_deadline(READ, async {
            let mut reader = self.database.reader().await?;
            let query = sqlx::query(sql::LIST_FAILURES).bind(MOST_FAILURE_GROUPS);
            query.fetch_all(reader.connection()?).await.during(READ)?.iter().map(failure_row).collect()
        })
        .await
    }

    async fn run_tags(&self, runs: &[RunId]) -> Result<RunTags, DatabaseError> {
        within_deadline(READ, async {
            let mut reader = self.database.reader().await?;
            let query = sqlx::query(sql::READ_TAGS).bind(serde_json::to_string(runs).during(READ)?);
            let mut tags = RunTags::new();
            for found in query.fetch_all(reader.connection()?).await.during(READ)? {
                if let Ok(read) = row::get(&found, "tags").and_then(row::json) {
                    tags.insert(row::id(&found, "id")?, read);
                }
            }
            Ok(tags)
        })
        .await
    }

    async fn source_lines(
        &self,
        workflow: &str,
        version: &str,
        steps: &BTreeSet<&str>,
    ) -> Result<Vec<SourceLine>, DatabaseError> {
        within_deadline(READ, async {
            let mut reader = self.database.reader().await?;
            let steps = serde_json::to_string(steps).during(READ)?;
            let query = sqlx::query(sql::LIST_SOURCE_LINES).bind(workflow).bind(version).bind(steps);
            query.fetch_all(reader.connection()?).await.during(READ)?.iter().map(source_line).collect()
        })
        .await
    }
}

impl StatisticsTarget for SlowPath<'_> {
    async fn find_ended(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<EndedInLane>, DatabaseError> {
        let query = sqlx::query(sql::FIND_ENDED).bind(serde_json::to_string(runs).during(READ)?);
        let rows = query.fetch_all(&mut *self.connection).await.during(READ)?;
        let ended = |found: &SqliteRow| {
            Ok(EndedInLane {
                lane: row::lane(found)?,
                failed: count(found, "failed")?,
                canceled: count(found, "canceled")?,
                last_run: row::id(found, "id")?,
                ended_at: row::time(found, "ended_at")?,
            })
        };
        rows.iter().map(ended).collect()
    }

    async fn add_ended(&mut self, ended: &[EndedInLane]) -> Result<(), DatabaseError> {
        let columns = |EndedInLane { lane, failed, canceled, .. }: &EndedInLane| {
            serde_json::json!([lane.queue, lane.workflow, lane.version, failed, canceled])
        };
        let rows = serde_json::to_string(&ended.iter().map(columns).collect::<Vec<_>>()).during(WRITE)?;
        let query = sqlx::query(sql::ADD_ENDED)
            .bind(rows)
            .bind(StatisticsSpan::Minute.begin(self.now).as_micros())
            .bind(StatisticsRow::ALL_PROCESSES.to_string());
        query.execute(&mut *self.connection).await.during(WRITE)?;
        Ok(())
    }

    async fn put_statistics(&mut self, rows: &[StatisticsRow]) -> Result<(), DatabaseError> {
        let columns = |StatisticsRow { span, begins_at, process, lane, counts }: &StatisticsRow| {
            let RunStatistics { started, begun, succeeded, failed, canceled, retries, waited, worked, durations } =
                counts;
            let durations = serde_json::to_string(durations).during(WRITE)?;
            Ok(serde_json::json!([
                span.seconds(),
                begins_at.as_micros(),
                process,
                lane.queue,
                lane.workflow,
                lane.version,
                started,
                begun,
                succeeded,
                failed,
                canceled,
                retries,
                waited,
                worked,
                durations
            ]))
        };
        let rows: Vec<_> = rows.iter().map(columns).collect::<Result<_, DatabaseError>>()?;
        let query = sqlx::query(sql::PUT_STATISTICS).bind(serde_json::to_string(&rows).during(WRITE)?);
        query.execute(&mut *self.connection).await.during(WRITE)?;
        Ok(())
    }

    async fn add_failures(&mut self, rows: &[FailureRow]) -> Result<(), DatabaseError> {
        let columns = |FailureRow { group, count, first_at, last_at, first_version, last_run }: &FailureRow| {
            let FailureGroup { workflow, kind, step, message } = group;
            let (first_at, last_at) = (first_at.as_micros(), last_at.as_micros());
            serde_json::json!([workflow, kind, step, message, count, first_at, last_at, first_version, last_run])
        };
        let rows = serde_json::to_string(&rows.iter().map(columns).collect::<Vec<_>>()).during(WRITE)?;
        sqlx::query(sql::ADD_FAILURES).bind(rows).execute(&mut *self.connection).await.during(WRITE)?;
        let query = sqlx::query(sql::TRIM_FAILURES).bind(MOST_FAILURE_GROUPS);
        query.execute(&mut *self.connection).await.during(WRITE)?;
        Ok(())
    }

    async fn put_source_lines(&mut self, lines: &[SourceLine]) -> Result<(), DatabaseError> {
        let columns = |SourceLine { workflow, version, step, lines }: &SourceLine| {
            serde_json::json!([workflow, version, step, lines])
        };
        let rows = serde_json::to_string(&lines.iter().map(columns).collect::<Vec<_>>()).during(WRITE)?;
        let query = sqlx::query(sql::PUT_SOURCE_LINES).bind(rows).bind(MOST_SOURCE_LINES);
        query.execute(&mut *self.connection).await.during(WRITE)?;
        Ok(())
    }

    /// The transaction excludes every other one, so there is nothing to lock.
    async fn lock_statistics(&mut self) -> Result<bool, DatabaseError> {
        Ok(true)
    }

    async fn take_statistics(
        &mut self,
        span: StatisticsSpan,
        age: Duration,
        limit: u32,
    ) -> Result<Vec<StatisticsRow>, DatabaseError> {
        let before = (self.now - age).as_micros();
        let query = sqlx::query(sql::TAKE_STATISTICS).bind(seconds(span)).bind(before).bind(limit);
        let rows = query.fetch_all(&mut *self.connection).await.during("fold statistics")?;
        rows.iter().map(statistics_row).collect()
    }

    async fn read_statistics(&mut self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError> {
        list(self.connection, scan).await
    }
}

async fn list(connection: &mut SqliteConnection, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError> {
    let StatisticsScan { span, from, before, limit } = *scan;
    let query = sqlx::query(sql::LIST_STATISTICS)
        .bind(seconds(span))
        .bind(from.as_micros())
        .bind(before.as_micros())
        .bind(limit);
    query.fetch_all(connection).await.during(READ)?.iter().map(statistics_row).collect()
}

fn statistics_row(found: &SqliteRow) -> Result<StatisticsRow, DatabaseError> {
    let seconds: i64 = row::get(found, "seconds")?;
    let process: &str = row::get(found, "process")?;
    Ok(StatisticsRow {
        span: StatisticsSpan::of_seconds(seconds).ok_or_else(|| corrupt(READ, "a span of another length"))?,
        begins_at: row::time(found, "begins_at")?,
        process: process.parse().map_err(|error: uuid::Error| corrupt(READ, error))?,
        lane: row::lane(found)?,
        counts: RunStatistics {
            started: count(found, "started")?,
            begun: count(found, "begun")?,
            succeeded: count(found, "succeeded")?,
            failed: count(found, "failed")?,
            canceled: count(found, "canceled")?,
            retries: count(found, "retries")?,
            waited: count(found, "waited")?,
            worked: count(found, "worked")?,
            durations: row::json::<Durations>(row::get(found, "durations")?)?,
        },
    })
}

fn failure_row(found: &SqliteRow) -> Result<FailureRow, DatabaseError> {
    Ok(FailureRow {
        group: FailureGroup {
            workflow: row::get(found, "workflow_name")?,
            kind: row::get(found, "kind")?,
            step: row::get(found, "step")?,
            message: row::get(found, "message")?,
        },
        count: count(found, "count")?,
        first_at: row::time(found, "first_at")?,
        last_at: row::time(found, "last_at")?,
        first_version: row::get(found, "first_version")?,
        last_run: row::id(found, "last_run_id")?,
    })
}

fn source_line(found: &SqliteRow) -> Result<SourceLine, DatabaseError> {
    Ok(SourceLine {
        workflow: row::get(found, "workflow_name")?,
        version: row::get(found, "version")?,
        step: row::get(found, "step")?,
        lines: row::get(found, "lines")?,
    })
}

/// A count is never below 0, unless a row was changed by hand.
fn count(found: &SqliteRow, column: &str) -> Result<u64, DatabaseError> {
    Ok(u64::try_from(row::get::<i64>(found, column)?).unwrap_or(0))
}

fn seconds(span: StatisticsSpan) -> i64 {
    i64::try_from(span.seconds()).unwrap_or(i64::MAX)
}
