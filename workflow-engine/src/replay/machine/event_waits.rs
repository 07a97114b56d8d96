//! Registers waits for events.
//!
//! An event reaches the waits that are registered when it is emitted. So nothing of the run that
//! was called after a wait begins before that wait is registered: a step after it that looks
//! whether the event has happened misses nothing.

use std::time::Duration;

use crate::model::{AttemptStatus, Effect, EventWait, StepAttempt, StepKind, Timestamp, WaitNote, busy_event_delay};

use super::Machine;
use super::waits::json;
use crate::replay::call::{CallId, Phase};
use crate::replay::deliveries::Receiver;
use crate::replay::records::{Record, Sent};

/// The open waits of a run for events, as the database has them.
#[derive(Debug, Default)]
pub(super) struct EventWaits {
    /// The number of open waits, including those of the history that no call has asked for.
    open: usize,
    /// How often in a row a wait was not registered because its event was being emitted.
    refusals: u32,
}

impl EventWaits {
    /// Counts the open waits of a history.
    pub(super) fn of(rows: &[StepAttempt]) -> Self {
        let is_open = |row: &&StepAttempt| row.kind == StepKind::Event && row.status == AttemptStatus::Running;
        Self { open: rows.iter().filter(is_open).count(), refusals: 0 }
    }

    /// Counts a wait that begins, unless the history had it.
    pub(super) fn begin(&mut self, recorded: bool) {
        self.open += usize::from(!recorded);
    }

    /// Counts the end of a wait, if it was one for an event.
    pub(super) fn end(&mut self, is_event: bool) {
        self.open = self.open.saturating_sub(usize::from(is_event));
    }

    fn next_delay(&mut self) -> Duration {
        self.refusals = self.refusals.saturating_add(1);
        busy_event_delay(self.refusals)
    }
}

impl Machine {
    /// Returns whether the database may have open waits of the run for events.
    #[must_use]
    pub fn has_event_waits(&self) -> bool {
        self.event_waits.open > 0
    }

    /// Returns whether a record must be committed before an outcome is delivered or a body begins.
    pub(super) fn awaits_confirmation(&self) -> bool {
        self.records.await_confirmation() || self.external.is_any_unregistered()
    }

    /// Writes the row of a wait for an event, which registers the wait.
    pub(super) fn register_event_wait(&mut self, id: CallId) {
        let Some(wait) = self.external.set_registered(id, true) else { return };
        let Some(event) = wait.event.clone() else { return };
        let note = WaitNote { until: wait.until, to: None, event: Some(event.clone()), signal: None };
        let effect = Effect::AwaitEvent(Box::new(EventWait { event, signal: wait.name.clone() }));
        let record = Record { output: json(&note), effect, ..Record::begun(wait.attempt, wait.kind, wait.started_at) };
        self.record(id, record);
        self.records.require_confirmation();
    }

    /// Notes that the oldest record that was handed out was not written, because another
    /// transaction emits the event of its wait. The wait is registered again after a moment.
    pub fn event_busy(&mut self, now: Timestamp) {
        let Some(Sent::Progress(id)) = self.records.answered() else { return };
        if self.external.set_registered(id, false).is_some() {
            let delay = self.event_waits.next_delay();
            self.timers.set(now + delay, id);
        }
    }

    /// Notes that the oldest record that was handed out was not written: it ends a wait because its
    /// timeout has passed, but the event was delivered before. The wait goes on, to receive the
    /// event.
    pub fn event_delivered(&mut self) {
        let Some(Sent::Outcome(position, Receiver::Call(id))) = self.records.answered() else { return };
        self.deliveries.give_up(position);
        let Some(mut wait) = self.external.take_timed_out(id) else { return };
        // The call was dropped meanwhile, by an outcome with an earlier position.
        if !matches!(self.calls.phase(id), Phase::Decided { .. }) {
            return self.leave_signal_wait(id, &wait);
        }
        wait.until = None;
        self.event_waits.begin(false);
        self.timers.begin_external_wait(None, id);
        self.external.begin_wait(id, wait);
        self.calls.set_phase(id, Phase::AwaitingSignal);
    }

