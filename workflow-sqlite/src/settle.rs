//! Changes of runs by others than the worker that drives them: disown, cancel, terminate, expire.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use workflow_engine::model::{ErrorKind, RunId, RunStatus, StoredError, Timestamp};
use workflow_engine::store::Outcomes;
use workflow_engine::store::{CancelOutcome, DatabaseError, Outcome, Write};

use super::error::During;
use super::{row, sql};

/// Applies the disowns of a batch, each with a statement of its own: a process has few workers.
pub(super) async fn disown(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "disown claims";
    for (place, write) in writes.iter().enumerate() {
        let Write::Disown { worker, known } = write else { continue };
        let known: Vec<_> = known.iter().map(|claim| (claim.run_id, claim.epoch)).collect();
        let query = sqlx::query(sql::DISOWN_RUNS)
            .bind(worker.to_string())
            .bind(serde_json::to_string(&known).during(OPERATION)?)
            .bind(now.as_micros());
        let changed = query.execute(&mut *connection).await.during(OPERATION)?.rows_affected();
        outcomes.set(place, Outcome::Changed(changed));
    }
    Ok(())
}

/// Applies the cancels of a batch.
pub(super) async fn cancel(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    let cancels = places(writes, |write| if let Write::Cancel(id) = write { Some(*id) } else { None });
    let ids: Vec<RunId> = cancels.iter().map(|(_, id)| *id).collect();
    tell(&cancels, cancel_runs(connection, &ids, now).await?, outcomes);
    Ok(())
}

/// Cancels these runs and says for each, in order, what became of it.
pub(super) async fn cancel_runs(
    connection: &mut SqliteConnection,
    ids: &[RunId],
    now: Timestamp,
) -> Result<Vec<CancelOutcome>, DatabaseError> {
    settle(connection, ("cancel runs", sql::CANCEL_RUNS), ids, |was| !was.was_claimed, now).await
}

/// Applies the terminations of a batch.
pub(super) async fn terminate(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    let asked = places(writes, |write| if let Write::Terminate(id) = write { Some(*id) } else { None });
    let ids: Vec<RunId> = asked.iter().map(|(_, id)| *id).collect();
    let settled = settle(connection, ("terminate runs", sql::TERMINATE_RUNS), &ids, |_| true, now).await?;
    tell(&asked, settled, outcomes);
    Ok(())
}

fn tell(asked: &[(usize, RunId)], settled: Vec<CancelOutcome>, outcomes: &mut Outcomes) {
    for ((place, _), outcome) in asked.iter().zip(settled) {
        outcomes.set(*place, Outcome::Canceled(outcome));
    }
}

fn places(writes: &[Write], id_of: impl Fn(&Write) -> Option<RunId>) -> Vec<(usize, RunId)> {
    writes.iter().enumerate().filter_map(|(place, write)| Some((place, id_of(write)?))).collect()
}

/// What a run was before the batch came to it.
#[derive(Clone, Copy)]
struct Was {
    status: RunStatus,
    was_claimed: bool,
}

/// Applies a statement that ends those runs that are live and that it says it `ends`, and asks the other live ones. Says for
/// each, in order, what became of it.
async fn settle(
    connection: &mut SqliteConnection,
    (operation, statement): (&'static str, &'static str),
    asked: &[RunId],
    ends: impl Fn(Was) -> bool,
    now: Timestamp,
) -> Result<Vec<CancelOutcome>, DatabaseError> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut ids = asked.to_vec();
    ids.sort_unstable();
    let ids = serde_json::to_string(&ids).during(operation)?;
    let rows = sqlx::query(sql::READ_STATUSES).bind(&ids).fetch_all(&mut *connection).await.during(operation)?;
    let before = rows.iter().map(|row| {
        let was_claimed = row::get::<i64>(row, "epoch")? > 0;
        Ok((row::id(row, "id")?, Was { status: row::status(row)?, was_claimed }))
    });
    let mut before = before.collect::<Result<BTreeMap<RunId, Was>, DatabaseError>>()?;
    sqlx::query(statement).bind(&ids).bind(now.as_micros()).execute(connection).await.during(operation)?;
    let outcomes = asked.iter().map(|id| match before.get_mut(id) {
        None => CancelOutcome::Unknown,
        Some(was) if was.status.is_terminal() => CancelOutcome::Ended(was.status),
        Some(was) if ends(*was) => {
            // The same run a second time in this batch finds what the first did.
            was.status = RunStatus::Canceled;
            CancelOutcome::Canceled
        }
        Some(_) => CancelOutcome::Requested,
    });
    Ok(outcomes.collect())
}

/// Applies the expiries of a batch. Answers the runs that ended by them.
pub(super) async fn expire(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<Vec<RunId>, DatabaseError> {
    const OPERATION: &str = "expire runs";
    let mut ended = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Expire { limit, patience } = write else { continue };
        let error = StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline");
        let query = sqlx::query(sql::EXPIRE_RUNS)
            .bind(now.as_micros())
            .bind(serde_json::to_string(&error).during(OPERATION)?)
            .bind(limit)
            .bind((now - *patience).as_micros());
        let rows = query.fetch_all(&mut *connection).await.during(OPERATION)?;
        outcomes.set(place, Outcome::Changed(rows.len() as u64));
        ended.append(&mut rows.iter().map(|row| row::id(row, "id")).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(ended)
}
