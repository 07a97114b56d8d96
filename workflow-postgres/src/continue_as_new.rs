//! Runs that continue as new.

use sqlx::PgConnection;

use workflow_engine::model::{Clock, Timestamp};
use workflow_engine::store::ContinueWrite;

use super::error::Failure;
use super::sql::Sql;

/// Begins the next generation of runs whose claims have passed the fence.
pub(super) async fn continue_runs(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    continues: &[&ContinueWrite],
) -> Result<(), Failure> {
    let runs: Vec<_> = continues.iter().map(|write| write.claim.run_id.as_uuid()).collect();
    for statement in [&sql.delete_steps, &sql.delete_received_signals] {
        statement.query().bind(&runs).execute(&mut *connection).await?;
    }
    let query = sql.continue_runs.query().bind(clock.fixed().map(Timestamp::as_micros)).bind(&runs);
    let query = query.bind(continues.iter().map(|write| write.claim.epoch).collect::<Vec<_>>());
    let query = query.bind(continues.iter().map(|write| write.input.as_str()).collect::<Vec<_>>());
    query.execute(connection).await?;
    Ok(())
}
