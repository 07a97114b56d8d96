//! The writes that wait for the next batch.

use tokio::sync::mpsc;

use super::batch::{Batch, MAX_BATCH};
use super::pending_claims::PendingClaims;
use super::request::{GroupId, QueuedWrite, Reply, Request};

/// Everything that was sent and belongs to no batch yet.
pub(super) struct Queue {
    receiver: mpsc::Receiver<Request>,
    /// The writes of the next batch, without the pending claims.
    batch: Batch,
    pending_claims: PendingClaims,
    /// Claims of workers that have another claim in the batch. They wait for the batch after it: a
    /// statement makes one claim per worker, and both claims compete for the same permits.
    second_claims: Vec<QueuedWrite>,
    /// The number of groups of writes so far.
    groups: u64,
    /// A request was taken since the last batch was closed. It need not be a write.
    is_touched: bool,
}

impl Queue {
    pub(super) fn new(receiver: mpsc::Receiver<Request>) -> Self {
        Self {
            receiver,
            batch: Batch::default(),
            pending_claims: PendingClaims::default(),
            second_claims: Vec::new(),
            groups: 0,
            is_touched: false,
        }
    }

    /// Returns the number of writes in the next batch, without the pending claims.
    pub(super) fn writes(&self) -> usize {
        self.batch.writes.len()
    }

    /// Returns the pending claims, which must learn of each commit.
    pub(super) fn pending_claims(&mut self) -> &mut PendingClaims {
        &mut self.pending_claims
    }

    /// Waits for a request and takes it. Returns `false` if no sender is left.
    pub(super) async fn wait(&mut self) -> bool {
        let Some(request) = self.receiver.recv().await else { return false };
        self.take(request);
        self.take_all();
        true
    }

    /// Takes the requests that have arrived, as far as they fit into a batch. Returns `true` if any
    /// was taken since the last batch was closed.
    pub(super) fn take_all(&mut self) -> bool {
        while self.writes() < MAX_BATCH
            && let Ok(request) = self.receiver.try_recv()
        {
            self.take(request);
        }
        self.is_touched
    }

    fn take(&mut self, request: Request) {
        self.is_touched = true;
        match request {
            Request::Write(write) if self.batch.has_claim_of_its_worker(&write.write) => {
                self.second_claims.push(write);
            }
            Request::Write(write) => self.batch.push(write),
            Request::Together(writes) => {
                self.groups += 1;
                for (write, reply) in writes {
                    self.batch.push(QueuedWrite { write, reply: Reply::Grouped(reply, GroupId(self.groups)) });
                }
            }
            Request::WaitClaim(claim) => self.pending_claims.add(claim),
            Request::FlushClaims => self.pending_claims.flush(),
        }
    }

    /// Closes the batch: returns all its writes, and the pending claims that need not wait any
    /// longer. Reserves room for a next batch of the same size.
    pub(super) fn close_batch(&mut self) -> Batch {
        let next = Batch::with_capacity(self.writes());
        let mut batch = std::mem::replace(&mut self.batch, next);
        for claim in self.pending_claims.take_ready(&batch.writes) {
            batch.push(claim);
        }
        self.is_touched = false;
        for claim in std::mem::take(&mut self.second_claims) {
            // A claim of a worker that is gone would take runs that nothing drives.
            if !claim.reply.is_closed() {
                self.take(Request::Write(claim));
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::pending_claims::tests::{claim, queued};
    use crate::model::WorkerId;

    #[test]
    fn a_worker_claims_once_in_a_batch() {
        let (sender, receiver) = mpsc::channel(9);
        let mut queue = Queue::new(receiver);
        let (first, other) = (WorkerId::generate(), WorkerId::generate());
        let mut answers = Vec::new();
        for worker in [first, first, other, first] {
            let (claim, answer) = queued(claim(worker));
            assert!(sender.try_send(Request::Write(claim)).is_ok());
            answers.push(answer);
        }
        let mut claiming = || {
            let is_touched = queue.take_all();
            let batch = queue.close_batch();
            (is_touched, batch.writes.iter().filter_map(|write| Some(write.as_claim()?.worker)).collect::<Vec<_>>())
        };
        assert_eq!(claiming(), (true, vec![first, other]));
        // The sender of the last claim goes away, so that claim is left out.
        answers.pop();
        assert_eq!(claiming(), (true, vec![first]));
        assert_eq!(claiming(), (false, vec![]));
    }

    #[test]
    fn a_request_without_a_write_counts_until_the_batch_is_closed() {
        let (sender, receiver) = mpsc::channel(1);
        let mut queue = Queue::new(receiver);
        assert!(!queue.take_all());
        assert!(sender.try_send(Request::FlushClaims).is_ok());
        assert!(queue.take_all() && queue.take_all());
        assert!(queue.close_batch().writes.is_empty() && !queue.take_all());
    }
}
