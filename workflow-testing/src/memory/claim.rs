//! Claims of due runs.

use workflow_engine::model::{Claim, RunId, RunStatus, Timestamp};
use workflow_engine::store::{
    ClaimPlace, ClaimRequest, Claimed, ClaimedRun, DueRuns, GateTurn, claim_places, take_turns,
};

use super::tables::Tables;

/// Claims due runs, from the lanes in turns.
pub(super) fn claim(
    tables: &mut Tables,
    request: &ClaimRequest,
    gates: &[GateTurn],
    kind: DueRuns,
    now: Timestamp,
) -> Claimed {
    let due = find_due(tables, request, gates, kind, now);
    let runs = due.into_iter().filter_map(|id| take(tables, request, id, now)).collect();
    Claimed { runs, held_back: Vec::new(), full_gates: Vec::new(), next_at: None, now }
}

/// Selects the first due runs of each lane and gate in turns. Returns them in the order of their
/// ranks and due times.
fn find_due(tables: &Tables, request: &ClaimRequest, gates: &[GateTurn], kind: DueRuns, now: Timestamp) -> Vec<RunId> {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let due = |place: ClaimPlace<'_>| place.turns(tables.due(&place, kind, now));
    let mut due = take_turns(claim_places(request, gates).into_iter().map(due).collect(), limit);
    due.sort_unstable();
    due.into_iter().map(|(_, id)| id).collect()
}

fn take(tables: &mut Tables, request: &ClaimRequest, id: RunId, now: Timestamp) -> Option<ClaimedRun> {
    tables.update(id, |run| {
        run.epoch += 1;
        run.priority = None;
        let taken_over = run.status == RunStatus::Running;
        (run.status, run.worker_id, run.available_at) = (RunStatus::Running, Some(request.worker), now + request.lease);
        ClaimedRun {
            claim: Claim { run_id: id, epoch: run.epoch },
            lane: run.lane.clone(),
            gate: run.gate.clone(),
            input: run.input.clone(),
            wakes: run.wakes,
            crashes: run.crashes,
            lone_crashes: run.lone_crashes,
            taken_over,
            attempt: run.attempt,
            generation: run.generation,
            depth: run.depth,
            trace: run.trace,
            parent_run_id: run.parent.as_ref().map(|parent| parent.run_id),
            deadline_at: run.deadline_at,
            cancel_requested: run.cancel_requested_at.is_some(),
            created_at: run.created_at,
            started_at: *run.started_at.get_or_insert(now.max(run.created_at)),
            lease_until: run.available_at,
            error: run.error.clone(),
            unreadable: None,
        }
    })
}
