//! Begins and ends waits for signals, decisions and events, and takes the results of looks.

use serde::Serialize;

use crate::model::{
    Effect, InboxSignal, LeftWait, StepKind, Timestamp, WaitNote, approval_signal, event_signal, is_own_name,
};

use super::Machine;
use crate::replay::call::{CallId, CallPoll, Delivered, Phase, Work};
use crate::replay::external::{AwaitedEvents, BegunWait, ChildEnd, SignalWait};
use crate::replay::history::{LastAttempt, RecordedStep};
use crate::replay::records::Record;

impl Machine {
    /// Polls a wait for a signal.
    pub fn poll_signal(&mut self, id: CallId, wait: impl FnOnce() -> SignalWait, now: Timestamp) -> CallPoll {
        self.poll(id, || Work::Signal(wait()), now)
    }

    /// Returns the external events that the run waits for, if the drive has to look for them now.
    /// Answered by [`Machine::looked`].
    pub fn begin_look(&mut self) -> Option<AwaitedEvents> {
        self.external.begin_look()
    }

    /// Notes that an external event may have occurred, so the drive has to look again.
    pub fn look_again(&mut self) {
        self.external.look_again();
    }

    /// Returns whether the run waits for an external event.
    #[must_use]
    pub fn awaits_external_events(&self) -> bool {
        self.external.are_awaited()
    }

    /// Takes the results of a look: the first signals, whether there are more, and the children
    /// that have ended. Records the waits for which nothing was found.
    pub fn looked(&mut self, signals: Vec<InboxSignal>, more: bool, ended: Vec<ChildEnd>, now: Timestamp) {
        self.external.add_signals(signals, more);
        self.ask_for_seats_again(now);
        for end in ended {
            self.child_ended(end, now);
        }
        self.record_earlier_children();
        for (id, wait) in self.external.take_unrecorded() {
            let is_named = wait.kind == StepKind::Signal && !is_own_name(self.calls.key(id));
            let signal = is_named.then(|| wait.name.clone());
            let note = WaitNote { until: wait.until, to: wait.to.clone(), event: None, signal };
            let record = Record { output: json(&note), ..Record::begun(wait.attempt, wait.kind, wait.started_at) };
            self.records.post_progress(id, self.calls.key(id), record);
        }
    }

    /// Begins a wait for a signal, a decision or an event, or continues a recorded one.
    pub(super) fn begin_signal_wait(&mut self, id: CallId, wait: SignalWait, now: Timestamp) {
        let begun = self.begun_wait(id, wait, now);
        let (until, is_event, recorded) = (begun.until, begun.event.is_some(), begun.recorded);
        self.timers.begin_external_wait(until, id);
        self.external.begin_wait(id, Box::new(begun));
        self.calls.set_phase(id, Phase::AwaitingSignal);
        if is_event {
            self.event_waits.begin(recorded);
            // The end of a failed run has ended its waits.
            if !recorded || self.is_retry() {
                self.register_event_wait(id);
            }
        }
    }

    /// Returns the wait of this call: the recorded one, or one that begins now.
    fn begun_wait(&mut self, id: CallId, wait: SignalWait, now: Timestamp) -> BegunWait {
        let key = self.calls.key(id);
        let last = self.recorded.history.step(key).map(|step| &step.last);
        // A row without an outcome that has ended is one of a wait that was dropped, mostly because
        // the run failed meanwhile. The wait begins anew, with a row and a timeout of its own.
        let attempt = last.map_or(1, LastAttempt::next);
        let begun = last.filter(|last| !last.has_ended).map(|last| {
            let note = last.output.as_deref().and_then(|text| serde_json::from_str::<WaitNote>(text).ok());
            (last.started_at, note.unwrap_or_default())
        });
        let recorded = begun.is_some();
        let (started_at, WaitNote { until, to, event, .. }) = begun.unwrap_or_else(|| {
            let (now, event) = (self.time.tick(now), wait.event.clone());
            let until = wait.timeout.map(|timeout| now + timeout);
            (now, WaitNote { until, to: wait.to, event, signal: None })
        });
        let event = event.or(wait.event);
        let name = match &event {
            Some(event) => event_signal(event, key, started_at),
            None => wait.name.unwrap_or_else(|| approval_signal(key, started_at)),
        };
        BegunWait { kind: wait.kind, attempt, name, until, started_at, to, event, recorded }
    }

