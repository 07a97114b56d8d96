use std::collections::BTreeSet;

use super::CancelOutcome;
use super::EndWrite;
use crate::model::RunId;

/// Runs that ended in a transaction, and what must be known of them: their parents are woken, and children end with them.
#[derive(Debug, Default)]
pub struct Ended {
    /// Whose parents are to be found.
    pub parents_unknown: BTreeSet<RunId>,
    /// That may have children.
    pub with_children: BTreeSet<RunId>,
    /// Parents that are known.
    pub parents: BTreeSet<RunId>,
}

impl Ended {
    /// A worker ended its run.
    pub fn by_worker(&mut self, write: &EndWrite) {
        self.parents.extend(write.parent_run_id);
        if write.has_children {
            self.with_children.insert(write.claim.run_id);
        }
    }

    /// What a cancel did to a run.
    pub fn by_cancel(run: RunId, outcome: CancelOutcome) -> Self {
        let mut ended = Self::default();
        if outcome == CancelOutcome::Canceled {
            ended.by_others(run);
        }
        ended
    }

    /// A run was ended by others, who know nothing about it.
    pub fn by_others(&mut self, run: RunId) {
        self.parents_unknown.insert(run);
        self.with_children.insert(run);
    }
}
