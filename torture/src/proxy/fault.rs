//! What the proxy does to a connection, and when.

use std::fmt;
use std::time::Duration;

/// What happens to a connection, or to the whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Both ends are told that the other has hung up; the frame at hand is not passed on.
    Close,
    /// Both ends get a reset; the frame at hand is not passed on.
    Reset,
    /// Half of the frame at hand is passed on, then both ends get a reset.
    Torn,
    /// Nothing passes any more, with all sockets open. New connections are accepted and never answered, until the path heals;
    /// the connection that was hit never speaks again.
    Hole,
    /// The connection stands still for so long, then goes on.
    Stall(Duration),
    /// Each frame of each connection comes so much later, until the path heals.
    Slow(Duration),
    /// Each byte of each connection is sent alone, until the path heals.
    Bytes,
}

impl Fault {
    /// Its name without its numbers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Reset => "reset",
            Self::Torn => "torn",
            Self::Hole => "hole",
            Self::Stall(_) => "stall",
            Self::Slow(_) => "slow",
            Self::Bytes => "bytes",
        }
    }
}

/// When it happens. Only to a connection that is at work: a fault that hits an idle one proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When the next COMMIT comes from a client, which the server has not seen then: nothing was committed.
    Commit,
    /// When the server's answer to the next COMMIT comes back: all was committed, and its client does not know.
    CommitReply,
    /// When so many more frames have passed in either direction on connections that are at work: between the first byte of
    /// a request, that of the connection itself included, and its last answer, or within a transaction.
    Frame(u32),
}

impl Moment {
    /// Whether a COMMIT is what is hit.
    #[must_use]
    pub const fn is_commit(self) -> bool {
        matches!(self, Self::Commit | Self::CommitReply)
    }
}

/// A fault that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// What.
    pub fault: Fault,
    /// When.
    pub moment: Moment,
    /// Whether a transaction was open on the connection.
    pub in_transaction: bool,
}

impl fmt::Display for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = match self.moment {
            Moment::Commit => "commit",
            Moment::CommitReply => "commit reply",
            Moment::Frame(_) if self.in_transaction => "transaction",
            Moment::Frame(_) => "request",
        };
        write!(f, "{} at {moment}", self.fault.name())
    }
}
