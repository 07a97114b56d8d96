//! Schedules.

use std::collections::{BTreeSet, HashMap, HashSet};

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

use workflow_engine::model::{Clock, StoredSchedule, Timestamp};
use workflow_engine::store::DueSchedules;

use super::error::Failure;
use super::row;
use super::sql::Sql;

/// Locks schedules, and returns the revisions of those that exist.
pub(super) async fn lock(
    connection: &mut PgConnection,
    sql: &Sql,
    names: &BTreeSet<&str>,
) -> Result<HashMap<String, i64>, Failure> {
    let query = sql.lock_schedules.query().bind(names.iter().copied().collect::<Vec<_>>());
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("revision")?))).collect()
}

/// Replaces the rows of schedules.
pub(super) async fn update(connection: &mut PgConnection, sql: &Sql, rows: &[&StoredSchedule]) -> Result<(), Failure> {
    bind(sql.update_schedules.query(), rows).execute(connection).await?;
    Ok(())
}

/// Inserts rows, and returns the names of those that did not exist.
pub(super) async fn insert(
    connection: &mut PgConnection,
    sql: &Sql,
    rows: &[&StoredSchedule],
) -> Result<HashSet<String>, Failure> {
    let inserted = bind(sql.insert_schedules.query(), rows).fetch_all(connection).await?;
    inserted.iter().map(|row| Ok(row.try_get("name")?)).collect()
}

/// Deletes schedules.
pub(super) async fn delete(connection: &mut PgConnection, sql: &Sql, names: &[&str]) -> Result<(), Failure> {
    sql.delete_schedules.query().bind(names.to_vec()).execute(connection).await?;
    Ok(())
}

/// See [`Store::schedule`](workflow_engine::store::Store::schedule).
pub(super) async fn read(
    connection: &mut PgConnection,
    sql: &Sql,
    name: &str,
) -> Result<Option<StoredSchedule>, Failure> {
    let found = sql.read_schedule.query().bind(name).fetch_optional(connection).await?;
    found.as_ref().map(schedule).transpose()
}

/// See [`Store::schedules`](workflow_engine::store::Store::schedules).
pub(super) async fn list(
    connection: &mut PgConnection,
    sql: &Sql,
    (after, limit): (Option<&str>, u32),
) -> Result<Vec<StoredSchedule>, Failure> {
    let query = sql.list_schedules.query().bind(after.unwrap_or_default()).bind(i64::from(limit));
    query.fetch_all(connection).await?.iter().map(schedule).collect()
}

/// See [`Store::due_schedules`](workflow_engine::store::Store::due_schedules).
pub(super) async fn due(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    (computed, limit): (&[String], u32),
) -> Result<DueSchedules, Failure> {
    let query = sql.find_due_schedules.query().bind(clock.fixed().map(Timestamp::as_micros));
    let rows = query.bind(computed).bind(i64::from(limit)).fetch_all(connection).await?;
    let now = rows.first().map(|found| row::time(found, "now")).transpose()?;
    let now = now.ok_or_else(|| Failure::corrupt("the search for due schedules returned no row"))?;
    let is_schedule = |row: &&PgRow| !matches!(row.try_get::<Option<&str>, _>("name"), Ok(None));
    let found: Vec<StoredSchedule> = rows.iter().filter(is_schedule).map(schedule).collect::<Result<_, Failure>>()?;
    Ok(DueSchedules::of(now, found))
}

fn bind<'q>(query: Query<'q, Postgres, PgArguments>, rows: &[&StoredSchedule]) -> Query<'q, Postgres, PgArguments> {
    query
        .bind(rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.revision).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.available_at.as_micros()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.input.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.record.clone()).collect::<Vec<_>>())
}

fn schedule(found: &PgRow) -> Result<StoredSchedule, Failure> {
    Ok(StoredSchedule {
        name: found.try_get("name")?,
        revision: found.try_get("revision")?,
        available_at: row::time(found, "available_at")?,
        input: found.try_get("input")?,
        record: found.try_get("record")?,
    })
}
