//! Signals in the inboxes of runs.

use std::collections::{BTreeSet, HashMap, HashSet};

use sqlx::SqliteConnection;

use workflow_engine::model::{AcceptedSignal, NewSignal, RunId, Timestamp};
use workflow_engine::store::{ConsumedSignal, DatabaseError};

use super::error::During;
use super::{row, sql};

const OPERATION: &str = "send signals";

/// Inserts signals to runs that exist and have not ended and whose inboxes have room. Returns run
/// and key of each new one.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    signals: &[&NewSignal],
    now: Timestamp,
) -> Result<HashSet<(RunId, String)>, DatabaseError> {
    let rows: Vec<_> = signals
        .iter()
        .map(|signal| (signal.run_id, &signal.name, signal.key.as_str(), &signal.payload, signal.limit))
        .collect();
    let query = sqlx::query(sql::INSERT_SIGNALS).bind(serde_json::to_string(&rows).during(OPERATION)?);
    let inserted = query.bind(now.as_micros()).fetch_all(connection).await.during(OPERATION)?;
    inserted.iter().map(|row| Ok((row::id(row, "run_id")?, row::get(row, "key")?))).collect()
}

/// Returns the signals in the inboxes that have the keys of these signals, by run and key.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    signals: &[&NewSignal],
) -> Result<HashMap<(RunId, String), AcceptedSignal>, DatabaseError> {
    let wanted: Vec<_> = signals.iter().map(|signal| (signal.run_id, signal.key.as_str())).collect();
    let query = sqlx::query(sql::FIND_SIGNALS).bind(serde_json::to_string(&wanted).during(OPERATION)?);
    let found = query.fetch_all(connection).await.during(OPERATION)?;
    found.iter().map(|row| Ok(((row::id(row, "run_id")?, row::get(row, "key")?), row::accepted_signal(row)?))).collect()
}

/// Takes signals out of the inboxes.
pub(super) async fn consume(
    connection: &mut SqliteConnection,
    consumed: &[ConsumedSignal<'_>],
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "consume signals";
    let rows: Vec<_> = consumed.iter().map(|signal| (signal.run_id, signal.seq, signal.step_key)).collect();
    let query = sqlx::query(sql::CONSUME_SIGNALS).bind(serde_json::to_string(&rows).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Wakes these runs.
pub(super) async fn wake(
    connection: &mut SqliteConnection,
    runs: &BTreeSet<RunId>,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let runs = serde_json::to_string(runs).during(OPERATION)?;
    sqlx::query(sql::WAKE_RUNS).bind(runs).bind(now.as_micros()).execute(connection).await.during(OPERATION)?;
    Ok(())
}
