//! The recorded workers and the lanes that they serve.

use sqlx::Row;

use workflow_engine::model::Lane;
use workflow_engine::store::{DatabaseError, WorkerRecord};

use super::database::Database;
use super::error::During;
use super::lease::file_error;
use super::lock_file::LockFiles;
use super::{row, sql};

/// See [`Store::workers`](workflow_engine::store::Store::workers).
pub(super) async fn workers(database: &Database) -> Result<Vec<WorkerRecord>, DatabaseError> {
    const OPERATION: &str = "list workers";
    let mut reader = database.reader().await?;
    let rows = sqlx::query(sql::READ_WORKERS).fetch_all(reader.connection()?).await.during(OPERATION)?;
    let files = database.file.as_ref().map(|file| LockFiles::of(&file.path));
    let record = |found| {
        let id = row::worker_id(row::get(found, "id")?)?;
        let lanes: String = found.try_get("lanes").during(OPERATION)?;
        let retention: String = found.try_get("retention").during(OPERATION)?;
        let started_at = row::time(found, "started_at")?;
        let age = database.now().since(started_at);
        let live = match &files {
            Some(files) => !files.is_dead(id, age).map_err(|error| file_error(OPERATION, error))?,
            // The database has one process, and that lives.
            None => true,
        };
        let retention = serde_json::from_str(&retention).ok();
        Ok(WorkerRecord { id, lanes: serde_json::from_str(&lanes).unwrap_or_default(), retention, started_at, live })
    };
    rows.iter().map(record).collect()
}

/// See [`Store::due_lanes`](workflow_engine::store::Store::due_lanes).
pub(super) async fn due_lanes(database: &Database, lanes: &[Lane]) -> Result<Vec<Lane>, DatabaseError> {
    const OPERATION: &str = "find due lanes";
    let known: Vec<_> = lanes.iter().map(|lane| (&lane.queue, &lane.workflow)).collect();
    let query = sqlx::query(sql::FIND_DUE_LANES)
        .bind(serde_json::to_string(&known).during(OPERATION)?)
        .bind(database.now().as_micros());
    let mut reader = database.reader().await?;
    let rows = query.fetch_all(reader.connection()?).await.during(OPERATION)?;
    rows.iter().map(row::lane).collect()
}

/// See [`Store::lanes`](workflow_engine::store::Store::lanes).
pub(super) async fn lanes(database: &Database, limit: u32) -> Result<Vec<Lane>, DatabaseError> {
    let mut reader = database.reader().await?;
    let rows = sqlx::query(sql::LIST_LANES).bind(limit).fetch_all(reader.connection()?).await.during("list lanes")?;
    rows.iter().map(row::lane).collect()
}
