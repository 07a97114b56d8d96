//! The claims that hold as far as the writer connection knows: of these a plain batch need not ask.
//!
//! Who claims a run, ends it or parks it by this connection knows what it is from then on, until somebody else commits. SQLite
//! says whether somebody has: the data version, read under the write lock, is another then (it is what tells SQLite itself that
//! the pages in its memory are old). So this is no guess. To ask was a twelfth of the time of SQLite's thread.
//!
//! Only plain batches keep it up to date. Whoever else uses the connection takes it away ([`Writer::lock`](super::writer::Writer::lock)),
//! and so does an error.

use std::collections::HashMap;

use workflow_engine::faults::planted;
use workflow_engine::model::{Claim, RunId};
use workflow_engine::store::Asked;
use workflow_engine::store::{ClaimedRun, Write};

/// After a commit of somebody else, so many looks without another: where others commit often, a batch that relied on what was
/// known would often be done again.
const QUIET_LOOKS: u32 = 16;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct FenceCache {
    epochs: HashMap<RunId, i64>,
    /// Looks since somebody else committed.
    quiet_looks: u32,
}

impl FenceCache {
    /// Whether this claim is known to hold.
    pub(super) fn holds(&self, claim: Claim) -> bool {
        self.quiet_looks >= QUIET_LOOKS && self.epochs.get(&claim.run_id) == Some(&claim.epoch)
    }

    /// Whether nobody had committed when the connection looked last.
    pub(super) fn is_undisturbed(&self) -> bool {
        self.quiet_looks > 0
    }

    /// The connection has looked whether others had committed.
    pub(super) fn looked(&mut self, others: bool) {
        if others && !planted("stale-claims") {
            self.epochs.clear();
            self.quiet_looks = 0;
        } else {
            self.quiet_looks = self.quiet_looks.saturating_add(1);
        }
    }

    /// A plain batch was committed: what it asked for holds, and so does what it claimed; what it ended or parked does not.
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
    fn what_was_asked_for_is_known_after_a_while_and_until_others_commit() {
        let mut cache = FenceCache::default();
        cache.committed(&[], Asked::from([(claim(3).run_id, Some(3))]), &[]);
        quiet(&mut cache, QUIET_LOOKS - 1);
        assert!(!cache.holds(claim(3)));
        quiet(&mut cache, 1);
        assert!(cache.holds(claim(3)) && !cache.holds(claim(2)) && !cache.holds(claim(4)));
        cache.looked(true);
        assert!(!cache.holds(claim(3)));
        quiet(&mut cache, QUIET_LOOKS);
        assert!(!cache.holds(claim(3)), "it is asked for again");
    }
}
