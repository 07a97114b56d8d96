//! The claims that are known to hold: the fast path does not read the fence for them.
//!
//! Runs that the writer connection claims, ends or parks are known to it until another connection
//! commits. The data version of SQLite, read under the write lock, changes with each such commit.
//! SQLite itself uses it to find out whether the pages in its memory are old. So a cached claim is
//! certain to hold, and the cache saves the reads of the fence.
//!
//! Only the fast path updates the cache. Any other use of the connection
//! ([`Writer::lock`](super::writer::Writer::lock)), except for statistics, and any error empties
//! it.

use std::collections::HashMap;

use workflow_engine::faults::planted;
use workflow_engine::model::{Claim, RunId};
use workflow_engine::store::Asked;
use workflow_engine::store::{ClaimedRun, Write};

/// The number of checks without a commit of another connection before the cache is used again. If
/// other connections commit often, batches that rely on the cache would often be repeated.
const QUIET_LOOKS: u32 = 16;

/// Known claims; see the [module](self).
#[derive(Debug, Default)]
pub(super) struct FenceCache {
    epochs: HashMap<RunId, i64>,
    /// Checks since another connection committed.
    quiet_looks: u32,
}

impl FenceCache {
    /// Returns `true` if this claim is known to hold.
    pub(super) fn holds(&self, claim: Claim) -> bool {
        self.quiet_looks >= QUIET_LOOKS && self.epochs.get(&claim.run_id) == Some(&claim.epoch)
    }

    /// Returns `true` if the last check found no commit of another connection.
    pub(super) fn is_undisturbed(&self) -> bool {
        self.quiet_looks > 0
    }

    /// Notes a check, and whether it found commits of other connections.
    pub(super) fn looked(&mut self, others: bool) {
        if others && !planted("stale-claims") {
            self.epochs.clear();
            self.quiet_looks = 0;
        } else {
            self.quiet_looks = self.quiet_looks.saturating_add(1);
        }
    }

    /// Notes that the fast path committed a batch: the claims that it checked or took hold, and the
    /// runs that it ended or parked have no claim.
    pub(super) fn committed(&mut self, writes: &[Write], asked: Asked, claimed: &[ClaimedRun]) {
        self.epochs.extend(asked.into_iter().filter_map(|(run, epoch)| Some((run, epoch?))));
        for write in writes {
            match write {
                Write::End(write) => drop(self.epochs.remove(&write.claim.run_id)),
                Write::Park(write) => drop(self.epochs.remove(&write.claim.run_id)),
                _ => {}
            }
        }
        self.epochs.extend(claimed.iter().map(|run| (run.claim.run_id, run.claim.epoch)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(epoch: i64) -> Claim {
        Claim { run_id: uuid::Uuid::nil().into(), epoch }
    }

    fn quiet(cache: &mut FenceCache, looks: u32) {
        (0..looks).for_each(|_| cache.looked(false));
    }

    #[test]
    fn cached_claims_hold_after_a_while_and_until_others_commit() {
        let mut cache = FenceCache::default();
        cache.committed(&[], Asked::from([(claim(3).run_id, Some(3))]), &[]);
        quiet(&mut cache, QUIET_LOOKS - 1);
        assert!(!cache.holds(claim(3)));
        quiet(&mut cache, 1);
        assert!(cache.holds(claim(3)) && !cache.holds(claim(2)) && !cache.holds(claim(4)));
        cache.looked(true);
        assert!(!cache.holds(claim(3)));
        quiet(&mut cache, QUIET_LOOKS);
        assert!(!cache.holds(claim(3)), "the claim is checked again");
    }
}
