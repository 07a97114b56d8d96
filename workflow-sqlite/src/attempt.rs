//! Attempts of steps.

use std::collections::HashSet;

use sqlx::SqliteConnection;
use uuid::Uuid;

use workflow_engine::model::{RunId, Timestamp};
use workflow_engine::store::{AttemptRow, AttemptWrite, DatabaseError};

use super::error::During;
use super::rows::{Parameters, RowsStatement, room_for};
use super::sql;

const OPERATION: &str = "record step attempts";

static UPSERT: RowsStatement = RowsStatement::new(|| sql::UPSERT_ATTEMPTS);
static UPSERT_HELD: RowsStatement = RowsStatement::new(|| sql::UPSERT_HELD_ATTEMPTS);

/// Writes an attempt if its claim holds. Returns `false` if it does not, or if the row was final
/// already.
pub(super) async fn record_held(
    connection: &mut SqliteConnection,
    write: &AttemptWrite,
) -> Result<bool, DatabaseError> {
    Ok(upsert(connection, &UPSERT_HELD, &AttemptRow::of(vec![write])).await? == 1)
}

/// Returns the indexes of those of these attempts whose rows are final already.
pub(super) async fn find_final(
    connection: &mut SqliteConnection,
    attempts: &[&AttemptWrite],
) -> Result<HashSet<usize>, DatabaseError> {
    let wanted: Vec<_> = attempts.iter().map(|write| write.identity()).collect();
    let query = sqlx::query_scalar(sql::FIND_FINAL_ATTEMPTS).bind(serde_json::to_string(&wanted).during(OPERATION)?);
    let found: Vec<i64> = query.fetch_all(connection).await.during(OPERATION)?;
    Ok(found.into_iter().filter_map(|index| usize::try_from(index).ok()).collect())
}

/// Writes attempts whose claims have passed the fence. Returns the number of written rows: rows
/// that were final already are not written.
pub(super) async fn record(connection: &mut SqliteConnection, rows: &[AttemptRow<'_>]) -> Result<u64, DatabaseError> {
    upsert(connection, &UPSERT, rows).await
}

/// Returns the number of written rows.
async fn upsert(
    connection: &mut SqliteConnection,
    statement: &'static RowsStatement,
    mut rows: &[AttemptRow<'_>],
) -> Result<u64, DatabaseError> {
    let mut written = 0;
    while !rows.is_empty() {
        let (some, others) = rows.split_at(room_for(rows.len()).min(rows.len()));
        let mut parameters = Parameters::default();
        add(&mut parameters, some)?;
        written +=
            statement.query(some.len(), parameters).execute(&mut *connection).await.during(OPERATION)?.rows_affected();
        rows = others;
    }
    Ok(written)
}

/// Adds rows as `upsert_attempts.sql` takes them.
pub(super) fn add(parameters: &mut Parameters, rows: &[AttemptRow<'_>]) -> Result<(), DatabaseError> {
    add_rows(parameters, 11, rows, |parameters, AttemptRow { write: AttemptWrite { claim, row, .. }, started_at }| {
        let error = row.error.as_ref().map(serde_json::to_string).transpose().during(OPERATION)?;
        add_id(parameters, claim.run_id)?.add_text(Some(&row.step_key))?.add(row.attempt)?;
        parameters.add_word(row.kind.as_str())?.add_word(row.status.as_str())?.add(row.position)?.add(claim.epoch)?;
        parameters.add(started_at.as_micros())?.add(row.completed_at.map(Timestamp::as_micros))?;
        parameters.add(error)?.add_text(row.output.as_deref()).map(drop)
    })
}

/// Adds rows that are all [first successes](AttemptRow::is_first_success), as
/// `upsert_successes.sql` takes them.
pub(super) fn add_successes(parameters: &mut Parameters, rows: &[AttemptRow<'_>]) -> Result<(), DatabaseError> {
    add_rows(parameters, 7, rows, |parameters, AttemptRow { write: AttemptWrite { claim, row, .. }, started_at }| {
        add_id(parameters, claim.run_id)?.add_text(Some(&row.step_key))?.add(row.position)?.add(claim.epoch)?;
        parameters.add(started_at.as_micros())?.add(row.completed_at.map(Timestamp::as_micros))?;
        parameters.add_text(row.output.as_deref()).map(drop)
    })
}

/// Adds rows with this number of columns, and NULL for the rest of the statement's rows.
fn add_rows<'r, 'a: 'r>(
    parameters: &mut Parameters,
    columns: usize,
    rows: &'r [AttemptRow<'a>],
    add: impl Fn(&mut Parameters, &'r AttemptRow<'a>) -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    parameters.reserve(room_for(rows.len()) * columns);
    rows.iter().try_for_each(|row| add(parameters, row))?;
    for _ in rows.len() * columns..room_for(rows.len()) * columns {
        parameters.add(None::<i64>)?;
    }
    Ok(())
}

fn add_id(parameters: &mut Parameters, run: RunId) -> Result<&mut Parameters, DatabaseError> {
    let mut id = Uuid::encode_buffer();
    parameters.add_text(Some(run.as_uuid().as_hyphenated().encode_lower(&mut id)))
}
