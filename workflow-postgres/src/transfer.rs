//! Copies a whole system from this database or into it.

use async_trait::async_trait;
use futures::TryStreamExt;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{Timestamp, unquoted};
use workflow_engine::store::{
    DatabaseError, TRANSFER_TABLES, TransferBegin, TransferChunk, TransferColumn, TransferColumnKind, TransferCursor,
    TransferRecord, TransferRole, TransferRow, TransferStore, TransferTable, TransferValue, bytes_of,
};

use super::call::{Limit, read_call};
use super::error::Failure;
use super::migrate::{MIGRATION_DEADLINE, lock_tables};
use super::sql::{Sql, quoted};
use super::{PostgresStore, row};

const WRITE: &str = "write a system that is moved";
const FENCE: &str = "fence a database";

#[async_trait]
impl TransferStore for PostgresStore {
    async fn transfer_record(&self) -> Result<Option<TransferRecord>, DatabaseError> {
        read_call!(self, "read the record of a move", connection => find_record(connection, &self.sql))
    }

    /// Has the deadline of a migration, because it waits for transactions under way.
    async fn begin_transfer(&self, record: &TransferRecord) -> Result<TransferBegin, DatabaseError> {
        let mut call = self.begin_call(FENCE).await?;
        let limit = Limit::after(MIGRATION_DEADLINE);
        let begun = limit.run(fence(call.connection(), &self.sql, record)).await;
        call.end(begun)
    }

    async fn read_transfer(
        &self,
        table: &TransferTable,
        after: Option<&[TransferValue]>,
        chunk: TransferChunk,
    ) -> Result<Vec<TransferRow>, DatabaseError> {
        let part = (after, chunk);
        read_call!(self, "read a system that is moved", connection => read(connection, &self.sql, table, part))
    }

    async fn write_transfer(
        &self,
        table: &TransferTable,
        rows: &[TransferRow],
        cursor: &TransferCursor,
    ) -> Result<(), DatabaseError> {
        let mut call = self.begin_call(WRITE).await?;
        let written = call.limit().run(write(call.connection(), &self.sql, (table, rows), cursor)).await;
        call.end(written)
    }

    async fn end_transfer(&self, at: Timestamp) -> Result<(), DatabaseError> {
        let mut call = self.begin_call(WRITE).await?;
        let ended = call.limit().run(end(call.connection(), &self.sql, at)).await;
        call.end(ended)
    }

    async fn open_fence(&self) -> Result<(), DatabaseError> {
        let mut call = self.begin_call(FENCE).await?;
        let limit = Limit::after(MIGRATION_DEADLINE);
        let opened = limit.run(open(call.connection(), &self.sql)).await;
        call.end(opened)
    }
}

/// Returns the name of a table with its schema.
fn named(sql: &Sql, table: &str) -> String {
    format!("{}.{table}", quoted(sql.schema()))
}

pub(super) async fn find_record(connection: &mut PgConnection, sql: &Sql) -> Result<Option<TransferRecord>, Failure> {
    let table = sql.find_transfer_table.query().bind(named(sql, "workflow_transfer"));
    if !find(connection, table).await? {
        return Ok(None);
    }
    sql.read_transfer.query().fetch_optional(connection).await?.as_ref().map(record).transpose()
}

fn record(found: &PgRow) -> Result<TransferRecord, Failure> {
    let cursor: Option<&str> = found.try_get("cursor")?;
    let cursor = cursor.map(serde_json::from_str).transpose();
    Ok(TransferRecord {
        id: found.try_get("id")?,
        role: TransferRole::of(found.try_get("role")?)
            .ok_or_else(|| Failure::corrupt("an unknown role in a transfer"))?,
        other: found.try_get("other")?,
        begun_at: row::time(found, "begun_at")?,
        ended_at: row::time_if_any(found, "ended_at")?,
        cursor: cursor.map_err(|error| Failure::corrupt(unquoted(error).to_string()))?,
    })
}

