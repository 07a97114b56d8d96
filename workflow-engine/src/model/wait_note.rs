use serde::{Deserialize, Serialize};

use super::Timestamp;

/// The name of the signal by which somebody decides about the approval with this key that is asked for since then. No
/// sender can give it to a signal of theirs, and no decision is taken for that of another generation of the run.
#[must_use]
pub fn approval_signal(step_key: &str, since: Timestamp) -> String {
    format!("\u{1}approval {} {step_key}", since.as_micros())
}

/// What a wait writes down when it begins.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct WaitNote {
    /// When it ends without a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}
