//! Signals into the inboxes of runs.

use std::collections::{BTreeSet, HashSet};

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::faults::planted;
use workflow_engine::model::{Clock, NewSignal, RunId, SignalOutcome, Timestamp};
use workflow_engine::store::Fence;

use super::error::Failure;
use super::row;
use super::sql::Sql;

/// Sends signals, to runs that the fence has locked, and says for each, in order, what became of it.
pub(super) async fn send(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    fence: &Fence,
    signals: &[&NewSignal],
) -> Result<Vec<SignalOutcome>, Failure> {
    let open: Vec<&NewSignal> = signals.iter().copied().filter(|signal| fence.is_open(signal.run_id)).collect();
    let mut new = insert(connection, sql, clock, &open).await?;
    let woken: BTreeSet<RunId> = new.iter().map(|(run_id, _)| *run_id).filter(|_| !planted("lost-wake")).collect();
    wake(connection, sql, clock, &woken).await?;
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
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    signals: &[&NewSignal],
) -> Result<HashSet<(RunId, String)>, Failure> {
    if signals.is_empty() {
        return Ok(HashSet::new());
    }
    let query = sql
        .insert_signals
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(signals.iter().map(|signal| signal.run_id.as_uuid()).collect::<Vec<Uuid>>())
        .bind(signals.iter().map(|signal| signal.name.as_str()).collect::<Vec<_>>())
        .bind(signals.iter().map(|signal| signal.key.as_str()).collect::<Vec<_>>())
        .bind(signals.iter().map(|signal| signal.payload.as_str()).collect::<Vec<_>>());
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row::run_id(row)?, row.try_get("key")?))).collect()
}

/// Something has happened to these runs.
pub(super) async fn wake(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    runs: &BTreeSet<RunId>,
) -> Result<(), Failure> {
    if runs.is_empty() {
        return Ok(());
    }
    let query = sql.wake_runs.query().bind(clock.fixed().map(Timestamp::as_micros));
    query.bind(runs.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>()).execute(connection).await?;
    Ok(())
}
