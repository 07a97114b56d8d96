//! Waits for events, and emissions.

use std::collections::{BTreeSet, HashSet};

use sqlx::{PgConnection, Row};

use workflow_engine::faults::planted;
use workflow_engine::model::{
    Clock, EMISSION_SIGNAL, EVENT_SIGNAL, EmittingStep, EventName, EventWait, LeftWait, NewEmission, RunId, Timestamp,
};
use workflow_engine::store::{ConsumedSignal, Emitted, LockedEvents, StepOf};

use super::error::Failure;
use super::fence::ids;
use super::sql::{Sql, Statement};
use super::{row, signal};

/// How a transaction locks the events that it emits and the single keys that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyLock {
    /// Waits for other transactions.
    Wait,
    /// Gives an event or key up that another transaction holds. For the executor, whose batches
    /// must not wait for a transaction of the application.
    Try,
}

/// Locks the events of these emissions, and returns the runs that wait for them.
pub(super) async fn lock(
    connection: &mut PgConnection,
    sql: &Sql,
    lock: KeyLock,
    emissions: &[&NewEmission],
) -> Result<LockedEvents, Failure> {
    let events: Vec<&EventName> = emissions.iter().map(|emission| &emission.event).collect();
    let busy = match lock {
        KeyLock::Try => refused(connection, &sql.try_lock_events, &events).await?,
        KeyLock::Wait => {
            for event in &events {
                sql.lock_event.query().bind(&event.name).bind(&event.key).execute(&mut *connection).await?;
            }
            HashSet::new()
        }
    };
    let held: Vec<&EventName> =
        events.iter().enumerate().filter(|(place, _)| !busy.contains(place)).map(|(_, event)| *event).collect();
    if held.is_empty() {
        return Ok(LockedEvents { busy, waiting: BTreeSet::new() });
    }
    let query = sql.find_event_waits.query().bind(names(&held)).bind(keys(&held));
    let waiting = query.fetch_all(connection).await?.iter().map(row::run_id).collect::<Result<_, _>>()?;
    Ok(LockedEvents { busy, waiting })
}

/// Registers waits. Returns the indexes of those whose events are being emitted.
pub(super) async fn begin(
    connection: &mut PgConnection,
    sql: &Sql,
    waits: &[StepOf<'_, EventWait>],
) -> Result<HashSet<usize>, Failure> {
    let events: Vec<&EventName> = waits.iter().map(|wait| &wait.it.event).collect();
    let busy = refused(connection, &sql.try_share_events, &events).await?;
    let held: Vec<&StepOf<'_, EventWait>> =
        waits.iter().enumerate().filter(|(place, _)| !busy.contains(place)).map(|(_, wait)| wait).collect();
    if held.is_empty() {
        return Ok(busy);
    }
    let events: Vec<&EventName> = held.iter().map(|wait| &wait.it.event).collect();
    sql.insert_event_waits
        .query()
        .bind(ids(held.iter().map(|wait| &wait.run_id)))
        .bind(held.iter().map(|wait| wait.step_key).collect::<Vec<_>>())
        .bind(names(&events))
        .bind(keys(&events))
        .bind(held.iter().map(|wait| wait.it.signal.as_str()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(busy)
}

/// Ends waits. Returns the indexes of those that stay, because their event was delivered.
pub(super) async fn leave(
    connection: &mut PgConnection,
    sql: &Sql,
    waits: &[StepOf<'_, LeftWait>],
) -> Result<HashSet<usize>, Failure> {
    let query = sql
        .find_deliveries
        .query()
        .bind(ids(waits.iter().map(|wait| &wait.run_id)))
        .bind(waits.iter().map(|wait| wait.it.signal.as_str()).collect::<Vec<_>>());
    let (mut staying, mut unread) = (HashSet::new(), Vec::new());
    for row in &query.fetch_all(&mut *connection).await? {
        let place = place(row.try_get("place")?);
        let Some(wait) = waits.get(place) else { continue };
        if wait.it.unless_delivered {
            staying.insert(place);
        } else {
            unread.push(ConsumedSignal { run_id: wait.run_id, seq: row.try_get("seq")?, step_key: wait.step_key });
        }
    }
    if !unread.is_empty() {
        signal::consume(connection, sql, &unread).await?;
    }
    let ended: Vec<_> = (0..).zip(waits).filter(|(place, _)| !staying.contains(place)).map(|(_, wait)| wait).collect();
    sql.delete_left_waits
        .query()
        .bind(ids(ended.iter().map(|wait| &wait.run_id)))
        .bind(ended.iter().map(|wait| wait.step_key).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(staying)
}

/// Delivers an event that this transaction has locked.
pub(super) async fn emit(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    NewEmission { event, payload, by }: &NewEmission,
) -> Result<Emitted, Failure> {
    let by = by.as_ref().filter(|_| !planted("repeated-emission"));
    if let Some(EmittingStep { run_id, key }) = by {
        let query = sql.find_emission.query().bind(run_id.as_uuid()).bind(key);
        if let Some(row) = query.fetch_optional(&mut *connection).await? {
            let count = row.try_get::<String, _>("payload")?;
            let count = count.parse().map_err(|_| Failure::corrupt("an emission has no number of runs"))?;
            return Ok(Emitted { count, woken: Vec::new() });
        }
    }
    let now = clock.fixed().map(Timestamp::as_micros);
    let query = sql.deliver_event.query().bind(now).bind(&event.name).bind(&event.key).bind(payload);
    let rows = query.fetch_all(&mut *connection).await?;
    let woken: BTreeSet<RunId> = rows.iter().map(row::run_id).collect::<Result<_, _>>()?;
    let emitted = Emitted { count: woken.len() as u64, woken: woken.into_iter().collect() };
    if let Some(EmittingStep { run_id, key }) = by {
        let query = sql.insert_emission.query().bind(now).bind(run_id.as_uuid()).bind(EMISSION_SIGNAL);
        query.bind(key).bind(emitted.count.to_string()).execute(connection).await?;
    }
    Ok(emitted)
}

/// Deletes the waits and the seats of these runs, and the events that were delivered and not
/// consumed.
pub(super) async fn delete(connection: &mut PgConnection, sql: &Sql, runs: &BTreeSet<RunId>) -> Result<(), Failure> {
    sql.delete_event_waits.query().bind(ids(runs.iter())).execute(&mut *connection).await?;
    sql.delete_deliveries.query().bind(ids(runs.iter())).bind(EVENT_SIGNAL).execute(connection).await?;
    Ok(())
}

/// Returns the indexes of the events that the statement could not lock.
async fn refused(
    connection: &mut PgConnection,
    statement: &Statement,
    events: &[&EventName],
) -> Result<HashSet<usize>, Failure> {
    let query = statement.query().bind(names(events)).bind(keys(events));
    query.fetch_all(connection).await?.iter().map(|row| Ok(place(row.try_get("place")?))).collect()
}

/// Returns the index of a row that the statement counted from 1.
fn place(ordinality: i64) -> usize {
    usize::try_from(ordinality - 1).unwrap_or(usize::MAX)
}

fn names(events: &[&EventName]) -> Vec<String> {
    events.iter().map(|event| event.name.clone()).collect()
}

fn keys(events: &[&EventName]) -> Vec<String> {
    events.iter().map(|event| event.key.clone()).collect()
}
