//! Attempts of steps.

use std::collections::HashMap;

use sqlx::SqliteConnection;
use uuid::Uuid;

use workflow_engine::faults::planted;
use workflow_engine::model::{Effect, NewRun, RunId, Timestamp};
use workflow_engine::store::AttemptRow;
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{AttemptWrite, DatabaseError, Outcome, StartOutcome, Write};

use super::error::During;
use super::rows::{Parameters, RowsStatement, room_for};
use super::{sql, start};

const OPERATION: &str = "record step attempts";

static UPSERT: RowsStatement = RowsStatement::new(|| sql::UPSERT_ATTEMPTS);
static UPSERT_HELD: RowsStatement = RowsStatement::new(|| sql::UPSERT_HELD_ATTEMPTS);

/// Writes this attempt if its claim holds. Says whether it did and the row was written: not if it was final already.
pub(super) async fn record_held(
    connection: &mut SqliteConnection,
    write: &AttemptWrite,
) -> Result<bool, DatabaseError> {
    Ok(upsert(connection, &UPSERT_HELD, &AttemptRow::of(vec![write])).await? == 1)
}

/// Applies the attempts of a batch whose claims hold.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    fence: &Fence,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    let mut live: Vec<(usize, &AttemptWrite)> = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Attempt(write) = write else { continue };
        match fence.refusal(write.claim) {
            Some(refusal) => outcomes.set(place, refusal),
            None => live.push((place, write)),
        }
    }
    let taken = start_children(connection, &live, now).await?;
    let mut written = Vec::with_capacity(live.len());
    let mut consumed = Vec::new();
    for (place, write) in live {
        if let Some(id) = taken.get(&place) {
            outcomes.set(place, Outcome::KeyTaken { id: *id });
            continue;
        }
        if let Effect::Consume { seq } = write.effect {
            consumed.push((write.claim.run_id, seq, write.row.step_key.as_str()));
        }
        written.push(write);
        outcomes.set(place, Outcome::Applied);
    }
    upsert(connection, &UPSERT, &AttemptRow::of(written)).await?;
    consume(connection, &consumed).await
}

/// Starts the children of these writes. Answers the places of those whose key belongs to another run.
async fn start_children(
    connection: &mut SqliteConnection,
    live: &[(usize, &AttemptWrite)],
    now: Timestamp,
) -> Result<HashMap<usize, RunId>, DatabaseError> {
    let children = live.iter().filter_map(|(place, write)| match &write.effect {
        Effect::Start(child) => Some((*place, child.as_ref())),
        Effect::None | Effect::Consume { .. } => None,
    });
    let (places, children): (Vec<usize>, Vec<&NewRun>) = children.unzip();
    if children.is_empty() {
        return Ok(HashMap::new());
    }
    let started = start::start(&mut *connection, &children, now).await?;
    if planted("child-outside-transaction") {
        sqlx::raw_sql("COMMIT; BEGIN IMMEDIATE").execute(&mut *connection).await.during(OPERATION)?;
    }
    let taken = places.into_iter().zip(started).filter_map(|(place, outcome)| match outcome {
        StartOutcome::Created => None,
        StartOutcome::Existing { id, .. } | StartOutcome::Continued { id, .. } => Some((place, id)),
    });
    Ok(taken.collect())
}

async fn consume(connection: &mut SqliteConnection, consumed: &[(RunId, i64, &str)]) -> Result<(), DatabaseError> {
    if consumed.is_empty() || planted("signal-twice") {
        return Ok(());
    }
    let query = sqlx::query(sql::CONSUME_SIGNALS).bind(serde_json::to_string(consumed).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Writes one attempt, whose claim holds. Says whether the row was written: not if it was final already.
pub(super) async fn record(connection: &mut SqliteConnection, write: &AttemptWrite) -> Result<bool, DatabaseError> {
    Ok(record_all(connection, std::slice::from_ref(write)).await? > 0)
}

/// Writes attempts whose claims hold. Says how many rows were written.
pub(super) async fn record_all(
    connection: &mut SqliteConnection,
    writes: &[AttemptWrite],
) -> Result<u64, DatabaseError> {
    upsert(connection, &UPSERT, &AttemptRow::of(writes.iter().collect())).await
}

/// Says how many rows were written.
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

/// Adds these rows, as `upsert_attempts.sql` takes them.
pub(super) fn add(parameters: &mut Parameters, rows: &[AttemptRow<'_>]) -> Result<(), DatabaseError> {
    add_rows(parameters, 11, rows, |parameters, AttemptRow { write: AttemptWrite { claim, row, .. }, started_at }| {
        let error = row.error.as_ref().map(serde_json::to_string).transpose().during(OPERATION)?;
        add_id(parameters, claim.run_id)?.add_text(Some(&row.step_key))?.add(row.attempt)?;
        parameters.add_word(row.kind.as_str())?.add_word(row.status.as_str())?.add(row.position)?.add(claim.epoch)?;
        parameters.add(started_at.as_micros())?.add(row.completed_at.map(Timestamp::as_micros))?;
        parameters.add(error)?.add_text(row.output.as_deref()).map(drop)
    })
}

/// Adds these rows, which are all [first successes](AttemptRow::is_first_success), as `upsert_successes.sql` takes them.
pub(super) fn add_successes(parameters: &mut Parameters, rows: &[AttemptRow<'_>]) -> Result<(), DatabaseError> {
    add_rows(parameters, 7, rows, |parameters, AttemptRow { write: AttemptWrite { claim, row, .. }, started_at }| {
        add_id(parameters, claim.run_id)?.add_text(Some(&row.step_key))?.add(row.position)?.add(claim.epoch)?;
        parameters.add(started_at.as_micros())?.add(row.completed_at.map(Timestamp::as_micros))?;
        parameters.add_text(row.output.as_deref()).map(drop)
    })
}

/// Adds rows of so many columns, and NULL for the rest of the room.
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
