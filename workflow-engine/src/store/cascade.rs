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
}

impl Ended {
    /// Adds a run that its worker ended.
    pub(super) fn by_worker(&mut self, write: &EndWrite) {
        self.parents.extend(write.parent_run_id);
        if write.has_children {
            self.with_children.insert(write.claim.run_id);
        }
    }

    /// Adds a run that was ended without its worker, so nothing is known of its parent and
    /// children.
    pub(super) fn without_worker(&mut self, run: RunId) {
        self.parents_unknown.insert(run);
        self.with_children.insert(run);
    }
}

/// Wakes the parents of runs that ended, and cancels the children that are to end with them.
pub(super) async fn cascade<T: BatchTarget>(target: &mut T, ended: Ended) -> Result<(), T::Error> {
    let Ended { parents_unknown, with_children, mut parents } = ended;
    if !parents_unknown.is_empty() {
        parents.extend(target.find_parents(&parents_unknown).await?);
    }
    if !parents.is_empty() {
        target.wake_runs(&parents).await?;
    }
    if !with_children.is_empty() {
        target.cancel_children(&with_children).await?;
    }
    Ok(())
}