async fn fence(connection: &mut PgConnection, sql: &Sql, record: &TransferRecord) -> Result<TransferBegin, Failure> {
    // A transaction that is dropped is rolled back.
    let mut transaction = connection.begin().await?;
    lock_tables(&mut transaction, sql, &sql.lock_fenced_tables).await?;
    if find(&mut transaction, sql.find_recorded_worker.query()).await? {
        return Ok(TransferBegin::HasWorkers);
    }
    if record.role == TransferRole::Target {
        for table in TRANSFER_TABLES {
            if find(&mut transaction, sql.has_transferred(table).query()).await? {
                return Ok(TransferBegin::HasRows { table: table.name });
            }
        }
    }
    sql.create_transfer_table.query().execute(&mut *transaction).await?;
    sql.grant_transfer_table.query().execute(&mut *transaction).await?;
    insert(&mut transaction, sql, record).await?;
    sql.create_fence.query().execute(&mut *transaction).await?;
    for create in sql.create_triggers() {
        create.query().execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(TransferBegin::Begun)
}

async fn insert(connection: &mut PgConnection, sql: &Sql, record: &TransferRecord) -> Result<(), Failure> {
    let cursor = record.cursor.as_ref().map(serde_json::to_string).transpose().map_err(Failure::invalid)?;
    let insert = sql
        .insert_transfer
        .query()
        .bind(record.id)
        .bind(record.role.as_str())
        .bind(record.other.clone())
        .bind(record.begun_at.as_micros())
        .bind(record.ended_at.map(Timestamp::as_micros))
        .bind(cursor);
    insert.execute(connection).await?;
    Ok(())
}

async fn find(connection: &mut PgConnection, exists: Query<'static, Postgres, PgArguments>) -> Result<bool, Failure> {
    Ok(exists.fetch_one(connection).await?.try_get("found")?)
}

async fn read(
    connection: &mut PgConnection,
    sql: &Sql,
    table: &TransferTable,
    (after, chunk): (Option<&[TransferValue]>, TransferChunk),
) -> Result<Vec<TransferRow>, Failure> {
    let mut query = sql.read_transferred(table, after.is_none()).query();
    for (column, value) in table.key_columns().iter().zip(after.unwrap_or_default()) {
        query = match column.kind {
            TransferColumnKind::Id => query.bind(as_id(value)?),
            TransferColumnKind::Text => query.bind(as_text(value)),
            TransferColumnKind::Integer => query.bind(as_integer(value)),
        };
    }
    let mut found = query.bind(i64::from(chunk.rows)).fetch(connection);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.try_next().await? {
        let row = values(table, &row)?;
        bytes += bytes_of(&row);
        rows.push(row);
        if bytes > chunk.bytes {
            break;
        }
    }
    Ok(rows)
}

fn values(table: &TransferTable, row: &PgRow) -> Result<TransferRow, Failure> {
    let value = |(index, column): (usize, &TransferColumn)| {
        let value = match column.kind {
            TransferColumnKind::Id => {
                row.try_get::<Option<Uuid>, _>(index)?.map(|id| TransferValue::Text(id.to_string()))
            }
            TransferColumnKind::Text => row.try_get::<Option<String>, _>(index)?.map(TransferValue::Text),
            TransferColumnKind::Integer => integer(row, index)?.map(TransferValue::Integer),
        };
        Ok(value.unwrap_or(TransferValue::Null))
    };
    table.columns.iter().enumerate().map(value).collect()
}

/// Reads a number of any width.
fn integer(row: &PgRow, index: usize) -> Result<Option<i64>, Failure> {
    if let Ok(number) = row.try_get::<Option<i64>, _>(index) {
        return Ok(number);
    }
    if let Ok(number) = row.try_get::<Option<i32>, _>(index) {
        return Ok(number.map(i64::from));
    }
    Ok(row.try_get::<Option<i16>, _>(index)?.map(i64::from))
}

fn as_id(value: &TransferValue) -> Result<Option<Uuid>, Failure> {
    as_text(value).map(|text| text.parse()).transpose().map_err(Failure::invalid)
}

fn as_text(value: &TransferValue) -> Option<String> {
    if let TransferValue::Text(text) = value { Some(text.clone()) } else { None }
}

fn as_integer(value: &TransferValue) -> Option<i64> {
    if let TransferValue::Integer(number) = value { Some(*number) } else { None }
}

async fn write(
    connection: &mut PgConnection,
    sql: &Sql,
    (table, rows): (&TransferTable, &[TransferRow]),
    cursor: &TransferCursor,
) -> Result<(), Failure> {
    let cursor = serde_json::to_string(cursor).map_err(Failure::invalid)?;
    let mut transaction = connection.begin().await?;
    sql.begin_transfer_writes.query().execute(&mut *transaction).await?;
    insert_rows(&mut transaction, sql, table, rows).await?;
    sql.end_transfer_writes.query().bind(cursor).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

async fn insert_rows(
    connection: &mut PgConnection,
    sql: &Sql,
    table: &TransferTable,
    rows: &[TransferRow],
) -> Result<(), Failure> {
    let mut query = sql.insert_transferred(table).query();
    for (index, column) in table.columns.iter().enumerate() {
        let values = rows.iter().map(|row| row.get(index).unwrap_or(&TransferValue::Null));
        query = match column.kind {
            TransferColumnKind::Id => query.bind(values.map(as_id).collect::<Result<Vec<_>, _>>()?),
            TransferColumnKind::Text => query.bind(values.map(as_text).collect::<Vec<_>>()),
            TransferColumnKind::Integer => query.bind(values.map(as_integer).collect::<Vec<_>>()),
        };
    }
    query.execute(connection).await?;
    Ok(())
}

async fn end(connection: &mut PgConnection, sql: &Sql, at: Timestamp) -> Result<(), Failure> {
    sql.end_transfer.query().bind(at.as_micros()).execute(connection).await?;
    Ok(())
}

async fn open(connection: &mut PgConnection, sql: &Sql) -> Result<(), Failure> {
    let mut transaction = connection.begin().await?;
    for drop in sql.drop_triggers() {
        drop.query().execute(&mut *transaction).await?;
    }
    sql.drop_fence.query().execute(&mut *transaction).await?;
    sql.drop_transfer_table.query().execute(&mut *transaction).await?;
    let lanes = sql.set_lane_numbers.query().bind(named(sql, "workflow_lanes"));
    lanes.execute(&mut *transaction).await?;
    let gates = sql.set_gate_numbers.query().bind(named(sql, "workflow_gates"));
    gates.execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}
