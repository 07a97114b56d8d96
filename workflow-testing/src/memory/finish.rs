//! Ends and parks of claimed runs.

use workflow_engine::model::{Run, RunStatus, Timestamp};
use workflow_engine::store::{EndWrite, ParkWrite, RunEnd};

use super::tables::Tables;

/// Returns the time of an end that happens now: not before the run began, even if the clock was set
/// back.
pub(super) fn ended_at(run: &Run, now: Timestamp) -> Timestamp {
    now.max(run.created_at).max(run.started_at.unwrap_or(run.created_at))
}

/// Ends a run whose claim has passed the fence.
pub(super) fn end(tables: &mut Tables, EndWrite { claim, end, .. }: &EndWrite, now: Timestamp) {
    tables.update(claim.run_id, |run| {
        run.status = end.status();
        (run.output, run.error) = match end {
            RunEnd::Succeeded(output) => (Some(output.clone()), None),
            RunEnd::Failed(error) => (None, Some(error.clone())),
            RunEnd::Canceled => (None, None),
        };
        (run.completed_at, run.worker_id, run.paused_at) = (Some(ended_at(run, now)), None, None);
    });
}

/// Parks a run whose claim has passed the fence.
pub(super) fn park(tables: &mut Tables, write: &ParkWrite, now: Timestamp) {
    let ParkWrite { claim, wakes, until, until_deadline, error, reset_crashes } = write;
    tables.update(claim.run_id, |run| {
        let wake_time = (*until).max(now);
        run.available_at = if run.wakes != *wakes {
            now
        } else if *until_deadline {
            run.deadline_at.map_or(wake_time, |deadline| deadline.min(wake_time))
        } else {
            wake_time
        };
        (run.status, run.worker_id, run.error) = (RunStatus::Parked, None, error.clone());
        if *reset_crashes {
            (run.crashes, run.lone_crashes) = (0, 0);
        }
    });
}
