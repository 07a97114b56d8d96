use std::time::Duration;

use crate::model::{Retry, RunId, StepKind, StoredError, Timestamp};

use super::external::{ChildCall, SignalWait};

/// A call of the context, identified by its number in the order of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(usize);

impl CallId {
    /// Creates the id of the call with this number.
    pub(super) fn new(index: usize) -> Self {
        Self(index)
    }

    /// Returns the call's number, from 0.
    pub fn index(self) -> usize {
        self.0
    }
}

/// The options of a step's attempts.
#[derive(Clone, Copy, Debug)]
pub struct StepOptions {
    /// The kind of the step's body.
    pub kind: StepKind,
    /// The policy that decides whether another attempt follows a failed one.
    pub retry: Retry,
    /// The longest time of one attempt.
    pub timeout: Option<Duration>,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self { kind: StepKind::Step, retry: Retry::default(), timeout: None }
    }
}

/// The end of a sleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    /// This long after the sleep begins.
    For(Duration),
    /// At this time.
    Until(Timestamp),
}

/// The next action of a polled call.
#[derive(Debug, PartialEq)]
pub enum CallPoll {
    /// Do nothing. A body that the call still has belongs to an attempt that has ended.
    Pending,
    /// Begin this attempt.
    Start {
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// Continue the attempt.
    Run,
    /// Take the outcome.
    Ended(Delivered),
}

/// An outcome on its way to the workflow.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivered {
    /// A recorded value, as JSON text.
    Recorded(String),
    /// The value that this call has produced and kept.
    Kept,
    /// An error.
    Failed(StoredError),
}

/// The work of a call that may begin.
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

/// The phase of a call. Each phase holds only what is true in it.
#[derive(Debug)]
pub(super) enum Phase {
    /// The call was made and not polled yet.
    Called,
    /// The call was polled. Its outcome is recorded at this position and waits for its turn.
    Replaying(i64),
    /// The call was polled, has no record, and waits for permission to begin.
    Idle(Work),
    /// The call waits for a seat of its limit, to begin this attempt.
    AwaitingSeat { attempt: u32, options: StepOptions },
    /// The call may begin this attempt at its next poll.
    Granted { attempt: u32, options: StepOptions },
    /// An attempt runs.
    Running(Attempt),
    /// The call waits to begin its next attempt.
    BackingOff { attempt: u32, until: Timestamp, options: StepOptions },
    /// A sleep has begun.
    Sleeping { attempt: u32, until: Timestamp, started_at: Timestamp },
    /// A wait for a signal, a decision or an event has begun.
    AwaitingSignal,
    /// A wait for the end of a child has begun.
    AwaitingChild { run_id: RunId, attempt: u32, started_at: Timestamp },
    /// The body of a transaction has ended. Its commit, which includes the outcome, is not
    /// finished.
    Committing { attempt: Attempt, completed_at: Timestamp },
    /// The outcome is final and waits for its commit or its delivery.
    Decided { outcome: Delivered, completed_at: Timestamp },
    /// The call takes this outcome at its next poll.
    Ready(Delivered),
    /// The outcome was taken, or the future of the call was dropped.
    Over,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) started_at: Timestamp,
    pub(super) options: StepOptions,
    pub(super) times_out_at: Option<Timestamp>,
    /// The time at which the attempt's `running` row is to be written; `None` once it was written.
    pub(super) shows_at: Option<Timestamp>,
}
