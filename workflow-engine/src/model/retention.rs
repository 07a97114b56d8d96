//! How long ended runs stay in the database.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::RunStatus;

/// How long ended runs of a workflow stay, by the way in which they ended. Workers delete older
/// ones: see `Worker::retain`.
///
/// ```
/// use std::time::Duration;
/// # use workflow_engine::model::Retain;
///
/// const DAY: Duration = Duration::from_secs(24 * 3600);
/// let retain = Retain::forever().succeeded(30 * DAY).failed(90 * DAY);
/// // Canceled runs stay.
/// assert_eq!(retain, Retain::forever().failed(90 * DAY).succeeded(30 * DAY));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[must_use = "nothing is deleted before a worker gets this"]
pub struct Retain {
    #[cfg_attr(feature = "openapi", schema(value_type = Option<super::DurationDocument>))]
    succeeded: Option<Duration>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<super::DurationDocument>))]
    failed: Option<Duration>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<super::DurationDocument>))]
    canceled: Option<Duration>,
}

impl Retain {
    /// The shortest time: a minute, so that a process that waits for a result can read it.
    pub const SHORTEST: Duration = Duration::from_secs(60);
    /// The longest time: 100 years.
    pub const LONGEST: Duration = Duration::from_secs(36_525 * 24 * 3600);

    /// Keeps every ended run.
    pub const fn forever() -> Self {
        Self { succeeded: None, failed: None, canceled: None }
    }

    /// Keeps every ended run for this long after its end. Range: [`Retain::SHORTEST`] to
    /// [`Retain::LONGEST`].
    pub const fn all(after: Duration) -> Self {
        Self { succeeded: Some(after), failed: Some(after), canceled: Some(after) }
    }

    /// Keeps succeeded runs for this long after their end. Range: see [`Retain::all`].
    pub const fn succeeded(mut self, after: Duration) -> Self {
        self.succeeded = Some(after);
        self
    }

    /// Keeps failed runs for this long after their end. A deleted run cannot be tried again. Range:
    /// see [`Retain::all`].
    pub const fn failed(mut self, after: Duration) -> Self {
        self.failed = Some(after);
        self
    }

    /// Keeps canceled runs for this long after their end. Range: see [`Retain::all`].
    pub const fn canceled(mut self, after: Duration) -> Self {
        self.canceled = Some(after);
        self
    }

    /// Returns each terminal status whose runs are deleted, with the time after their end.
    pub fn limits(&self) -> impl Iterator<Item = (RunStatus, Duration)> + use<> {
        let all = [
            (RunStatus::Succeeded, self.succeeded),
            (RunStatus::Failed, self.failed),
            (RunStatus::Canceled, self.canceled),
        ];
        all.into_iter().filter_map(|(status, after)| Some((status, after?)))
    }

    /// Returns how long runs that ended with this status stay; `None`: for ever.
    #[must_use]
    pub fn limit(&self, status: RunStatus) -> Option<Duration> {
        self.limits().find(|(limited, _)| *limited == status).map(|(_, after)| after)
    }

    /// Returns the first time out of range; `None` if there is none.
    #[must_use]
    pub fn out_of_range(&self) -> Option<Duration> {
        self.limits().map(|(_, after)| after).find(|after| !(Self::SHORTEST..=Self::LONGEST).contains(after))
    }

    /// Keeps runs as long as the one that keeps them longer.
    fn longest(self, other: Self) -> Self {
        let longest = |one: Option<Duration>, other| Some(one?.max(other?));
        Self {
            succeeded: longest(self.succeeded, other.succeeded),
            failed: longest(self.failed, other.failed),
            canceled: longest(self.canceled, other.canceled),
        }
    }
}

/// The retention of each workflow that a worker declares. Runs of other workflows stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Retention(pub BTreeMap<String, Retain>);

impl Retention {
    /// Returns `true` if no workflow has a retention.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what holds if workers declare all of these: of a workflow that several declare, each
    /// run stays as long as the most patient of them wants. A mistake, or a worker of the release
    /// before, then deletes nothing that another worker keeps.
    #[must_use]
    pub fn merged<'r>(declared: impl IntoIterator<Item = &'r Self>) -> Self {
        let mut merged: BTreeMap<String, Retain> = BTreeMap::new();
        for (workflow, retain) in declared.into_iter().flat_map(|retention| &retention.0) {
            match merged.entry(workflow.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(*retain)),
                Entry::Occupied(mut entry) => *entry.get_mut() = entry.get().longest(*retain),
            }
        }
        Self(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn retention(of: &[(&str, Retain)]) -> Retention {
        Retention(of.iter().map(|(workflow, retain)| ((*workflow).to_owned(), *retain)).collect())
    }

    #[test]
    fn of_several_declarations_the_longest_time_holds() {
        let one = retention(&[("a", Retain::all(DAY)), ("b", Retain::all(DAY))]);
        let other = retention(&[("a", Retain::forever().succeeded(2 * DAY).failed(DAY / 2))]);
        let expected = retention(&[("a", Retain::forever().succeeded(2 * DAY).failed(DAY)), ("b", Retain::all(DAY))]);
        assert_eq!(Retention::merged([&one, &other]), expected);
        assert_eq!(Retention::merged([&other, &one]), expected);
        assert_eq!(Retention::merged([]), Retention::default());
    }

    #[test]
    fn a_retention_comes_back_from_its_text() {
        let declared = retention(&[("a", Retain::forever().failed(DAY))]);
        let text = serde_json::to_string(&declared).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Retention>(&text).ok(), Some(declared));
        let later = r#"{"a":{"succeeded":null,"failed":null,"canceled":null,"paused":null}}"#;
        assert!(serde_json::from_str::<Retention>(later).is_err(), "a rule of a later release is not passed over");
    }

    #[test]
    fn times_have_a_range() {
        assert_eq!(Retain::all(DAY).out_of_range(), None);
        assert_eq!(Retain::forever().out_of_range(), None);
        for bad in [Duration::ZERO, Retain::SHORTEST - Duration::from_nanos(1), Duration::MAX] {
            assert_eq!(Retain::all(DAY).failed(bad).out_of_range(), Some(bad));
        }
    }
}
