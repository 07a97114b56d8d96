//! The verdict of a dry replay.

use std::fmt;

use workflow_engine::model::StoredError;
use workflow_engine::replay::{CurrentCall, Divergence, MAX_LISTED, RecordedCall, Snapshot, write_rest};

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
    /// The code makes new calls before it asks for recorded outcomes.
    Added(Added),
    /// The function waits for something that is not a call of its context, such as a tokio sleep or
    /// a channel. The code after that wait was not replayed.
    Blocked {
        /// Recorded outcomes that the function has not asked for.
        unasked: Vec<RecordedCall>,
    },
}

/// New calls that the code makes before it asks for recorded outcomes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Added {
    /// The new calls.
    pub calls: Vec<CurrentCall>,
    /// Recorded outcomes that were not asked for before the new calls.
    pub before: Vec<RecordedCall>,
    /// `true` if a replay with guessed values of the new calls asked for every recorded outcome. If
    /// `false`, no guess was conclusive, usually because none had the type of a new call. The new
    /// calls may then be additions, or may replace recorded calls.
    pub confirmed: bool,
}

impl fmt::Display for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "calls were added before recorded ones")?;
        for call in self.calls.iter().take(MAX_LISTED) {
            writeln!(f, "  added:    {call}")?;
            writeln!(f, "              --> {}", call.location)?;
        }
        write_rest(f, self.calls.len())?;
        for call in self.before.iter().take(MAX_LISTED) {
            writeln!(f, "  recorded: {call}")?;
        }
        write_rest(f, self.before.len())?;
        if self.confirmed {
            write!(f, "  fits:     after the new calls, the code asks for every recorded outcome")
        } else {
            write!(f, "  unknown:  whether the code asks for the recorded outcomes after the new calls")
        }
    }
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
