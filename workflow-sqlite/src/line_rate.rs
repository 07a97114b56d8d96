//! Rates of limits for steps, per line.

use sqlx::SqliteConnection;

use workflow_engine::model::{SeatLine, Timestamp};
use workflow_engine::store::{DatabaseError, ReadRates};

use super::database::Database;
use super::error::During;
use super::sql;

/// Returns until when the rates of these lines are used up.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    lines: &[&SeatLine],
    now: Timestamp,
) -> Result<ReadRates, DatabaseError> {
    let mut used_until = Vec::with_capacity(lines.len());
    for line in lines {
        let query = sqlx::query_scalar(sql::READ_RATE_OF_LINE).bind(line.limit.clone()).bind(line.key.clone());
        let found: Option<i64> = query.fetch_optional(&mut *connection).await.during("read the rate of a limit")?;
        used_until.push(Timestamp::from_micros(found.unwrap_or_default()));
    }
    Ok(ReadRates { now, used_until })
}

/// Says until when the rates of these lines are used up.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    lines: &[(&SeatLine, Timestamp)],
) -> Result<(), DatabaseError> {
    for (line, until) in lines {
        let query = sqlx::query(sql::USE_RATE_OF_LINE).bind(&line.limit).bind(&line.key).bind(until.as_micros());
        query.execute(&mut *connection).await.during("use the rate of a limit")?;
    }
    Ok(())
}

/// Forgets at most this number of rates that are not used up any more.
pub(super) async fn forget(
    connection: &mut SqliteConnection,
    at_most: u32,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let query = sqlx::query(sql::FORGET_RATES_OF_LINES).bind(now.as_micros()).bind(at_most);
    query.execute(connection).await.during("forget rates of limits")?;
    Ok(())
}

/// See [`Store::line_rates`](workflow_engine::store::Store::line_rates).
pub(super) async fn list(database: &Database, lines: &[&SeatLine]) -> Result<ReadRates, DatabaseError> {
    let mut reader = database.reader().await?;
    read(reader.connection()?, lines, database.now()).await
}
