//! The verdict of a dry replay.

use std::fmt;

use workflow_engine::model::StoredError;
use workflow_engine::replay::{CurrentCall, Divergence, RecordedCall, Snapshot};

/// The way in which a history fits the code.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Replayed {
    /// The function ended with this result, and has asked for every recorded outcome. If the
    /// recorded run ended by its function, it ended with this result too.
    Ended(Result<String, StoredError>),
    /// The function asked for every recorded outcome, and waits for these calls, which are not
    /// recorded yet.
    Waits(Vec<CurrentCall>),
    /// The function waits for something that is not a call of its context, such as a tokio sleep or
    /// a channel. The code after that wait was not replayed.
    Blocked {
        /// Recorded outcomes that the function has not asked for.
        unasked: Vec<RecordedCall>,
    },
}

/// The outcome of a run under code that its history does not fit.
#[derive(Clone, Debug, PartialEq)]
pub enum Misfit {
    /// The run would be parked as diverged; or, if it has ended, the code would end it differently.
    Diverged(Divergence),
    /// The run would fail for good: the function panics, or does not accept its input.
    Fails(StoredError),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diverged(divergence) => divergence.fmt(f),
            Self::Fails(error) => write!(f, "the run would fail ({}): {error}", error.kind),
        }
    }
}

/// The end of one replay, before it is judged.
pub(super) enum Halt {
    /// The function ended. `before` is the recorded outcome that was delivered last.
    Ended { result: Result<String, StoredError>, before: Option<RecordedCall> },
    /// The code does not fit the history.
    Diverged(Divergence),
    /// The function waits, and no recorded outcome can be delivered.
    Waiting(Snapshot),
}
