use crate::model::{Claim, RunStatus};

use super::fence::Fence;
use super::outcomes::Outcomes;
use super::sorted_batch::{Indexed, SortedBatch};
use super::{ContinueWrite, EndWrite, Outcome, ParkWrite, RetryWrite};

/// The writes of a batch that end their claims, each kind sorted by run. No run is in them twice.
#[derive(Debug, Default)]
pub struct Releases<'w> {
    /// Runs that end.
    pub ends: Vec<&'w EndWrite>,
    /// Runs that are parked.
    pub parks: Vec<&'w ParkWrite>,
    /// Runs that begin their next generation.
    pub continues: Vec<&'w ContinueWrite>,
    /// Runs that get another attempt.
    pub retries: Vec<&'w RetryWrite>,
}

impl<'w> Releases<'w> {
    /// Decides which writes release their claims and sets the outcome of each. The fence then knows
    /// those claims as released, so a second write of such a claim is a duplicate.
    pub fn of(batch: &SortedBatch<'w>, fence: &mut Fence, outcomes: &mut Outcomes) -> Self {
        Self {
            ends: passing(&batch.ends, |write| (write.claim, write.end.status()), fence, outcomes),
            parks: passing(&batch.parks, |write| (write.claim, RunStatus::Parked), fence, outcomes),
            continues: passing(&batch.continues, |write| (write.claim, RunStatus::Pending), fence, outcomes),
            retries: passing(&batch.retries, |write| (write.claim, RunStatus::Pending), fence, outcomes),
        }
    }
}

/// The writes of a kind that the fence passes. `release`: the claim that a write ends, and the
/// status that its run gets.
fn passing<'w, W>(
    kind: &Indexed<&'w W>,
    release: fn(&W) -> (Claim, RunStatus),
    fence: &mut Fence,
    outcomes: &mut Outcomes,
) -> Vec<&'w W> {
    let mut passing = Vec::with_capacity(kind.len());
    for (index, write) in kind.iter() {
        let (claim, status) = release(write);
        let refusal = fence.refusal(claim);
        if refusal.is_none() {
            fence.release(claim, status);
            passing.push(write);
        }
        outcomes.set(index, refusal.unwrap_or(Outcome::Applied));
    }
    passing.sort_unstable_by_key(|write| release(write).0);
    passing
}
