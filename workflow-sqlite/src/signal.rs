//! Signals into the inboxes of runs.

use std::collections::{BTreeSet, HashSet};

use sqlx::SqliteConnection;

use workflow_engine::faults::planted;
use workflow_engine::model::{NewSignal, RunId, SignalOutcome, Timestamp};
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{DatabaseError, Outcome, Write};

use super::error::During;
use super::{row, sql};

const OPERATION: &str = "send signals";

/// Applies the signals of a batch.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    fence: &Fence,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    let signals = writes.iter().enumerate().filter_map(|(place, write)| match write {
        Write::Signal(signal) => Some((place, signal)),
        _ => None,
    });
    let (places, signals): (Vec<usize>, Vec<&NewSignal>) = signals.unzip();
    let sent = send(connection, &signals, now, fence).await?;
    for (place, outcome) in places.into_iter().zip(sent) {
        outcomes.set(place, Outcome::Signaled(outcome));
    }
    Ok(())
}

/// Sends these signals, to runs that the fence has read, and says for each, in order, what became of it.
pub(super) async fn send(
    connection: &mut SqliteConnection,
    signals: &[&NewSignal],
    now: Timestamp,
    fence: &Fence,
) -> Result<Vec<SignalOutcome>, DatabaseError> {
    let open: Vec<&NewSignal> = signals.iter().copied().filter(|signal| fence.is_open(signal.run_id)).collect();
    let mut new = insert(connection, &open, now).await?;
    let woken: BTreeSet<RunId> = new.iter().map(|(run_id, _)| *run_id).filter(|_| !planted("lost-wake")).collect();
    wake(connection, &woken, now).await?;
    let outcome = |signal: &&NewSignal| match fence.status(signal.run_id) {
        None => SignalOutcome::Unknown,
        Some(status) if status.is_terminal() => SignalOutcome::Finished,
        // Of two with one key in a batch the first made the row.
        Some(_) if new.remove(&(signal.run_id, signal.key.as_str().to_owned())) => SignalOutcome::Accepted,
        Some(_) => signal.key.met(),
    };
    Ok(signals.iter().map(outcome).collect())
}

async fn insert(
    connection: &mut SqliteConnection,
    signals: &[&NewSignal],
    now: Timestamp,
) -> Result<HashSet<(RunId, String)>, DatabaseError> {
    if signals.is_empty() {
        return Ok(HashSet::new());
    }
    let rows: Vec<_> =
        signals.iter().map(|signal| (signal.run_id, &signal.name, signal.key.as_str(), &signal.payload)).collect();
    let query = sqlx::query(sql::INSERT_SIGNALS).bind(serde_json::to_string(&rows).during(OPERATION)?);
    let inserted = query.bind(now.as_micros()).fetch_all(connection).await.during(OPERATION)?;
    inserted.iter().map(|row| Ok((row::id(row, "run_id")?, row::get(row, "key")?))).collect()
}

/// Something has happened to these runs.
pub(super) async fn wake(
    connection: &mut SqliteConnection,
    runs: &BTreeSet<RunId>,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    if runs.is_empty() {
        return Ok(());
    }
    let runs = serde_json::to_string(runs).during(OPERATION)?;
    sqlx::query(sql::WAKE_RUNS).bind(runs).bind(now.as_micros()).execute(connection).await.during(OPERATION)?;
    Ok(())
}
