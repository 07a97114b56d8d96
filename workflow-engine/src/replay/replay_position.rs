//! Remembers how far a replay has come, so that a divergence can name its place and the calls that
//! differ.

use std::fmt;
use std::panic::Location;

use crate::model::StepKind;

use super::call::Phase;
use super::divergence::is_like;
use super::history::RecordedStep;
use super::{CallId, Delivered, Divergence, Machine};

/// A call in the history. It shows how the call ended and the size of its payload, but no values,
/// because the text of a divergence is stored and logged.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedCall {
    /// The step key.
    pub key: String,
    /// The kind.
    pub kind: StepKind,
    /// The position of the outcome; `None` if the call has no outcome.
    pub position: Option<i64>,
    /// How the call ended, such as `succeeded, 11 bytes`.
    pub ending: String,
}

impl fmt::Display for RecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => write!(f, "#{position} {} {:?} ({})", self.kind, self.key, self.ending),
            None => write!(f, "{} {:?} ({})", self.kind, self.key, self.ending),
        }
    }
}

/// A call that the code makes now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CurrentCall {
    /// The step key.
    pub key: String,
    /// The kind.
    pub kind: StepKind,
    /// The location of the call in the source.
    pub location: &'static Location<'static>,
}

impl fmt::Display for CurrentCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.key)
    }
}

/// The state of a replay when no recorded outcome can be delivered any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The calls that wait and have no recorded outcome, in the order in which they became active.
    pub waiting: Vec<CurrentCall>,
    /// The outcomes that no call has asked for, by position.
    pub unasked: Vec<RecordedCall>,
    /// The last outcome before the first unasked one, or the last outcome of all if none is
    /// unasked.
    pub before: Option<RecordedCall>,
}

#[derive(Debug, Default)]
pub(super) struct ReplayPosition {
    /// The active calls without a recorded outcome.
    live: Vec<(CallId, StepKind)>,
    /// The delivered outcomes with their positions.
    delivered: Vec<(i64, CallId, &'static str)>,
}

impl ReplayPosition {
    /// Notes that a call has become active that has no recorded outcome.
    pub(super) fn live(&mut self, id: CallId, kind: StepKind) {
        self.live.push((id, kind));
    }

    /// Notes that a call receives the outcome with this position.
    pub(super) fn delivered(&mut self, position: i64, id: CallId, outcome: &Delivered) {
        let ending = if matches!(outcome, Delivered::Failed(_)) { "failed" } else { "succeeded" };
        self.delivered.push((position, id, ending));
    }
}

impl Machine {
    /// Returns how far the replay has come.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let over = |id: &CallId| matches!(self.calls[id.0].phase, Phase::Over);
        let waiting = self.position.live.iter().filter(|(id, _)| !over(id));
        let unasked: Vec<_> = self.history.unasked().map(|(_, key)| self.recorded_call(key)).collect();
        let before = self.delivered_before(unasked.first().and_then(|call| call.position));
        Snapshot { waiting: waiting.map(|(id, kind)| self.current_call(*id, *kind)).collect(), unasked, before }
    }

    /// Returns the calls that may have replaced a recorded one.
    ///
    /// These are all calls that had no outcome in the history, even if they have ended since. Also
    /// included are calls whose outcomes come later in the history under a similar name: a drive
    /// that diverged may have recorded the new calls, and the next drive must report an equal
    /// divergence.
    fn successors(&self, missed: &RecordedCall) -> Vec<CurrentCall> {
        let later = self.position.delivered.iter().filter(|(place, id, _)| {
            missed.position.is_some_and(|position| *place > position) && is_like(&missed.key, &self.calls[id.0].key)
        });
        let recorded = later.map(|(_, id, _)| (*id, self.given(*id).kind)).filter(|(_, kind)| *kind == missed.kind);
        let mut calls: Vec<_> = recorded.chain(self.position.live.iter().copied()).collect();
        calls.sort_unstable_by_key(|(id, _)| *id);
        calls.dedup_by_key(|(id, _)| *id);
        calls.into_iter().map(|(id, kind)| self.current_call(id, kind)).collect()
    }

    pub(super) fn current_call(&self, id: CallId, kind: StepKind) -> CurrentCall {
        let call = &self.calls[id.0];
        CurrentCall { key: call.key.clone(), kind, location: call.location }
    }

    pub(super) fn recorded_call(&self, key: &str) -> RecordedCall {
        let step = self.history.step(key);
        let kind = step.map_or(StepKind::Step, |step| step.kind);
        let outcome = step.and_then(|step| step.outcome.as_ref());
        RecordedCall {
            key: key.to_owned(),
            kind,
            position: outcome.map(|outcome| outcome.position),
            ending: match outcome.map(|outcome| &outcome.outcome) {
                Some(Delivered::Recorded(_)) if kind == StepKind::Sleep => "succeeded".into(),
                Some(Delivered::Recorded(text)) => format!("succeeded, {}", bytes(text)),
                Some(Delivered::Kept) => "succeeded".into(),
                Some(Delivered::Failed(error)) => format!("failed, {}", error.kind),
                None => unfinished(step).into(),
            },
        }
    }

    /// Returns the outcome that was delivered to this call.
    pub(super) fn given(&self, id: CallId) -> RecordedCall {
        let delivered = self.position.delivered.iter().rev().find(|(_, other, _)| *other == id);
        let call = self.recorded_call(&self.calls[id.0].key);
        let live = self.position.live.iter().find(|(other, _)| *other == id).map(|(_, kind)| *kind);
        let call = RecordedCall { kind: live.unwrap_or(call.kind), ..call };
        match delivered {
            Some((position, _, ending)) => {
                RecordedCall { position: Some(*position), ending: (*ending).to_owned(), ..call }
            }
            None => call,
        }
    }

    /// Returns the last delivered outcome with a position before this one.
    pub(super) fn delivered_before(&self, position: Option<i64>) -> Option<RecordedCall> {
        let before = |place: i64| position.is_none_or(|position| place < position);
        let last =
            self.position.delivered.iter().filter(|(place, ..)| before(*place)).max_by_key(|(place, ..)| *place)?;
        Some(self.given(last.1))
    }

    /// Returns the divergence of a function that has ended without asking for recorded outcomes.
    pub(super) fn passed_over(&self) -> Option<Divergence> {
        let missed = self.recorded_call(self.history.unasked().next()?.1);
        let Snapshot { unasked, before, .. } = self.snapshot();
        Some(Divergence::unasked(unasked, self.successors(&missed), before))
    }
}

/// Returns the size of a payload as text.
pub fn bytes(payload: &str) -> String {
    match payload.len() {
        1 => "1 byte".into(),
        length => format!("{length} bytes"),
    }
}

fn unfinished(step: Option<&RecordedStep>) -> &'static str {
    match step.map(|step| &step.last.failure) {
        Some(Some(_)) => "failed, to be attempted again",
        Some(None) => "begun, not ended",
        None => "not recorded",
    }
}
