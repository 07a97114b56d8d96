//! Schedules.

use std::collections::{BTreeSet, HashMap};

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{StoredSchedule, Timestamp};
use workflow_engine::store::{DatabaseError, DueSchedules};

use super::database::Database;
use super::error::During;
use super::{row, sql};

const OPERATION: &str = "change schedules";

/// Returns the revisions of those of these schedules that exist.
pub(super) async fn revisions(
    connection: &mut SqliteConnection,
    names: &BTreeSet<&str>,
) -> Result<HashMap<String, i64>, DatabaseError> {
    let query = sqlx::query(sql::READ_REVISIONS).bind(serde_json::to_string(names).during(OPERATION)?);
    let rows = query.fetch_all(connection).await.during(OPERATION)?;
    rows.iter().map(|row| Ok((row::get(row, "name")?, row::get(row, "revision")?))).collect()
}

/// Inserts or replaces the rows of schedules.
pub(super) async fn put(connection: &mut SqliteConnection, rows: &[&StoredSchedule]) -> Result<(), DatabaseError> {
    let rows: Vec<_> =
        rows.iter().map(|row| (&row.name, row.revision, row.available_at, row.input.as_deref(), &row.record)).collect();
    let query = sqlx::query(sql::UPSERT_SCHEDULES).bind(serde_json::to_string(&rows).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Deletes schedules.
pub(super) async fn delete(connection: &mut SqliteConnection, names: &[&str]) -> Result<(), DatabaseError> {
    let query = sqlx::query(sql::DELETE_SCHEDULES).bind(serde_json::to_string(names).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// See [`Store::schedule`](workflow_engine::store::Store::schedule).
pub(super) async fn read(database: &Database, name: &str) -> Result<Option<StoredSchedule>, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_SCHEDULE).bind(name);
    let found = query.fetch_optional(reader.connection()?).await.during("read a schedule")?;
    found.as_ref().map(schedule).transpose()
}

/// See [`Store::schedules`](workflow_engine::store::Store::schedules).
pub(super) async fn list(
    database: &Database,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<StoredSchedule>, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::LIST_SCHEDULES).bind(after).bind(limit);
    let rows = query.fetch_all(reader.connection()?).await.during("list schedules")?;
    rows.iter().map(schedule).collect()
}

/// See [`Store::due_schedules`](workflow_engine::store::Store::due_schedules).
pub(super) async fn due(database: &Database, computed: &[String], limit: u32) -> Result<DueSchedules, DatabaseError> {
    const OPERATION: &str = "find due schedules";
    let now = database.now();
    let query = sqlx::query(sql::FIND_DUE_SCHEDULES)
        .bind(now.as_micros())
        .bind(serde_json::to_string(computed).during(OPERATION)?)
        .bind(limit);
    let mut reader = database.reader().await?;
    let rows = query.fetch_all(reader.connection()?).await.during(OPERATION)?;
    let rows: Vec<StoredSchedule> = rows.iter().map(schedule).collect::<Result<_, DatabaseError>>()?;
    Ok(DueSchedules::of(now, rows))
}

fn schedule(row: &SqliteRow) -> Result<StoredSchedule, DatabaseError> {
    Ok(StoredSchedule {
        name: row::get(row, "name")?,
        revision: row::get(row, "revision")?,
        available_at: Timestamp::from_micros(row::get(row, "available_at")?),
        input: row::get(row, "input")?,
        record: row::get(row, "record")?,
    })
}
