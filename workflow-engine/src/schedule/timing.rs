use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Timestamp;

/// The times of a schedule, as they are declared. An occurrence is a time that a cron expression or
/// the interval has and that no exception leaves out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Cron expressions of five fields, or of six with the seconds first. The schedule has the
    /// times of all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cron: Vec<String>,
    /// The interval. Its times are the multiples of the interval since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::model::DurationDocument>))]
    pub every: Option<Duration>,
    /// How much later than its multiples the interval has its times.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::model::DurationDocument))]
    pub offset: Duration,
    /// Cron expressions of times that are left out. An expression without seconds leaves out every
    /// second of its minutes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// The time zone of the expressions, as the IANA names it.
    pub zone: String,
    /// The earliest occurrence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// The latest occurrence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// By how much an occurrence may be delayed. The delay is derived from the schedule's name and
    /// the occurrence, so that every worker computes the same one.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::model::DurationDocument))]
    pub jitter: Duration,
}
