use tokio::time::Instant;

use crate::store::{DatabaseError, Outcome, Prepared, Write};

use super::failure::may_repeat;
use super::{Reply, Request};

/// The most payload in one batch: far below what one statement of either database can take (1 GB).
const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// Writes, and where the answer to each goes.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) writes: Vec<Write>,
    pub(super) replies: Vec<Reply>,
    /// What the store has made ready for these writes, just as they are.
    pub(super) prepared: Option<Prepared>,
}

impl Batch {
    pub(super) fn push(&mut self, Request { write, reply }: Request) {
        self.prepared = None;
        self.writes.push(write);
        self.replies.push(reply);
    }

    /// Whether this is a claim whose worker has one here.
    pub(super) fn has_claim_of_its_worker(&self, write: &Write) -> bool {
        let worker = write.as_claim().map(|request| request.worker);
        worker.is_some() && self.writes.iter().any(|other| other.as_claim().map(|request| request.worker) == worker)
    }

    /// The batch in as few parts as [`MAX_BATCH_BYTES`] allows, in their order.
    pub(super) fn in_sizes(mut self) -> Vec<Self> {
        let mut parts = Vec::new();
        while let Some(end) = self.end_of_first() {
            let rest = self.split_off(end);
            parts.push(std::mem::replace(&mut self, rest));
        }
        parts.push(self);
        parts
    }

    /// Whether it is more than one batch takes.
    pub(super) fn is_too_large(&self) -> bool {
        self.end_of_first().is_some()
    }

    /// How many writes are as much as one batch takes, if there are more. One is never too much.
    fn end_of_first(&self) -> Option<usize> {
        let mut bytes = 0;
        let too_much = |write: &Write| {
            bytes += write.payload_bytes();
            bytes > MAX_BATCH_BYTES
        };
        self.writes.iter().position(too_much).map(|end| end.max(1)).filter(|end| *end < self.writes.len())
    }

    pub(super) fn halves(mut self) -> (Self, Self) {
        let second = self.split_off(self.writes.len() / 2);
        (self, second)
    }

    fn split_off(&mut self, at: usize) -> Self {
        self.prepared = None;
        Self { writes: self.writes.split_off(at), replies: self.replies.split_off(at), prepared: None }
    }

    /// After a failure whose effect is unknown, claims are answered with it rather than repeated.
    pub(super) fn give_up_claims(&mut self, error: &DatabaseError) {
        if !error.kind.is_transient() {
            return;
        }
        let pairs = std::mem::take(&mut self.writes).into_iter().zip(std::mem::take(&mut self.replies));
        for (write, reply) in pairs {
            if may_repeat(&write) {
                self.writes.push(write);
                self.replies.push(reply);
            } else {
                reply.send(Outcome::refused(error), Instant::now());
            }
        }
    }

    /// The bug of this name: what is most often true is answered before it is.
    pub(super) fn answer_unwritten(&mut self) {
        for (write, reply) in self.writes.iter().zip(&mut self.replies) {
            if let Write::Attempt(_) | Write::End(_) | Write::Park(_) = write {
                let nobody = Reply::Outcome(tokio::sync::oneshot::channel().0);
                std::mem::replace(reply, nobody).send(Outcome::Applied, Instant::now());
            }
        }
    }

    pub(super) fn refuse_all(self, error: &DatabaseError) {
        for reply in self.replies {
            reply.send(Outcome::refused(error), Instant::now());
        }
    }
}
