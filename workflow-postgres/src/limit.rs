//! Limits for steps that were declared or set.

use std::collections::BTreeSet;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::model::{LimitChange, LimitRecord, LimitRule};
use workflow_engine::store::LimitWrite;

use super::error::Failure;
use super::sql::Sql;

/// Changes the rules of limits.
pub(super) async fn write(connection: &mut PgConnection, sql: &Sql, writes: &[&LimitWrite]) -> Result<(), Failure> {
    let text = |rule: &LimitRule| serde_json::to_string(rule).map_err(Failure::invalid);
    for LimitWrite { limit, change } in writes {
        let query = match change {
            LimitChange::Declare(rule) => sql.declare_limit.query().bind(limit.clone()).bind(text(rule)?),
            LimitChange::Override(rule) => {
                sql.override_limit.query().bind(limit.clone()).bind(rule.as_ref().map(text).transpose()?)
            }
        };
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Returns the records of those of these limits that have one; of all if `None`.
pub(super) async fn read(
    connection: &mut PgConnection,
    sql: &Sql,
    names: Option<&BTreeSet<&str>>,
) -> Result<Vec<LimitRecord>, Failure> {
    let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let rows = sql.read_limits.query().bind(names).fetch_all(connection).await?;
    let record = |found: &PgRow| {
        let (declared, overridden) = (found.try_get("declared")?, found.try_get("overridden")?);
        Ok(LimitRecord::stored(found.try_get("name")?, declared, overridden))
    };
    rows.iter().map(record).collect()
}
