//! The words of the grammar, and the nearest one to a word that is none of them.

use std::fmt;

/// A fact about a run, as `is:` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fact {
    /// The run has not ended.
    Open,
    /// The run has ended.
    Ended,
    /// The run is paused.
    Paused,
    /// The run may be claimed now.
    Due,
    /// The run has been due for more than [`Fact::LATE_AFTER`].
    Late,
    /// The run is pending until a later time: a start, or the next attempt of the run.
    Delayed,
    /// A cancel of the run was requested, and the run has not ended.
    Canceling,
    /// The run has not ended, and a worker died while it drove the run, since the run last recorded
    /// an outcome.
    Crashed,
    /// The run is in a second or later attempt.
    Retried,
    /// Another run started the run.
    Child,
    /// The run is behind a gate of its queue.
    Gated,
    /// The run is parked with an error: it cannot continue as it is, because its code has changed,
    /// or because its worker refused it.
    Stuck,
    /// The run may be claimed now, and no live worker serves its queue, workflow and version. A
    /// database with very many versions is looked through in part, as for
    /// [`Operate::workflows`](crate::operate::Operate::workflows).
    Unserved,
    /// The run waits behind a limit. It may be claimed now, but its queue is paused, its queue or
    /// its gate is full, or the rate of one of them is used up, which holds back runs that were
    /// never claimed. Or a step of the run waits for a seat of its limit. A database with very many
    /// gates, or steps that wait, is looked through in part.
    Blocked,
}

impl Fact {
    /// All facts.
    pub const ALL: [Self; 14] = [
        Self::Open,
        Self::Ended,
        Self::Paused,
        Self::Due,
        Self::Late,
        Self::Delayed,
        Self::Canceling,
        Self::Crashed,
        Self::Retried,
        Self::Child,
        Self::Gated,
        Self::Stuck,
        Self::Unserved,
        Self::Blocked,
    ];

    /// How long a late run has been due at least.
    pub const LATE_AFTER: std::time::Duration = std::time::Duration::from_secs(60);

    /// Returns the value of `is:` that names the fact.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ended => "ended",
            Self::Paused => "paused",
            Self::Due => "due",
            Self::Late => "late",
            Self::Delayed => "delayed",
            Self::Canceling => "canceling",
            Self::Crashed => "crashed",
            Self::Retried => "retried",
            Self::Child => "child",
            Self::Gated => "gated",
            Self::Stuck => "stuck",
            Self::Unserved => "unserved",
            Self::Blocked => "blocked",
        }
    }

    /// Returns the fact whose [`Fact::as_str`] is `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fact| fact.as_str() == word)
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The names of words. A name of a tag stands behind `tag.`.
pub(super) const NAMES: [&str; 15] = [
    "status", "workflow", "queue", "version", "gate", "key", "tag", "schedule", "parent", "worker", "started", "ended",
    "duration", "is", "error",
];

/// Names of the grammar that no list can search for yet, each with what to use until then.
pub(super) const NAMES_FOR_LATER: [(&str, &str); 3] = [
    ("step", "read the histories of the runs"),
    ("input", "give the runs a tag when they are started, and search for that"),
    ("output", "search for status:succeeded, and read the outputs of the runs"),
];

/// Returns the known word that is most like this one, if it is like it at all.
pub(in crate::operate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.to_lowercase().chars().take(40).collect();
    let distances = known.into_iter().map(|known| (strsim::damerau_levenshtein(&word, known), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 && distance < nearest.len()).then_some(nearest)
}
