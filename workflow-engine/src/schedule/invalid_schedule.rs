use std::time::Duration;

use crate::model::{InvalidGate, InvalidName, InvalidTags, Timestamp};

/// The reason why a schedule is refused. Each names the schedule and the value, and says what to
/// use instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSchedule {
    /// The name of the schedule, its workflow, version, queue or gate, or of a tag is not allowed.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The attribute of the workflow computes a gate that is not allowed.
    #[error(transparent)]
    Gate(#[from] InvalidGate),
    /// The name of the schedule is too long to be a part of the keys of its runs.
    #[error("the schedule name {shown:?}... has {bytes} bytes; use at most {limit}")]
    LongName {
        /// The beginning of the name.
        shown: String,
        /// Its length.
        bytes: usize,
        /// The greatest length.
        limit: usize,
    },
    /// There are too many tags, or they are too long.
    #[error(transparent)]
    Tags(InvalidTags),
    /// Nothing says what to start.
    #[error("schedule {name:?} starts nothing; add .start(workflow, input), .start_with(..) or .start_by_name(..)")]
    NoWorkflow {
        /// The schedule.
        name: String,
    },
    /// There is neither a cron expression nor an interval.
    #[error("schedule {name:?} has no times; begin with Schedule::cron(..) or Schedule::every(..)")]
    NoTimes {
        /// The schedule.
        name: String,
    },
    /// A cron expression is not one.
    #[error(
        "schedule {name:?}: {expression:?} is not a cron expression: {reason}; use five fields (minute, hour, \
         day of the month, month, day of the week), or six with the seconds first"
    )]
    Cron {
        /// The schedule.
        name: String,
        /// The expression.
        expression: String,
        /// The reason.
        reason: String,
    },
    /// There is no occurrence within five years.
    #[error(
        "schedule {name:?} has no occurrence within five years after {after}: {times}; correct the expression, \
         or its exceptions, .from(..) or .until(..)"
    )]
    NeverMatches {
        /// The schedule.
        name: String,
        /// The expressions.
        times: String,
        /// The time from which it was searched.
        after: Timestamp,
    },
    /// No time zone has this name.
    #[error("schedule {name:?}: there is no time zone {zone:?}{}", suggestion(near))]
    Zone {
        /// The schedule.
        name: String,
        /// The zone.
        zone: String,
        /// The most similar names of zones; at most 3.
        near: Vec<String>,
    },
    /// A duration is too short, too long, or has a part of a second.
    #[error("schedule {name:?}: {what} {value:?} is refused; use {range}")]
    Duration {
        /// The schedule.
        name: String,
        /// Which duration it is.
        what: &'static str,
        /// The duration.
        value: Duration,
        /// The accepted values.
        range: &'static str,
    },
    /// A number is out of its range.
    #[error("schedule {name:?}: {what} {value} is refused; use {range}")]
    Number {
        /// The schedule.
        name: String,
        /// Which number it is.
        what: &'static str,
        /// The number.
        value: u64,
        /// The accepted values.
        range: &'static str,
    },
}

fn suggestion(near: &[String]) -> String {
    match near {
        [] => "; use a name such as \"Europe/Berlin\" or \"UTC\"".into(),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}
