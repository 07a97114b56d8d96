//! Changes of runs by others than the worker that drives them: disown, cancel, terminate, expire.

use workflow_engine::model::{Claim, ErrorKind, Run, RunId, RunStatus, StoredError, Timestamp};
use workflow_engine::store::Outcomes;
use workflow_engine::store::{CancelOutcome, Outcome, Write};

use super::finish::ended_at;
use super::tables::Tables;

/// Applies the disowns of a batch.
pub(super) fn disown(tables: &mut Tables, writes: &[Write], now: Timestamp, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        let Write::Disown { worker, known } = write else { continue };
        let is_unknown = |run: &&Run| {
            run.worker_id == Some(*worker)
                && run.status == RunStatus::Running
                && !known.contains(&Claim { run_id: run.id, epoch: run.epoch })
        };
        let unknown = ids(tables, is_unknown);
        for id in &unknown {
            tables.update(*id, |run| {
                (run.status, run.available_at, run.worker_id) = (RunStatus::Parked, now, None);
            });
        }
        outcomes.set(place, Outcome::Changed(unknown.len() as u64));
    }
}

/// The runs of which this holds.
pub(super) fn ids(tables: &Tables, holds: impl Fn(&&Run) -> bool) -> Vec<RunId> {
    tables.runs().filter(holds).map(|run| run.id).collect()
}

/// Applies the cancels of a batch.
pub(super) fn cancel(tables: &mut Tables, writes: &[Write], now: Timestamp, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        if let Write::Cancel(id) = write {
            outcomes.set(place, Outcome::Canceled(cancel_run(tables, *id, now)));
        }
    }
}

/// A run that was claimed before is asked, once; another one ends.
pub(super) fn cancel_run(tables: &mut Tables, id: RunId, now: Timestamp) -> CancelOutcome {
    let Some(run) = tables.run(id) else { return CancelOutcome::Unknown };
    if run.status.is_terminal() {
        return CancelOutcome::Ended(run.status);
    }
    let (was_claimed, was_asked) = (run.epoch > 0, run.cancel_requested_at.is_some());
    if was_claimed && was_asked {
        return CancelOutcome::Requested;
    }
    tables
        .update(id, |run| {
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
        .unwrap_or(CancelOutcome::Unknown)
}

/// Applies the terminations of a batch.
pub(super) fn terminate(tables: &mut Tables, writes: &[Write], now: Timestamp, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        if let Write::Terminate(id) = write {
            outcomes.set(place, Outcome::Canceled(terminate_run(tables, *id, now)));
        }
    }
}

fn terminate_run(tables: &mut Tables, id: RunId, now: Timestamp) -> CancelOutcome {
    match tables.run(id) {
        None => return CancelOutcome::Unknown,
        Some(run) if run.status.is_terminal() => return CancelOutcome::Ended(run.status),
        Some(_) => {}
    }
    tables.update(id, |run| {
        // The worker that holds it has lost its claim.
        run.epoch += i64::from(run.status == RunStatus::Running);
        (run.status, run.worker_id, run.error) = (RunStatus::Canceled, None, None);
        run.completed_at = Some(ended_at(run, now));
        run.cancel_requested_at = run.cancel_requested_at.or(Some(now));
    });
    CancelOutcome::Canceled
}

/// Applies the expiries of a batch. Answers the runs that ended by them.
pub(super) fn expire(tables: &mut Tables, writes: &[Write], now: Timestamp, outcomes: &mut Outcomes) -> Vec<RunId> {
    let mut ended = Vec::new();
    for (place, write) in writes.iter().enumerate() {
        let Write::Expire { limit, patience } = write else { continue };
        let claimed_before = now - *patience;
        let mut expired: Vec<(Timestamp, RunId)> = tables
            .runs()
            .filter(|run| matches!(run.status, RunStatus::Pending | RunStatus::Parked))
            .filter_map(|run| {
                let deadline = run.deadline_at.filter(|deadline| *deadline <= now)?;
                (run.epoch == 0 || deadline <= claimed_before).then_some((deadline, run.id))
            })
            .collect();
        expired.sort_unstable();
        expired.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
        for (_, id) in &expired {
            let error = StoredError::new(ErrorKind::Deadline, "the run had not ended at its deadline");
            tables.update(*id, |run| {
                (run.status, run.error) = (RunStatus::Failed, Some(error));
                (run.completed_at, run.paused_at) = (Some(ended_at(run, now)), None);
            });
        }
        outcomes.set(place, Outcome::Changed(expired.len() as u64));
        ended.extend(expired.into_iter().map(|(_, id)| id));
    }
    ended
}
