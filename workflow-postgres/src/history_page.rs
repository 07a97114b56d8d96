//! Parts of histories, for display.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::store::{HistoryRow, HistoryRows, HistoryScan};

use super::error::Failure;
use super::read::map_all;
use super::row;
use super::sql::Sql;

/// See [`Store::history_page`](workflow_engine::store::Store::history_page).
pub(super) async fn read(
    connection: &mut PgConnection,
    sql: &Sql,
    scan: &HistoryScan,
) -> Result<Vec<HistoryRow>, Failure> {
    let run = scan.run.as_uuid();
    let query = match &scan.rows {
        HistoryRows::Delivered { after, limit } => {
            let query = sql.read_history_page.query().bind(run);
            query
                .bind(after.as_ref().and_then(|place| place.position))
                .bind(after.as_ref().map(|place| place.step_key.clone()))
                .bind(after.as_ref().map(|place| place.attempt))
                .bind(i64::from(*limit))
        }
        HistoryRows::Begun { from, limit } => {
            sql.read_steps_begun.query().bind(run).bind(i64::from(*from)).bind(i64::from(*limit))
        }
        HistoryRows::Open { limit } => sql.read_open_steps.query().bind(run).bind(i64::from(*limit)),
        HistoryRows::Attempt { step_key, attempt } => {
            sql.read_history_row.query().bind(run).bind(step_key.clone()).bind(*attempt)
        }
    };
    let rows = query.bind(i64::from(scan.payload_bytes)).fetch_all(connection).await?;
    map_all(&rows, history_row)
}

fn history_row(found: &PgRow) -> Result<HistoryRow, Failure> {
    let bytes = |column| {
        let bytes = found.try_get::<Option<i64>, _>(column)?;
        Ok::<_, Failure>(bytes.and_then(|bytes| u64::try_from(bytes).ok()))
    };
    Ok(HistoryRow {
        row: row::step_attempt(found)?,
        output_bytes: bytes("output_bytes")?,
        error_bytes: bytes("error_bytes")?,
    })
}
