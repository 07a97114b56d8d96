//! Runs that are tried again, forked, paused and resumed.

use sqlx::SqliteConnection;

use workflow_engine::model::{Claim, Effect, Run, RunId, RunStatus, Timestamp};
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{
    AttemptWrite, DatabaseError, ForkWrite, Outcome, PauseOutcome, ResumeOutcome, RetryWrite, ReviveWrite,
    StartOutcome, Write,
};

use super::error::During;
use super::{attempt, row, sql, start};

/// Applies the forks of a batch, one after the other: somebody asks for each.
pub(super) async fn fork(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    for (place, write) in writes.iter().enumerate() {
        let Write::Fork(fork) = write else { continue };
        for started in start::start(connection, &[&fork.new], now).await? {
            if started == StartOutcome::Created {
                copy(connection, fork).await?;
            }
            outcomes.set(place, Outcome::Started(started));
        }
    }
    Ok(())
}

async fn copy(connection: &mut SqliteConnection, fork: &ForkWrite) -> Result<(), DatabaseError> {
    const OPERATION: &str = "fork a run";
    if fork.before <= 1 {
        return Ok(());
    }
    let (source, new) = (fork.source.to_string(), fork.new.id.to_string());
    let marked = sqlx::query(sql::MARK_FORK).bind(&new).fetch_optional(&mut *connection).await.during(OPERATION)?;
    if marked.is_none() {
        return Ok(());
    }
    if let Some(kept) = &fork.kept {
        let claim = Claim { run_id: fork.new.id, epoch: 1 };
        let rows = kept.iter().map(|row| AttemptWrite { claim, row: row.clone(), effect: Effect::None });
        attempt::record_all(connection, &rows.collect::<Vec<_>>()).await?;
    } else {
        let query = sqlx::query(sql::COPY_HISTORY).bind(source).bind(new).bind(fork.before);
        query.execute(connection).await.during(OPERATION)?;
    }
    Ok(())
}

/// Applies the retries of a batch whose claims hold.
pub(super) async fn retry(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "try runs again";
    let mut live: Vec<&RetryWrite> = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Retry(write) = write else { continue };
        if outcomes.let_go(place, fence, write.claim, RunStatus::Pending) {
            live.push(write);
        }
    }
    if live.is_empty() {
        return Ok(());
    }
    live.sort_unstable_by_key(|write| write.claim);
    let mut rows = Vec::with_capacity(live.len());
    let mut again = Vec::new();
    for RetryWrite { claim, until, again: keys, error } in live {
        rows.push((claim.run_id, claim.epoch, until, serde_json::to_string(error).during(OPERATION)?));
        again.extend(keys.iter().map(|key| (claim.run_id, key.as_str())));
    }
    let query = sqlx::query(sql::RETRY_RUNS).bind(serde_json::to_string(&rows).during(OPERATION)?);
    query.bind(now.as_micros()).execute(&mut *connection).await.during(OPERATION)?;
    reset(connection, &again).await
}

/// Lets the failed steps of these runs be attempted again.
async fn reset(connection: &mut SqliteConnection, again: &[(RunId, &str)]) -> Result<(), DatabaseError> {
    const OPERATION: &str = "attempt steps again";
    if again.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(sql::RESET_OUTCOMES).bind(serde_json::to_string(again).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Applies the revivals, then the pauses, then the resumes of a batch.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    writes: &[Write],
    now: Timestamp,
    outcomes: &mut Outcomes,
) -> Result<(), DatabaseError> {
    for (place, write) in writes.iter().enumerate() {
        if let Write::Revive(write) = write {
            outcomes.set(place, revive(connection, write, now).await?);
        }
    }
    for (place, write) in writes.iter().enumerate() {
        if let Write::Pause(id) = write {
            outcomes.set(place, Outcome::Paused(pause(connection, *id, now).await?));
        }
    }
    for (place, write) in writes.iter().enumerate() {
        if let Write::Resume(id) = write {
            outcomes.set(place, Outcome::Resumed(resume(connection, *id).await?));
        }
    }
    Ok(())
}

async fn revive(
    connection: &mut SqliteConnection,
    write: &ReviveWrite,
    now: Timestamp,
) -> Result<Outcome, DatabaseError> {
    let deadline = write.deadline.map(|deadline| deadline.resolve(now).as_micros());
    let query = sqlx::query(sql::REVIVE_RUN)
        .bind(write.run_id.to_string())
        .bind(write.attempt)
        .bind(now.as_micros())
        .bind(deadline);
    if query.fetch_optional(&mut *connection).await.during("try a failed run again")?.is_some() {
        let again: Vec<_> = write.again.iter().map(|key| (write.run_id, key.as_str())).collect();
        reset(connection, &again).await?;
        let forget = sqlx::query(sql::FORGET_INTERRUPTION).bind(write.run_id.to_string());
        forget.execute(connection).await.during("try a failed run again")?;
        return Ok(Outcome::Applied);
    }
    let run = find(connection, write.run_id).await?;
    Ok(match run {
        Some(run) if run.attempt == write.attempt + 1 => Outcome::Duplicate,
        _ => Outcome::Lost,
    })
}

async fn pause(connection: &mut SqliteConnection, id: RunId, now: Timestamp) -> Result<PauseOutcome, DatabaseError> {
    let query = sqlx::query(sql::PAUSE_RUN).bind(id.to_string()).bind(now.as_micros());
    let paused = query.fetch_optional(&mut *connection).await.during("pause a run")?;
    Ok(match paused.as_ref().map(row::status).transpose()? {
        Some(RunStatus::Running) => PauseOutcome::Requested,
        Some(_) => PauseOutcome::Paused,
        None => find(connection, id).await?.map_or(PauseOutcome::Unknown, |run| PauseOutcome::Ended(run.status)),
    })
}

async fn resume(connection: &mut SqliteConnection, id: RunId) -> Result<ResumeOutcome, DatabaseError> {
    let query = sqlx::query(sql::RESUME_RUN).bind(id.to_string());
    if query.fetch_optional(&mut *connection).await.during("resume a run")?.is_some() {
        return Ok(ResumeOutcome::Resumed);
    }
    Ok(match find(connection, id).await? {
        None => ResumeOutcome::Unknown,
        Some(run) if run.status.is_terminal() => ResumeOutcome::Ended(run.status),
        Some(_) => ResumeOutcome::NotPaused,
    })
}

async fn find(connection: &mut SqliteConnection, id: RunId) -> Result<Option<Run>, DatabaseError> {
    let query = sqlx::query(sql::READ_RUN).bind(id.to_string());
    query.fetch_optional(connection).await.during("read a run")?.as_ref().map(row::run).transpose()
}
