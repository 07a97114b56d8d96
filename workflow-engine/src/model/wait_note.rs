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

/// Begins the names of signals that answer a question with options. Waits for them are listed
/// beside approvals.
pub const DECISION_SIGNAL: &str = "decision:";

/// Returns the name of the decision that a step with this key waits for: the text behind the
/// [`DECISION_SIGNAL`], with the number of a repetition. Scopes may stand before that.
#[must_use]
pub fn decision_of(step_key: &str) -> Option<&str> {
    let begins = |at: usize| at == 0 || step_key.as_bytes()[at - 1] == b'/';
    let (at, _) = step_key.match_indices(DECISION_SIGNAL).find(|(at, _)| begins(*at))?;
    Some(&step_key[at + DECISION_SIGNAL.len()..])
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
    /// The name of the signal that the run waits for. `None` if it is the key of the step, and in a
    /// row of an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

/// Returns whether the key of a step is the name by which it was called: it has neither scopes
/// before the name nor the number of a repetition behind it.
#[must_use]
pub fn is_own_name(step_key: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    !step_key.contains('/') && !step_key.rsplit_once(':').is_some_and(|(_, number)| is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_scope_and_number_is_a_name() {
        for (step_key, is_name) in [
            ("greeting", true),
            ("decision:ask", true),
            ("at:", true),
            ("at:7", false),
            ("at:7:1", false),
            ("eu/greeting", false),
            ("", true),
        ] {
            assert_eq!(is_own_name(step_key), is_name, "{step_key}");
        }
    }

    #[test]
    fn a_decision_is_known_by_the_name_of_its_signal() {
        for (step_key, decision) in [
            ("decision:triage", Some("triage")),
            ("decision:triage:2", Some("triage:2")),
            ("each/1/decision:each/1/ask", Some("each/1/ask")),
            ("predecision:x/decision:y", Some("y")),
            ("predecision:x", None),
            ("triage", None),
        ] {
            assert_eq!(decision_of(step_key), decision, "{step_key}");
        }
    }
}
