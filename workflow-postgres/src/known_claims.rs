//! The claims that hold as far as the executor knows: of these a plain batch need not ask.
//!
//! Whoever takes a running run away from its worker writes the row of that worker (`worker_lock.rs`). So what a batch has seen to hold,
//! holds as long as the row is the version that the batch had locked. The next batch locks the rows and compares: to ask for each
//! run again was a tenth of what PostgreSQL does for a step.
//!
//! Only plain batches add to it. Batches that go the long way, and errors, leave nothing of it.

use std::collections::{BTreeMap, HashMap};

use workflow_engine::faults::planted;
use workflow_engine::model::{Claim, RunId, WorkerId};
use workflow_engine::store::{ClaimedRun, Write};

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

    /// A plain batch was committed while the rows of its workers were these, if it has looked at them: what it asked for holds.
    pub(super) fn asked(&mut self, versions: &BTreeMap<WorkerId, String>, asked: BTreeMap<RunId, i64>) {
        if versions.is_empty() {
            return;
        }
        if *versions != self.versions {
            self.epochs.clear();
            self.versions = versions.clone();
        }
        self.epochs.extend(asked);
    }

    /// The same batch claimed these runs for this worker: they hold, unless the rows are others by now.
    pub(super) fn claimed(&mut self, versions: &BTreeMap<WorkerId, String>, worker: WorkerId, runs: &[ClaimedRun]) {
        if *versions == self.versions && versions.contains_key(&worker) {
            self.epochs.extend(runs.iter().map(|run| (run.claim.run_id, run.claim.epoch)));
        }
    }

    /// These writes are about to be committed: of the claims that they let go of it is not known from now on whether they hold.
    pub(super) fn finished(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::End(write) => drop(self.epochs.remove(&write.claim.run_id)),
                Write::Park(write) => drop(self.epochs.remove(&write.claim.run_id)),
                _ => {}
            }
        }
    }
}
