//! Runs that are tried again, forked, paused and resumed. The fence has locked each of them.

use std::collections::BTreeMap;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use workflow_engine::model::{Claim, Clock, Effect, RunId, RunStatus, Timestamp};
use workflow_engine::store::{AttemptWrite, ForkWrite, Outcome, PauseOutcome, ResumeOutcome, RetryWrite, ReviveWrite};

use super::error::Failure;
use super::finish::error_text;
use super::sql::Sql;
use super::start::columns;
use super::{attempt, read, row};

/// Gives the new run its part of the history, unless it has been claimed.
pub(super) async fn copy(connection: &mut PgConnection, sql: &Sql, fork: &ForkWrite) -> Result<(), Failure> {
    if fork.before <= 1 {
        return Ok(());
    }
    let (source, new) = (fork.source.as_uuid(), fork.new.id.as_uuid());
    if sql.mark_fork.query().bind(new).fetch_optional(&mut *connection).await?.is_none() {
        return Ok(());
    }
    if let Some(kept) = &fork.kept {
        let claim = Claim { run_id: fork.new.id, epoch: 1 };
        let rows = kept.iter().map(|row| AttemptWrite { claim, row: row.clone(), effect: Effect::None });
        let rows: Vec<AttemptWrite> = rows.collect();
        attempt::record(connection, sql, rows.iter().collect()).await?;
    } else {
        sql.copy_history.query().bind(source).bind(new).bind(fork.before).execute(connection).await?;
    }
    Ok(())
}

/// Gives these runs, whose claims have passed the fence, another attempt.
pub(super) async fn retry(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    writes: &BTreeMap<RunId, &RetryWrite>,
) -> Result<(), Failure> {
    if writes.is_empty() {
        return Ok(());
    }
    let errors = writes.values().map(|write| error_text(Some(&write.error))).collect::<Result<Vec<_>, _>>()?;
    sql.retry_runs
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(writes.keys().map(|id| id.as_uuid()).collect::<Vec<_>>())
        .bind(writes.values().map(|write| write.claim.epoch).collect::<Vec<_>>())
        .bind(writes.values().map(|write| write.until.as_micros()).collect::<Vec<_>>())
        .bind(errors)
        .execute(&mut *connection)
        .await?;
    let again: Vec<(Uuid, &str)> = writes.values().flat_map(|write| pairs(write.claim.run_id, &write.again)).collect();
    reset(connection, sql, again).await
}

/// Lets the failed steps of these runs be attempted again.
async fn reset(connection: &mut PgConnection, sql: &Sql, again: Vec<(Uuid, &str)>) -> Result<(), Failure> {
    let (runs, keys): (Vec<Uuid>, Vec<&str>) = again.into_iter().unzip();
    if !runs.is_empty() {
        sql.reset_outcomes.query().bind(runs).bind(keys).execute(connection).await?;
    }
    Ok(())
}

fn pairs(run_id: RunId, keys: &[String]) -> impl Iterator<Item = (Uuid, &str)> {
    keys.iter().map(move |key| (run_id.as_uuid(), key.as_str()))
}

/// Makes a failed run due again.
pub(super) async fn revive(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    write: &ReviveWrite,
) -> Result<Outcome, Failure> {
    let (deadline_at, deadline_delay) = columns(write.deadline);
    let query = sql
        .revive_run
        .query()
        .bind(clock.fixed().map(Timestamp::as_micros))
        .bind(write.run_id.as_uuid())
        .bind(write.attempt)
        .bind(deadline_at)
        .bind(deadline_delay);
    if query.fetch_optional(&mut *connection).await?.is_some() {
        reset(connection, sql, pairs(write.run_id, &write.again).collect()).await?;
        sql.forget_interruption.query().bind(write.run_id.as_uuid()).execute(connection).await?;
        return Ok(Outcome::Applied);
    }
    Ok(match read::run(connection, sql, write.run_id).await? {
        Some(run) if run.attempt == write.attempt + 1 => Outcome::Duplicate,
        _ => Outcome::Lost,
    })
}

/// Keeps a run from being claimed.
pub(super) async fn pause(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    id: RunId,
) -> Result<PauseOutcome, Failure> {
    let query = sql.pause_run.query().bind(clock.fixed().map(Timestamp::as_micros)).bind(id.as_uuid());
    if let Some(paused) = query.fetch_optional(&mut *connection).await? {
        let running = row::run_status(paused.try_get("status")?)? == RunStatus::Running;
        return Ok(if running { PauseOutcome::Requested } else { PauseOutcome::Paused });
    }
    let run = read::run(connection, sql, id).await?;
    Ok(run.map_or(PauseOutcome::Unknown, |run| PauseOutcome::Ended(run.status)))
}

/// Lets a run be claimed again.
pub(super) async fn resume(connection: &mut PgConnection, sql: &Sql, id: RunId) -> Result<ResumeOutcome, Failure> {
    if sql.resume_run.query().bind(id.as_uuid()).fetch_optional(&mut *connection).await?.is_some() {
        return Ok(ResumeOutcome::Resumed);
    }
    Ok(match read::run(connection, sql, id).await? {
        None => ResumeOutcome::Unknown,
        Some(run) if run.status.is_terminal() => ResumeOutcome::Ended(run.status),
        Some(_) => ResumeOutcome::NotPaused,
    })
}
