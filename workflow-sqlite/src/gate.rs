//! Gates, and when claims look at them.

use std::collections::BTreeSet;

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use workflow_engine::model::{Lane, QueueRecord, Timestamp};
use workflow_engine::store::{DatabaseError, EndedTurn, LockedGate};

use super::error::During;
use super::{row, sql};

const OPERATION: &str = "look at gates";

/// Inserts the gates of these places, their lanes and turns, as far as they have no rows. The lanes
/// without gates must have theirs.
pub(super) async fn insert<'p>(
    connection: &mut SqliteConnection,
    places: impl IntoIterator<Item = (&'p Lane, Option<&'p str>)>,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "record gates";
    let gated = |(lane, gate): (&'p Lane, Option<&'p str>)| Some((&lane.queue, &lane.workflow, &lane.version, gate?));
    let gates: BTreeSet<_> = places.into_iter().filter_map(gated).collect();
    if gates.is_empty() {
        return Ok(());
    }
    let gates = serde_json::to_string(&gates).during(OPERATION)?;
    for statement in [sql::INSERT_GATED_QUEUES, sql::INSERT_GATES, sql::INSERT_GATED_LANES] {
        sqlx::query(statement).bind(&gates).execute(&mut *connection).await.during(OPERATION)?;
    }
    let query = sqlx::query(sql::INSERT_TURNS).bind(&gates).bind(Timestamp::FAR_FUTURE.as_micros());
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Returns at most `limit` gates behind which runs of these lanes may be due, in the order of their
/// turns.
pub(super) async fn due(
    connection: &mut SqliteConnection,
    lanes: &[Lane],
    limit: u32,
    now: Timestamp,
) -> Result<Vec<LockedGate>, DatabaseError> {
    let mut due = Vec::new();
    for Lane { queue, workflow, version } in lanes {
        let query = sqlx::query(sql::FIND_DUE_GATES).bind(queue).bind(workflow).bind(version);
        let rows = query.bind(now.as_micros()).bind(limit).fetch_all(&mut *connection).await.during(OPERATION)?;
        for found in &rows {
            due.push((row::time(found, "open_at")?, gate(found)?));
        }
    }
    due.sort_by_key(|(open_at, _)| *open_at);
    Ok(due.into_iter().take(limit as usize).map(|(_, gate)| gate).collect())
}

/// Returns at most `limit` gates of these lanes behind which the lease of a run has ended.
pub(super) async fn find_lapsed(
    connection: &mut SqliteConnection,
    lanes: &[Lane],
    limit: u32,
    now: Timestamp,
) -> Result<Vec<(Lane, String)>, DatabaseError> {
    let names: Vec<_> = lanes.iter().map(|lane| (&lane.queue, &lane.workflow, &lane.version)).collect();
    let query = sqlx::query(sql::FIND_LAPSED_GATES).bind(serde_json::to_string(&names).during(OPERATION)?);
    let rows = query.bind(now.as_micros()).bind(limit).fetch_all(connection).await.during(OPERATION)?;
    rows.iter().map(|found| Ok((row::lane(found)?, row::get(found, "gate")?))).collect()
}

/// Counts the running runs of each of these gates, which are pairs of queue and gate.
pub(super) async fn count_behind(
    connection: &mut SqliteConnection,
    gates: &[(&str, &str)],
) -> Result<Vec<u32>, DatabaseError> {
    let query = sqlx::query_scalar(sql::COUNT_BEHIND).bind(serde_json::to_string(&gates).during(OPERATION)?);
    query.fetch_all(connection).await.during(OPERATION)
}

/// Says when claims look at these gates again.
pub(super) async fn end_turns(connection: &mut SqliteConnection, turns: &[EndedTurn<'_>]) -> Result<(), DatabaseError> {
    let end = |turn: &EndedTurn<'_>| {
        let LockedGate { lane, gate, .. } = turn.gate;
        let Lane { queue, workflow, version } = lane.clone();
        (queue, workflow, version, gate.clone(), turn.end.number(), turn.look_at.as_micros(), turn.given)
    };
    let turns: Vec<_> = turns.iter().map(end).collect();
    let query = sqlx::query(sql::END_TURNS).bind(serde_json::to_string(&turns).during(OPERATION)?);
    query.bind(Timestamp::FAR_FUTURE.as_micros()).execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Sets how many runs a gate gives in one turn.
pub(super) async fn weigh(
    connection: &mut SqliteConnection,
    queue: &str,
    gate: &str,
    weight: u32,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "weigh a gate";
    let queues = serde_json::to_string(&[[queue]]).during(OPERATION)?;
    sqlx::query(sql::INSERT_GATED_QUEUES).bind(queues).execute(&mut *connection).await.during(OPERATION)?;
    let query = sqlx::query(sql::WEIGH_GATE).bind(queue.to_owned()).bind(gate.to_owned()).bind(weight);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Says until when the rates of these gates are used up.
pub(super) async fn use_rates(
    connection: &mut SqliteConnection,
    gates: &[(&LockedGate, Timestamp)],
) -> Result<(), DatabaseError> {
    let used =
        |(gate, until): &(&LockedGate, Timestamp)| (gate.lane.queue.clone(), gate.gate.clone(), until.as_micros());
    let used = serde_json::to_string(&gates.iter().map(used).collect::<Vec<_>>()).during(OPERATION)?;
    sqlx::query(sql::USE_RATES_OF_GATES).bind(used).execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Lets claims look again at every gate of a queue.
pub(super) async fn free_all(connection: &mut SqliteConnection, queue: &str) -> Result<(), DatabaseError> {
    sqlx::query(sql::FREE_GATES).bind(queue.to_owned()).execute(connection).await.during(OPERATION)?;
    Ok(())
}

fn gate(found: &SqliteRow) -> Result<LockedGate, DatabaseError> {
    let text = |column| row::get::<Option<String>>(found, column);
    let (declared, overridden) = (text("declared")?, text("overridden")?);
    let record = QueueRecord::stored(String::new(), declared.as_deref(), overridden.as_deref(), None);
    Ok(LockedGate {
        lane: row::lane(found)?,
        gate: row::get(found, "gate")?,
        weight: row::get(found, "weight")?,
        given: row::get(found, "given")?,
        open_at: row::time(found, "open_at")?,
        limits: record.gate_limits(),
        used_until: row::time(found, "used_until")?,
    })
}
