//! The room of queues and gates that bound how many runs wait.

use std::collections::BTreeSet;

use workflow_engine::model::{QueueLimits, Run, RunStatus};
use workflow_engine::store::{Bounds, WaitingPlace};

use super::tables::Tables;

/// Returns the bounds of these queues.
pub(super) fn bounds(tables: &Tables, queues: &BTreeSet<&str>) -> Bounds {
    let limits = queues.iter().filter_map(|queue| Some(((*queue).to_owned(), tables.queues().get(*queue)?.limits())));
    let has_bounds =
        |limits: &(String, QueueLimits)| limits.1.max_waiting.is_some() || limits.1.per_gate.max_waiting.is_some();
    Bounds { limits: limits.filter(has_bounds).collect(), busy: BTreeSet::new() }
}

/// Counts the runs that wait in this place and have not begun, to at most its bound.
pub(super) fn count(tables: &Tables, place: &WaitingPlace<'_>) -> u32 {
    let waits = |run: &&Run| {
        matches!(run.status, RunStatus::Pending | RunStatus::Parked)
            && run.paused_at.is_none()
            && run.priority.is_some()
            && run.lane.queue == place.queue
            && place.gate.is_none_or(|gate| run.gate.as_deref() == Some(gate))
    };
    let waiting = tables.runs().filter(waits).take(place.max_waiting as usize).count();
    u32::try_from(waiting).unwrap_or(u32::MAX)
}
