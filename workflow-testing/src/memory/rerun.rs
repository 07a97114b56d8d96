//! Runs that are tried again, forked, paused and resumed.

use workflow_engine::model::{AttemptStatus, RunId, RunStatus, StepAttempt, StepKind, Timestamp};
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{
    ForkWrite, Outcome, PauseOutcome, ResumeOutcome, RetryWrite, ReviveWrite, StartOutcome, Write,
};

use super::start;
use super::tables::Tables;

/// Applies the forks of a batch.
pub(super) fn fork(tables: &mut Tables, writes: &[Write], now: Timestamp, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        let Write::Fork(fork) = write else { continue };
        let started = start::start(tables, &fork.new, now);
        if started == StartOutcome::Created {
            copy(tables, fork);
        }
        outcomes.set(place, Outcome::Started(started));
    }
}

/// Only into a run that no claim and no fork has come to yet: a fork that is applied again copies nothing.
fn copy(tables: &mut Tables, fork: &ForkWrite) {
    let new = fork.new.id;
    if fork.before <= 1 || tables.run(new).is_none_or(|run| run.epoch != 0) {
        return;
    }
    tables.update(new, |run| run.epoch = 1);
    let kept = fork.kept.clone().unwrap_or_else(|| kept_of(tables, fork));
    let rows = tables.attempts_mut(new);
    for row in kept {
        rows.insert((row.step_key.clone(), row.attempt), StepAttempt { epoch: 1, ..row });
    }
}

/// What a fork keeps of its source.
fn kept_of(tables: &Tables, fork: &ForkWrite) -> Vec<StepAttempt> {
    let source: Vec<&StepAttempt> = tables.attempts(fork.source).collect();
    let interrupted = source.iter().filter(|row| row.kind == StepKind::Interruption).filter_map(|row| row.position);
    let cut = interrupted.min().map_or(fork.before, |position| position.min(fork.before));
    let is_kept = |row: &StepAttempt| match row.position {
        _ if matches!(row.kind, StepKind::Published | StepKind::Emitted) => false,
        Some(position) => position < cut,
        None if row.kind == StepKind::Patch => true,
        None => {
            let of_kept = |other: &&StepAttempt| {
                other.step_key == row.step_key && other.position.is_some_and(|position| position < cut)
            };
            row.status == AttemptStatus::Failed && source.iter().any(of_kept)
        }
    };
    source.iter().copied().filter(|row| is_kept(row)).cloned().collect()
}

/// Applies the retries of a batch whose claims hold.
pub(super) fn retry(tables: &mut Tables, writes: &[Write], now: Timestamp, fence: &mut Fence, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        let Write::Retry(RetryWrite { claim, until, again, error }) = write else { continue };
        if !outcomes.let_go(place, fence, *claim, RunStatus::Pending) {
            continue;
        }
        tables.update(claim.run_id, |run| {
            let next = (*until).max(now);
            run.available_at = run.deadline_at.map_or(next, |deadline| deadline.min(next));
            run.attempt += 1;
            (run.status, run.worker_id, run.crashes, run.error) = (RunStatus::Pending, None, 0, Some(error.clone()));
        });
        reset(tables, claim.run_id, again);
    }
}

/// Lets the failed steps of a run be attempted again.
fn reset(tables: &mut Tables, run: RunId, again: &[String]) {
    for row in tables.attempts_mut(run).values_mut() {
        if row.status == AttemptStatus::Failed && again.contains(&row.step_key) {
            row.position = None;
        }
    }
}

/// Applies the revivals, then the pauses, then the resumes of a batch.
pub(super) fn change(tables: &mut Tables, writes: &[Write], now: Timestamp, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        if let Write::Revive(write) = write {
            outcomes.set(place, revive(tables, write, now));
        }
    }
    for (place, write) in writes.iter().enumerate() {
        if let Write::Pause(id) = write {
            outcomes.set(place, Outcome::Paused(pause(tables, *id, now)));
        }
    }
    for (place, write) in writes.iter().enumerate() {
        if let Write::Resume(id) = write {
            outcomes.set(place, Outcome::Resumed(resume(tables, *id)));
        }
    }
}

fn revive(tables: &mut Tables, write: &ReviveWrite, now: Timestamp) -> Outcome {
    match tables.run(write.run_id) {
        Some(run) if run.status == RunStatus::Failed && run.attempt == write.attempt => {}
        Some(run) if run.attempt == write.attempt + 1 => return Outcome::Duplicate,
        _ => return Outcome::Lost,
    }
    tables.update(write.run_id, |run| {
        if let Some(deadline) = write.deadline {
            run.deadline_at = Some(deadline.resolve(now));
        }
        run.attempt += 1;
        (run.status, run.worker_id, run.crashes) = (RunStatus::Pending, None, 0);
        (run.error, run.output, run.completed_at) = (None, None, None);
        (run.cancel_requested_at, run.paused_at) = (None, None);
        run.available_at = run.deadline_at.map_or(now, |deadline| deadline.min(now));
    });
    reset(tables, write.run_id, &write.again);
    tables.attempts_mut(write.run_id).retain(|_, row| row.kind != StepKind::Interruption);
    Outcome::Applied
}

fn pause(tables: &mut Tables, id: RunId, now: Timestamp) -> PauseOutcome {
    let Some(run) = tables.run(id) else { return PauseOutcome::Unknown };
    let status = run.status;
    if status.is_terminal() {
        return PauseOutcome::Ended(status);
    }
    tables.update(id, |run| run.paused_at = run.paused_at.or(Some(now)));
    if status == RunStatus::Running { PauseOutcome::Requested } else { PauseOutcome::Paused }
}

fn resume(tables: &mut Tables, id: RunId) -> ResumeOutcome {
    match tables.run(id) {
        None => ResumeOutcome::Unknown,
        Some(run) if run.status.is_terminal() => ResumeOutcome::Ended(run.status),
        Some(run) if run.paused_at.is_none() => ResumeOutcome::NotPaused,
        Some(_) => {
            tables.update(id, |run| run.paused_at = None);
            ResumeOutcome::Resumed
        }
    }
}
