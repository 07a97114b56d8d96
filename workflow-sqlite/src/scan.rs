//! Lists of runs.

use std::collections::BTreeSet;

use serde::Serialize;
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};

use workflow_engine::model::{NameCondition, NamePattern, RunConditions, RunId, Timestamp, WorkerId};
use workflow_engine::store::{DatabaseError, Direction, RunScan, SCAN_BUDGET, ScanSource, ScannedRuns};

use super::database::Database;
use super::error::During;
use super::read::understand;
use super::row;
use super::sql::{self, ScanStatements};

const OPERATION: &str = "list runs";

type ListQuery = Query<'static, Sqlite, SqliteArguments>;

/// See [`Store::scan`](workflow_engine::store::Store::scan).
pub(super) async fn scan(database: &Database, scan: &RunScan) -> Result<ScannedRuns, DatabaseError> {
    let mut reader = database.reader().await?;
    let connection = reader.connection()?;
    let source = if can_be_sorted(connection, &scan.source).await? { &scan.source } else { &ScanSource::All };
    let ScanStatements { find_end, list } = statements(source, scan.direction);
    let bounds = (scan.newer_than, scan.older_than);
    let found = bind_range(sqlx::query(find_end), source, bounds, scan.rows).fetch_optional(&mut *connection).await;
    let end = found.during(OPERATION)?.as_ref().map(|row| row::id(row, "id")).transpose()?;
    // Runs that were inserted into the range since must not push out those at its end.
    let query = bind_range(sqlx::query(list), source, scan.bounds_to(end), SCAN_BUDGET).bind(scan.limit);
    let rows = bind_conditions(query, &scan.conditions)?.fetch_all(connection).await.during(OPERATION)?;
    Ok(ScannedRuns { runs: understand(&rows, row::listed_run)?, end })
}

/// Returns `false` if the index of the source has another order than the list, and too many rows to
/// sort them.
async fn can_be_sorted(connection: &mut SqliteConnection, source: &ScanSource) -> Result<bool, DatabaseError> {
    let (statement, most) = match source {
        ScanSource::Running => (sql::COUNT_RUNNING_RUNS, SCAN_BUDGET),
        ScanSource::Pending => (sql::COUNT_WAITING_RUNS, SCAN_BUDGET / 10),
        _ => return Ok(true),
    };
    let count: i64 = sqlx::query_scalar(statement).bind(most + 1).fetch_one(connection).await.during(OPERATION)?;
    Ok(count <= i64::from(most))
}

fn statements(source: &ScanSource, direction: Direction) -> ScanStatements {
    match (source, direction) {
        (ScanSource::All, Direction::Older) => sql::SCAN_ALL_OLDER,
        (ScanSource::All, Direction::Newer) => sql::SCAN_ALL_NEWER,
        (ScanSource::Tagged(..), Direction::Older) => sql::SCAN_TAGGED_OLDER,
        (ScanSource::Tagged(..), Direction::Newer) => sql::SCAN_TAGGED_NEWER,
        (ScanSource::Pending, Direction::Older) => sql::SCAN_PENDING_OLDER,
        (ScanSource::Pending, Direction::Newer) => sql::SCAN_PENDING_NEWER,
        (ScanSource::Parked, Direction::Older) => sql::SCAN_PARKED_OLDER,
        (ScanSource::Parked, Direction::Newer) => sql::SCAN_PARKED_NEWER,
        (ScanSource::Paused, Direction::Older) => sql::SCAN_PAUSED_OLDER,
        (ScanSource::Paused, Direction::Newer) => sql::SCAN_PAUSED_NEWER,
        (ScanSource::Running, Direction::Older) => sql::SCAN_RUNNING_OLDER,
        (ScanSource::Running, Direction::Newer) => sql::SCAN_RUNNING_NEWER,
        (ScanSource::Failed, Direction::Older) => sql::SCAN_FAILED_OLDER,
        (ScanSource::Failed, Direction::Newer) => sql::SCAN_FAILED_NEWER,
        (ScanSource::Keyed(_), Direction::Older) => sql::SCAN_KEYED_OLDER,
        (ScanSource::Keyed(_), Direction::Newer) => sql::SCAN_KEYED_NEWER,
    }
}

