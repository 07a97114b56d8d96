//! Attempts of steps.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, SqliteConnection};

use crate::backend::fence::Fence;
use crate::backend::outcomes::Outcomes;
use crate::backend::{AttemptWrite, BackendError, Outcome, StartOutcome, Write};
use crate::model::{AttemptStatus, Effect, NewRun, RunId, StepAttempt, StepKind, Timestamp};
use crate::planted::planted;

use super::error::During;
use super::rows::RowsStatement;
use super::{sql, start};

const OPERATION: &str = "record step attempts";

static UPSERT: RowsStatement = RowsStatement::new(|| sql::UPSERT_ATTEMPTS);
static UPSERT_HELD: RowsStatement = RowsStatement::new(|| sql::UPSERT_HELD_ATTEMPTS);

/// The words of kind and status, each once: a text that is bound is an allocation, and a row has two of them.
static WORDS: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| {
    let statuses = AttemptStatus::ALL.iter().map(|status| status.as_str());
    statuses.chain(StepKind::ALL.iter().map(|kind| kind.as_str())).map(Arc::from).collect()
});

/// An attempt, as `upsert_attempts.sql` takes it.
pub(super) struct AttemptRow {
    run_id: Arc<str>,
    step_key: Arc<str>,
    attempt: i64,
    kind: Arc<str>,
    status: Arc<str>,
    position: Option<i64>,
    epoch: i64,
    started_at: i64,
    completed_at: Option<i64>,
    error: Option<Arc<str>>,
    output: Option<Arc<str>>,
}

/// One row to write, from one or several writes of the batch.
struct Merged<'a> {
    last: &'a AttemptWrite,
    started_at: Timestamp,
}

type Key<'a> = (RunId, &'a str, i64);

/// The rows of all attempts of a batch, made ready while the transaction begins, before it is known that their claims hold: they
/// nearly always do.
pub(super) struct Ready {
    /// In the order of the table.
    pub(super) rows: Vec<AttemptRow>,
    writes: usize,
}

/// Makes them ready.
pub(super) fn prepare(writes: &[Write]) -> Result<Ready, BackendError> {
    let mut merged = BTreeMap::new();
    let mut count = 0;
    for write in writes {
        if let Write::Attempt(write) = write {
            merge(&mut merged, write);
            count += 1;
        }
    }
    Ok(Ready { rows: rows_of(&merged)?, writes: count })
}

/// Writes this attempt if its claim holds. Says whether it did and the row was written: not if it was final already.
pub(super) async fn record_held(connection: &mut SqliteConnection, write: &AttemptWrite) -> Result<bool, BackendError> {
    let mut merged = BTreeMap::new();
    merge(&mut merged, write);
    Ok(upsert(connection, &UPSERT_HELD, rows_of(&merged)?).await? == 1)
}

/// Applies the attempts of a batch whose claims hold.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    writes: &[Write],
    ready: Ready,
    now: Timestamp,
    fence: &Fence,
    outcomes: &mut Outcomes,
) -> Result<(), BackendError> {
    let mut live: Vec<(usize, &AttemptWrite)> = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Attempt(write) = write else { continue };
        match fence.refusal(write.claim) {
            Some(refusal) => outcomes.set(place, refusal),
            None => live.push((place, write)),
        }
    }
    let taken = start_children(connection, &live, now).await?;
    let all_hold = live.len() == ready.writes && taken.is_empty();
    let mut merged = BTreeMap::new();
    let mut consumed = Vec::new();
    for (place, write) in live {
        if let Some(id) = taken.get(&place) {
            outcomes.set(place, Outcome::KeyTaken { id: *id });
            continue;
        }
        if let Effect::Consume { seq } = write.effect {
            consumed.push((write.claim.run_id, seq, write.row.step_key.as_str()));
        }
        if !all_hold {
            merge(&mut merged, write);
        }
        outcomes.set(place, Outcome::Applied);
    }
    let rows = if all_hold { ready.rows } else { rows_of(&merged)? };
    upsert(connection, &UPSERT, rows).await?;
    consume(connection, &consumed).await
}

