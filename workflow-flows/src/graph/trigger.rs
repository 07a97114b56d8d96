use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::millis;

/// Something that starts runs of a flow by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Trigger {
    /// The clock.
    Cron {
        /// The expression, with five fields, or six with seconds.
        cron: String,
        /// The time zone, such as `Europe/Oslo`. `None`: UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
        /// The effect of a time while a run of before has not ended.
        #[serde(default)]
        overlap: Overlap,
        /// How late a missed time may still start a run. `None`: not at all.
        #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
        catch_up: Option<Duration>,
        /// The input.
        #[serde(default)]
        input: Value,
    },
    /// A request over HTTP.
    Webhook {
        /// The path below `hooks/`.
        path: String,
        /// The template of the secret that signs requests. `None`: unsigned requests start runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// The template of the run's key, which sees the request's `body`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// An event that an emission delivers.
    Event {
        /// The name.
        name: String,
        /// A condition that sees the payload as `event`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        matches: Option<String>,
        /// The template of the run's key, which sees the payload as `event`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
}

/// Says what a time of a [`Trigger::Cron`] does while a run of before has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It starts none.
    #[default]
    Skip,
    /// It waits for the end of the other.
    Queue,
    /// It starts one beside the other.
    Allow,
}
