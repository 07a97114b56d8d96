//! Crashes of claimed runs, as their worker sets them.

use sqlx::SqliteConnection;

use workflow_engine::store::{CrashesWrite, DatabaseError};

use super::error::During;
use super::sql;

/// Sets the crashes of runs whose claims have passed the fence.
pub(super) async fn set(connection: &mut SqliteConnection, writes: &[&CrashesWrite]) -> Result<(), DatabaseError> {
    const OPERATION: &str = "set the crashes of runs";
    let row = |write: &&CrashesWrite| {
        let CrashesWrite { claim, crashes, lone_crashes, is_alone } = **write;
        (claim.run_id, claim.epoch, crashes, lone_crashes, is_alone)
    };
    let rows = serde_json::to_string(&writes.iter().map(row).collect::<Vec<_>>()).during(OPERATION)?;
    sqlx::query(sql::SET_CRASHES).bind(rows).execute(connection).await.during(OPERATION)?;
    Ok(())
}
