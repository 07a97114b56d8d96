//! Remembers how far a replay has come, so that a divergence can name its place and the calls that
//! differ.

use crate::model::StepKind;

use super::call::{CallId, Delivered, Phase};
use super::calls::Calls;
use super::divergence::{CurrentCall, Divergence, RecordedCall, bytes, is_like};
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

    /// Returns the calls that may have replaced a recorded one.
    ///
    /// These are all calls that had no outcome in the history, even if they have ended since. Also
    /// included are calls whose outcomes come later in the history under a similar name: a drive
    /// that diverged may have recorded the new calls, and the next drive must report an equal
    /// divergence.
    fn successors(&self, missed: &RecordedCall) -> Vec<CurrentCall> {
        let later = self.position.delivered.iter().filter(|(at, id, _)| {
            missed.position.is_some_and(|position| *at > position) && is_like(&missed.key, self.calls.key(*id))
        });
        let recorded =
            later.map(|(_, id, _)| (*id, self.delivered_outcome(*id).kind)).filter(|(_, kind)| *kind == missed.kind);
        let mut calls: Vec<_> = recorded.chain(self.position.unrecorded.iter().copied()).collect();
        calls.sort_unstable_by_key(|(id, _)| *id);
        calls.dedup_by_key(|(id, _)| *id);
        calls.into_iter().map(|(id, kind)| self.current_call(id, kind)).collect()
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

    /// Returns the divergence of a function that has ended without asking for recorded outcomes.
    pub(super) fn passed_over(&self) -> Option<Divergence> {
        let missed = self.recorded_call(self.history.unasked().next()?.1);
        let Snapshot { unasked, before, .. } = self.snapshot();
        Some(Divergence::unasked(unasked, self.successors(&missed), before))
    }
}

fn unfinished(step: Option<&RecordedStep>) -> &'static str {
    match step.map(|step| &step.last.failure) {
        Some(Some(_)) => "failed, to be attempted again",
        Some(None) => "begun, not ended",
        None => "not recorded",
    }
}
