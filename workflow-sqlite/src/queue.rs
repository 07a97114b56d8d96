//! Queues that were declared, limited or paused.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{QueueChange, QueueLimits, QueueRecord, Timestamp};
use workflow_engine::store::{DatabaseError, GateUse, LockedQueue, QueueWrite};

use super::database::Database;
use super::error::During;
use super::{gate, row, sql};

/// Changes the records of queues.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    writes: &[&QueueWrite],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "change a queue";
    let text = |limits: &QueueLimits| serde_json::to_string(limits).during(OPERATION);
    for QueueWrite { queue, change } in writes {
        let query = match change {
            QueueChange::Declare(limits) => sqlx::query(sql::DECLARE_QUEUE).bind(queue).bind(text(limits)?),
            QueueChange::Override(limits) => {
                sqlx::query(sql::OVERRIDE_QUEUE).bind(queue).bind(limits.as_ref().map(text).transpose()?)
            }
            QueueChange::Pause { reason } => {
                sqlx::query(sql::PAUSE_QUEUE).bind(queue).bind(now.as_micros()).bind(reason)
            }
            QueueChange::Weigh { gate, weight } => {
                gate::weigh(&mut *connection, queue, gate, *weight).await?;
                continue;
            }
            QueueChange::Resume => sqlx::query(sql::PAUSE_QUEUE).bind(queue).bind(None::<i64>).bind(None::<String>),
        };
        query.execute(&mut *connection).await.during(OPERATION)?;
        if matches!(change, QueueChange::Declare(_) | QueueChange::Override(_)) {
            gate::free_all(connection, queue).await?;
        }
    }
    Ok(())
}

/// Says until when the rates of these queues are used up.
pub(super) async fn use_rates(
    connection: &mut SqliteConnection,
    queues: &[(&LockedQueue, Timestamp)],
) -> Result<(), DatabaseError> {
    for (queue, until) in queues {
        let query = sqlx::query(sql::USE_RATE_OF_QUEUE).bind(&queue.name).bind(until.as_micros());
        query.execute(&mut *connection).await.during("use the rate of a queue")?;
    }
    Ok(())
}

/// Returns what a claim needs to know of these queues.
pub(super) async fn read_limits(
    connection: &mut SqliteConnection,
    queues: &[String],
) -> Result<Vec<LockedQueue>, DatabaseError> {
    let records = records(connection).await?;
    let found = |name: &String| match records.iter().find(|record| record.name == *name) {
        Some(record) => LockedQueue::of(record),
        None => LockedQueue::unlimited(name),
    };
    Ok(queues.iter().map(found).collect())
}

/// Counts the running runs of each of these queues, to at most the number beside it.
pub(super) async fn count_running(
    connection: &mut SqliteConnection,
    queues: &[(String, u32)],
) -> Result<Vec<u32>, DatabaseError> {
    let mut counts = Vec::with_capacity(queues.len());
    for (queue, at_most) in queues {
        counts.push(count(&mut *connection, queue, *at_most).await?);
    }
    Ok(counts)
}

/// See [`Store::queues`](workflow_engine::store::Store::queues).
pub(super) async fn list(database: &Database) -> Result<Vec<QueueRecord>, DatabaseError> {
    let mut reader = database.reader().await?;
    records(reader.connection()?).await
}

/// See [`Store::running_in`](workflow_engine::store::Store::running_in).
pub(super) async fn running_in(database: &Database, queue: &str, at_most: u32) -> Result<u32, DatabaseError> {
    let mut reader = database.reader().await?;
    count(reader.connection()?, queue, at_most).await
}

/// See [`Store::gate_use`](workflow_engine::store::Store::gate_use).
pub(super) async fn gate_use(database: &Database, queue: &str, gate: &str) -> Result<GateUse, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query(sql::READ_GATE_USE).bind(queue.to_owned()).bind(gate.to_owned());
    let found = query.fetch_optional(reader.connection()?).await.during("read the use of a gate")?;
    let Some(found) = found else { return Ok(GateUse::NONE) };
    Ok(GateUse { running: row::get(&found, "running")?, used_until: row::time(&found, "used_until")? })
}

/// See [`Store::oldest_due`](workflow_engine::store::Store::oldest_due).
pub(super) async fn oldest_due(database: &Database, queue: &str) -> Result<Option<Timestamp>, DatabaseError> {
    let mut reader = database.reader().await?;
    let query = sqlx::query_scalar(sql::FIND_OLDEST_DUE).bind(queue.to_owned()).bind(database.now().as_micros());
    let at: Option<i64> = query.fetch_one(reader.connection()?).await.during("find the oldest due run")?;
    Ok(at.map(Timestamp::from_micros))
}

async fn count(connection: &mut SqliteConnection, queue: &str, at_most: u32) -> Result<u32, DatabaseError> {
    let query = sqlx::query_scalar(sql::COUNT_RUNNING).bind(queue.to_owned()).bind(at_most);
    query.fetch_one(connection).await.during("count the running runs of a queue")
}

async fn records(connection: &mut SqliteConnection) -> Result<Vec<QueueRecord>, DatabaseError> {
    let rows = sqlx::query(sql::READ_QUEUES).fetch_all(connection).await.during("list queues")?;
    rows.iter().map(record).collect()
}

fn record(found: &SqliteRow) -> Result<QueueRecord, DatabaseError> {
    let text = |column| row::get::<Option<String>>(found, column);
    let (declared, overridden, reason) = (text("declared")?, text("overridden")?, text("pause_reason")?);
    let paused = row::maybe_time(found, "paused_at")?.map(|since| (since, reason.unwrap_or_default()));
    let mut record = QueueRecord::stored(row::get(found, "queue")?, declared.as_deref(), overridden.as_deref(), paused);
    record.has_gates = row::get(found, "has_gates")?;
    record.used_until = row::time(found, "used_until")?;
    Ok(record)
}
