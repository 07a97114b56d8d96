//! Claims of workers that have nothing to do.
//!
//! Each pending claim waits for the next batch that makes a run due, and is committed with it. So a
//! run that is started in the process of an idle worker is claimed by the commit that starts it.

use std::collections::HashMap;

use crate::model::WorkerId;
use crate::store::{Outcome, Write};

use super::request::QueuedWrite;

/// The pending claims, and what each worker's last claim has seen.
#[derive(Default)]
pub(super) struct PendingClaims {
    claims: Vec<QueuedWrite>,
    /// All pending claims are to be committed now: a run may be due by other means than a commit.
    is_flushed: bool,
    /// The number of commits that made runs due.
    due_commits: u64,
    /// For each worker, the value of `due_commits` that its last claim has seen.
    seen: HashMap<WorkerId, u64>,
}

impl PendingClaims {
    /// Adds the claim of a worker.
    pub(super) fn add(&mut self, claim: QueuedWrite) {
        self.claims.push(claim);
    }

    /// Has the claims that are pending now committed with the next batch.
    pub(super) fn flush(&mut self) {
        self.is_flushed = true;
    }

    /// Takes all pending claims, if they need not wait any longer than for a batch of these writes.
    pub(super) fn take_ready(&mut self, writes: &[Write]) -> Vec<QueuedWrite> {
        let is_flushed = std::mem::take(&mut self.is_flushed);
        // A claim of a worker that is gone would take runs that nothing drives.
        self.claims.retain(|claim| !claim.reply.is_closed());
        let makes_due = writes.iter().any(Write::makes_due);
        if is_flushed || makes_due || self.has_late() {
            return std::mem::take(&mut self.claims);
        }
        Vec::new()
    }

    /// Returns `true` if a run has become due since the last claim of a worker that has a pending
    /// one.
    pub(super) fn has_late(&self) -> bool {
        self.claims.iter().any(|claim| self.is_late(claim))
    }

    /// Returns `true` if a run has become due since the last claim of this worker.
    fn is_late(&self, claim: &QueuedWrite) -> bool {
        let Write::Claim(request) = &claim.write else { return true };
        self.seen.get(&request.worker).copied().unwrap_or(0) < self.due_commits
    }

    /// Notes whether a commit made runs due, and which workers' claims saw that.
    pub(super) fn note_commit(&mut self, writes: &[Write], outcomes: &[Outcome]) {
        let mut outcomes_by_write = writes.iter().zip(outcomes);
        if outcomes_by_write.any(|(write, outcome)| write.makes_due() && !outcome.changed_nothing()) {
            self.due_commits += 1;
        }
        for (write, outcome) in writes.iter().zip(outcomes) {
            if let (Write::Claim(request), Outcome::Claimed(_)) = (write, outcome) {
                self.seen.insert(request.worker, self.due_commits);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::executor::request::Reply;
    use crate::model::Timestamp;
    use crate::store::{ClaimRequest, Claimed};

    pub(in crate::executor) fn claim(worker: WorkerId) -> Write {
        Write::Claim(ClaimRequest {
            worker,
            lanes: Vec::new(),
            limited: Vec::new(),
            gated: Vec::new(),
            gates_first: Vec::new(),
            limit: 1,
            lease: Duration::from_secs(1),
        })
    }

    pub(in crate::executor) fn queued(write: Write) -> (QueuedWrite, oneshot::Receiver<Outcome>) {
        let (reply, outcome) = oneshot::channel();
        (QueuedWrite { write, reply: Reply::Outcome(reply) }, outcome)
    }

    fn due() -> Write {
        Write::ReleaseUnknown { worker: WorkerId::generate(), known: Vec::new() }
    }

    fn ready(claims: &mut PendingClaims, writes: Vec<Write>) -> usize {
        claims.take_ready(&writes).len()
    }

    fn no_runs() -> Outcome {
        Outcome::Claimed(Claimed {
            runs: Vec::new(),
            held_back: Vec::new(),
            full_gates: Vec::new(),
            next_at: None,
            now: Timestamp::from_micros(0),
        })
    }

    #[test]
    fn a_claim_waits_for_a_write_that_makes_a_run_due() {
        let mut claims = PendingClaims::default();
        let (claim, _answer) = queued(claim(WorkerId::generate()));
        claims.add(claim);
        assert_eq!(ready(&mut claims, vec![]), 0);
        assert_eq!(ready(&mut claims, vec![Write::Pause(uuid::Uuid::nil().into())]), 0);
        assert_eq!(ready(&mut claims, vec![due()]), 1);
        assert_eq!(ready(&mut claims, vec![due()]), 0);
    }

    #[test]
    fn a_flush_takes_the_claims_that_are_pending() {
        let mut claims = PendingClaims::default();
        claims.flush();
        assert_eq!(ready(&mut claims, vec![]), 0);
        let (claim, _answer) = queued(claim(WorkerId::generate()));
        claims.add(claim);
        assert_eq!(ready(&mut claims, vec![]), 0, "the flush was before this claim");
        claims.flush();
        assert_eq!(ready(&mut claims, vec![]), 1);
    }

    #[test]
    fn a_claim_does_not_wait_if_a_run_became_due_after_the_last_claim() {
        let mut claims = PendingClaims::default();
        let worker = WorkerId::generate();
        claims.note_commit(&[due(), claim(worker)], &[Outcome::Changed(1), no_runs()]);
        let (pending, _answer) = queued(claim(worker));
        claims.add(pending);
        assert_eq!(ready(&mut claims, vec![]), 0);
        claims.note_commit(&[due()], &[Outcome::Changed(0)]);
        assert_eq!(ready(&mut claims, vec![]), 0, "the commit changed nothing");
        claims.note_commit(&[due()], &[Outcome::Changed(1)]);
        assert_eq!(ready(&mut claims, vec![]), 1);
    }

    #[test]
    fn a_worker_that_is_gone_claims_nothing() {
        let mut claims = PendingClaims::default();
        let (claim, answer) = queued(claim(WorkerId::generate()));
        claims.add(claim);
        drop(answer);
        assert_eq!(ready(&mut claims, vec![due()]), 0);
    }
}
