//! Copies a whole system from this database or into it.

use async_trait::async_trait;
use futures::TryStreamExt;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, SqliteConnection};

use workflow_engine::model::{Timestamp, unquoted};
use workflow_engine::store::{
    DatabaseError, TRANSFER_TABLES, TransferBegin, TransferChunk, TransferColumn, TransferColumnKind, TransferCursor,
    TransferRecord, TransferRole, TransferRow, TransferStore, TransferTable, TransferValue, bytes_of,
};

use super::database::Database;
use super::error::{During, corrupt, with_write_lock, within_deadline};
use super::transfer_sql::TransferSql;
use super::{SqliteStore, row, sql};

const READ: &str = "read a system that is moved";
const WRITE: &str = "write a system that is moved";
const FENCE: &str = "fence a database";

#[async_trait]
impl TransferStore for SqliteStore {
    async fn transfer_record(&self) -> Result<Option<TransferRecord>, DatabaseError> {
        within_deadline(READ, async {
            let mut reader = self.database.reader().await?;
            find_record(reader.connection()?).await
        })
        .await
    }

    async fn begin_transfer(&self, record: &TransferRecord) -> Result<TransferBegin, DatabaseError> {
        with_write_lock!(FENCE, fence(&self.database, record))
    }

    async fn read_transfer(
        &self,
        table: &TransferTable,
        after: Option<&[TransferValue]>,
        chunk: TransferChunk,
    ) -> Result<Vec<TransferRow>, DatabaseError> {
        within_deadline(READ, async {
            let mut reader = self.database.reader().await?;
            read(reader.connection()?, table, after, chunk).await
        })
        .await
    }

    async fn write_transfer(
        &self,
        table: &TransferTable,
        rows: &[TransferRow],
        cursor: &TransferCursor,
    ) -> Result<(), DatabaseError> {
        with_write_lock!(WRITE, write(&self.database, table, rows, cursor))
    }

    async fn end_transfer(&self, at: Timestamp) -> Result<(), DatabaseError> {
        with_write_lock!(WRITE, end(&self.database, at))
    }

    async fn open_fence(&self) -> Result<(), DatabaseError> {
        with_write_lock!(FENCE, open(&self.database))
    }
}

pub(super) async fn find_record(connection: &mut SqliteConnection) -> Result<Option<TransferRecord>, DatabaseError> {
    if !find(connection, sqlx::query_scalar(sql::FIND_TRANSFER_TABLE)).await.during(READ)? {
        return Ok(None);
    }
    let found = sqlx::query(sql::READ_TRANSFER).fetch_optional(connection).await.during(READ)?;
    found.as_ref().map(record).transpose()
}

fn record(found: &SqliteRow) -> Result<TransferRecord, DatabaseError> {
    let id: &str = row::get(found, "id")?;
    let role: &str = row::get(found, "role")?;
    let cursor: Option<&str> = row::get(found, "cursor")?;
    Ok(TransferRecord {
        id: id.parse().map_err(|error: uuid::Error| corrupt(READ, error))?,
        role: TransferRole::of(role).ok_or_else(|| corrupt(READ, "an unknown role in a transfer"))?,
        other: row::get(found, "other")?,
        begun_at: row::time(found, "begun_at")?,
        ended_at: row::maybe_time(found, "ended_at")?,
        cursor: cursor.map(serde_json::from_str).transpose().map_err(|error| corrupt(READ, unquoted(error)))?,
    })
}

async fn fence(database: &Database, record: &TransferRecord) -> Result<TransferBegin, DatabaseError> {
    let mut writer = database.writer.lock().await?;
    writer.begin().await?;
    let begun = fence_within(writer.connection()?, record).await;
    if matches!(begun, Ok(TransferBegin::HasWorkers | TransferBegin::HasRows { .. })) {
        writer.roll_back().await;
        return begun;
    }
    writer.end(begun).await
}

async fn fence_within(
    connection: &mut SqliteConnection,
    record: &TransferRecord,
) -> Result<TransferBegin, DatabaseError> {
    if find(connection, sqlx::query_scalar(sql::FIND_RECORDED_WORKER)).await.during(FENCE)? {
        return Ok(TransferBegin::HasWorkers);
    }
    if record.role == TransferRole::Target {
        for table in TRANSFER_TABLES {
            if find(connection, sqlx::query_scalar(TransferSql::has_rows(table).safe())).await.during(FENCE)? {
                return Ok(TransferBegin::HasRows { table: table.name });
            }
        }
    }
    sqlx::query(sql::CREATE_TRANSFER_TABLE).execute(&mut *connection).await.during(FENCE)?;
    let insert = sqlx::query(sql::INSERT_TRANSFER)
        .bind(record.id.to_string())
        .bind(record.role.as_str())
        .bind(&record.other)
        .bind(record.begun_at.as_micros())
        .bind(record.ended_at.map(Timestamp::as_micros))
        .bind(record.cursor.as_ref().map(serde_json::to_string).transpose().during(FENCE)?);
    insert.execute(&mut *connection).await.during(FENCE)?;
    sqlx::raw_sql(TransferSql::fence().safe()).execute(connection).await.during(FENCE)?;
    Ok(TransferBegin::Begun)
}

