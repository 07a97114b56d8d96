use std::collections::BTreeSet;

use crate::model::RunId;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::CancelOutcome;
use super::EndWrite;

/// Runs that ended in a transaction, and what must be known of them: their parents are woken, and children end with them.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Whose parents are to be found.
    pub(super) parents_unknown: BTreeSet<RunId>,
    /// That may have children.
    pub(super) with_children: BTreeSet<RunId>,
    /// Parents that are known.
    pub(super) parents: BTreeSet<RunId>,
}

impl Ended {
    /// A worker ended its run.
    pub(super) fn by_worker(&mut self, write: &EndWrite) {
        self.parents.extend(write.parent_run_id);
        if write.has_children {
            self.with_children.insert(write.claim.run_id);
        }
    }

    /// What a cancel did to a run.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn by_cancel(run: RunId, outcome: CancelOutcome) -> Self {
        let mut ended = Self::default();
        if outcome == CancelOutcome::Canceled {
            ended.by_others(run);
        }
        ended
    }

    /// A run was ended by others, who know nothing about it.
    pub(super) fn by_others(&mut self, run: RunId) {
        self.parents_unknown.insert(run);
        self.with_children.insert(run);
    }
}
