//! Limits for steps that were declared or set.

use std::collections::BTreeSet;

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{LimitChange, LimitRecord, LimitRule};
use workflow_engine::store::{DatabaseError, LimitWrite};

use super::database::Database;
use super::error::During;
use super::{row, sql};

/// Changes the rules of limits.
pub(super) async fn write(connection: &mut SqliteConnection, writes: &[&LimitWrite]) -> Result<(), DatabaseError> {
    const OPERATION: &str = "change a limit";
    let text = |rule: &LimitRule| serde_json::to_string(rule).during(OPERATION);
    for LimitWrite { limit, change } in writes {
        let query = match change {
            LimitChange::Declare(rule) => sqlx::query(sql::DECLARE_LIMIT).bind(limit).bind(text(rule)?),
            LimitChange::Override(rule) => {
                sqlx::query(sql::OVERRIDE_LIMIT).bind(limit).bind(rule.as_ref().map(text).transpose()?)
            }
        };
        query.execute(&mut *connection).await.during(OPERATION)?;
    }
    Ok(())
}

/// Returns the records of those of these limits that have one.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    names: &BTreeSet<&str>,
) -> Result<Vec<LimitRecord>, DatabaseError> {
    let mut records = records(connection).await?;
    records.retain(|record| names.contains(record.name.as_str()));
    Ok(records)
}

/// See [`Store::limits`](workflow_engine::store::Store::limits).
pub(super) async fn list(database: &Database) -> Result<Vec<LimitRecord>, DatabaseError> {
    let mut reader = database.reader().await?;
    records(reader.connection()?).await
}

async fn records(connection: &mut SqliteConnection) -> Result<Vec<LimitRecord>, DatabaseError> {
    let rows = sqlx::query(sql::READ_LIMITS).fetch_all(connection).await.during("list limits")?;
    rows.iter().map(record).collect()
}

fn record(found: &SqliteRow) -> Result<LimitRecord, DatabaseError> {
    let text = |column| row::get::<Option<String>>(found, column);
    Ok(LimitRecord::stored(row::get(found, "name")?, text("declared")?.as_deref(), text("overridden")?.as_deref()))
}
