use serde::{Deserialize, Serialize};

use super::Timestamp;

/// How soon a run is claimed among the due runs of its workflow and version in its queue.
///
/// The priority counts until a worker first claims the run. From then on the run goes before runs
/// that have not begun, so that a run that wakes is not stuck behind a backlog. Priorities age: the
/// head start of one over another is a time, so a run of a low priority that has waited for that
/// much longer goes first. A priority never stops a run that is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Priority {
    /// As if the run had been due for one day longer.
    Urgent,
    /// As if the run had been due for 10 minutes longer.
    High,
    /// In the order in which runs are due.
    #[default]
    Normal,
    /// As if the run had become due 10 minutes later.
    Low,
}

impl Priority {
    /// Every priority, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::High, Self::Normal, Self::Low];
}

/// The order in which the due runs of a lane are claimed: by the time since which each is due, less
/// the head start of its rank. A rank is stored as its number.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rank {
    /// A worker has claimed the run before. A backlog of new runs must not keep what is under way
    /// from its end.
    Begun,
    /// The run was never claimed.
    New(Priority),
}

impl Rank {
    /// Every rank, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Begun,
        Self::New(Priority::Urgent),
        Self::New(Priority::High),
        Self::New(Priority::Normal),
        Self::New(Priority::Low),
    ];

    /// Returns the number that is stored.
    #[must_use]
    pub const fn number(self) -> i16 {
        match self {
            Self::Begun => 0,
            Self::New(Priority::Urgent) => 1,
            Self::New(Priority::High) => 2,
            Self::New(Priority::Normal) => 3,
            Self::New(Priority::Low) => 4,
        }
    }

    /// Returns the rank with this number.
    ///
    /// # Errors
    /// A sentence, if no rank has this number.
    pub fn numbered(number: i16) -> Result<Self, String> {
        let rank = Self::ALL.into_iter().find(|rank| rank.number() == number);
        rank.ok_or_else(|| format!("no rank has the number {number}"))
    }

    /// Returns the priority with which a run of this rank waits for its first claim.
    #[must_use]
    pub const fn priority(self) -> Option<Priority> {
        match self {
            Self::Begun => None,
            Self::New(priority) => Some(priority),
        }
    }

    /// Returns the time, in microseconds, by which a run of this rank counts as due earlier.
    #[must_use]
    pub const fn head_start(self) -> i64 {
        const MINUTE: i64 = 60_000_000;
        match self {
            Self::Begun | Self::New(Priority::Urgent) => 24 * 60 * MINUTE,
            Self::New(Priority::High) => 10 * MINUTE,
            Self::New(Priority::Normal) => 0,
            Self::New(Priority::Low) => -10 * MINUTE,
        }
    }

    /// Returns the time in whose order runs are claimed, for a run of this rank that is due since
    /// then.
    #[must_use]
    pub const fn order_at(self, due_at: Timestamp) -> Timestamp {
        Timestamp::from_micros(due_at.as_micros().saturating_sub(self.head_start()))
    }
}

impl From<Option<Priority>> for Rank {
    fn from(priority: Option<Priority>) -> Self {
        priority.map_or(Self::Begun, Self::New)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_found_by_its_number() {
        for rank in Rank::ALL {
            assert_eq!(Rank::numbered(rank.number()), Ok(rank));
            assert_eq!(Rank::from(rank.priority()), rank);
        }
        assert_eq!(Rank::numbered(5), Err("no rank has the number 5".to_owned()));
        assert_eq!(Rank::numbered(-1), Err("no rank has the number -1".to_owned()));
    }

    #[test]
    fn what_is_more_urgent_has_the_longer_head_start() {
        let priorities = Priority::ALL.map(|priority| Rank::New(priority).head_start());
        assert!(priorities.is_sorted_by(|first, second| first > second), "{priorities:?}");
        assert!(Rank::ALL.iter().all(|rank| rank.head_start() <= Rank::Begun.head_start()));
        assert!(Priority::ALL.is_sorted());
    }
}
