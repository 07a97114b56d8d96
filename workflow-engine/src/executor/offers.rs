use std::collections::HashMap;

use crate::model::WorkerId;
use crate::store::{Outcome, Write};

use super::Request;

/// Claims of workers that have nothing to do. Each waits for the next batch that makes a run due and is committed with it: so
/// a run that is started in the process of an idle worker is claimed by the commit that starts it.
#[derive(Default)]
pub(super) struct Offers {
    waiting: Vec<Request>,
    /// The offers are to be committed now: a run may be due by other means.
    called_in: bool,
    /// Commits that made runs due.
    due_commits: u64,
    /// How many of them each worker's last claim knew.
    known: HashMap<WorkerId, u64>,
}

impl Offers {
    /// A worker that waits.
    pub(super) fn add(&mut self, offer: Request) {
        self.waiting.push(offer);
    }

    /// From now on no offer waits for a due run.
    pub(super) fn call_in(&mut self) {
        self.called_in = true;
    }

    /// The offers, if they need not wait any longer than until these writes are committed.
    pub(super) fn join(&mut self, writes: &[Write]) -> Vec<Request> {
        let called_in = std::mem::take(&mut self.called_in);
        // A worker that has gone would claim for nobody.
        self.waiting.retain(|offer| !offer.reply.is_closed());
        let makes_due = writes.iter().any(Write::makes_due);
        if called_in || makes_due || self.waiting.iter().any(|offer| self.came_late(offer)) {
            return std::mem::take(&mut self.waiting);
        }
        Vec::new()
    }

    /// Whether a run has become due after the worker's last claim and before its offer came.
    fn came_late(&self, offer: &Request) -> bool {
        let Write::Claim(request) = &offer.write else { return true };
        self.known.get(&request.worker).copied().unwrap_or(0) < self.due_commits
    }

    /// Notes what a commit has made due, and which claims knew of it.
    pub(super) fn committed(&mut self, writes: &[Write], outcomes: &[Outcome]) {
        let mut outcomes_by_write = writes.iter().zip(outcomes);
        if outcomes_by_write.any(|(write, outcome)| write.makes_due() && !outcome.changed_nothing()) {
            self.due_commits += 1;
        }
        for (write, outcome) in writes.iter().zip(outcomes) {
            if let (Write::Claim(request), Outcome::Claimed(_)) = (write, outcome) {
                self.known.insert(request.worker, self.due_commits);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::executor::Reply;
    use crate::model::Timestamp;
    use crate::store::{ClaimRequest, Claimed};

    pub(in crate::executor) fn claim(worker: WorkerId) -> Write {
        Write::Claim(ClaimRequest { worker, lanes: Vec::new(), limit: 1, lease: Duration::from_secs(1) })
    }

    pub(in crate::executor) fn request(write: Write) -> (Request, oneshot::Receiver<Outcome>) {
        let (reply, outcome) = oneshot::channel();
        (Request { write, reply: Reply::Outcome(reply) }, outcome)
    }

    fn due() -> Write {
        Write::ReleaseUnknown { worker: WorkerId::generate(), known: Vec::new() }
    }

    fn joined(offers: &mut Offers, writes: Vec<Write>) -> usize {
        offers.join(&writes).len()
    }

    fn nothing() -> Outcome {
        Outcome::Claimed(Claimed { runs: Vec::new(), now: Timestamp::from_micros(0) })
    }

    #[test]
    fn a_pending_claim_waits_for_a_due_run() {
        let mut offers = Offers::default();
        let (offer, _answer) = request(claim(WorkerId::generate()));
        offers.add(offer);
        assert_eq!(joined(&mut offers, vec![]), 0);
        assert_eq!(joined(&mut offers, vec![Write::Pause(uuid::Uuid::nil().into())]), 0);
        assert_eq!(joined(&mut offers, vec![due()]), 1);
        assert_eq!(joined(&mut offers, vec![due()]), 0);
    }

    #[test]
    fn an_offer_is_called_in() {
        let mut offers = Offers::default();
        offers.call_in();
        assert_eq!(joined(&mut offers, vec![]), 0);
        let (offer, _answer) = request(claim(WorkerId::generate()));
        offers.add(offer);
        assert_eq!(joined(&mut offers, vec![]), 0, "what was called in before was another");
        offers.call_in();
        assert_eq!(joined(&mut offers, vec![]), 1);
    }

    #[test]
    fn an_offer_does_not_wait_for_what_came_before_it_and_after_the_last_claim() {
        let mut offers = Offers::default();
        let worker = WorkerId::generate();
        offers.committed(&[due(), claim(worker)], &[Outcome::Changed(1), nothing()]);
        offers.add(request(claim(worker)).0);
        let (offer, _answer) = request(claim(worker));
        offers.add(offer);
        assert_eq!(joined(&mut offers, vec![]), 0);
        offers.committed(&[due()], &[Outcome::Changed(0)]);
        assert_eq!(joined(&mut offers, vec![]), 0, "it changed nothing");
        offers.committed(&[due()], &[Outcome::Changed(1)]);
        assert_eq!(joined(&mut offers, vec![]), 1);
    }

    #[test]
    fn a_worker_that_has_gone_claims_nothing() {
        let mut offers = Offers::default();
        let (offer, answer) = request(claim(WorkerId::generate()));
        offers.add(offer);
        drop(answer);
        assert_eq!(joined(&mut offers, vec![due()]), 0);
    }
}
