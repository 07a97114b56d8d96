//! Parts of histories, for display.

use sqlx::sqlite::SqliteRow;

use workflow_engine::store::{DatabaseError, HistoryRow, HistoryRows, HistoryScan};

use super::database::Database;
use super::error::During;
use super::read::understand;
use super::{row, sql};

/// See [`Store::history_page`](workflow_engine::store::Store::history_page).
pub(super) async fn read(database: &Database, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError> {
    let run = scan.run.to_string();
    let query = match &scan.rows {
        HistoryRows::Delivered { after, limit } => sqlx::query(sql::READ_HISTORY_PAGE)
            .bind(run)
            .bind(after.as_ref().and_then(|place| place.position))
            .bind(after.as_ref().map(|place| place.step_key.clone()))
            .bind(after.as_ref().map(|place| place.attempt))
            .bind(*limit),
        HistoryRows::Begun { from, limit } => sqlx::query(sql::READ_STEPS_BEGUN).bind(run).bind(*from).bind(*limit),
        HistoryRows::Open { limit } => sqlx::query(sql::READ_OPEN_STEPS).bind(run).bind(*limit),
        HistoryRows::Attempt { step_key, attempt } => {
            sqlx::query(sql::READ_HISTORY_ROW).bind(run).bind(step_key.clone()).bind(*attempt)
        }
    };
    let mut reader = database.reader().await?;
    let query = query.bind(scan.payload_bytes);
    let rows = query.fetch_all(reader.connection()?).await.during("read a part of a history")?;
    understand(&rows, history_row)
}

fn history_row(found: &SqliteRow) -> Result<HistoryRow, DatabaseError> {
    let bytes = |column| {
        let bytes = row::get::<Option<i64>>(found, column)?;
        Ok::<_, DatabaseError>(bytes.and_then(|bytes| u64::try_from(bytes).ok()))
    };
    Ok(HistoryRow {
        row: row::step_attempt(found)?,
        output_bytes: bytes("output_bytes")?,
        error_bytes: bytes("error_bytes")?,
    })
}