async fn find(
    connection: &mut SqliteConnection,
    exists: sqlx::query::QueryScalar<'_, Sqlite, bool, SqliteArguments>,
) -> Result<bool, sqlx::Error> {
    exists.fetch_one(connection).await
}

async fn read(
    connection: &mut SqliteConnection,
    table: &TransferTable,
    after: Option<&[TransferValue]>,
    chunk: TransferChunk,
) -> Result<Vec<TransferRow>, DatabaseError> {
    let query = sqlx::query(TransferSql::read(table, after.is_none()).safe());
    let query = after.unwrap_or_default().iter().fold(query, bind).bind(chunk.rows);
    let mut found = query.fetch(connection);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.try_next().await.during(READ)? {
        let row = values(table, &row)?;
        bytes += bytes_of(&row);
        rows.push(row);
        if bytes > chunk.bytes {
            break;
        }
    }
    Ok(rows)
}

fn values(table: &TransferTable, row: &SqliteRow) -> Result<TransferRow, DatabaseError> {
    let value = |(index, column): (usize, &TransferColumn)| {
        let value = match column.kind {
            TransferColumnKind::Integer => {
                row.try_get::<Option<i64>, _>(index).during(READ)?.map(TransferValue::Integer)
            }
            TransferColumnKind::Id | TransferColumnKind::Text => {
                row.try_get::<Option<String>, _>(index).during(READ)?.map(TransferValue::Text)
            }
        };
        Ok(value.unwrap_or(TransferValue::Null))
    };
    table.columns.iter().enumerate().map(value).collect()
}

fn bind<'q>(query: Query<'q, Sqlite, SqliteArguments>, value: &TransferValue) -> Query<'q, Sqlite, SqliteArguments> {
    match value {
        TransferValue::Null => query.bind(None::<i64>),
        TransferValue::Integer(number) => query.bind(*number),
        TransferValue::Text(text) => query.bind(text.clone()),
    }
}

async fn write(
    database: &Database,
    table: &TransferTable,
    rows: &[TransferRow],
    cursor: &TransferCursor,
) -> Result<(), DatabaseError> {
    let cursor = serde_json::to_string(cursor).during(WRITE)?;
    let mut writer = database.writer.lock().await?;
    writer.begin().await?;
    let written = write_within(writer.connection()?, table, rows, cursor).await;
    writer.end(written).await
}

async fn write_within(
    connection: &mut SqliteConnection,
    table: &TransferTable,
    rows: &[TransferRow],
    cursor: String,
) -> Result<(), DatabaseError> {
    sqlx::query(sql::BEGIN_TRANSFER_WRITES).execute(&mut *connection).await.during(WRITE)?;
    for row in rows {
        let insert = row.iter().fold(sqlx::query(TransferSql::insert(table).safe()), bind);
        insert.execute(&mut *connection).await.during(WRITE)?;
    }
    sqlx::query(sql::END_TRANSFER_WRITES).bind(cursor).execute(connection).await.during(WRITE)?;
    Ok(())
}

async fn end(database: &Database, at: Timestamp) -> Result<(), DatabaseError> {
    let mut writer = database.writer.lock().await?;
    let end = async |connection: &mut SqliteConnection| {
        sqlx::query(sql::END_TRANSFER).bind(at.as_micros()).execute(connection).await.during(WRITE).map(drop)
    };
    writer.alone(end).await
}

async fn open(database: &Database) -> Result<(), DatabaseError> {
    let mut writer = database.writer.lock().await?;
    writer.begin().await?;
    let opened = open_within(writer.connection()?).await;
    writer.end(opened).await
}

/// Removes the triggers before the table that they read.
async fn open_within(connection: &mut SqliteConnection) -> Result<(), DatabaseError> {
    sqlx::raw_sql(TransferSql::open_fence().safe()).execute(&mut *connection).await.during(FENCE)?;
    sqlx::query(sql::DROP_TRANSFER_TABLE).execute(connection).await.during(FENCE)?;
    Ok(())
}
