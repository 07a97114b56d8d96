//! Counts for operators.

use std::collections::{BTreeMap, BTreeSet};

use workflow_engine::model::{Lane, Run, RunStatus, Timestamp, WorkerId};
use workflow_engine::store::{HeldRuns, RunCounts};

use super::tables::Tables;

/// See [`Store::run_counts`](workflow_engine::store::Store::run_counts).
pub(super) fn runs(tables: &Tables, at_most: u32, now: Timestamp) -> RunCounts {
    let newest = |is_asked: fn(&Run) -> bool| {
        tables.runs().rev().filter(|run| is_asked(run)).take(at_most as usize).collect::<Vec<&Run>>()
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let count = |runs: &[&Run], has: &dyn Fn(&Run) -> bool| number(runs.iter().filter(|run| has(run)).count());
    let waiting = newest(|run| matches!(run.status, RunStatus::Pending | RunStatus::Parked));
    let running = newest(|run| run.status == RunStatus::Running);
    let ended = newest(|run| matches!(run.status, RunStatus::Failed | RunStatus::Canceled));
    let stuck = newest(|run| run.status == RunStatus::Parked && run.error.is_some());
    let due = tables.runs().filter(|run| is_due(run, now)).take(at_most as usize).count();
    RunCounts {
        waiting: number(waiting.len()),
        pending: count(&waiting, &|run| run.status == RunStatus::Pending),
        parked: count(&waiting, &|run| run.status == RunStatus::Parked),
        delayed: count(&waiting, &|run| run.status == RunStatus::Pending && run.available_at > now),
        paused: count(&waiting, &|run| run.paused_at.is_some()),
        stuck: number(stuck.len()),
        due: number(due),
        running: number(running.len()),
        running_paused: count(&running, &|run| run.paused_at.is_some()),
        ended: number(ended.len()),
        failed: count(&ended, &|run| run.status == RunStatus::Failed),
    }
}

fn is_due(run: &Run, now: Timestamp) -> bool {
    let waits = matches!(run.status, RunStatus::Pending | RunStatus::Parked);
    waits && run.paused_at.is_none() && run.available_at <= now
}

/// Returns the lanes of the runs that are there. A database also keeps those of deleted runs.
pub(super) fn lanes(tables: &Tables, limit: u32) -> Vec<Lane> {
    let lanes: BTreeSet<&Lane> = tables.runs().map(|run| &run.lane).collect();
    lanes.into_iter().take(limit as usize).cloned().collect()
}

/// See [`Store::oldest_due`](workflow_engine::store::Store::oldest_due).
pub(super) fn oldest_due(tables: &Tables, queue: &str, now: Timestamp) -> Option<Timestamp> {
    let due = tables.runs().filter(|run| run.lane.queue == queue && is_due(run, now));
    due.map(|run| run.available_at).min()
}

/// See [`Store::held_runs`](workflow_engine::store::Store::held_runs).
pub(super) fn held_runs(tables: &Tables, at_most: u32) -> HeldRuns {
    let mut by_worker: BTreeMap<WorkerId, u32> = BTreeMap::new();
    let mut held = HeldRuns::default();
    for run in tables.runs().filter(|run| run.status == RunStatus::Running).take(at_most as usize) {
        held.runs += 1;
        if let Some(worker) = run.worker_id {
            *by_worker.entry(worker).or_default() += 1;
        }
    }
    held.by_worker = by_worker.into_iter().collect();
    held
}
