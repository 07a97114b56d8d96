use std::panic::Location;
use std::time::Duration;

use crate::model::{Retry, RunId, StepKind, StoredError, Timestamp};

use super::outside::Receiving;
use super::{ChildCall, SignalWait};

/// A call of the context: its number in the order of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(super) usize);

impl CallId {
    /// Its number, from 0.
    pub fn index(self) -> usize {
        self.0
    }
}

/// How a step is attempted.
#[derive(Clone, Copy, Debug)]
pub struct StepOptions {
    /// What kind of body it has.
    pub kind: StepKind,
    /// What follows a failed attempt.
    pub retry: Retry,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self { kind: StepKind::Step, retry: Retry::default(), timeout: None }
    }
}

/// What a sleep waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    /// So long from the moment at which it begins.
    For(Duration),
    /// This instant.
    Until(Timestamp),
}

/// What a polled call is to do.
#[derive(Debug, PartialEq)]
pub enum CallPoll {
    /// Nothing. A body that is still at hand belongs to an attempt that is over.
    Pending,
    /// Begin this attempt.
    Start {
        /// From 1.
        attempt: u32,
    },
    /// Go on with the attempt.
    Run,
    /// Take the outcome.
    Ended(Delivered),
}

/// An outcome on its way to the workflow.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivered {
    /// A recorded value, as JSON text.
    Recorded(String),
    /// The value that this call has produced itself and kept.
    Kept,
    /// An error.
    Failed(StoredError),
}

/// What a call waits for once it may start.
#[derive(Debug)]
pub(super) enum Work {
    Body(StepOptions),
    Sleep(Wait),
    Signal(SignalWait),
    Child(ChildCall),
}

impl Work {
    pub(super) fn kind(&self) -> StepKind {
        match self {
            Self::Body(options) => options.kind,
            Self::Sleep(_) => StepKind::Sleep,
            Self::Signal(wait) => wait.kind,
            Self::Child(_) => StepKind::Child,
        }
    }
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) key: String,
    pub(super) location: &'static Location<'static>,
    pub(super) phase: Phase,
    /// First polled inside of a shield: an interruption passes it by.
    pub(super) shielded: bool,
    /// A value was delivered to it.
    pub(super) succeeded: bool,
}

/// Where a call is. Each phase holds only what is true in it.
#[derive(Debug)]
pub(super) enum Phase {
    /// Made, not polled yet.
    Called,
    /// Polled; its outcome, recorded at this position, waits for its turn.
    Replaying(i64),
    /// Polled, not recorded; waits for leave to start.
    Idle(Work),
    /// May begin this attempt at the next poll.
    Granted { attempt: u32, options: StepOptions },
    /// An attempt runs.
    Running(Attempt),
    /// Waits to begin the next attempt.
    BackingOff { attempt: u32, until: Timestamp, options: StepOptions },
    /// A sleep that has begun.
    Sleeping { until: Timestamp, started_at: Timestamp },
    /// A wait for a signal or a decision.
    Receiving(Box<Receiving>),
    /// A wait for the end of a child.
    AwaitingChild { run_id: RunId, started_at: Timestamp },
    /// The body of a transaction ended; its commit, which writes the outcome too, is on its way.
    Committing { attempt: Attempt, completed_at: Timestamp },
    /// Its outcome is on its way to the database.
    Decided { outcome: Delivered, completed_at: Timestamp },
    /// Its outcome is the one to be taken at the next poll.
    Ready(Delivered),
    /// Its outcome was taken, or its future was dropped.
    Over,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) started_at: Timestamp,
    pub(super) options: StepOptions,
    pub(super) times_out_at: Option<Timestamp>,
    /// When its `running` row is to be written; `None` once it was.
    pub(super) shows_at: Option<Timestamp>,
}