fn bind_range(query: ListQuery, source: &ScanSource, (newer, older): (RunId, RunId), rows: u32) -> ListQuery {
    let (name, value) = match source {
        ScanSource::Tagged(name, value) => (Some(name.clone()), Some(value.clone())),
        ScanSource::Keyed(key) => (Some(key.clone()), None),
        _ => (None, None),
    };
    query.bind(newer.to_string()).bind(older.to_string()).bind(rows).bind(name).bind(value)
}

/// Binds the conditions as `list_runs_rest.sql` takes them.
fn bind_conditions(query: ListQuery, conditions: &RunConditions) -> Result<ListQuery, DatabaseError> {
    let statuses = conditions.status_words().map(|words| serde_json::to_string(&words)).transpose();
    let mut query = query.bind(statuses.during(OPERATION)?);
    let names = [&conditions.workflow, &conditions.queue, &conditions.version, &conditions.gate, &conditions.key];
    for NameCondition { any_of, none_of } in names {
        query = query.bind(json_unless_empty(&patterns(any_of))?).bind(json_unless_empty(&patterns(none_of))?);
    }
    let micros = |time: Option<Timestamp>| time.map(Timestamp::as_micros);
    let (from, below) = conditions.duration.micros();
    let runs = |ids: &BTreeSet<RunId>| json_unless_empty(&Vec::from_iter(ids));
    let workers = |ids: &BTreeSet<WorkerId>| json_unless_empty(&Vec::from_iter(ids));
    Ok(query
        .bind(json_unless_empty(&conditions.tags)?)
        .bind(runs(&conditions.parents)?)
        .bind(runs(&conditions.other_parents)?)
        .bind(workers(&conditions.workers)?)
        .bind(workers(&conditions.other_workers)?)
        .bind(micros(conditions.created.from))
        .bind(micros(conditions.created.before))
        .bind(micros(conditions.ended.from))
        .bind(micros(conditions.ended.before))
        .bind(conditions.paused)
        .bind(micros(conditions.due_at))
        .bind(micros(conditions.not_due_at))
        .bind(micros(conditions.delayed_at))
        .bind(micros(conditions.not_delayed_at))
        .bind(conditions.canceling)
        .bind(conditions.crashed)
        .bind(conditions.retried)
        .bind(conditions.child)
        .bind(conditions.stuck)
        .bind(from)
        .bind(below)
        .bind(conditions.unserved)
        .bind(conditions.unserved_at.as_micros())
        .bind(json_unless_empty(&conditions.unserved_lanes)?)
        .bind(conditions.blocked)
        .bind(conditions.blocked_at.as_micros())
        .bind(json_unless_empty(&conditions.blockers)?)
        .bind(runs(&conditions.blocked_runs)?))
}

/// Returns a list as JSON; `None` for an empty one.
fn json_unless_empty<T: Serialize>(values: &[T]) -> Result<Option<String>, DatabaseError> {
    if values.is_empty() { Ok(None) } else { serde_json::to_string(values).during(OPERATION).map(Some) }
}

/// Returns patterns of `GLOB`.
fn patterns(patterns: &[NamePattern]) -> Vec<String> {
    let pattern = |NamePattern { text, is_prefix }: &NamePattern| {
        let mut pattern = String::new();
        for c in text.chars() {
            match c {
                '*' | '?' | '[' => pattern.extend(['[', c, ']']),
                c => pattern.push(c),
            }
        }
        if *is_prefix { pattern + "*" } else { pattern }
    };
    patterns.iter().map(pattern).collect()
}
