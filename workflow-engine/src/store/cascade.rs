//! The effects of a run's end on its parent and its children.

use std::collections::BTreeSet;

use crate::model::RunId;

use super::EndWrite;
use super::batch_target::BatchTarget;

/// Runs that ended in a transaction, with what is known of their parents and children.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Runs whose parents are to be found.
    parents_unknown: BTreeSet<RunId>,
    /// Runs that may have children.
    with_children: BTreeSet<RunId>,
    /// Parents of runs that ended.
    parents: BTreeSet<RunId>,
    /// Runs that may have open waits for events.
    with_event_waits: BTreeSet<RunId>,
}

impl Ended {
    /// Adds a run that its worker ended.
    pub(super) fn by_worker(&mut self, write: &EndWrite) {
        self.parents.extend(write.parent_run_id);
        if write.has_children {
            self.with_children.insert(write.claim.run_id);
        }
        if write.has_event_waits {
            self.with_event_waits.insert(write.claim.run_id);
        }
    }

    /// Adds the generation of a run that continues as new, or the attempt of one that is tried
    /// again. Its children go on.
    pub(super) fn part(&mut self, run: RunId) {
        self.with_event_waits.insert(run);
    }

    /// Adds a run that was ended without its worker, so nothing is known of its parent and
    /// children.
    pub(super) fn without_worker(&mut self, run: RunId) {
        self.parents_unknown.insert(run);
        self.with_children.insert(run);
        self.with_event_waits.insert(run);
    }
}

/// Wakes the parents of runs that ended, cancels the children that are to end with them, and
/// deletes their waits for events. Returns the runs that have ended without their workers.
pub(super) async fn cascade<T: BatchTarget>(target: &mut T, ended: Ended) -> Result<BTreeSet<RunId>, T::Error> {
    let Ended { parents_unknown, with_children, mut parents, with_event_waits } = ended;
    let mut without_worker = parents_unknown.clone();
    if !with_event_waits.is_empty() {
        target.delete_event_waits(&with_event_waits).await?;
    }
    if !parents_unknown.is_empty() {
        parents.extend(target.find_parents(&parents_unknown).await?);
    }
    if !parents.is_empty() {
        target.wake_runs(&parents).await?;
    }
    if !with_children.is_empty() {
        without_worker.extend(target.cancel_children(&with_children).await?);
    }
    Ok(without_worker)
}
