//! Crashes of runs: as a death counts them, and as the run's worker sets them.

use workflow_engine::model::{Claim, RunId, Timestamp};
use workflow_engine::store::CrashesWrite;

use super::tables::Tables;

/// Sets the crashes of a run whose claim has passed the fence.
pub(super) fn set(tables: &mut Tables, CrashesWrite { claim, crashes, lone_crashes, is_alone }: &CrashesWrite) {
    tables.update(claim.run_id, |run| (run.crashes, run.lone_crashes) = (*crashes, *lone_crashes));
    if *is_alone {
        tables.alone.insert(*claim);
    } else {
        tables.alone.remove(claim);
    }
}

/// Counts the death of the worker that held a run, and makes the run due.
pub(super) fn count(tables: &mut Tables, run: RunId, now: Timestamp) {
    let epoch = tables.run(run).map_or(0, |run| run.epoch);
    let was_alone = tables.alone.remove(&Claim { run_id: run, epoch });
    tables.update(run, |run| {
        run.available_at = run.available_at.min(now);
        run.crashes += 1;
        run.lone_crashes += i64::from(was_alone);
    });
}
