//! The version of the data, which shows whether anything was committed.

use async_trait::async_trait;
use sqlx::{PgConnection, Row};

use workflow_engine::store::{ChangeStore, DatabaseError};

use super::PostgresStore;
use super::call::read_call;
use super::error::Failure;
use super::sql::Sql;

#[async_trait]
impl ChangeStore for PostgresStore {
    async fn data_version(&self) -> Result<String, DatabaseError> {
        read_call!(self, "look for changes", connection => data_version(connection, &self.sql))
    }
}

async fn data_version(connection: &mut PgConnection, sql: &Sql) -> Result<String, Failure> {
    Ok(sql.read_data_version.query().fetch_one(connection).await?.try_get("version")?)
}
