//! Starts of runs.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{Claim, Clock, NewRun, Parent, StartTime, Timestamp};
use workflow_engine::store::{ClaimRequest, ClaimedRun, StartOutcome};

use super::error::Failure;
use super::parts::Parts;
use super::sql::Sql;
use super::{lanes, room, row};

/// Takes the keys of these starts away from failed and canceled runs, unless one of these queues
/// has bounds.
pub(super) async fn free_keys(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &[&NewRun],
    unless_bounded: &BTreeSet<&str>,
) -> Result<(), Failure> {
    let runs = in_order_of_keys(runs);
    let query = sql.free_keys.query().bind(runs.iter().map(|run| run.lane.workflow.as_str()).collect::<Vec<_>>());
    let query = query.bind(runs.iter().map(|run| run.key.as_deref()).collect::<Vec<_>>());
    let query = query.bind(runs.iter().map(|run| run.id.as_uuid()).collect::<Vec<_>>());
    let parents: Vec<Option<&Parent>> = runs.iter().map(|run| run.parent.as_ref()).collect();
    let query = query
        .bind(parents.iter().map(|parent| parent.map(|parent| parent.run_id.as_uuid())).collect::<Vec<_>>())
        .bind(parents.iter().map(|parent| parent.map(|parent| parent.step_key.as_str())).collect::<Vec<_>>());
    query.bind(unless_bounded.iter().copied().collect::<Vec<_>>()).execute(connection).await?;
    Ok(())
}

/// Starts runs. Returns the outcome of each, in order. Changes nothing and fails with
/// [`Failure::missing_lane`] if the lane of a run has no row.
pub(super) async fn start(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    runs: &[&NewRun],
) -> Result<Vec<StartOutcome>, Failure> {
    let all_are_new = insert(&mut *connection, sql, clock, (runs, false)).await?.ok_or_else(Failure::missing_lane)?;
    outcomes(connection, sql, clock, (runs, all_are_new)).await
}

/// Starts runs as [`start`] does, unless a queue of theirs has bounds: changes nothing then and
/// returns `None`.
pub(super) async fn start_unbounded(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    runs: &[&NewRun],
) -> Result<Option<Vec<StartOutcome>>, Failure> {
    let queues = runs.iter().map(|run| run.lane.queue.as_str()).collect();
    match insert(&mut *connection, sql, clock, (runs, true)).await? {
        Some(all_are_new) => outcomes(connection, sql, clock, (runs, all_are_new)).await.map(Some),
        None if room::is_bounded(connection, sql, &queues).await? => Ok(None),
        None => Err(Failure::missing_lane()),
    }
}

/// Inserts those of these runs whose id and key are free. Returns whether all were. Changes nothing
/// and returns `None` if the lane of a run has no row, or if a run that asks for room has to ask
/// elsewhere.
async fn insert(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    (runs, asks): (&[&NewRun], bool),
) -> Result<Option<bool>, Failure> {
    let query = sql.parts(Parts::START_RUNS).query().bind(clock.fixed().map(Timestamp::as_micros));
    let row = bind(query, (&in_order_of_keys(runs), asks), None)?.fetch_one(connection).await?;
    if !row.try_get::<bool, _>("laned")? {
        return Ok(None);
    }
    Ok(Some(row.try_get::<Option<Vec<Uuid>>, _>("started")?.is_none()))
}

/// Returns the outcomes of these starts, in order. The statement itself only says whether all runs
/// are new, because nearly always they are.
pub(super) async fn outcomes(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    (runs, all_are_new): (&[&NewRun], bool),
) -> Result<Vec<StartOutcome>, Failure> {
    const TRIES: usize = 8;
    if all_are_new {
        return Ok(runs.iter().map(|_| StartOutcome::Created).collect());
    }
    let mut found = find_started(&mut *connection, sql, runs).await?;
    // The run that had the key was deleted since, so the key is free.
    for _ in 0..TRIES {
        let missing = runs.iter().enumerate().filter(|(place, _)| !found.contains_key(place));
        let missing: Vec<&NewRun> = missing.map(|(_, run)| *run).collect();
        if missing.is_empty() {
            break;
        }
        insert(&mut *connection, sql, clock, (&missing, false)).await?;
        found = find_started(&mut *connection, sql, runs).await?;
    }
    // A run may be missing: this transaction has a snapshot of its own.
    let all: Option<Vec<StartOutcome>> = (0..runs.len()).map(|index| found.remove(&index)).collect();
    all.ok_or_else(|| Failure::busy("the run that holds the key cannot be seen yet"))
}

/// Sorts runs by key, because concurrent inserts wait for each other's keys. The sort is stable: of
/// two starts with one key, the first is created.
pub(super) fn in_order_of_keys<'r>(runs: &[&'r NewRun]) -> Vec<&'r NewRun> {
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| (&a.lane.workflow, &a.key).cmp(&(&b.lane.workflow, &b.key)));
    runs
}

/// Returns whether the run is due in the transaction that starts it; `None` if only the database's
/// clock can tell.
pub(super) fn is_due_at_once(run: &NewRun) -> Option<bool> {
    // A claim looks at the limits of a gate first.
    if run.gate.is_some() {
        return Some(false);
    }
    let is_later = |time| matches!(time, StartTime::After(delay) if delay > Duration::ZERO);
    match run.start {
        StartTime::Now => Some(true),
        start if is_later(start) && run.deadline.is_none_or(is_later) => Some(false),
        _ => None,
    }
}

