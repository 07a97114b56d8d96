//! Changes of runs that do not come from the worker that drives them: a worker releases claims that
//! it does not know, clients cancel and terminate, deadlines expire.

use std::collections::BTreeSet;
use std::time::Duration;

use workflow_engine::model::{Claim, Lane, Run, RunId, RunStatus, StepKind, StoredError, Timestamp, WorkerId};
use workflow_engine::store::CancelOutcome;

use super::finish::ended_at;
use super::tables::Tables;

/// Releases every claim of the worker but the known ones. Returns their number.
pub(super) fn release_unknown(tables: &mut Tables, worker: WorkerId, known: &[Claim], now: Timestamp) -> u64 {
    let unknown = ids(tables, |run| {
        run.worker_id == Some(worker)
            && run.status == RunStatus::Running
            && !known.contains(&Claim { run_id: run.id, epoch: run.epoch })
    });
    for id in &unknown {
        tables.update(*id, |run| {
            (run.status, run.available_at, run.worker_id) = (RunStatus::Parked, now, None);
        });
    }
    unknown.len() as u64
}

/// Returns the runs for which this holds.
pub(super) fn ids(tables: &Tables, holds: impl Fn(&&Run) -> bool) -> Vec<RunId> {
    tables.runs().filter(holds).map(|run| run.id).collect()
}

/// Cancels a run: one that was never claimed ends, another one is asked to end, once. `None`: there
/// is no such run.
pub(super) fn cancel(tables: &mut Tables, id: RunId, now: Timestamp) -> Option<CancelOutcome> {
    let run = tables.run(id)?;
    if run.status.is_terminal() {
        return Some(CancelOutcome::Ended(run.status));
    }
    let (was_claimed, was_asked) = (run.epoch > 0, run.cancel_requested_at.is_some());
    if was_claimed && was_asked {
        return Some(CancelOutcome::Requested);
    }
    tables.update(id, |run| {
        run.cancel_requested_at = run.cancel_requested_at.or(Some(now));
        if !was_asked {
            run.paused_at = None;
        }
        if !was_claimed {
            (run.status, run.completed_at, run.error) = (RunStatus::Canceled, Some(ended_at(run, now)), None);
            return CancelOutcome::Canceled;
        }
        run.wakes += 1;
        if run.status != RunStatus::Running {
            run.available_at = run.available_at.min(now);
        }
        CancelOutcome::Requested
    })
}

/// Ends a run as canceled, whatever holds it. `None`: there is no such run.
pub(super) fn terminate(tables: &mut Tables, id: RunId, now: Timestamp) -> Option<CancelOutcome> {
    let status = tables.run(id)?.status;
    if status.is_terminal() {
        return Some(CancelOutcome::Ended(status));
    }
    tables.update(id, |run| {
        // The worker that holds the run loses its claim.
        run.epoch += i64::from(run.status == RunStatus::Running);
        (run.status, run.worker_id, run.error) = (RunStatus::Canceled, None, None);
        (run.completed_at, run.paused_at) = (Some(ended_at(run, now)), None);
        run.cancel_requested_at = run.cancel_requested_at.or(Some(now));
        CancelOutcome::Canceled
    })
}

/// Ends the pauses of late runs, then fails, with this error, at most `limit` runs whose deadline
/// has passed and that no worker holds or serves: see
/// [`Write::Expire`](workflow_engine::store::Write::Expire). Returns the failed ones.
pub(super) fn expire(
    tables: &mut Tables,
    limit: u32,
    patience: Duration,
    error: &StoredError,
    now: Timestamp,
) -> Vec<RunId> {
    resume_late(tables, limit, now);
    let claimed_before = now - patience;
    let served: BTreeSet<Lane> = tables.workers.records().into_iter().flat_map(|worker| worker.lanes).collect();
    let is_forgotten = |run: &Run| run.worker_id.is_none_or(|worker| !tables.workers.is_recorded(worker));
    let mut expired: Vec<(bool, Timestamp, RunId)> = tables
        .runs()
        .filter_map(|run| {
            let deadline = run.deadline_at.filter(|deadline| *deadline <= now)?;
            let has = |kind| tables.attempts(run.id).any(|row| row.kind == kind);
            let undoes_its_failure = has(StepKind::Compensation) && !has(StepKind::Interruption);
            let is_unserved = deadline <= claimed_before && !served.contains(&run.lane) && !undoes_its_failure;
            let is_running = run.status == RunStatus::Running;
            let expires = match run.status {
                RunStatus::Pending | RunStatus::Parked => run.epoch == 0 || is_unserved,
                RunStatus::Running => is_unserved && run.available_at <= claimed_before && is_forgotten(run),
                _ => false,
            };
            expires.then_some((is_running, deadline, run.id))
        })
        .collect();
    // Running runs come last.
    expired.sort_unstable();
    expired.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    for (is_running, _, id) in &expired {
        tables.update(*id, |run| {
            // A worker that still holds the run loses its claim.
            run.epoch += i64::from(*is_running);
            (run.status, run.worker_id, run.error) = (RunStatus::Failed, None, Some(error.clone()));
            (run.completed_at, run.paused_at) = (Some(ended_at(run, now)), None);
        });
    }
    expired.into_iter().map(|(_, _, id)| id).collect()
}

/// Ends the pauses of at most `limit` runs that were claimed before and whose deadline has passed.
/// They are due, except one that a worker holds under its lease, which stays as it is.
fn resume_late(tables: &mut Tables, limit: u32, now: Timestamp) {
    let mut late: Vec<(bool, Option<Timestamp>, RunId)> = tables
        .runs()
        .filter(|run| run.epoch > 0 && run.paused_at.is_some() && run.deadline_at.is_some_and(|at| at <= now))
        .filter(|run| !run.status.is_terminal() && (run.status != RunStatus::Running || run.available_at <= now))
        .map(|run| (run.status == RunStatus::Running, run.deadline_at, run.id))
        .collect();
    late.sort_unstable();
    late.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    for (_, _, id) in late {
        tables.update(id, |run| (run.paused_at, run.available_at) = (None, run.available_at.min(now)));
    }
}
