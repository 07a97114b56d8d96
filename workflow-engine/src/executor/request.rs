//! Requests of the senders, and the places for their answers.

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::store::{Claimed, DatabaseError, DatabaseErrorKind, Outcome, Write};

/// One entry in the channel of the executor.
pub(super) enum Request {
    /// Commit this write with the next batch.
    Write(QueuedWrite),
    /// Commit these writes with the next batch, in their order.
    Together(Vec<(Write, oneshot::Sender<Outcome>)>),
    /// Commit this claim as soon as a run may be due.
    WaitClaim(QueuedWrite),
    /// Commit all pending claims now.
    FlushClaims,
}

/// Writes that were sent together, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupId(pub(super) u64);

/// A write and the place for its answer.
pub(super) struct QueuedWrite {
    pub(super) write: Write,
    pub(super) reply: Reply,
}

/// The place for the answer to a write.
pub(super) enum Reply {
    Outcome(oneshot::Sender<Outcome>),
    /// The place of a write that depends on the writes before it in its group.
    Grouped(oneshot::Sender<Outcome>, GroupId),
    Claim(oneshot::Sender<ClaimAnswer>),
}

impl Reply {
    /// Returns the group of the write, if it has one.
    pub(super) fn group(&self) -> Option<GroupId> {
        match self {
            Self::Grouped(_, group) => Some(*group),
            Self::Outcome(_) | Self::Claim(_) => None,
        }
    }

    /// Returns `true` if the sender of the write no longer waits for the answer.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Outcome(sender) | Self::Grouped(sender, _) => sender.is_closed(),
            Self::Claim(sender) => sender.is_closed(),
        }
    }

    /// Answers the sender. Without a waiting sender the answer is dropped.
    pub(super) fn send(self, outcome: Outcome, begun: Instant) {
        match self {
            Self::Outcome(sender) | Self::Grouped(sender, _) => drop(sender.send(outcome)),
            Self::Claim(sender) => {
                let outcome = match outcome {
                    Outcome::Claimed(claimed) => Ok(claimed),
                    Outcome::Refused(error) => Err(error),
                    other => {
                        Err(DatabaseError::new(DatabaseErrorKind::Other, "claim runs", format!("got {}", other.name())))
                    }
                };
                drop(sender.send(ClaimAnswer { outcome, begun }));
            }
        }
    }
}

/// The answer to a claim.
#[derive(Debug)]
pub struct ClaimAnswer {
    /// The claimed runs, or an error. After an error it is unknown whether runs were claimed.
    pub outcome: Result<Claimed, DatabaseError>,
    /// A time before the database was asked. The leases count from here, however late the answer
    /// is.
    pub begun: Instant,
}
