//! What the tables say, read beside the engine.

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::BoxResult;
use crate::database::{Database, Kind};

/// How many runs have this status.
pub(crate) async fn runs_with(database: &Database, status: &str) -> BoxResult<i64> {
    let table = database.table("workflow_runs");
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table} WHERE status = '{status}'"));
    Ok(match database.kind() {
        Kind::Sqlite => sqlx::query_scalar(sql).fetch_one(&mut SqliteConnection::connect(&database.url).await?).await?,
        Kind::Postgres => sqlx::query_scalar(sql).fetch_one(&mut PgConnection::connect(&database.url).await?).await?,
    })
}
