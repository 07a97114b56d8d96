//! Runs with a single key.

use workflow_engine::model::{MovedRun, NewRun, Run, RunId, RunStatus, SingleKey, SingleUntil, Timestamp};
use workflow_engine::store::{FoundSingle, SingleRun};

use super::start;
use super::tables::Tables;

/// Finds a run, and the run that has its key.
pub(super) fn find(tables: &Tables, single: &SingleRun<'_>) -> FoundSingle {
    let holds = |run: &&Run| {
        run.lane.workflow == single.workflow
            && run.single.as_ref() == Some(single.key)
            && single.key.is_held(run.status, run.epoch)
    };
    let holder = tables.runs().find(holds).map(|run| run.id);
    FoundSingle { exists: tables.run(single.run_id).is_some(), holder }
}

/// Gives a run this key, or none.
pub(super) fn set_key(tables: &mut Tables, run: RunId, key: Option<&SingleKey>) {
    tables.update(run, |run| run.single = key.cloned());
}

/// Gives a run that has not begun the values of a new one.
pub(super) fn move_run(tables: &mut Tables, moved: &MovedRun, new: &NewRun, now: Timestamp) {
    start::add_gate(tables, new.place());
    tables.update(moved.id, |run| {
        let start = new.start.resolve(now);
        let latest = moved.max_wait.map_or(start, |wait| run.created_at + wait);
        run.lane = new.lane.clone();
        run.gate = new.gate.clone();
        run.priority = new.rank().priority();
        run.input = moved.input.clone();
        run.tags = new.tags.clone();
        run.deadline_at = new.deadline.map(|deadline| deadline.resolve(now));
        run.available_at = start.min(latest).min(run.deadline_at.unwrap_or(start));
    });
}

/// Returns the workflow and the key that a run gets back if it is revived after this attempt.
pub(super) fn read_lost(tables: &Tables, run: RunId, attempt: i64) -> Option<(String, SingleKey)> {
    let run = tables.run(run).filter(|run| run.status == RunStatus::Failed && run.attempt == attempt)?;
    let key = run.single.clone().filter(|key| key.until == SingleUntil::End || run.epoch == 0)?;
    Some((run.lane.workflow.clone(), key))
}
