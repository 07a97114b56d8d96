use serde::{Deserialize, Serialize};

use super::{EventName, Timestamp};

/// Returns the name of the signal that carries the decision about one approval: the one with this
/// key that was asked for at `since`. The name contains a control character, so no sender can use
/// it. It contains the time, so a decision for another generation of the run does not match.
#[must_use]
pub fn approval_signal(step_key: &str, since: Timestamp) -> String {
    format!("{OF_APPROVAL}{} {step_key}", since.as_micros())
}

/// Returns whether a signal with this name carries the decision about an approval.
pub(super) fn is_approval_signal(name: &str) -> bool {
    name.starts_with(OF_APPROVAL)
}

const OF_APPROVAL: &str = "\u{1}approval ";

/// The note that a wait records when it begins.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct WaitNote {
    /// The time at which the wait ends without a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The person or group that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The event that the run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventName>,
}
