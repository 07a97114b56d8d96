use std::collections::BTreeMap;

use sqlx::PgConnection;

use workflow_engine::model::{Clock, RunId, Timestamp};
use workflow_engine::store::ContinueWrite;

use super::error::Failure;
use super::sql::Sql;

/// Begins the next generation of runs whose claims have passed the fence.
pub(super) async fn begin(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    continues: &BTreeMap<RunId, &ContinueWrite>,
) -> Result<(), Failure> {
    if continues.is_empty() {
        return Ok(());
    }
    let runs: Vec<_> = continues.keys().map(|id| id.as_uuid()).collect();
    for statement in [&sql.delete_steps, &sql.delete_received_signals] {
        statement.query().bind(&runs).execute(&mut *connection).await?;
    }
    let query = sql.continue_runs.query().bind(clock.fixed().map(Timestamp::as_micros)).bind(&runs);
    let query = query.bind(continues.values().map(|write| write.claim.epoch).collect::<Vec<_>>());
    let query = query.bind(continues.values().map(|write| write.input.as_str()).collect::<Vec<_>>());
    query.execute(connection).await?;
    Ok(())
}
