//! The ways in which a worker lets go of a run: it ends, it is parked, or it begins its next generation.

use workflow_engine::model::{Run, RunId, RunStatus, StepKind, Timestamp};
use workflow_engine::store::Fence;
use workflow_engine::store::Outcomes;
use workflow_engine::store::{ContinueWrite, EndWrite, ParkWrite, RunEnd, Write};

use super::tables::Tables;

/// When a run ends that ends now: not before it began, though the clock was set back.
pub(super) fn ended_at(run: &Run, now: Timestamp) -> Timestamp {
    now.max(run.created_at).max(run.started_at.unwrap_or(run.created_at))
}

/// Applies the ends of a batch whose claims hold.
pub(super) fn end(tables: &mut Tables, writes: &[Write], now: Timestamp, fence: &mut Fence, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        let Write::End(EndWrite { claim, end, .. }) = write else { continue };
        if !outcomes.let_go(place, fence, *claim, end.status()) {
            continue;
        }
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
}

/// Applies the parks of a batch whose claims hold.
pub(super) fn park(tables: &mut Tables, writes: &[Write], now: Timestamp, fence: &mut Fence, outcomes: &mut Outcomes) {
    for (place, write) in writes.iter().enumerate() {
        let Write::Park(ParkWrite { claim, wakes, until, until_deadline, error, reset_crashes }) = write else {
            continue;
        };
        if !outcomes.let_go(place, fence, *claim, RunStatus::Parked) {
            continue;
        }
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
                run.crashes = 0;
            }
        });
    }
}

/// Applies the continues of a batch whose claims hold.
pub(super) fn continue_as_new(
    tables: &mut Tables,
    writes: &[Write],
    now: Timestamp,
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) {
    for (place, write) in writes.iter().enumerate() {
        let Write::Continue(ContinueWrite { claim, input }) = write else { continue };
        if !outcomes.let_go(place, fence, *claim, RunStatus::Pending) {
            continue;
        }
        forget_generation(tables, claim.run_id);
        tables.update(claim.run_id, |run| {
            run.input.clone_from(input);
            run.generation += 1;
            (run.status, run.worker_id, run.error) = (RunStatus::Pending, None, None);
            (run.available_at, run.started_at, run.crashes) = (now, None, 0);
        });
    }
}

/// Published values, streams and waiting signals stay, and a given key tells a repetition for ever.
fn forget_generation(tables: &mut Tables, run: RunId) {
    tables.attempts_mut(run).retain(|_, row| matches!(row.kind, StepKind::Published | StepKind::Emitted));
    tables.signals_mut(run).retain(|_, signal| signal.consumed_by.is_none() || !signal.key.starts_with('\u{1}'));
}
