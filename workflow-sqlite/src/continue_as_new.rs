//! Runs that continue as new.

use sqlx::SqliteConnection;

use workflow_engine::model::Timestamp;
use workflow_engine::store::{ContinueWrite, DatabaseError};

use super::error::During;
use super::sql;

const OPERATION: &str = "continue runs as new";

/// Begins the next generation of runs whose claims have passed the fence.
pub(super) async fn continue_runs(
    connection: &mut SqliteConnection,
    continues: &[&ContinueWrite],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let runs: Vec<_> = continues.iter().map(|write| write.claim.run_id).collect();
    let runs = serde_json::to_string(&runs).during(OPERATION)?;
    for statement in [sql::DELETE_STEPS, sql::DELETE_RECEIVED_SIGNALS] {
        sqlx::query(statement).bind(&runs).execute(&mut *connection).await.during(OPERATION)?;
    }
    let rows: Vec<_> = continues.iter().map(|write| (write.claim.run_id, write.claim.epoch, &write.input)).collect();
    let rows = serde_json::to_string(&rows).during(OPERATION)?;
    let query = sqlx::query(sql::CONTINUE_RUNS).bind(rows).bind(now.as_micros());
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}
