//! Counts of runs, groups of failures, and source lines.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::model::{
    FailureGroup, FailureRow, RunId, RunStatistics, SourceLine, StatisticsRow, StatisticsSpan, Timestamp, unquoted,
};
use workflow_engine::store::{
    DatabaseError, EndedInLane, MOST_FAILURE_GROUPS, MOST_SOURCE_LINES, RunTags, StatisticsScan, StatisticsStore,
    StatisticsTarget,
};

use super::call::read_call;
use super::error::Failure;
use super::fence::ids;
use super::slow_path::SlowPath;
use super::sql::Sql;
use super::{PostgresStore, row};

#[async_trait]
impl StatisticsStore for PostgresStore {
    async fn statistics(&self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError> {
        read_call!(self, "read statistics", connection => list(connection, &self.sql, scan))
    }

    async fn failures(&self) -> Result<Vec<FailureRow>, DatabaseError> {
        read_call!(self, "read failures", connection => failures(connection, &self.sql))
    }

    async fn run_tags(&self, runs: &[RunId]) -> Result<RunTags, DatabaseError> {
        read_call!(self, "read the tags of runs", connection => run_tags(connection, &self.sql, runs))
    }

    async fn source_lines(
        &self,
        workflow: &str,
        version: &str,
        steps: &BTreeSet<&str>,
    ) -> Result<Vec<SourceLine>, DatabaseError> {
        read_call!(self, "read source lines", connection => source_lines(connection, &self.sql, (workflow, version), steps))
    }
}

impl StatisticsTarget for SlowPath<'_> {
    async fn find_ended(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<EndedInLane>, Failure> {
        let rows = self.sql.find_ended.query().bind(ids(runs.iter())).fetch_all(&mut *self.connection).await?;
        let ended = |found: &PgRow| {
            Ok(EndedInLane {
                lane: row::lane(found)?,
                failed: count(found, "failed")?,
                canceled: count(found, "canceled")?,
                last_run: row::run_id(found)?,
                ended_at: row::time(found, "ended_at")?,
            })
        };
        rows.iter().map(ended).collect()
    }

    async fn add_ended(&mut self, ended: &[EndedInLane]) -> Result<(), Failure> {
        let query = self
            .sql
            .add_ended
            .query()
            .bind(self.clock.fixed().map(Timestamp::as_micros))
            .bind(ended.iter().map(|it| it.lane.queue.clone()).collect::<Vec<_>>())
            .bind(ended.iter().map(|it| it.lane.workflow.clone()).collect::<Vec<_>>())
            .bind(ended.iter().map(|it| it.lane.version.clone()).collect::<Vec<_>>())
            .bind(ended.iter().map(|it| stored(it.failed)).collect::<Vec<_>>())
            .bind(ended.iter().map(|it| stored(it.canceled)).collect::<Vec<_>>());
        query.execute(&mut *self.connection).await?;
        Ok(())
    }

    async fn put_statistics(&mut self, rows: &[StatisticsRow]) -> Result<(), Failure> {
        let count = |of: fn(&RunStatistics) -> u64| rows.iter().map(|it| stored(of(&it.counts))).collect::<Vec<_>>();
        let durations =
            rows.iter().map(|it| serde_json::to_string(&it.counts.durations)).collect::<Result<Vec<_>, _>>();
        let query = self
            .sql
            .put_statistics
            .query()
            .bind(rows.iter().map(|it| seconds(it.span)).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.begins_at.as_micros()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.process).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.lane.queue.clone()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.lane.workflow.clone()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.lane.version.clone()).collect::<Vec<_>>())
            .bind(count(|it| it.started))
            .bind(count(|it| it.begun))
            .bind(count(|it| it.succeeded))
            .bind(count(|it| it.failed))
            .bind(count(|it| it.canceled))
            .bind(count(|it| it.retries))
            .bind(count(|it| it.waited))
            .bind(count(|it| it.worked))
            .bind(durations.map_err(Failure::corrupt)?);
        query.execute(&mut *self.connection).await?;
        Ok(())
    }

    async fn add_failures(&mut self, rows: &[FailureRow]) -> Result<(), Failure> {
        let query = self
            .sql
            .add_failures
            .query()
            .bind(rows.iter().map(|it| it.group.workflow.clone()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.group.kind.clone()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.group.step.clone()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.group.message.clone()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| stored(it.count)).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.first_at.as_micros()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.last_at.as_micros()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.first_version.clone()).collect::<Vec<_>>())
            .bind(rows.iter().map(|it| it.last_run.as_uuid()).collect::<Vec<_>>());
        query.execute(&mut *self.connection).await?;
        let query = self.sql.trim_failures.query().bind(i64::from(MOST_FAILURE_GROUPS));
        query.execute(&mut *self.connection).await?;
        Ok(())
    }

    async fn put_source_lines(&mut self, lines: &[SourceLine]) -> Result<(), Failure> {
        let query = self
            .sql
            .put_source_lines
            .query()
            .bind(lines.iter().map(|it| it.workflow.clone()).collect::<Vec<_>>())
            .bind(lines.iter().map(|it| it.version.clone()).collect::<Vec<_>>())
            .bind(lines.iter().map(|it| it.step.clone()).collect::<Vec<_>>())
            .bind(lines.iter().map(|it| it.lines.clone()).collect::<Vec<_>>())
            .bind(i64::from(MOST_SOURCE_LINES));
        query.execute(&mut *self.connection).await?;
        Ok(())
    }

    async fn lock_statistics(&mut self) -> Result<bool, Failure> {
        let found = self.sql.try_lock_statistics.query().fetch_one(&mut *self.connection).await?;
        Ok(found.try_get("locked")?)
    }

    async fn take_statistics(
        &mut self,
        span: StatisticsSpan,
        age: Duration,
        limit: u32,
    ) -> Result<Vec<StatisticsRow>, Failure> {
        let query = self
            .sql
            .take_statistics
            .query()
            .bind(self.clock.fixed().map(Timestamp::as_micros))
            .bind(seconds(span))
            .bind(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
            .bind(i64::from(limit));
        query.fetch_all(&mut *self.connection).await?.iter().map(statistics_row).collect()
    }

    async fn read_statistics(&mut self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, Failure> {
        list(self.connection, self.sql, scan).await
    }
}

async fn list(connection: &mut PgConnection, sql: &Sql, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, Failure> {
    let query = sql
        .list_statistics
        .query()
        .bind(seconds(scan.span))
        .bind(scan.from.as_micros())
        .bind(scan.before.as_micros())
        .bind(i64::from(scan.limit));
    query.fetch_all(connection).await?.iter().map(statistics_row).collect()
}

async fn failures(connection: &mut PgConnection, sql: &Sql) -> Result<Vec<FailureRow>, Failure> {
    let query = sql.list_failures.query().bind(i64::from(MOST_FAILURE_GROUPS));
    query.fetch_all(connection).await?.iter().map(failure_row).collect()
}

async fn run_tags(connection: &mut PgConnection, sql: &Sql, runs: &[RunId]) -> Result<RunTags, Failure> {
    let mut tags = RunTags::new();
    for found in sql.read_tags.query().bind(ids(runs.iter())).fetch_all(connection).await? {
        if let Ok(read) = serde_json::from_str(found.try_get("tags")?) {
            tags.insert(row::run_id(&found)?, read);
        }
    }
    Ok(tags)
}

async fn source_lines(
    connection: &mut PgConnection,
    sql: &Sql,
    (workflow, version): (&str, &str),
    steps: &BTreeSet<&str>,
) -> Result<Vec<SourceLine>, Failure> {
    let steps: Vec<String> = steps.iter().map(|step| (*step).to_owned()).collect();
    let query = sql.list_source_lines.query().bind(workflow.to_owned()).bind(version.to_owned()).bind(steps);
    query.fetch_all(connection).await?.iter().map(source_line).collect()
}

fn source_line(found: &PgRow) -> Result<SourceLine, Failure> {
    Ok(SourceLine {
        workflow: found.try_get("workflow_name")?,
        version: found.try_get("version")?,
        step: found.try_get("step")?,
        lines: found.try_get("lines")?,
    })
}

fn statistics_row(found: &PgRow) -> Result<StatisticsRow, Failure> {
    let span = StatisticsSpan::of_seconds(found.try_get::<i32, _>("seconds")?.into());
    Ok(StatisticsRow {
        span: span.ok_or_else(|| Failure::corrupt("a span of another length"))?,
        begins_at: row::time(found, "begins_at")?,
        process: found.try_get("process")?,
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
            durations: serde_json::from_str(found.try_get("durations")?)
                .map_err(|error| Failure::corrupt(unquoted(error).to_string()))?,
        },
    })
}

fn failure_row(found: &PgRow) -> Result<FailureRow, Failure> {
    Ok(FailureRow {
        group: FailureGroup {
            workflow: found.try_get("workflow_name")?,
            kind: found.try_get("kind")?,
            step: found.try_get("step")?,
            message: found.try_get("message")?,
        },
        count: count(found, "count")?,
        first_at: row::time(found, "first_at")?,
        last_at: row::time(found, "last_at")?,
        first_version: found.try_get("first_version")?,
        last_run: RunId::from(found.try_get::<uuid::Uuid, _>("last_run_id")?),
    })
}

/// A count is never below 0, unless a row was changed by hand.
fn count(found: &PgRow, column: &str) -> Result<u64, Failure> {
    Ok(u64::try_from(found.try_get::<i64, _>(column)?).unwrap_or(0))
}

fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn seconds(span: StatisticsSpan) -> i32 {
    i32::try_from(span.seconds()).unwrap_or(i32::MAX)
}