/// Starts the children of these writes. Answers the places of those whose key belongs to another run.
async fn start_children(
    connection: &mut SqliteConnection,
    live: &[(usize, &AttemptWrite)],
    now: Timestamp,
) -> Result<HashMap<usize, RunId>, BackendError> {
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

async fn consume(connection: &mut SqliteConnection, consumed: &[(RunId, i64, &str)]) -> Result<(), BackendError> {
    if consumed.is_empty() || planted("signal-twice") {
        return Ok(());
    }
    let query = sqlx::query(sql::CONSUME_SIGNALS).bind(serde_json::to_string(consumed).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// A step that ends before its beginning was committed costs one row. The first final outcome stays, as it would if each
/// write had been committed alone.
fn merge<'a>(merged: &mut BTreeMap<Key<'a>, Merged<'a>>, write: &'a AttemptWrite) {
    let row = &write.row;
    match merged.entry((write.claim.run_id, row.step_key.as_str(), row.attempt)) {
        Entry::Vacant(place) => {
            place.insert(Merged { last: write, started_at: row.started_at });
        }
        Entry::Occupied(mut place) => {
            if place.get().last.row.status == AttemptStatus::Running {
                place.get_mut().last = write;
            }
        }
    }
}

/// Writes one attempt, whose claim holds. Says whether the row was written: not if it was final already.
pub(super) async fn record(connection: &mut SqliteConnection, write: &AttemptWrite) -> Result<bool, BackendError> {
    Ok(record_all(connection, std::slice::from_ref(write)).await? > 0)
}

/// Writes attempts whose claims hold. Says how many rows were written.
pub(super) async fn record_all(
    connection: &mut SqliteConnection,
    writes: &[AttemptWrite],
) -> Result<u64, BackendError> {
    let mut merged = BTreeMap::new();
    writes.iter().for_each(|write| merge(&mut merged, write));
    upsert(connection, &UPSERT, rows_of(&merged)?).await
}

fn rows_of(merged: &BTreeMap<Key<'_>, Merged<'_>>) -> Result<Vec<AttemptRow>, BackendError> {
    merged.values().map(attempt_row).collect()
}

async fn upsert(
    connection: &mut SqliteConnection,
    statement: &'static RowsStatement,
    mut rows: Vec<AttemptRow>,
) -> Result<u64, BackendError> {
    let mut written = 0;
    while !rows.is_empty() {
        let (query, room) = statement.query(rows.len());
        let query = bind(query, &mut rows, room);
        written += query.execute(&mut *connection).await.during(OPERATION)?.rows_affected();
    }
    Ok(written)
}

/// Adds as many of these rows to the parameters as there is room for, and NULL for the rest of the room.
pub(super) fn bind(
    query: Query<'static, Sqlite, SqliteArguments>,
    rows: &mut Vec<AttemptRow>,
    room: usize,
) -> Query<'static, Sqlite, SqliteArguments> {
    const COLUMNS: usize = 11;
    let spare = room.saturating_sub(rows.len());
    let query = rows.drain(..room - spare).fold(query, |query, row| {
        let query = query.bind(row.run_id).bind(row.step_key).bind(row.attempt).bind(row.kind).bind(row.status);
        let query = query.bind(row.position).bind(row.epoch).bind(row.started_at).bind(row.completed_at);
        query.bind(row.error).bind(row.output)
    });
    (0..spare * COLUMNS).fold(query, |query, _| query.bind(None::<i64>))
}

fn attempt_row(merged: &Merged<'_>) -> Result<AttemptRow, BackendError> {
    let AttemptWrite { claim, row, .. } = merged.last;
    let StepAttempt { step_key, attempt, kind, status, position, output, error, completed_at, .. } = row;
    let error = error.as_ref().map(serde_json::to_string).transpose().during(OPERATION)?;
    let mut id = uuid::Uuid::encode_buffer();
    Ok(AttemptRow {
        run_id: Arc::from(&*claim.run_id.as_uuid().hyphenated().encode_lower(&mut id)),
        step_key: Arc::from(step_key.as_str()),
        attempt: *attempt,
        kind: word(kind.as_str()),
        status: word(status.as_str()),
        position: *position,
        epoch: claim.epoch,
        started_at: merged.started_at.as_micros(),
        completed_at: completed_at.map(Timestamp::as_micros),
        error: error.map(Arc::from),
        output: output.as_deref().map(Arc::from),
    })
}

fn word(word: &str) -> Arc<str> {
    WORDS.iter().find(|known| &***known == word).cloned().unwrap_or_else(|| Arc::from(word))
}
