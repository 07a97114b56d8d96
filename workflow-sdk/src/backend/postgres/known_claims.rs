//! The claims that hold as far as the executor knows: of these a plain batch need not ask.
//!
//! Whoever takes a running run away from its worker writes the row of that worker (`worker_lock.rs`). So what a batch has seen to hold,
//! holds as long as the row is the version that the batch had locked. The next batch locks the rows and compares: to ask for each
//! run again was a tenth of what PostgreSQL does for a step.
//!
//! Only plain batches add to it. Batches that go the long way, and errors, leave nothing of it.

use std::collections::{BTreeMap, HashMap};

use crate::backend::Write;
use crate::model::{Claim, RunId, WorkerId};
use crate::planted::planted;

use super::worker_lock::Workers;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct KnownClaims {
    epochs: HashMap<RunId, i64>,
    /// The rows of the workers when these claims held.
    versions: BTreeMap<WorkerId, String>,
}

impl KnownClaims {
    /// Whether this claim holds, if the rows of the workers are what they were.
    pub(super) fn holds(&self, claim: Claim) -> bool {
        self.epochs.get(&claim.run_id) == Some(&claim.epoch)
    }

    /// What the rows of these workers were. `None`: that is not known.
    pub(super) fn versions(&self, workers: &Workers) -> Vec<Option<&str>> {
        let version = |worker: &WorkerId| self.versions.get(worker).map(String::as_str);
        workers.ids().iter().map(version).map(|version| version.filter(|_| !planted("stale-claims"))).collect()
    }

    /// A plain batch was committed while the rows of its workers were these, if it has looked at them: what it asked for holds, and so does
    /// what it claimed; what it ended or parked does not.
    pub(super) fn committed(
        &mut self,
        versions: BTreeMap<WorkerId, String>,
        writes: &[Write],
        asked: BTreeMap<RunId, i64>,
        claimed: &[Claim],
    ) {
        writes.iter().for_each(|write| self.finished(write));
        if versions.is_empty() {
            return;
        }
        if versions != self.versions {
            self.epochs.clear();
            self.versions = versions;
        }
        self.epochs.extend(asked);
        self.epochs.extend(claimed.iter().map(|claim| (claim.run_id, claim.epoch)));
    }

    /// This write was committed, and perhaps let go of its claim.
    pub(super) fn finished(&mut self, write: &Write) {
        match write {
            Write::End(write) => drop(self.epochs.remove(&write.claim.run_id)),
            Write::Park(write) => drop(self.epochs.remove(&write.claim.run_id)),
            _ => {}
        }
    }
}
