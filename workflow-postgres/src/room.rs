//! The room of queues and gates that bound how many runs wait.

use std::collections::BTreeSet;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::model::QueueRecord;
use workflow_engine::store::{Bounds, WaitingPlace};

use super::error::Failure;
use super::event::KeyLock;
use super::sql::Sql;

/// Returns whether one of these queues has a bound. It may have got it since a statement looked.
pub(super) async fn is_bounded(
    connection: &mut PgConnection,
    sql: &Sql,
    queues: &BTreeSet<&str>,
) -> Result<bool, Failure> {
    let names: Vec<&str> = queues.iter().copied().collect();
    Ok(sql.read_bounds.query().bind(names).fetch_optional(connection).await?.is_some())
}

/// Returns the bounds of these queues. A batch of the executor locks them. A transaction of the
/// application may stay open for long, so it locks none.
pub(super) async fn lock(
    connection: &mut PgConnection,
    sql: &Sql,
    key_lock: KeyLock,
    queues: &BTreeSet<&str>,
    waits: bool,
) -> Result<Bounds, Failure> {
    let names: Vec<&str> = queues.iter().copied().collect();
    let mut bounds = Bounds::default();
    for row in sql.read_bounds.query().bind(names).fetch_all(&mut *connection).await? {
        let name: String = row.try_get("queue")?;
        let record = QueueRecord::stored(name.clone(), row.try_get("declared")?, row.try_get("overridden")?, None);
        bounds.limits.insert(name, record.limits());
    }
    let bounded: Vec<&str> = bounds.limits.keys().map(String::as_str).collect();
    match (key_lock, waits) {
        (KeyLock::Wait, _) => {}
        (KeyLock::Try, true) => drop(sql.lock_bounds.query().bind(bounded).fetch_all(connection).await?),
        (KeyLock::Try, false) => {
            let rows = sql.try_lock_bounds.query().bind(bounded).fetch_all(connection).await?;
            bounds.busy = rows.iter().map(|row| row.try_get("queue")).collect::<Result<_, _>>()?;
        }
    }
    Ok(bounds)
}

/// Counts the waiting runs of each of these places, to at most its bound.
pub(super) async fn count(
    connection: &mut PgConnection,
    sql: &Sql,
    places: &[WaitingPlace<'_>],
) -> Result<Vec<u32>, Failure> {
    let query = sql.count_waiting.query().bind(places.iter().map(|place| place.queue).collect::<Vec<_>>());
    let query = query.bind(places.iter().map(|place| place.gate).collect::<Vec<_>>());
    let query = query.bind(places.iter().map(|place| i64::from(place.max_waiting)).collect::<Vec<_>>());
    let rows = query.fetch_all(connection).await?;
    let count = |found: &PgRow| u32::try_from(found.try_get::<i64, _>("waiting")?).map_err(Failure::corrupt);
    rows.iter().map(count).collect()
}

/// See [`Store::waiting_in`](workflow_engine::store::Store::waiting_in).
pub(super) async fn waiting_in(
    connection: &mut PgConnection,
    sql: &Sql,
    place: WaitingPlace<'_>,
) -> Result<u32, Failure> {
    Ok(count(connection, sql, &[place]).await?.first().copied().unwrap_or_default())
}
