//! Gates, and when claims look at them.

use std::time::{Duration, Instant};

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::model::{Clock, Lane, QueueRecord, Timestamp};
use workflow_engine::store::{EndedTurn, LockedGate};

use super::claim::Lanes;
use super::context::{Context, Memory};
use super::error::Failure;
use super::row;
use super::sql::Sql;

/// For how long a claim that finds as many gates as it asks for leaves the wakes of others to later
/// claims. They read many at once then. A gate that was asleep waits for that long.
const OPEN_INTERVAL: Duration = Duration::from_millis(20);

/// Locks at most `limit` gates behind which runs of these lanes may be due, in the order of their
/// turns. Tells the turns what their gates were woken for, if the line is short
/// or that was not done for a while.
pub(super) async fn lock(
    connection: &mut PgConnection,
    Context { sql, clock, .. }: Context<'_>,
    memory: Option<&Memory>,
    lanes: &[Lane],
    limit: u32,
) -> Result<Vec<LockedGate>, Failure> {
    let opened_at = memory.and_then(|memory| memory.lock().opened_at);
    if opened_at.is_some_and(|at| at.elapsed() < OPEN_INTERVAL) {
        let gates = lock_due(&mut *connection, sql, clock, lanes, limit).await?;
        if gates.len() >= limit as usize {
            return Ok(gates);
        }
    }
    open(&mut *connection, sql).await?;
    if let Some(memory) = memory {
        memory.lock().opened_at = Some(Instant::now());
    }
    lock_due(connection, sql, clock, lanes, limit).await
}

/// Tells the turns what their gates were woken for.
async fn open(connection: &mut PgConnection, sql: &Sql) -> Result<(), Failure> {
    let woken = sql.lock_woken_gates.query().fetch_all(&mut *connection).await?;
    let woken = woken.iter().map(|found| found.try_get("id")).collect::<Result<Vec<i32>, _>>()?;
    if !woken.is_empty() {
        // A statement of its own: the snapshot of a single one would be older than the locks, and
        // would not see what the last claims wrote.
        sql.open_gates.query().bind(woken).execute(connection).await?;
    }
    Ok(())
}

async fn lock_due(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    lanes: &[Lane],
    limit: u32,
) -> Result<Vec<LockedGate>, Failure> {
    let query = Lanes::of(lanes).bind(sql.lock_gates.query().bind(clock.fixed().map(Timestamp::as_micros)));
    let rows = query.bind(i64::from(limit)).fetch_all(connection).await?;
    rows.iter().take(limit as usize).map(gate).collect()
}

/// Returns at most `limit` gates of these lanes behind which the lease of a run has ended.
pub(super) async fn find_lapsed(
    connection: &mut PgConnection,
    Context { sql, clock, .. }: Context<'_>,
    lanes: &[Lane],
    limit: u32,
) -> Result<Vec<(Lane, String)>, Failure> {
    let query = sql.find_lapsed_gates.query().bind(clock.fixed().map(Timestamp::as_micros));
    let rows = Lanes::of(lanes).bind(query).bind(i64::from(limit)).fetch_all(connection).await?;
    rows.iter().map(|found| Ok((row::lane(found)?, found.try_get("gate")?))).collect()
}

/// Counts the running runs of each of these gates of the queues beside them.
pub(super) async fn count_behind(
    connection: &mut PgConnection,
    sql: &Sql,
    queues: Vec<String>,
    gates: Vec<String>,
) -> Result<Vec<u32>, Failure> {
    let rows = sql.count_behind.query().bind(queues).bind(gates).fetch_all(connection).await?;
    let count = |found: &PgRow| u32::try_from(found.try_get::<i64, _>("running")?).map_err(Failure::corrupt);
    rows.iter().map(count).collect()
}

/// Says until when the rates of these gates are used up.
pub(super) async fn use_rates(
    connection: &mut PgConnection,
    sql: &Sql,
    gates: &[(&LockedGate, Timestamp)],
) -> Result<(), Failure> {
    let query =
        sql.use_rates_of_gates.query().bind(gates.iter().map(|(gate, _)| gate.lane.queue.clone()).collect::<Vec<_>>());
    let query = query.bind(gates.iter().map(|(gate, _)| gate.gate.clone()).collect::<Vec<_>>());
    query.bind(gates.iter().map(|(_, until)| until.as_micros()).collect::<Vec<_>>()).execute(connection).await?;
    Ok(())
}

/// Says when claims look at these gates again.
pub(super) async fn end_turns(
    connection: &mut PgConnection,
    sql: &Sql,
    turns: &[EndedTurn<'_>],
) -> Result<(), Failure> {
    let column = |of: fn(&LockedGate) -> &str| turns.iter().map(|turn| of(turn.gate).to_owned()).collect::<Vec<_>>();
    let query = sql.end_turns.query().bind(column(|gate| &gate.lane.queue)).bind(column(|gate| &gate.lane.workflow));
    let query = query.bind(column(|gate| &gate.lane.version)).bind(column(|gate| &gate.gate));
    let query = query.bind(turns.iter().map(|turn| turn.end.number()).collect::<Vec<_>>());
    let query = query.bind(turns.iter().map(|turn| turn.look_at.as_micros()).collect::<Vec<_>>());
    query.bind(turns.iter().map(|turn| i64::from(turn.given)).collect::<Vec<_>>()).execute(connection).await?;
    Ok(())
}

fn gate(found: &PgRow) -> Result<LockedGate, Failure> {
    let record = QueueRecord::stored(String::new(), found.try_get("declared")?, found.try_get("overridden")?, None);
    Ok(LockedGate {
        lane: row::lane(found)?,
        gate: found.try_get("gate")?,
        weight: u32::try_from(found.try_get::<i64, _>("weight")?).unwrap_or(u32::MAX),
        given: u32::try_from(found.try_get::<i64, _>("given")?).unwrap_or_default(),
        open_at: row::time(found, "open_at")?,
        limits: record.gate_limits(),
        used_until: row::time(found, "used_until")?,
    })
}
