//! Runs that are deleted.

use std::collections::{BTreeSet, HashMap};

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{RunId, Timestamp};
use workflow_engine::store::{DeletedRun, FoundRun};

use super::error::Failure;
use super::fence::ids;
use super::row;
use super::sql::Sql;

/// Finds those of these runs that exist, as far as it decides about their deletion.
pub(super) async fn find(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &BTreeSet<RunId>,
) -> Result<HashMap<RunId, FoundRun>, Failure> {
    let rows = sql.find_deleted_runs.query().bind(ids(runs.iter())).fetch_all(connection).await?;
    let found = rows.iter().map(|row| {
        let found = FoundRun {
            status: row::run_status(row.try_get("status")?)?,
            completed_at: row.try_get::<Option<i64>, _>("completed_at")?.map(Timestamp::from_micros),
            awaited_by: row.try_get::<Option<Uuid>, _>("awaited_by")?.map(RunId::from),
        };
        Ok((row::run_id(row)?, found))
    });
    found.collect()
}

/// Deletes runs with all their rows. Returns what each one had.
pub(super) async fn delete(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &BTreeSet<RunId>,
) -> Result<HashMap<RunId, DeletedRun>, Failure> {
    let rows = sql.delete_runs.query().bind(ids(runs.iter())).fetch_all(connection).await?;
    let mut deleted: HashMap<RunId, DeletedRun> = HashMap::new();
    for row in &rows {
        let had = deleted.entry(row::run_id(row)?).or_default();
        let number = u64::try_from(row.try_get::<i64, _>("number")?).unwrap_or(0);
        match row.try_get("kind")? {
            "attempt" => had.attempts = number,
            "signal" => had.signals = number,
            _ => {}
        }
    }
    Ok(deleted)
}
