//! Changes of runs by others than the worker that drives them: disown, cancel, expire.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use crate::backend::{BackendError, CancelOutcome, Outcome, Write};
use crate::model::{ErrorKind, RunId, RunStatus, StoredError, Timestamp};

use super::commit::Outcomes;
use super::error::During;
use super::{row, sql};

/// Applies the disowns of a batch, each with a statement of its own: a process has few workers.
pub(super) async fn disown(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<(), BackendError> {
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
) -> Result<(), BackendError> {
    let cancels = writes.iter().enumerate().filter_map(|(place, write)| match write {
        Write::Cancel(id) => Some((place, *id)),
        _ => None,
    });
    let cancels: Vec<(usize, RunId)> = cancels.collect();
    if cancels.is_empty() {
        return Ok(());
    }
    let mut statuses = cancel_and_read_before(connection, &cancels, now).await?;
    for (place, id) in cancels {
        let outcome = match statuses.get(&id).copied() {
            None => CancelOutcome::Unknown,
            Some(RunStatus::Running) => CancelOutcome::Requested,
            Some(RunStatus::Pending | RunStatus::Parked) => {
                // A second cancel in the batch finds what the first one did.
                statuses.insert(id, RunStatus::Canceled);
                CancelOutcome::Canceled
            }
            Some(ended) => CancelOutcome::Ended(ended),
        };
        outcomes.set(place, Outcome::Canceled(outcome));
    }
    Ok(())
}

/// Answers the statuses that the runs had before.
async fn cancel_and_read_before(
    connection: &mut SqliteConnection,
    cancels: &[(usize, RunId)],
    now: Timestamp,
) -> Result<BTreeMap<RunId, RunStatus>, BackendError> {
    const OPERATION: &str = "cancel runs";
    let mut ids: Vec<RunId> = cancels.iter().map(|(_, id)| *id).collect();
    ids.sort_unstable();
    let ids = serde_json::to_string(&ids).during(OPERATION)?;
    let rows = sqlx::query(sql::READ_STATUSES).bind(&ids).fetch_all(&mut *connection).await.during(OPERATION)?;
    let before = rows.iter().map(|row| Ok((row::id(row, "id")?, row::status(row)?)));
    let before = before.collect::<Result<_, BackendError>>()?;
    sqlx::query(sql::CANCEL_RUNS).bind(&ids).bind(now.as_micros()).execute(connection).await.during(OPERATION)?;
    Ok(before)
}

/// Applies the expiries of a batch. Answers the runs that ended by them.
pub(super) async fn expire(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<Vec<RunId>, BackendError> {
    const OPERATION: &str = "expire runs";
    let mut ended = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Expire { limit } = write else { continue };
        let error = StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline");
        let query = sqlx::query(sql::EXPIRE_RUNS)
            .bind(now.as_micros())
            .bind(serde_json::to_string(&error).during(OPERATION)?)
            .bind(limit);
        let rows = query.fetch_all(&mut *connection).await.during(OPERATION)?;
        outcomes.set(place, Outcome::Changed(rows.len() as u64));
        ended.append(&mut rows.iter().map(|row| row::id(row, "id")).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(ended)
}