/// Returns a run as the claim that takes it at its start sees it, and the time that decides its
/// place among the claimed runs.
pub(super) fn claimed_at_start(run: &NewRun, request: &ClaimRequest, now: Timestamp) -> (Timestamp, ClaimedRun) {
    let deadline_at = run.deadline.map(|deadline| match deadline {
        StartTime::Now => now,
        StartTime::After(delay) => now + delay,
        StartTime::At(at) => at,
    });
    let claimed = ClaimedRun {
        gate: None,
        claim: Claim { run_id: run.id, epoch: 1 },
        lane: run.lane.clone(),
        input: run.input.clone(),
        wakes: 0,
        crashes: 0,
        lone_crashes: 0,
        taken_over: false,
        attempt: 1,
        generation: 0,
        depth: run.depth,
        trace: run.trace,
        parent_run_id: run.parent.as_ref().map(|parent| parent.run_id),
        deadline_at,
        cancel_requested: false,
        created_at: now,
        started_at: now,
        lease_until: now + request.lease,
        error: None,
        unreadable: None,
    };
    (run.rank().order_at(deadline_at.map_or(now, |deadline| deadline.min(now))), claimed)
}

/// Binds runs as `find_lanes.sql` and `start_runs.sql` take them, and whether they ask for room.
/// `claim` says which of them, in this order, a claim of the batch takes.
pub(super) fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    (runs, asks): (&[&NewRun], bool),
    claim: Option<(&ClaimRequest, &[bool])>,
) -> Result<Query<'q, Postgres, PgArguments>, Failure> {
    let (start_at, start_delay): (Vec<_>, Vec<_>) = runs.iter().map(|run| columns(Some(run.start))).unzip();
    let (deadline_at, deadline_delay): (Vec<_>, Vec<_>) = runs.iter().map(|run| columns(run.deadline)).unzip();
    let tags = runs.iter().map(|run| serde_json::to_string(&run.tags)).collect::<Result<Vec<_>, _>>();
    let parents: Vec<Option<&Parent>> = runs.iter().map(|run| run.parent.as_ref()).collect();
    let request = claim.map(|(request, _)| request);
    let (lanes, numbers) = lanes::numbered(runs);
    let query = query
        .bind(lanes.iter().map(|(lane, _)| lane.queue.as_str()).collect::<Vec<_>>())
        .bind(lanes.iter().map(|(lane, _)| lane.workflow.as_str()).collect::<Vec<_>>())
        .bind(lanes.iter().map(|(lane, _)| lane.version.as_str()).collect::<Vec<_>>())
        .bind(lanes.iter().map(|(_, gate)| *gate).collect::<Vec<_>>())
        .bind(asks)
        .bind(runs.iter().map(|run| run.id.as_uuid()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.lane.workflow.as_str()).collect::<Vec<_>>())
        .bind(numbers)
        .bind(runs.iter().map(|run| run.input.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.key.as_deref()).collect::<Vec<_>>())
        .bind(start_at)
        .bind(start_delay)
        .bind(deadline_at)
        .bind(deadline_delay)
        .bind(tags.map_err(Failure::invalid)?)
        .bind(runs.iter().map(|run| run.depth).collect::<Vec<_>>())
        .bind(parents.iter().map(|parent| parent.map(|parent| parent.run_id.as_uuid())).collect::<Vec<_>>())
        .bind(parents.iter().map(|parent| parent.map(|parent| parent.step_key.as_str())).collect::<Vec<_>>())
        .bind(parents.iter().map(|parent| parent.map(|parent| parent.on_end.as_str())).collect::<Vec<_>>())
        .bind(claim.map(|(_, takes)| takes.to_vec()).unwrap_or_default())
        .bind(request.map(|request| request.worker.as_uuid()))
        .bind(request.map(|request| micros(request.lease)))
        .bind(runs.iter().map(|run| run.rank().number()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.trace.map(|trace| trace.to_string())).collect::<Vec<_>>());
    Ok(query)
}

/// Finds the outcomes of starts whose runs exist, by their indexes.
pub(super) async fn find_started(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &[&NewRun],
) -> Result<HashMap<usize, StartOutcome>, Failure> {
    let query = sql
        .find_started_runs
        .query()
        .bind(runs.iter().map(|run| run.id.as_uuid()).collect::<Vec<Uuid>>())
        .bind(runs.iter().map(|run| run.lane.workflow.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.key.as_deref()).collect::<Vec<_>>());
    let mut found = HashMap::new();
    for row in query.fetch_all(connection).await? {
        let place = usize::try_from(row.try_get::<i64, _>("place")? - 1).unwrap_or(usize::MAX);
        let Some(run) = runs.get(place) else { continue };
        let id = row::run_id(&row)?;
        // The run's own id: made just now, or by an earlier commit whose reply was lost.
        if id == run.id {
            found.insert(place, StartOutcome::Created);
        } else {
            let outcome = match row.try_get::<i64, _>("generation")? {
                0 => StartOutcome::Existing { id, input: row.try_get("input")? },
                _ => StartOutcome::Continued { id },
            };
            found.entry(place).or_insert(outcome);
        }
    }
    Ok(found)
}

/// Returns the columns (instant, delay in microseconds) of a time that the database resolves.
pub(super) fn columns(time: Option<StartTime>) -> (Option<i64>, Option<i64>) {
    match time {
        None => (None, None),
        Some(StartTime::Now) => (None, Some(0)),
        Some(StartTime::After(delay)) => (None, Some(micros(delay))),
        Some(StartTime::At(at)) => (Some(at.as_micros()), None),
    }
}

/// Returns a duration in microseconds, cut where its sum with any time would leave the calendar.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(Timestamp::FAR_FUTURE.as_micros())
}
