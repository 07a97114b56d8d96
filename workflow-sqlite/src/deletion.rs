//! Runs that are deleted.

use std::collections::{BTreeSet, HashMap};

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::RunId;
use workflow_engine::store::{DatabaseError, DeletedRun, FoundRun};

use super::error::During;
use super::{event, row, sql};

const OPERATION: &str = "delete runs";

/// Finds those of these runs that exist, as far as it decides about their deletion.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    runs: &BTreeSet<RunId>,
) -> Result<HashMap<RunId, FoundRun>, DatabaseError> {
    let query = sqlx::query(sql::FIND_DELETED_RUNS).bind(serde_json::to_string(runs).during(OPERATION)?);
    let rows = query.fetch_all(connection).await.during(OPERATION)?;
    let found = rows.iter().map(|row| {
        let awaited_by = match row::get::<Option<String>>(row, "awaited_by")? {
            Some(_) => Some(row::id(row, "awaited_by")?),
            None => None,
        };
        let completed_at = row::maybe_time(row, "completed_at")?;
        Ok((row::id(row, "id")?, FoundRun { status: row::status(row)?, completed_at, awaited_by }))
    });
    found.collect()
}

/// Deletes runs with all their rows. Returns what each one had.
pub(super) async fn delete(
    connection: &mut SqliteConnection,
    runs: &BTreeSet<RunId>,
) -> Result<HashMap<RunId, DeletedRun>, DatabaseError> {
    let ids = serde_json::to_string(runs).during(OPERATION)?;
    let rows = sqlx::query(sql::COUNT_ROWS_OF_RUNS).bind(&ids).fetch_all(&mut *connection).await.during(OPERATION)?;
    let deleted = rows.iter().map(|row| Ok((row::id(row, "id")?, deleted_run(row)?)));
    let deleted = deleted.collect::<Result<_, DatabaseError>>()?;
    event::delete(&mut *connection, runs).await?;
    for statement in [sql::DELETE_ATTEMPTS_OF_RUNS, sql::DELETE_SIGNALS_OF_RUNS, sql::DELETE_RUNS] {
        sqlx::query(statement).bind(&ids).execute(&mut *connection).await.during(OPERATION)?;
    }
    Ok(deleted)
}

/// Reads the numbers of a row of `count_rows_of_runs.sql`.
fn deleted_run(row: &SqliteRow) -> Result<DeletedRun, DatabaseError> {
    let number = |column| Ok(u64::try_from(row::get::<i64>(row, column)?).unwrap_or(0));
    let attempts: Result<u64, DatabaseError> = number("attempts");
    Ok(DeletedRun::new(attempts?, number("signals")?))
}
