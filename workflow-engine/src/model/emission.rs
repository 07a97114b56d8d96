use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{RunId, Timestamp};

/// The name and the key by which waits and emissions of an event find each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventName {
    /// The name of the event, such as `order.paid`.
    pub name: String,
    /// The key, such as the number of the order.
    pub key: String,
}

/// An event that is to be delivered to every run that waits for it at the commit.
#[derive(Clone, Debug)]
pub struct NewEmission {
    /// The event.
    pub event: EventName,
    /// The payload as JSON text.
    pub payload: String,
    /// The step that emits the event. `None`: the application emits it.
    pub by: Option<EmittingStep>,
}

/// The step of a run that emits an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmittingStep {
    /// The run.
    pub run_id: RunId,
    /// The key under which the run's inbox keeps the number of runs that the event has reached.
    /// Each attempt of the step has this key, so the event is emitted once.
    pub key: String,
}

/// The wait of one call for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventWait {
    /// The event.
    pub event: EventName,
    /// The name of the signal that delivers the event to this wait: see [`event_signal`].
    pub signal: String,
}

/// A wait for an event that ends without the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftWait {
    /// The name of the signal that would have delivered the event.
    pub signal: String,
    /// `true` if the wait must not end when the event was delivered before this write.
    pub unless_delivered: bool,
}

/// Returns how long to wait before an emission or a wait is tried again whose event another
/// transaction holds: 5 ms after the first refusal in a row, at most 500 ms.
#[must_use]
pub fn busy_event_delay(refusals: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(5);
    const LAST: Duration = Duration::from_millis(500);
    FIRST.saturating_mul(1 << refusals.saturating_sub(1).min(10)).min(LAST)
}

/// The beginning of the names of signals that deliver events. It contains a control character, so
/// no sender can use it.
pub const EVENT_SIGNAL: &str = "\u{1}event ";

/// The name of the row in an inbox that keeps how many runs an emission has reached.
pub const EMISSION_SIGNAL: &str = "\u{1}emission";

/// Returns the name of the signal that delivers an event to the wait of this step that began at
/// `since`. The name contains the time, so an event for another generation of the run does not
/// match.
#[must_use]
pub fn event_signal(event: &EventName, step_key: &str, since: Timestamp) -> String {
    format!("{EVENT_SIGNAL}{} {}\u{1}{}\u{1}{step_key}", since.as_micros(), event.name, event.key)
}

/// Returns name and key of the event that a signal with this name delivers. `None`: the signal
/// delivers no event.
#[must_use]
pub fn event_of_signal(signal: &str) -> Option<(&str, &str)> {
    let (_, rest) = signal.strip_prefix(EVENT_SIGNAL)?.split_once(' ')?;
    let mut parts = rest.split('\u{1}');
    Some((parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delays_of_busy_events_double_up_to_a_limit() {
        let delays = [0, 1, 2, 3, 8, u32::MAX].map(|refusals| busy_event_delay(refusals).as_millis());
        assert_eq!(delays, [5, 5, 10, 20, 500, 500]);
    }

    #[test]
    fn a_signal_names_its_event() {
        let event = EventName { name: "order paid".into(), key: "o 1".into() };
        let signal = event_signal(&event, "order paid:1", Timestamp::from_micros(7));
        assert_eq!(event_of_signal(&signal), Some(("order paid", "o 1")));
        assert_eq!(event_of_signal("order paid"), None);
    }
}
