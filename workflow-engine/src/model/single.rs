use std::time::Duration;

use serde::Serialize;

use super::{RunId, RunStatus};

/// The moment at which a run gives its single key up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SingleUntil {
    /// When a worker claims the run for the first time: the run was started by a debounced start.
    Begin,
    /// When the run ends, however it ends.
    End,
}

impl SingleUntil {
    /// Returns the word that is stored in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::End => "end",
        }
    }

    /// Returns the moment whose [`SingleUntil::as_str`] is `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Begin, Self::End].into_iter().find(|until| until.as_str() == word)
    }
}

/// A key that at most one run of a workflow has at a time. The keys of the two moments do not meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SingleKey {
    /// The key.
    pub key: String,
    /// The moment at which the run gives the key up.
    pub until: SingleUntil,
}

impl SingleKey {
    /// Returns whether a run with this status and epoch still has the key.
    #[must_use]
    pub const fn is_held(&self, status: RunStatus, epoch: i64) -> bool {
        !status.is_terminal()
            && match self.until {
                SingleUntil::Begin => epoch == 0,
                SingleUntil::End => true,
            }
    }
}

/// The single key of a run that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSingle {
    /// The key.
    pub key: SingleKey,
    /// The effect of the start if another run has the key.
    pub taken: WhenTaken,
}

/// The effect of a start if another run has its single key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhenTaken {
    /// The start changes nothing.
    Keep,
    /// The other run is asked to cancel and loses the key, and the new run starts.
    Replace,
    /// The other run gets the lane, input, start time, deadline, priority and tags of the new one,
    /// if it is this run.
    Move(MovedRun),
}

/// A run that has not begun and is to start later, with another input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRun {
    /// The run.
    pub id: RunId,
    /// The input as JSON text. It is that of the new run, but a codec binds each to its run.
    pub input: String,
    /// The run starts at most this long after it was created. `None`: for ever later.
    pub max_wait: Option<Duration>,
}
