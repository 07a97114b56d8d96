//! Gates, and when claims look at them.

use std::time::{Duration, Instant};

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use workflow_engine::model::{Clock, Lane, QueueRecord, Timestamp};
use workflow_engine::store::{LockedGate, TurnEnd};

use super::claim::Lanes;
use super::context::{Context, Memory};
use super::error::Failure;
use super::row;
use super::sql::Sql;

/// For how long a claim that finds as many gates as it asks for leaves the wakes of others to later
/// claims. They read many at once then. A gate that was asleep waits for that long.
const OPEN_INTERVAL: Duration = Duration::from_millis(20);

/// Locks at most `limit` gates behind which runs of these lanes may be due, in the order of their
/// turns, each with one lane. Tells the turns what their gates were woken for, if the line is short
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
    let mut gates: Vec<LockedGate> = Vec::new();
    for found in &rows {
        let gate = gate(found)?;
        let is_same = |other: &LockedGate| other.gate == gate.gate && other.lane.queue == gate.lane.queue;
        if gates.len() < limit as usize && !gates.iter().any(is_same) {
            gates.push(gate);
        }
    }
    Ok(gates)
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
pub(super) async fn spend_rates(
    connection: &mut PgConnection,
    sql: &Sql,
    gates: &[(&LockedGate, Timestamp)],
) -> Result<(), Failure> {
    let query = sql
        .spend_rates_of_gates
        .query()
        .bind(gates.iter().map(|(gate, _)| gate.lane.queue.clone()).collect::<Vec<_>>());
    let query = query.bind(gates.iter().map(|(gate, _)| gate.gate.clone()).collect::<Vec<_>>());
    query.bind(gates.iter().map(|(_, until)| until.as_micros()).collect::<Vec<_>>()).execute(connection).await?;
    Ok(())
}

/// Says when claims look at these gates again.
pub(super) async fn end_turns(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    turns: &[(&LockedGate, TurnEnd)],
) -> Result<(), Failure> {
    let column = |of: fn(&LockedGate) -> &str| turns.iter().map(|(gate, _)| of(gate).to_owned()).collect::<Vec<_>>();
    let how = |(_, end): &(&LockedGate, TurnEnd)| match end {
        TurnEnd::Served => (0_i16, None),
        TurnEnd::Until(at) => (0, Some(at.as_micros())),
        TurnEnd::Drained => (1, None),
        TurnEnd::Full => (2, None),
    };
    let (how, look_at): (Vec<_>, Vec<_>) = turns.iter().map(how).unzip();
    let query = sql.end_turns.query().bind(clock.fixed().map(Timestamp::as_micros));
    let query = query.bind(column(|gate| &gate.lane.queue)).bind(column(|gate| &gate.lane.workflow));
    let query = query.bind(column(|gate| &gate.lane.version)).bind(column(|gate| &gate.gate));
    query.bind(how).bind(look_at).execute(connection).await?;
    Ok(())
}

fn gate(found: &PgRow) -> Result<LockedGate, Failure> {
    let record = QueueRecord::stored(String::new(), found.try_get("declared")?, found.try_get("overridden")?, None);
    Ok(LockedGate {
        lane: row::lane(found)?,
        gate: found.try_get("gate")?,
        weight: u32::try_from(found.try_get::<i64, _>("weight")?).unwrap_or(u32::MAX),
        limits: record.gate_limits(),
        spent_until: row::time(found, "spent_until")?,
    })
}
