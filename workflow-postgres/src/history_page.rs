//! Parts of histories, for display.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::store::{
    HistoryBounds, HistoryPlace, HistoryRow, HistoryRows, HistoryScan, MOST_UNDECIDED, StepBounds,
};

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
            let HistoryBounds { outcome: (position, key, attempt), undecided } = HistoryPlace::bounds(after.as_ref());
            let query = sql.read_history_page.query().bind(run).bind(position).bind(key.to_owned()).bind(attempt);
            query.bind(undecided.0.to_owned()).bind(undecided.1).bind(i64::from(*limit))
        }
        HistoryRows::Steps { after, limit, attempts } => {
            let query = sql.read_steps.query().bind(run).bind(*after).bind(i64::from(*limit));
            query.bind(i64::from(*attempts)).bind(i64::from(MOST_UNDECIDED))
        }
        HistoryRows::Open { limit } => {
            sql.read_open_steps.query().bind(run).bind(i64::from(*limit)).bind(i64::from(MOST_UNDECIDED))
        }
        HistoryRows::OfStep { step_key, after, limit } => {
            let StepBounds { attempt, repetition, end, .. } = StepBounds::new(step_key, after.as_ref());
            let query = sql.read_step_history.query().bind(run).bind(step_key.clone()).bind(attempt);
            query.bind(repetition.0).bind(repetition.1).bind(end).bind(i64::from(*limit))
        }
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
        is_cut: found.try_get("is_cut")?,
    })
}
