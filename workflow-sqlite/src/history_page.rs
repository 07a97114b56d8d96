//! Parts of histories, for display.

use sqlx::sqlite::SqliteRow;

use workflow_engine::store::{
    DatabaseError, HistoryBounds, HistoryPlace, HistoryRow, HistoryRows, HistoryScan, MOST_UNDECIDED, StepBounds,
};

use super::database::Database;
use super::error::During;
use super::read::understand;
use super::{row, sql};

/// See [`Store::history_page`](workflow_engine::store::Store::history_page).
pub(super) async fn read(database: &Database, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError> {
    let run = scan.run.to_string();
    let query = match &scan.rows {
        HistoryRows::Delivered { after, limit } => {
            let HistoryBounds { outcome: (position, key, attempt), undecided } = HistoryPlace::bounds(after.as_ref());
            let query = sqlx::query(sql::READ_HISTORY_PAGE).bind(run).bind(position).bind(key.to_owned()).bind(attempt);
            query.bind(undecided.0.to_owned()).bind(undecided.1).bind(*limit)
        }
        HistoryRows::Steps { after, limit, attempts } => {
            let query = sqlx::query(sql::READ_STEPS).bind(run).bind(*after).bind(*limit);
            query.bind(*attempts).bind(MOST_UNDECIDED)
        }
        HistoryRows::Open { limit } => sqlx::query(sql::READ_OPEN_STEPS).bind(run).bind(*limit).bind(MOST_UNDECIDED),
        HistoryRows::OfStep { step_key, after, limit } => {
            let StepBounds { attempt, repetition, end, .. } = StepBounds::new(step_key, after.as_ref());
            let query = sqlx::query(sql::READ_STEP_HISTORY).bind(run).bind(step_key.clone()).bind(attempt);
            query.bind(repetition.0).bind(repetition.1).bind(end).bind(*limit)
        }
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
        is_cut: row::get(found, "is_cut")?,
    })
}