    /// Fires a timer of a wait: its timeout, or the moment at which it is registered again.
    pub(super) fn fire_signal_wait(&mut self, id: CallId, now: Timestamp) {
        let Some(wait) = self.external.wait(id) else { return };
        if wait.until.is_some_and(|until| until <= now) {
            self.time_out_signal_wait(id, now);
        } else if wait.event.is_some() && !wait.recorded {
            self.register_event_wait(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::model::{EventName, InboxSignal, RunId};
    use crate::replay::{CallPoll, Next, SignalWait, StepOptions};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const TIMEOUT: Duration = Duration::from_secs(60);

    fn machine(rows: Vec<StepAttempt>) -> Machine {
        Machine::new(RunId::from(uuid::Uuid::nil()), 1, 0, NOW, rows)
    }

    /// Polls a wait for the event.
    fn wait(machine: &mut Machine) -> CallId {
        wait_at(machine, NOW)
    }

    fn wait_at(machine: &mut Machine, now: Timestamp) -> CallId {
        let id = machine.call("paid", Location::caller());
        let event = EventName { name: "paid".into(), key: "42".into() };
        let wait =
            SignalWait { kind: StepKind::Event, name: None, timeout: Some(TIMEOUT), to: None, event: Some(event) };
        assert_eq!(machine.poll_signal(id, || wait, now), CallPoll::Pending);
        id
    }

    /// Takes the only record, and returns its effect.
    fn sent(machine: &mut Machine) -> Effect {
        let mut outbox = machine.take_outbox();
        assert_eq!(outbox.len(), 1, "{outbox:?}");
        outbox.remove(0).effect
    }

    fn signal(machine: &mut Machine, seq: i64, name: &str) {
        let signal = InboxSignal { seq, name: name.into(), payload: "500".into() };
        machine.looked(vec![signal], false, Vec::new(), NOW);
    }

    #[test]
    fn a_step_begins_once_the_wait_before_it_is_registered() {
        let mut machine = machine(Vec::new());
        wait(&mut machine);
        let step = machine.call("look", Location::caller());
        let poll = |machine: &mut Machine| machine.poll_step(step, StepOptions::default(), NOW);
        assert_eq!(poll(&mut machine), CallPoll::Pending);
        assert!(matches!(sent(&mut machine), Effect::AwaitEvent(_)));
        assert!(matches!(machine.next(|| NOW), Next::Wait { park_until: None, .. }));
        machine.committed();
        assert_eq!(machine.next(|| NOW), Next::Start(vec![step]));
        assert_eq!(poll(&mut machine), CallPoll::Start { attempt: 1 });
    }

    #[test]
    fn a_wait_that_was_busy_is_registered_again_and_nothing_begins_before() {
        let mut machine = machine(Vec::new());
        wait(&mut machine);
        let mut now = NOW;
        for _ in 0..20 {
            assert!(matches!(sent(&mut machine), Effect::AwaitEvent(_)));
            machine.event_busy(now);
            let Next::Wait { timer: Some(timer), park_until: None } = machine.next(|| now) else { panic!("it waits") };
            assert!(timer.since(now) <= busy_event_delay(u32::MAX), "{timer:?}");
            now = timer;
            machine.fire_timers(now);
        }
        assert!(matches!(sent(&mut machine), Effect::AwaitEvent(_)));
        machine.committed();
        assert_eq!(machine.next(|| now), Next::Wait { timer: Some(NOW + TIMEOUT), park_until: Some(NOW + TIMEOUT) });
        assert!(machine.has_event_waits());
    }

    #[test]
    fn an_event_that_came_before_the_timeout_was_recorded_is_received() {
        let mut machine = machine(Vec::new());
        let id = wait(&mut machine);
        let Effect::AwaitEvent(registered) = sent(&mut machine) else { panic!("a wait is registered") };
        machine.committed();
        machine.fire_timers(NOW + TIMEOUT);
        let Effect::LeaveEvent(left) = sent(&mut machine) else { panic!("the wait ends") };
        assert!(left.unless_delivered && left.signal == registered.signal);
        assert!(!machine.has_event_waits());
        machine.event_delivered();
        assert!(machine.has_event_waits());
        assert_eq!(machine.begin_look().map(|awaited| awaited.signals), Some(vec![registered.signal.clone()]));
        signal(&mut machine, 7, &registered.signal);
        assert_eq!(machine.next(|| NOW + TIMEOUT), Next::Send);
        assert!(matches!(sent(&mut machine), Effect::Consume { seq: 7 }));
        machine.committed();
        assert_eq!(machine.next(|| NOW + TIMEOUT), Next::Deliver(id));
        assert!(!machine.has_event_waits());
    }

    /// The wait was dropped because the run failed. Its row has ended, and takes no outcome.
    #[test]
    fn a_wait_that_was_dropped_begins_anew_in_the_next_attempt_of_the_run() {
        let mut first = machine(Vec::new());
        let id = wait(&mut first);
        let begun = first.take_outbox().remove(0);
        first.committed();
        first.dropped(id);
        let left = first.take_outbox().remove(0).row;
        assert_eq!((left.status, left.position), (AttemptStatus::Succeeded, None));

        let mut retried = machine(vec![left]).with_attempt(2);
        let later = NOW + 2 * TIMEOUT;
        wait_at(&mut retried, later);
        let again = retried.take_outbox().remove(0);
        assert_eq!((again.row.attempt, again.row.status), (2, AttemptStatus::Running));
        assert_eq!(again.row.started_at, later);
        let signal = |effect| match effect {
            Effect::AwaitEvent(wait) => wait.signal,
            other => panic!("expected a registration, got {other:?}"),
        };
        assert_ne!(signal(again.effect), signal(begun.effect), "an event for the first wait is not one for the second");
        retried.committed();
        let until = later + TIMEOUT;
        assert_eq!(retried.next(|| later), Next::Wait { timer: Some(until), park_until: Some(until) });
    }

    /// The worker died between the commit of the outcome and that of the wait's end.
    #[test]
    fn a_replay_ends_a_wait_that_an_outcome_had_dropped() {
        let mut first = machine(Vec::new());
        wait(&mut first);
        let begun = first.take_outbox().remove(0).row;
        first.committed();
        let step = first.call("winner", Location::caller());
        assert_eq!(first.poll_step(step, StepOptions::default(), NOW), CallPoll::Start { attempt: 1 });
        first.attempt_ended(step, Ok("1".to_owned()), NOW);
        let ended = first.take_outbox().remove(0).row;

        let mut replay = machine(vec![begun, ended]);
        let id = wait(&mut replay);
        let step = replay.call("winner", Location::caller());
        assert_eq!(replay.poll_step(step, StepOptions::default(), NOW), CallPoll::Pending);
        assert_eq!(replay.next(|| NOW), Next::Deliver(step));
        replay.dropped(id);
        let left = replay.take_outbox().remove(0);
        assert_eq!((left.row.step_key.as_str(), left.row.status), ("paid", AttemptStatus::Succeeded));
        assert!(matches!(left.effect, Effect::LeaveEvent(_)) && !replay.has_event_waits());
    }

    #[test]
    fn a_dropped_wait_ends_even_if_its_event_came() {
        let mut machine = machine(Vec::new());
        let id = wait(&mut machine);
        sent(&mut machine);
        machine.committed();
        machine.dropped(id);
        let Effect::LeaveEvent(left) = sent(&mut machine) else { panic!("the wait ends") };
        assert!(!left.unless_delivered);
    }

    #[test]
    fn a_replay_does_not_register_a_recorded_wait_again_unless_the_run_was_retried() {
        let mut first = machine(Vec::new());
        wait(&mut first);
        let row = first.take_outbox().remove(0).row;
        let mut replay = machine(vec![row.clone()]);
        assert!(replay.has_event_waits());
        wait(&mut replay);
        assert!(!replay.has_records());
        let mut retried = machine(vec![row]).with_attempt(2);
        wait(&mut retried);
        assert!(matches!(sent(&mut retried), Effect::AwaitEvent(_)));
    }
}
