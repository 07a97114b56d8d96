//! Claims of due runs.

use std::collections::BTreeSet;

use workflow_engine::model::{Claim, RunId, RunStatus, Timestamp};
use workflow_engine::store::{ClaimRequest, Claimed, ClaimedRun};

use super::tables::Tables;

/// Claims due runs, the longest due first.
pub(super) fn claim(tables: &mut Tables, request: &ClaimRequest, now: Timestamp) -> Claimed {
    let due = find_due(tables, request, now);
    let runs = due.into_iter().filter_map(|id| take(tables, request, id, now)).collect();
    Claimed { runs, now }
}

/// Returns the runs that have been due longest, over all lanes.
fn find_due(tables: &Tables, request: &ClaimRequest, now: Timestamp) -> Vec<RunId> {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let mut due: BTreeSet<(Timestamp, RunId)> = BTreeSet::new();
    for lane in &request.lanes {
        due.extend(tables.due(lane).take_while(|(at, _)| *at <= now).take(limit));
    }
    due.into_iter().take(limit).map(|(_, id)| id).collect()
}

fn take(tables: &mut Tables, request: &ClaimRequest, id: RunId, now: Timestamp) -> Option<ClaimedRun> {
    tables.update(id, |run| {
        run.epoch += 1;
        (run.status, run.worker_id, run.available_at) = (RunStatus::Running, Some(request.worker), now + request.lease);
        ClaimedRun {
            claim: Claim { run_id: id, epoch: run.epoch },
            lane: run.lane.clone(),
            input: run.input.clone(),
            wakes: run.wakes,
            crashes: run.crashes,
            lone_crashes: run.lone_crashes,
            attempt: run.attempt,
            generation: run.generation,
            depth: run.depth,
            parent_run_id: run.parent.as_ref().map(|parent| parent.run_id),
            deadline_at: run.deadline_at,
            cancel_requested: run.cancel_requested_at.is_some(),
            started_at: *run.started_at.get_or_insert(now.max(run.created_at)),
            lease_until: run.available_at,
            error: run.error.clone(),
            unreadable: None,
        }
    })
}
