//! Queues that were declared, limited or paused.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::model::{Clock, QueueChange, QueueLimits, QueueRecord, Timestamp};
use workflow_engine::store::{GateUse, LockedQueue, QueueWrite};

use super::error::Failure;
use super::row;
use super::sql::Sql;

/// Changes the records of queues.
pub(super) async fn write(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    writes: &[&QueueWrite],
) -> Result<(), Failure> {
    let text = |limits: &QueueLimits| serde_json::to_string(limits).map_err(Failure::invalid);
    let pause = |queue: &str, reason: Option<&str>| {
        let query = sql.pause_queue.query().bind(clock.fixed().map(Timestamp::as_micros));
        query.bind(queue.to_owned()).bind(reason.map(str::to_owned))
    };
    for QueueWrite { queue, change } in writes {
        let query = match change {
            QueueChange::Declare(limits) => sql.declare_queue.query().bind(queue.clone()).bind(text(limits)?),
            QueueChange::Override(limits) => {
                sql.override_queue.query().bind(queue.clone()).bind(limits.as_ref().map(text).transpose()?)
            }
            QueueChange::Pause { reason } => pause(queue, Some(reason)),
            QueueChange::Resume => pause(queue, None),
            QueueChange::Weigh { gate, weight } => {
                sql.insert_gated_queues.query().bind(vec![queue.clone()]).execute(&mut *connection).await?;
                sql.weigh_gate.query().bind(queue.clone()).bind(gate.clone()).bind(i64::from(*weight))
            }
        };
        query.execute(&mut *connection).await?;
        if matches!(change, QueueChange::Declare(_) | QueueChange::Override(_)) {
            sql.free_gates.query().bind(queue.clone()).execute(&mut *connection).await?;
        }
    }
    Ok(())
}

/// Locks the records of these queues, and returns what they say. A queue whose record another
/// transaction holds is left out.
pub(super) async fn lock(
    connection: &mut PgConnection,
    sql: &Sql,
    queues: &[String],
) -> Result<Vec<LockedQueue>, Failure> {
    let rows = sql.lock_queues.query().bind(queues.to_vec()).fetch_all(connection).await?;
    rows.iter().map(|found| Ok(LockedQueue::of(&record(found)?))).collect()
}

/// Says until when the rates of these queues are used up.
pub(super) async fn use_rates(
    connection: &mut PgConnection,
    sql: &Sql,
    queues: &[(&LockedQueue, Timestamp)],
) -> Result<(), Failure> {
    for (queue, until) in queues {
        let query = sql.use_rate_of_queue.query().bind(queue.name.clone()).bind(until.as_micros());
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Counts the running runs of each of these queues, to at most the number beside it.
pub(super) async fn count_running(
    connection: &mut PgConnection,
    sql: &Sql,
    queues: &[(String, u32)],
) -> Result<Vec<u32>, Failure> {
    let (names, limits): (Vec<String>, Vec<i64>) =
        queues.iter().map(|(name, limit)| (name.clone(), i64::from(*limit))).unzip();
    let rows = sql.count_running.query().bind(names).bind(limits).fetch_all(connection).await?;
    let count = |found: &PgRow| u32::try_from(found.try_get::<i64, _>("running")?).map_err(Failure::corrupt);
    rows.iter().map(count).collect()
}

/// See [`Store::queues`](workflow_engine::store::Store::queues).
pub(super) async fn list(connection: &mut PgConnection, sql: &Sql) -> Result<Vec<QueueRecord>, Failure> {
    let rows = sql.read_queues.query().fetch_all(connection).await?;
    rows.iter().map(record).collect()
}

/// See [`Store::running_in`](workflow_engine::store::Store::running_in).
pub(super) async fn running_in(
    connection: &mut PgConnection,
    sql: &Sql,
    queue: &str,
    at_most: u32,
) -> Result<u32, Failure> {
    let counts = count_running(connection, sql, &[(queue.to_owned(), at_most)]).await?;
    Ok(counts.first().copied().unwrap_or_default())
}

/// See [`Store::gate_use`](workflow_engine::store::Store::gate_use).
pub(super) async fn gate_use(
    connection: &mut PgConnection,
    sql: &Sql,
    queue: &str,
    gate: &str,
) -> Result<GateUse, Failure> {
    let query = sql.read_gate_use.query().bind(queue.to_owned()).bind(gate.to_owned());
    let Some(found) = query.fetch_optional(connection).await? else { return Ok(GateUse::NONE) };
    let running = u32::try_from(found.try_get::<i64, _>("running")?).unwrap_or(u32::MAX);
    Ok(GateUse { running, used_until: row::time(&found, "used_until")? })
}

/// See [`Store::oldest_due`](workflow_engine::store::Store::oldest_due).
pub(super) async fn oldest_due(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    queue: &str,
) -> Result<Option<Timestamp>, Failure> {
    let query = sql.find_oldest_due.query().bind(clock.fixed().map(Timestamp::as_micros)).bind(queue.to_owned());
    row::time_if_any(&query.fetch_one(connection).await?, "at")
}

fn record(found: &PgRow) -> Result<QueueRecord, Failure> {
    let reason: Option<String> = found.try_get("pause_reason")?;
    let paused = row::time_if_any(found, "paused_at")?.map(|since| (since, reason.unwrap_or_default()));
    let (declared, overridden) = (found.try_get("declared")?, found.try_get("overridden")?);
    let mut record = QueueRecord::stored(found.try_get("queue")?, declared, overridden, paused);
    record.has_gates = found.try_get("has_gates")?;
    record.used_until = row::time(found, "used_until")?;
    Ok(record)
}