    /// Gives the oldest wait that has a signal its signal. Returns whether it did.
    ///
    /// It does so only if no other outcome is undelivered. Such an outcome could drop the wait, as
    /// in a race, and the consumed signal would be lost.
    pub(super) fn consume_signal(&mut self, now: &impl Fn() -> Timestamp) -> bool {
        if !self.deliveries.are_over() {
            return false;
        }
        let Some(consumed) = self.external.consume() else { return false };
        // The signal may have kept the timers of other waits for this name from firing, so set them
        // again.
        for (at, other) in consumed.other_timeouts {
            self.timers.set(at, other);
        }
        let effect = Effect::Consume { seq: consumed.signal.seq };
        self.end_signal_wait(consumed.id, &consumed.wait, format!("[{}]", consumed.signal.payload), effect, now());
        true
    }

    /// Ends a wait whose timeout has passed.
    pub(super) fn time_out_signal_wait(&mut self, id: CallId, now: Timestamp) {
        let Some(wait) = self.external.end_wait(id) else { return };
        let effect = left_event(&wait, true);
        self.end_signal_wait(id, &wait, "[]".into(), effect, now);
        if wait.event.is_some() {
            self.external.keep_timed_out(id, wait);
        }
    }

    fn end_signal_wait(&mut self, id: CallId, wait: &BegunWait, output: String, effect: Effect, now: Timestamp) {
        self.timers.end_external_wait(wait.until, id);
        self.event_waits.end(wait.event.is_some());
        let completed_at = self.time.tick(now);
        let outcome = Delivered::Recorded(output.clone());
        let record = Record { output: Some(output), effect, ..Record::begun(wait.attempt, wait.kind, wait.started_at) };
        self.decide_as(id, completed_at, record, outcome);
    }

    /// Ends a wait whose call was dropped. Its row must not look as if the run still waited.
    pub(super) fn drop_signal_wait(&mut self, id: CallId) {
        let Some(wait) = self.external.end_wait(id) else { return };
        self.timers.end_external_wait(wait.until, id);
        self.event_waits.end(wait.event.is_some());
        self.leave_signal_wait(id, &wait);
    }

    /// Ends the recorded wait of a call that was dropped before it continued the wait. An earlier
    /// drive had dropped it too, and its worker died before the end was committed.
    pub(super) fn drop_recorded_wait(&mut self, id: CallId, wait: SignalWait) {
        let is_open = |step: &RecordedStep| !step.last.has_ended;
        if self.recorded.history.step(self.calls.key(id)).is_some_and(is_open) {
            let latest = self.time.latest();
            let wait = self.begun_wait(id, wait, latest);
            self.event_waits.end(wait.event.is_some());
            self.leave_signal_wait(id, &wait);
        }
    }

    pub(super) fn leave_signal_wait(&mut self, id: CallId, wait: &BegunWait) {
        if wait.recorded {
            let ended = Record {
                completed_at: Some(self.time.latest()),
                output: Some("[]".into()),
                effect: left_event(wait, false),
                ..Record::begun(wait.attempt, wait.kind, wait.started_at)
            };
            self.record(id, ended);
        }
    }
}

/// Returns the effect of the end of a wait that has not received its event.
fn left_event(wait: &BegunWait, unless_delivered: bool) -> Effect {
    if wait.event.is_none() {
        return Effect::None;
    }
    Effect::LeaveEvent(Box::new(LeftWait { signal: wait.name.clone(), unless_delivered }))
}

/// The engine's own notes are plain data and always serialize.
pub(super) fn json(note: &impl Serialize) -> Option<String> {
    serde_json::to_string(note).ok()
}
