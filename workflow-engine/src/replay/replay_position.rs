//! Remembers how far a replay has come, so that a divergence can name its place and the calls that
//! differ.

use crate::model::StepKind;

use super::call::{CallId, Delivered, Phase};
use super::calls::Calls;
use super::divergence::{CurrentCall, Divergence, RecordedCall, bytes};
use super::history::{History, RecordedStep};

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

/// The calls that a replay has passed.
#[derive(Debug, Default)]
pub(super) struct ReplayPosition {
    /// The active calls without a recorded outcome.
    unrecorded: Vec<(CallId, StepKind)>,
    /// The delivered outcomes with their positions.
    delivered: Vec<(i64, CallId, &'static str)>,
}

impl ReplayPosition {
    /// Notes that a call has become active that has no recorded outcome.
    pub(super) fn add_unrecorded(&mut self, id: CallId, kind: StepKind) {
        self.unrecorded.push((id, kind));
    }

    /// Notes that a call receives the outcome with this position.
    pub(super) fn add_delivered(&mut self, position: i64, id: CallId, outcome: &Delivered) {
        let ending = if matches!(outcome, Delivered::Failed(_)) { "failed" } else { "succeeded" };
        self.delivered.push((position, id, ending));
    }
}

/// The calls of the code beside the recorded ones, with how far the replay has come.
pub(super) struct Comparison<'a> {
    pub(super) calls: &'a Calls,
    pub(super) history: &'a History,
    pub(super) position: &'a ReplayPosition,
}

impl Comparison<'_> {
    /// Returns how far the replay has come.
    pub(super) fn snapshot(&self) -> Snapshot {
        let over = |id: &CallId| matches!(self.calls.phase(*id), Phase::Over);
        let waiting = self.position.unrecorded.iter().filter(|(id, _)| !over(id));
        let unasked: Vec<_> = self.history.unasked().map(|(_, key)| self.recorded_call(key)).collect();
        let before = self.delivered_before(unasked.first().and_then(|call| call.position));
        Snapshot { waiting: waiting.map(|(id, kind)| self.current_call(*id, *kind)).collect(), unasked, before }
    }

    fn current_call(&self, id: CallId, kind: StepKind) -> CurrentCall {
        CurrentCall { key: self.calls.key(id).to_owned(), kind, location: self.calls.location(id) }
    }

    fn recorded_call(&self, key: &str) -> RecordedCall {
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
    fn delivered_outcome(&self, id: CallId) -> RecordedCall {
        let delivered = self.position.delivered.iter().rev().find(|(_, other, _)| *other == id);
        let call = self.recorded_call(self.calls.key(id));
        let unrecorded = self.position.unrecorded.iter().find(|(other, _)| *other == id).map(|(_, kind)| *kind);
        let call = RecordedCall { kind: unrecorded.unwrap_or(call.kind), ..call };
        match delivered {
            Some((position, _, ending)) => {
                RecordedCall { position: Some(*position), ending: (*ending).to_owned(), ..call }
            }
            None => call,
        }
    }

    /// Returns the last delivered outcome with a position before this one.
    fn delivered_before(&self, position: Option<i64>) -> Option<RecordedCall> {
        let before = |(at, ..): &&(i64, CallId, &str)| position.is_none_or(|position| *at < position);
        let last = self.position.delivered.iter().filter(before).max_by_key(|(at, ..)| *at)?;
        Some(self.delivered_outcome(last.1))
    }

    /// Returns the divergence of a call whose key is recorded for another kind of call.
    pub(super) fn changed_kind(&self, id: CallId, kind: StepKind) -> Divergence {
        let recorded = self.recorded_call(self.calls.key(id));
        let before = self.delivered_before(recorded.position);
        Divergence::kind(recorded, self.current_call(id, kind), before)
    }

    /// Returns the divergence of a call whose outcome does not decode as the type that the code
    /// expects.
    pub(super) fn undecodable(&self, id: CallId, type_name: &str, reason: &str) -> Divergence {
        let recorded = self.delivered_outcome(id);
        let before = self.delivered_before(recorded.position);
        let current = self.current_call(id, recorded.kind);
        Divergence::output(recorded, current, type_name, reason, before)
    }

    /// Returns the divergence of code whose next calls are not recorded, while it has not asked for
    /// recorded outcomes.
    pub(super) fn passed(&self) -> Divergence {
        let Snapshot { mut waiting, unasked, before } = self.snapshot();
        // A call with a row was made before, so it has not replaced a recorded one.
        waiting.retain(|call| self.history.step(&call.key).is_none());
        Divergence::passed(unasked, waiting, before)
    }

    /// Returns the divergence of a function that has ended without asking for recorded outcomes.
    pub(super) fn unasked(&self) -> Option<Divergence> {
        self.history.unasked().next()?;
        let Snapshot { unasked, before, .. } = self.snapshot();
        // Calls that the function made and dropped count too, because one of them may have replaced
        // a recorded call.
        let unrecorded = self.position.unrecorded.iter();
        let current = unrecorded.map(|(id, kind)| self.current_call(*id, *kind)).collect();
        Some(Divergence::unasked(unasked, current, before))
    }
}

fn unfinished(step: Option<&RecordedStep>) -> &'static str {
    match step.map(|step| &step.last.failure) {
        Some(Some(_)) => "failed, to be attempted again",
        Some(None) => "begun, not ended",
        None => "not recorded",
    }
}
