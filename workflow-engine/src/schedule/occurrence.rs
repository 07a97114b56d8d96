use std::collections::BTreeMap;
use std::fmt;

use crate::model::{RunId, Timestamp};

use super::calendar::derived;

/// The tag of a run that has the name of the schedule that started it.
pub const SCHEDULE_TAG: &str = "workflow.schedule";

/// The tag of a run that has the time of its occurrence.
pub const OCCURRENCE_TAG: &str = "workflow.occurrence";

/// The tag of a run that has the number of occurrences that it stands for besides its own.
const MISSED_TAG: &str = "workflow.missed";

/// One time of a schedule, for which it starts one run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// The name of the schedule.
    pub schedule: String,
    /// The time at which the run was meant to start: that of the schedule without its jitter, or
    /// that of a trigger.
    pub at: Timestamp,
    /// How many occurrences before this one started no run because no worker was there, since the
    /// run before.
    pub missed: u64,
    /// The time in the schedule's zone: `2026-11-24T08:00:00+01:00[Europe/Berlin]`.
    pub local: String,
}

impl Occurrence {
    /// Returns the date of the occurrence in the schedule's zone, such as `2026-11-24`.
    #[must_use]
    pub fn date(&self) -> &str {
        self.local.split('T').next().unwrap_or(&self.local)
    }

    /// Returns the idempotency key of the run of this occurrence. The schedule has one run per
    /// second at most, so the key has no fraction.
    #[must_use]
    pub fn key(&self) -> String {
        let at = self.at.to_string();
        let seconds = at.split('.').next().unwrap_or(&at);
        format!("schedule:{}@{seconds}Z", self.schedule)
    }

    /// Returns the id of the run of this occurrence, which is the same on every worker.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        RunId::scheduled(self.at, derived(&self.schedule, self.at))
    }

    /// Adds the occurrence to the tags of its run.
    pub fn add_to(&self, tags: &mut BTreeMap<String, String>) {
        tags.insert(SCHEDULE_TAG.into(), self.schedule.clone());
        tags.insert(OCCURRENCE_TAG.into(), self.local.clone());
        if self.missed > 0 {
            tags.insert(MISSED_TAG.into(), self.missed.to_string());
        }
    }

    /// Returns the occurrence of a run with these tags; `None` if no schedule started the run.
    #[must_use]
    pub fn of_tags(tags: &BTreeMap<String, String>) -> Option<Self> {
        let schedule = tags.get(SCHEDULE_TAG)?.clone();
        let local = tags.get(OCCURRENCE_TAG)?.clone();
        // The offset says which time it is, even on a host that does not know the zone.
        let at: jiff::Timestamp = local.split('[').next()?.parse().ok()?;
        let missed = tags.get(MISSED_TAG).and_then(|missed| missed.parse().ok()).unwrap_or(0);
        Some(Self { schedule, at: Timestamp::from_micros(at.as_microsecond()), missed, local })
    }
}

/// Writes the time in the schedule's zone.
impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.local)
    }
}
