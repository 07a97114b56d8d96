//! Lists of runs.

use std::collections::{BTreeSet, HashMap};

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{NameCondition, NamePattern, RunConditions, RunId, Timestamp, WorkerId};
use workflow_engine::store::{Direction, RunScan, SCAN_BUDGET, ScanSource, ScannedRuns};

use super::error::Failure;
use super::read::map_all;
use super::row;
use super::sql::{Sql, Statement};

const FIND_END: &str = include_str!("sql/find_scan_end.sql");
const LIST: &str = include_str!("sql/list_runs.sql");

/// The part of a statement that reads a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    All,
    Tagged,
    Pending,
    Parked,
    Paused,
    Running,
    Failed,
    Keyed,
}

impl Part {
    const EACH: [Self; 8] =
        [Self::All, Self::Tagged, Self::Pending, Self::Parked, Self::Paused, Self::Running, Self::Failed, Self::Keyed];

    fn of(source: &ScanSource) -> Self {
        match source {
            ScanSource::All => Self::All,
            ScanSource::Tagged(..) => Self::Tagged,
            ScanSource::Pending => Self::Pending,
            ScanSource::Parked => Self::Parked,
            ScanSource::Paused => Self::Paused,
            ScanSource::Running => Self::Running,
            ScanSource::Failed => Self::Failed,
            ScanSource::Keyed(_) => Self::Keyed,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::All => include_str!("sql/parts/scan_all.sql"),
            Self::Tagged => include_str!("sql/parts/scan_tagged.sql"),
            Self::Pending => include_str!("sql/parts/scan_pending.sql"),
            Self::Parked => include_str!("sql/parts/scan_parked.sql"),
            Self::Paused => include_str!("sql/parts/scan_paused.sql"),
            Self::Running => include_str!("sql/parts/scan_running.sql"),
            Self::Failed => include_str!("sql/parts/scan_failed.sql"),
            Self::Keyed => include_str!("sql/parts/scan_keyed.sql"),
        }
    }
}

/// The statements of lists, by source and direction.
#[derive(Debug)]
pub(super) struct ScanStatements(HashMap<(Part, Direction), (Statement, Statement)>);

impl ScanStatements {
    /// Composes the statements for this schema.
    pub(super) fn load(schema: &str) -> Self {
        let mut all = HashMap::new();
        for part in Part::EACH {
            for (direction, order) in [(Direction::Older, "DESC"), (Direction::Newer, "ASC")] {
                let name = |statement: &str| format!("{statement}.sql {part:?} {direction:?}");
                let end = Statement::over(&name("find_scan_end"), FIND_END, part.text(), order, schema);
                let list = Statement::over(&name("list_runs"), LIST, part.text(), order, schema);
                all.insert((part, direction), (end, list));
            }
        }
        Self(all)
    }

    pub(super) fn of(&self, source: &ScanSource, direction: Direction) -> Result<&(Statement, Statement), Failure> {
        let found = self.0.get(&(Part::of(source), direction));
        found.ok_or_else(|| Failure::corrupt(format!("no statement reads {source:?}")))
    }

    /// Returns every statement with its name, so that a test can prepare each.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<(String, Statement)> {
        let named = |(key, statement, end): (&(Part, Direction), &str, &Statement)| {
            (format!("{statement}.sql {:?} {:?}", key.0, key.1), end.clone())
        };
        let each = self.0.iter().flat_map(|(key, (end, list))| [(key, "find_scan_end", end), (key, "list_runs", list)]);
        each.map(named).collect()
    }
}

/// See [`Store::scan`](workflow_engine::store::Store::scan).
pub(super) async fn scan(connection: &mut PgConnection, sql: &Sql, scan: &RunScan) -> Result<ScannedRuns, Failure> {
    let source = if can_be_sorted(connection, sql, &scan.source).await? { &scan.source } else { &ScanSource::All };
    let (find_end, list) = sql.scans.of(source, scan.direction)?;
    let bounds = (scan.newer_than, scan.older_than);
    let query = bind_range(find_end.query(), source, bounds, scan.rows);
    let found = query.fetch_optional(&mut *connection).await?;
    let end = found.as_ref().map(row::run_id).transpose()?;
    let bounds = scan.bounds_to(end);
    // Runs that were inserted into the range since must not push out those at its end.
    let query = bind_range(list.query(), source, bounds, SCAN_BUDGET).bind(i64::from(scan.limit));
    let rows = bind_conditions(query, &scan.conditions)?.fetch_all(connection).await?;
    Ok(ScannedRuns { runs: map_all(&rows, row::listed_run)?, end })
}

/// Returns `false` if the index of the source has another order than the list, and too many rows to
/// sort them.
async fn can_be_sorted(connection: &mut PgConnection, sql: &Sql, source: &ScanSource) -> Result<bool, Failure> {
    let (count, most) = match source {
        ScanSource::Running => (&sql.count_running_runs, SCAN_BUDGET),
        ScanSource::Pending => (&sql.count_waiting_runs, SCAN_BUDGET / 10),
        _ => return Ok(true),
    };
    let row = count.query().fetch_one(connection).await?;
    Ok(row.try_get::<i64, _>(0)? <= i64::from(most))
}

pub(super) type ListQuery = Query<'static, Postgres, PgArguments>;

pub(super) fn bind_range(
    query: ListQuery,
    source: &ScanSource,
    (newer, older): (RunId, RunId),
    rows: u32,
) -> ListQuery {
    let (name, value) = match source {
        ScanSource::Tagged(name, value) => (Some(name.clone()), Some(value.clone())),
        ScanSource::Keyed(key) => (Some(key.clone()), None),
        _ => (None, None),
    };
    query.bind(newer.as_uuid()).bind(older.as_uuid()).bind(i64::from(rows)).bind(name).bind(value)
}

/// Binds the conditions as `list_runs.sql` takes them.
pub(super) fn bind_conditions(query: ListQuery, conditions: &RunConditions) -> Result<ListQuery, Failure> {
    let mut query = query.bind(conditions.status_words());
    let names = [&conditions.workflow, &conditions.queue, &conditions.version, &conditions.gate, &conditions.key];
    for NameCondition { any_of, none_of } in names {
        query = query.bind(patterns(any_of)).bind(patterns(none_of));
    }
    let tags = (!conditions.tags.is_empty()).then(|| serde_json::to_string(&conditions.tags)).transpose();
    let micros = |time: Option<Timestamp>| time.map(Timestamp::as_micros);
    let (from, below) = conditions.duration.micros();
    let runs = |ids: &BTreeSet<RunId>| ids.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>();
    let workers = |ids: &BTreeSet<WorkerId>| ids.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>();
    Ok(query
        .bind(tags.map_err(Failure::invalid)?)
        .bind(runs(&conditions.parents))
        .bind(runs(&conditions.other_parents))
        .bind(workers(&conditions.workers))
        .bind(workers(&conditions.other_workers))
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
        .bind(serde_json::to_string(&conditions.unserved_lanes).map_err(Failure::invalid)?)
        .bind(conditions.blocked)
        .bind(conditions.blocked_at.as_micros())
        .bind(serde_json::to_string(&conditions.blockers).map_err(Failure::invalid)?)
        .bind(runs(&conditions.blocked_runs)))
}

/// Returns patterns of `LIKE`.
fn patterns(patterns: &[NamePattern]) -> Vec<String> {
    let pattern = |NamePattern { text, is_prefix }: &NamePattern| {
        let text = text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_");
        if *is_prefix { text + "%" } else { text }
    };
    patterns.iter().map(pattern).collect()
}
