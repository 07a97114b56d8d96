//! The faults that the proxy can cause, and the moments at which they happen.

use std::fmt;
use std::time::Duration;

/// A fault of a connection or of the whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Both sides see that the other one has closed the connection; the current frame is not
    /// forwarded.
    Close,
    /// Both sides get a reset; the current frame is not forwarded.
    Reset,
    /// Half of the current frame is forwarded, then both sides get a reset.
    Torn,
    /// Nothing is forwarded, and all sockets stay open. New connections are accepted and never
    /// answered until the path is healed. The connection that was hit stays silent for ever.
    Hole,
    /// The connection stands still for this time, then continues.
    Stall(Duration),
    /// Each frame of each connection is delayed by this time until the path is healed.
    Slow(Duration),
    /// Each byte of each connection is sent alone until the path is healed.
    Bytes,
}

impl Fault {
    /// Returns the name of the fault without its numbers.
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

/// The moment at which a fault happens. Faults hit only active connections, because a fault on an
/// idle connection proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The next COMMIT of a client, before the server sees it: nothing was committed.
    Commit,
    /// The server's reply to the next COMMIT: everything was committed, and the client does not
    /// know it.
    CommitReply,
    /// After this many more frames in either direction on active connections. A connection is
    /// active from the first byte of a request to the last reply to it, and within a transaction.
    /// Opening the connection counts as a request.
    Frame(u32),
}

impl Moment {
    /// Returns `true` if the fault hits a COMMIT.
    #[must_use]
    pub const fn is_commit(self) -> bool {
        matches!(self, Self::Commit | Self::CommitReply)
    }
}

/// A fault that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The fault.
    pub fault: Fault,
    /// The moment at which it happened.
    pub moment: Moment,
    /// `true` if a transaction was open on the connection.
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
