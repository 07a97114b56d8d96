//! Runs with a single key, which at most one run of a workflow has at a time.
//!
//! A transaction locks a key before it looks for the run that has it, so the unique index never
//! makes one start wait for another. It stays as the last guard.

use std::collections::HashSet;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{Clock, MovedRun, NewRun, RunId, SingleKey, SingleUntil, Timestamp};
use workflow_engine::store::{FoundSingle, SingleRun};

use super::error::Failure;
use super::event::KeyLock;
use super::fence::ids;
use super::sql::Sql;
use super::start::{columns, micros};

/// Locks the single keys of these runs, and returns the indexes of those that another transaction
/// holds.
pub(super) async fn lock(
    connection: &mut PgConnection,
    sql: &Sql,
    lock: KeyLock,
    runs: &[SingleRun<'_>],
) -> Result<HashSet<usize>, Failure> {
    if lock == KeyLock::Wait {
        for SingleRun { workflow, key, .. } in runs {
            let query = sql.lock_single_key.query().bind(workflow).bind(&key.key).bind(key.until.as_str());
            query.execute(&mut *connection).await?;
        }
        return Ok(HashSet::new());
    }
    let query = sql.try_lock_single_keys.query().bind(workflows(runs)).bind(keys(runs)).bind(moments(runs));
    query.fetch_all(connection).await?.iter().map(|row| place(row.try_get("place")?)).collect()
}

/// Finds these runs, and the runs that have their keys. Returns one answer per run, in their order.
pub(super) async fn find(
    connection: &mut PgConnection,
    sql: &Sql,
    runs: &[SingleRun<'_>],
) -> Result<Vec<FoundSingle>, Failure> {
    let query = sql.find_single_runs.query().bind(ids(runs.iter().map(|run| &run.run_id)));
    let query = query.bind(workflows(runs)).bind(keys(runs)).bind(moments(runs));
    let mut found = vec![FoundSingle::default(); runs.len()];
    for row in &query.fetch_all(connection).await? {
        let holder: Option<Uuid> = row.try_get("holder")?;
        if let Some(found) = found.get_mut(place(row.try_get("place")?)?) {
            *found = FoundSingle { exists: row.try_get("present")?, holder: holder.map(RunId::from) };
        }
    }
    Ok(found)
}

/// Gives runs that this transaction has inserted their keys.
pub(super) async fn set_keys(connection: &mut PgConnection, sql: &Sql, runs: &[SingleRun<'_>]) -> Result<(), Failure> {
    let query = sql.set_single_keys.query().bind(ids(runs.iter().map(|run| &run.run_id)));
    query.bind(keys(runs)).bind(moments(runs)).execute(connection).await?;
    Ok(())
}

/// Takes their keys from runs.
pub(super) async fn clear_keys(connection: &mut PgConnection, sql: &Sql, runs: &[RunId]) -> Result<(), Failure> {
    sql.clear_single_keys.query().bind(ids(runs.iter())).execute(connection).await?;
    Ok(())
}

/// Gives runs that have not begun the values of new runs. Fails with [`Failure::missing_lane`] if
/// the lane of a new run has no row.
pub(super) async fn move_runs(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    runs: &[(&MovedRun, &NewRun)],
) -> Result<(), Failure> {
    let (start_at, start_delay): (Vec<_>, Vec<_>) = runs.iter().map(|(_, new)| columns(Some(new.start))).unzip();
    let (deadline_at, deadline_delay): (Vec<_>, Vec<_>) = runs.iter().map(|(_, new)| columns(new.deadline)).unzip();
    let tags = runs.iter().map(|(_, new)| serde_json::to_string(&new.tags)).collect::<Result<Vec<_>, _>>();
    let query = sql
        .move_runs
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(ids(runs.iter().map(|(moved, _)| &moved.id)))
        .bind(runs.iter().map(|(_, new)| new.lane.queue.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, new)| new.lane.workflow.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, new)| new.lane.version.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, new)| new.rank().number()).collect::<Vec<_>>())
        .bind(runs.iter().map(|(moved, _)| moved.input.as_str()).collect::<Vec<_>>())
        .bind(tags.map_err(Failure::invalid)?)
        .bind(start_at)
        .bind(start_delay)
        .bind(deadline_at)
        .bind(deadline_delay)
        .bind(runs.iter().map(|(moved, _)| moved.max_wait.map(micros)).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, new)| new.gate.as_deref().unwrap_or_default()).collect::<Vec<_>>());
    let moved = query.execute(connection).await?.rows_affected();
    if moved == runs.len() as u64 { Ok(()) } else { Err(Failure::missing_lane()) }
}

/// Returns the workflow and the key that a run gets back if it is revived after this attempt.
pub(super) async fn read_lost(
    connection: &mut PgConnection,
    sql: &Sql,
    run: RunId,
    attempt: i64,
) -> Result<Option<(String, SingleKey)>, Failure> {
    let query = sql.read_lost_single.query().bind(run.as_uuid()).bind(attempt);
    let Some(row) = query.fetch_optional(connection).await? else { return Ok(None) };
    let word: &str = row.try_get("single_until")?;
    let until = SingleUntil::parse(word).ok_or_else(|| Failure::corrupt(unknown(word)))?;
    Ok(Some((row.try_get("workflow_name")?, SingleKey { key: row.try_get("single_key")?, until })))
}

/// Returns the text for a word of a row that is not understood.
pub(super) fn unknown(word: &str) -> String {
    format!("{word:?} is no moment that this program knows at which a run gives its single key up")
}

fn workflows<'r>(runs: &[SingleRun<'r>]) -> Vec<&'r str> {
    runs.iter().map(|run| run.workflow).collect()
}

fn keys<'r>(runs: &[SingleRun<'r>]) -> Vec<&'r str> {
    runs.iter().map(|run| run.key.key.as_str()).collect()
}

fn moments(runs: &[SingleRun<'_>]) -> Vec<&'static str> {
    runs.iter().map(|run| run.key.until.as_str()).collect()
}

/// Returns the index for a place that a statement counts from 1.
fn place(place: i64) -> Result<usize, Failure> {
    usize::try_from(place - 1).map_err(Failure::corrupt)
}
