//! Crashes of claimed runs, as their worker sets them.

use sqlx::PgConnection;

use workflow_engine::store::CrashesWrite;

use super::error::Failure;
use super::sql::Sql;

/// Sets the crashes of runs whose claims have passed the fence.
pub(super) async fn set(connection: &mut PgConnection, sql: &Sql, writes: &[&CrashesWrite]) -> Result<(), Failure> {
    sql.set_crashes
        .query()
        .bind(writes.iter().map(|write| write.claim.run_id.as_uuid()).collect::<Vec<_>>())
        .bind(writes.iter().map(|write| write.claim.epoch).collect::<Vec<_>>())
        .bind(writes.iter().map(|write| write.crashes).collect::<Vec<_>>())
        .bind(writes.iter().map(|write| write.lone_crashes).collect::<Vec<_>>())
        .bind(writes.iter().map(|write| write.is_alone).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}
