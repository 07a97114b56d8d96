//! Waits for events, and emissions. One transaction writes at a time, so an event needs no lock.

use std::collections::{BTreeSet, HashSet};

use sqlx::SqliteConnection;

use workflow_engine::faults::planted;
use workflow_engine::model::{
    EMISSION_SIGNAL, EVENT_SIGNAL, EmittingStep, EventWait, LeftWait, NewEmission, RunId, Timestamp,
};
use workflow_engine::store::{ConsumedSignal, DatabaseError, DatabaseErrorKind, Emitted, LockedEvents, StepOf};

use super::error::During;
use super::{row, signal, sql};

const EMIT: &str = "emit an event";
const WAIT: &str = "wait for an event";

/// Returns the runs that wait for the events of these emissions.
pub(super) async fn find_waiting(
    connection: &mut SqliteConnection,
    emissions: &[&NewEmission],
) -> Result<LockedEvents, DatabaseError> {
    let events: Vec<_> = emissions.iter().map(|emission| (&emission.event.name, &emission.event.key)).collect();
    let query = sqlx::query(sql::FIND_EVENT_WAITS).bind(serde_json::to_string(&events).during(EMIT)?);
    let rows = query.fetch_all(connection).await.during(EMIT)?;
    let waiting = rows.iter().map(|row| row::id(row, "run_id")).collect::<Result<_, _>>()?;
    Ok(LockedEvents { busy: HashSet::new(), waiting })
}

/// Registers waits.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    waits: &[StepOf<'_, EventWait>],
) -> Result<(), DatabaseError> {
    let rows: Vec<_> = waits
        .iter()
        .map(|StepOf { run_id, step_key, it: EventWait { event, signal } }| {
            (run_id, step_key, &event.name, &event.key, signal)
        })
        .collect();
    let query = sqlx::query(sql::INSERT_EVENT_WAITS).bind(serde_json::to_string(&rows).during(WAIT)?);
    query.execute(connection).await.during(WAIT)?;
    Ok(())
}

/// Ends waits. Returns the indexes of those that stay, because their event was delivered.
pub(super) async fn leave(
    connection: &mut SqliteConnection,
    waits: &[StepOf<'_, LeftWait>],
) -> Result<HashSet<usize>, DatabaseError> {
    let rows: Vec<_> = (0..).zip(waits).map(|(place, wait): (i64, _)| (place, wait.run_id, &wait.it.signal)).collect();
    let query = sqlx::query(sql::FIND_DELIVERIES).bind(serde_json::to_string(&rows).during(WAIT)?);
    let (mut staying, mut unread) = (HashSet::new(), Vec::new());
    for row in &query.fetch_all(&mut *connection).await.during(WAIT)? {
        let place = usize::try_from(row::get::<i64>(row, "place")?).unwrap_or(usize::MAX);
        let Some(wait) = waits.get(place) else { continue };
        if wait.it.unless_delivered {
            staying.insert(place);
        } else {
            unread.push(ConsumedSignal { run_id: wait.run_id, seq: row::get(row, "seq")?, step_key: wait.step_key });
        }
    }
    if !unread.is_empty() {
        signal::consume(connection, &unread).await?;
    }
    let ended = (0..).zip(waits).filter(|(place, _)| !staying.contains(place));
    let ended: Vec<_> = ended.map(|(_, wait)| (wait.run_id, wait.step_key)).collect();
    let query = sqlx::query(sql::DELETE_LEFT_WAITS).bind(serde_json::to_string(&ended).during(WAIT)?);
    query.execute(connection).await.during(WAIT)?;
    Ok(staying)
}

/// Delivers an event.
pub(super) async fn emit(
    connection: &mut SqliteConnection,
    NewEmission { event, payload, by }: &NewEmission,
    now: Timestamp,
) -> Result<Emitted, DatabaseError> {
    let by = by.as_ref().filter(|_| !planted("repeated-emission"));
    if let Some(EmittingStep { run_id, key }) = by {
        let query = sqlx::query_scalar(sql::FIND_EMISSION).bind(run_id.to_string()).bind(key);
        let count: Option<String> = query.fetch_optional(&mut *connection).await.during(EMIT)?;
        if let Some(count) = count {
            let corrupt = |error| DatabaseError::new(DatabaseErrorKind::Corrupt, EMIT, error);
            return Ok(Emitted { count: count.parse().map_err(corrupt)?, woken: Vec::new() });
        }
    }
    let query = sqlx::query(sql::DELIVER_EVENT).bind(&event.name).bind(&event.key).bind(payload).bind(now.as_micros());
    let rows = query.fetch_all(&mut *connection).await.during(EMIT)?;
    let woken: BTreeSet<RunId> = rows.iter().map(|row| row::id(row, "run_id")).collect::<Result<_, _>>()?;
    let query = sqlx::query(sql::DELETE_MET_WAITS).bind(&event.name).bind(&event.key);
    query.execute(&mut *connection).await.during(EMIT)?;
    let emitted = Emitted { count: woken.len() as u64, woken: woken.into_iter().collect() };
    if let Some(EmittingStep { run_id, key }) = by {
        let query = sqlx::query(sql::INSERT_EMISSION).bind(run_id.to_string()).bind(EMISSION_SIGNAL).bind(key);
        let query = query.bind(emitted.count.to_string()).bind(now.as_micros());
        query.execute(connection).await.during(EMIT)?;
    }
    Ok(emitted)
}

/// Deletes the waits and the seats of these runs, and the events that were delivered and not
/// consumed.
pub(super) async fn delete(connection: &mut SqliteConnection, runs: &BTreeSet<RunId>) -> Result<(), DatabaseError> {
    const OPERATION: &str = "delete waits for events";
    let runs = serde_json::to_string(runs).during(OPERATION)?;
    sqlx::query(sql::DELETE_EVENT_WAITS).bind(&runs).execute(&mut *connection).await.during(OPERATION)?;
    sqlx::query(sql::DELETE_SEATS_OF_RUNS).bind(&runs).execute(&mut *connection).await.during(OPERATION)?;
    let query = sqlx::query(sql::DELETE_DELIVERIES).bind(&runs).bind(EVENT_SIGNAL);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}
