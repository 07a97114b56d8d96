//! What was sent to the executor, and how long it waits for more.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::store::Write;

use super::batch::Batch;
use super::offers::Offers;
use super::{Message, Request};

/// The largest batch: bounds the memory of a statement and the time that one commit takes.
const MAX_BATCH: usize = 4096;

/// The longest that the writer gathers, however long the last commit took: that may have been an outage of the database.
const LONGEST_GATHER: Duration = Duration::from_millis(5);

/// How often the writer looks whether enough has come.
const LOOK: Duration = Duration::from_micros(50);

/// How the writer waits for those who are about to send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gather {
    /// On its own thread, which may sleep.
    Asleep,
    /// Not at all: those for whom it would wait run on the same thread.
    Never,
}

/// What was sent and is not committed yet.
pub(super) struct Queue {
    receiver: mpsc::Receiver<Message>,
    batch: Batch,
    pub(super) offers: Offers,
    /// Claims whose worker has another one in the batch. They wait for the next one: permits come free by both, and two claims are more than
    /// one statement.
    second_claims: Vec<Request>,
    /// Whether anything was taken since the last batch, be it no write.
    is_touched: bool,
}

impl Queue {
    /// What is sent to this receiver.
    pub(super) fn new(receiver: mpsc::Receiver<Message>) -> Self {
        let (batch, offers) = (Batch::default(), Offers::default());
        Self { receiver, batch, offers, second_claims: Vec::new(), is_touched: false }
    }

    /// The writes, offers not among them.
    pub(super) fn waiting(&self) -> &[Write] {
        &self.batch.writes
    }

    /// How many writes there are.
    pub(super) fn writes(&self) -> usize {
        self.batch.writes.len()
    }

    /// Waits until something is sent, and takes it. `false`: nobody will ever send.
    pub(super) async fn wait(&mut self) -> bool {
        let Some(message) = self.receiver.recv().await else { return false };
        self.take(message);
        self.take_all();
        true
    }

    /// Takes what was sent, as far as it fits into a batch. `false`: nothing came since the last batch.
    pub(super) fn take_all(&mut self) -> bool {
        while self.writes() < MAX_BATCH
            && let Ok(message) = self.receiver.try_recv()
        {
            self.take(message);
        }
        self.is_touched
    }

    fn take(&mut self, message: Message) {
        self.is_touched = true;
        match message {
            Message::Write(request) if self.batch.has_claim_of_its_worker(&request.write) => {
                self.second_claims.push(request)
            }
            Message::Write(request) => self.batch.push(request),
            Message::Offer(offer) => self.offers.add(offer),
            Message::CallIn => self.offers.call_in(),
        }
    }

    /// All writes, and the offers that need not wait any longer. The next one gets as much room: mostly it needs no more.
    pub(super) fn next_batch(&mut self) -> Batch {
        let room = self.batch.writes.len();
        let room = Batch { writes: Vec::with_capacity(room), replies: Vec::with_capacity(room), prepared: None };
        let mut batch = std::mem::replace(&mut self.batch, room);
        self.offers.join(&batch.writes).into_iter().for_each(|offer| batch.push(offer));
        self.is_touched = false;
        for claim in std::mem::take(&mut self.second_claims) {
            // A worker that has gone would claim for nobody.
            if !claim.reply.is_closed() {
                self.take(Message::Write(claim));
            }
        }
        batch
    }
}

/// What the last commit was.
#[derive(Clone, Copy, Default)]
pub(super) struct Commit {
    pub(super) writes: usize,
    pub(super) took: Duration,
}

impl Commit {
    /// How many writes are enough for the next one, and how long it waits for them at most.
    pub(super) fn to_gather(self) -> (usize, Duration) {
        (self.writes / 4, (self.took / 2).min(LONGEST_GATHER))
    }
}

/// Takes what those send who are about to: the answers to the last commit have just woken many drives, and to commit for the
/// first of them alone would make the others wait for two commits. A quarter of them is enough: while these commit, the others
/// run. With half, the database rested twice as long between two commits. Nobody waits for more than half of what the last commit
/// took, or [`LONGEST_GATHER`], and a lone sender not at all.
///
/// The thread is the writer's own, so it may sleep; the runtime's timer is too coarse for this.
pub(super) fn gather(queue: &mut Queue, last: Commit) {
    let (enough, at_most) = last.to_gather();
    let until = Instant::now() + at_most;
    while queue.writes() < enough && Instant::now() < until {
        std::thread::sleep(LOOK);
        queue.take_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::offers::tests::{claim, request};
    use crate::model::WorkerId;

    #[test]
    fn a_worker_claims_once_in_a_batch() {
        let (sender, receiver) = mpsc::channel(9);
        let mut queue = Queue::new(receiver);
        let (first, other) = (WorkerId::generate(), WorkerId::generate());
        let mut answers = Vec::new();
        for worker in [first, first, other, first] {
            let (claim, answer) = request(claim(worker));
            assert!(sender.try_send(Message::Write(claim)).is_ok());
            answers.push(answer);
        }
        let mut claiming = || {
            let is_touched = queue.take_all();
            let batch = queue.next_batch();
            (is_touched, batch.writes.iter().filter_map(|write| Some(write.as_claim()?.worker)).collect::<Vec<_>>())
        };
        assert_eq!(claiming(), (true, vec![first, other]));
        // Whoever has gone by then would claim for nobody.
        answers.pop();
        assert_eq!(claiming(), (true, vec![first]));
        assert_eq!(claiming(), (false, vec![]));
    }

    #[test]
    fn what_was_taken_is_there_until_the_next_batch_be_it_no_write() {
        let (sender, receiver) = mpsc::channel(1);
        let mut queue = Queue::new(receiver);
        assert!(!queue.take_all());
        assert!(sender.try_send(Message::CallIn).is_ok());
        assert!(queue.take_all() && queue.take_all());
        assert!(queue.next_batch().writes.is_empty() && !queue.take_all());
    }

    #[test]
    fn a_lone_sender_waits_for_nobody_and_nobody_waits_for_long() {
        let after = |writes, millis| Commit { writes, took: Duration::from_millis(millis) }.to_gather();
        assert_eq!(Commit::default().to_gather(), (0, Duration::ZERO));
        assert_eq!(after(3, 2).0, 0, "one write is always there");
        assert_eq!(after(500, 2), (125, Duration::from_millis(1)));
        assert_eq!(after(500, 20_000), (125, LONGEST_GATHER), "the database was away");
    }
}
