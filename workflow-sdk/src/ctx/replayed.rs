//! The verdict of a dry replay.

use std::fmt;

use workflow_engine::model::StoredError;
use workflow_engine::replay::{CurrentCall, Divergence, MAX_LISTED, RecordedCall, Snapshot, write_rest};

/// How a history fits the code.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Replayed {
    /// The function ended with this, and has asked for everything that is recorded. Where the run has ended too, it ended so.
    Ended(Result<String, StoredError>),
    /// Everything recorded was asked for; the function waits for these calls, which are not recorded yet.
    Waits(Vec<CurrentCall>),
    /// Calls were added before recorded ones.
    Added(Added),
    /// The function waits, but for no call of its context: a bare sleep of tokio, a channel. What comes after it was not
    /// replayed.
    Blocked {
        /// Recorded outcomes that it has not asked for so far.
        unasked: Vec<RecordedCall>,
    },
}

/// Calls that the code makes before it comes to recorded ones.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Added {
    /// The calls.
    pub calls: Vec<CurrentCall>,
    /// Recorded outcomes that were not asked for before them.
    pub before: Vec<RecordedCall>,
    /// Whether a replay on made-up values for the new calls has come to all that is recorded. If not, none of the values that
    /// were tried was one of their types: they may be additions, or may stand in the place of recorded calls.
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
            write!(f, "  fits:     past the new calls the code asks for all that is recorded")
        } else {
            write!(f, "  unknown:  whether the code asks for what is recorded once the new calls have run")
        }
    }
}

/// What would become of a run under code that its history does not fit.
#[derive(Clone, Debug, PartialEq)]
pub enum Misfit {
    /// The run would be parked as diverged; or, if it has ended, the code would end it otherwise.
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
    /// The code made a call that the history contradicts.
    Diverged(Divergence),
    /// The function waits, and no recorded outcome can be delivered.
    Waiting(Snapshot),
}
