//! Runs that continue as new.

use sqlx::SqliteConnection;

use workflow_engine::model::{RunStatus, Timestamp};
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{ContinueWrite, DatabaseError, Write};

use super::error::During;
use super::sql;

const OPERATION: &str = "continue runs as new";

/// Applies the continues of a batch whose claims hold.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    let mut live: Vec<&ContinueWrite> = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Continue(write) = write else { continue };
        if outcomes.let_go(place, fence, write.claim, RunStatus::Pending) {
            live.push(write);
        }
    }
    if live.is_empty() {
        return Ok(());
    }
    live.sort_unstable_by_key(|write| write.claim);
    let runs: Vec<_> = live.iter().map(|write| write.claim.run_id).collect();
    let runs = serde_json::to_string(&runs).during(OPERATION)?;
    for statement in [sql::DELETE_STEPS, sql::DELETE_RECEIVED_SIGNALS] {
        sqlx::query(statement).bind(&runs).execute(&mut *connection).await.during(OPERATION)?;
    }
    let rows: Vec<_> = live.iter().map(|write| (write.claim.run_id, write.claim.epoch, &write.input)).collect();
    let rows = serde_json::to_string(&rows).during(OPERATION)?;
    let query = sqlx::query(sql::CONTINUE_RUNS).bind(rows).bind(now.as_micros());
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}
