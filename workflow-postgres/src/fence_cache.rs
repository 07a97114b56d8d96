//! The claims that hold as far as the executor knows. The fast path does not ask for them again.
//!
//! A transaction that takes a running run away from its worker writes that worker's row
//! (`ownership.rs`). So a claim that a batch has seen to hold goes on to hold as long as the row is
//! the version that the batch had locked. The next batch locks the rows and compares their
//! versions.
//!
//! Only the fast path adds claims. The slow path and errors empty the cache.

use std::collections::{BTreeMap, HashMap};

use workflow_engine::faults::planted;
use workflow_engine::model::{Claim, RunId, WorkerId};
use workflow_engine::store::{ClaimedRun, Write};

use super::ownership::Workers;

/// The versions of workers' rows, as far as a batch has locked them.
pub(super) type Versions = BTreeMap<WorkerId, String>;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct FenceCache {
    epochs: HashMap<RunId, i64>,
    /// The rows of the workers when these claims held.
    versions: Versions,
}

impl FenceCache {
    /// Returns `true` if this claim holds, provided that the workers' rows still have their
    /// versions.
    pub(super) fn holds(&self, claim: Claim) -> bool {
        self.epochs.get(&claim.run_id) == Some(&claim.epoch)
    }

    /// Returns the version that the row of each of these workers must have; `None` if it is
    /// unknown.
    pub(super) fn versions(&self, workers: &Workers) -> Vec<Option<&str>> {
        let version = |worker: &WorkerId| self.versions.get(worker).map(String::as_str);
        workers.ids().iter().map(version).map(|version| version.filter(|_| !planted("stale-claims"))).collect()
    }

    /// Adds claims that a committed batch has seen to hold while the rows of its workers were
    /// these.
    pub(super) fn add_checked(&mut self, versions: &Versions, checked: BTreeMap<RunId, i64>) {
        if versions.is_empty() {
            // The batch has locked no row, so another transaction may have taken these runs by now.
            return;
        }
        if *versions != self.versions {
            self.epochs.clear();
            self.versions = versions.clone();
        }
        self.epochs.extend(checked);
    }

    /// Adds claims that the same batch has made for this worker, unless the rows have changed
    /// since.
    pub(super) fn add_claimed(&mut self, versions: &Versions, worker: WorkerId, runs: &[ClaimedRun]) {
        if *versions == self.versions && versions.contains_key(&worker) {
            self.epochs.extend(runs.iter().map(|run| (run.claim.run_id, run.claim.epoch)));
        }
    }

    /// Removes the claims that these writes end. They are about to be committed.
    pub(super) fn remove_released(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::End(write) => drop(self.epochs.remove(&write.claim.run_id)),
                Write::Park(write) => drop(self.epochs.remove(&write.claim.run_id)),
                _ => {}
            }
        }
    }
}
