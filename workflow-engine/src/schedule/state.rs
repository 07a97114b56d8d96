use serde::{Deserialize, Serialize};

use crate::model::{RunId, Timestamp};

/// The state of a schedule: its next occurrence, its runs, its pause and its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ScheduleState {
    /// The next occurrence; `None` if there is none any more.
    pub next_at: Option<Timestamp>,
    /// The occurrence of the latest run.
    pub last_at: Option<Timestamp>,
    /// The latest run.
    pub last_run: Option<RunId>,
    /// The runs that had not ended when a worker last looked, if the policies ask for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<RunId>,
    /// The occurrences that wait for the end of a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    /// The pause, if the schedule is paused.
    pub paused: Option<SchedulePause>,
    /// How many runs the schedule has started, without backfills.
    pub started: u64,
    /// How many of these were triggered.
    pub triggered: u64,
    /// How many occurrences started no run because another run had not ended.
    pub skipped: u64,
    /// How many occurrences started no run because no worker was there in time.
    pub missed: u64,
    /// Of these, how many no run stands for yet.
    pub missed_since: u64,
    /// When the schedule was created.
    pub created_at: Timestamp,
    /// When it was last declared or changed by a person.
    pub updated_at: Timestamp,
}

/// An occurrence that waits for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// The occurrence.
    pub at: Timestamp,
    /// Since when it waits.
    pub since: Timestamp,
}

/// A pause of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SchedulePause {
    /// The cause.
    pub cause: PauseCause,
    /// When the schedule was paused.
    pub since: Timestamp,
    /// Why it was paused.
    pub reason: String,
}

/// The cause of a schedule's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PauseCause {
    /// A person, by the client.
    Operator,
    /// A worker of its group that does not declare it any more.
    Retired,
    /// A run that failed, because the schedule pauses on failure.
    Failure,
    /// The function that computes the input of its runs: it failed.
    Input,
}
