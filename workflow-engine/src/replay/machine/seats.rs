//! Asks for a seat before the body of a limited step, and gives it back when the attempt has ended
//! in any way.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{AttemptStatus, Effect, ErrorKind, SeatLine, StepAttempt, StepKind, StoredError, Timestamp};

use super::Machine;
use crate::replay::call::{CallId, Phase, StepOptions};
use crate::replay::records::{Record, Sent};

/// The shortest time until a step asks again that was told when. The clock of the worker may be a
/// little ahead of the database's, and without this the step would ask on and on until its time.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// The seats of a run's steps.
#[derive(Debug, Default)]
pub(super) struct Seats {
    by_call: BTreeMap<CallId, Seat>,
    /// The calls that have got a seat since the drive last began bodies.
    seated: Vec<CallId>,
    /// Whether an earlier drive may have left the row of a seat.
    may_be_left: bool,
}

#[derive(Debug)]
struct Seat {
    line: Box<SeatLine>,
    state: State,
    /// The attempt that the step asks for.
    attempt: u32,
    kind: StepKind,
    /// When the step last asked.
    asked_at: Timestamp,
    /// When the step that waits asks again by itself. `None`: it is woken.
    asks_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// An earlier drive has asked, and this one has not.
    Recorded,
    /// The question has no answer yet. `again`: it is asked once more after that.
    Asked { again: bool },
    /// The step waits in its line.
    Waiting,
    /// The step has its seat.
    Held,
}

impl Seats {
    /// Looks for attempts that have begun and have no outcome: each may have a seat.
    pub(super) fn of(rows: &[StepAttempt]) -> Self {
        let is_open = |row: &StepAttempt| row.status == AttemptStatus::Running && has_body(row.kind);
        Self { may_be_left: rows.iter().any(is_open), ..Self::default() }
    }
}

fn has_body(kind: StepKind) -> bool {
    matches!(kind, StepKind::Step | StepKind::Compensation)
}

impl Machine {
    /// Asks for a seat of this line if the next poll of the step would begin an attempt. The call
    /// becomes active, as by a poll. Without a seat it waits.
    pub fn ask_for_seat(&mut self, id: CallId, options: StepOptions, line: &SeatLine, now: Timestamp) {
        let is_about_to_begin = self.is_about_to_begin(id, options, now);
        if self.recorded.seats.by_call.get(&id).is_some_and(|seat| seat.state != State::Recorded) {
            return;
        }
        if is_about_to_begin
            && !self.awaits_interruption(id)
            && let Phase::Granted { attempt, options } = *self.calls.phase(id)
        {
            self.bodies.withdraw();
            self.calls.set_phase(id, Phase::AwaitingSeat { attempt, options });
            self.timers.begin_external_wait(None, id);
            self.external.await_seat();
            let (line, kind) = (Box::new(line.clone()), options.kind);
            let seat = Seat { line, state: State::Waiting, attempt, kind, asked_at: now, asks_at: None };
            self.recorded.seats.by_call.insert(id, seat);
            self.ask(id, now);
        } else if let Some(attempt) = self.left_attempt(id) {
            // The row of an earlier drive, in case that the call is dropped before it asks.
            let (line, kind) = (Box::new(line.clone()), options.kind);
            let seat = Seat { line, state: State::Recorded, attempt, kind, asked_at: now, asks_at: None };
            self.recorded.seats.by_call.insert(id, seat);
        }
    }

    /// Returns the number of the attempt that an earlier drive has begun and not ended.
    fn left_attempt(&self, id: CallId) -> Option<u32> {
        let is_to_begin = matches!(self.calls.phase(id), Phase::Idle(_) | Phase::Granted { .. });
        if !self.recorded.seats.may_be_left || !is_to_begin {
            return None;
        }
        let last = &self.recorded.history.step(self.calls.key(id))?.last;
        (!last.has_ended).then_some(last.number)
    }

    /// Writes the row of the attempt together with the question for a seat.
    fn ask(&mut self, id: CallId, now: Timestamp) {
        let now = self.time.tick(now);
        self.wait_for_seat(id, None);
        let Some(seat) = self.recorded.seats.by_call.get_mut(&id) else { return };
        seat.state = State::Asked { again: false };
        seat.asked_at = now;
        let effect = Effect::TakeSeat(seat.line.clone());
        let record = Record { effect, ..Record::begun(seat.attempt, seat.kind, now) };
        self.records.post_seat(id, self.calls.key(id), record);
    }

    /// Notes that the step has got its seat. Its body begins at its next poll.
    pub(super) fn seat_taken(&mut self, id: CallId) {
        let Phase::AwaitingSeat { attempt, options } = *self.calls.phase(id) else { return };
        let Some(seat) = self.recorded.seats.by_call.get_mut(&id) else { return };
        seat.state = State::Held;
        self.recorded.seats.seated.push(id);
        self.end_seat_wait(id);
        self.allow_body(id, attempt, options);
    }

    /// Sets when a step that waits asks again by itself.
    fn wait_for_seat(&mut self, id: CallId, asks_at: Option<Timestamp>) {
        let Some(seat) = self.recorded.seats.by_call.get_mut(&id) else { return };
        self.timers.end_external_wait(seat.asks_at, id);
        seat.asks_at = asks_at;
        self.timers.begin_external_wait(asks_at, id);
    }

    /// Asks again for the seat of a step whose time has come.
    pub(super) fn fire_seat_wait(&mut self, id: CallId, now: Timestamp) {
        let state = self.recorded.seats.by_call.get(&id).map(|seat| seat.state);
        if state == Some(State::Waiting) {
            self.ask(id, now);
        }
    }

    /// Notes that the oldest record that was handed out asked for a seat, and that its step waits
    /// for one. `asks_at`: when it asks again by itself, if it waits for a rate alone.
    pub fn seat_waits(&mut self, asks_at: Option<Timestamp>, now: Timestamp) {
        let Some(Sent::Seat(id)) = self.records.answered() else { return };
        let Some(seat) = self.recorded.seats.by_call.get_mut(&id) else { return };
        match seat.state {
            State::Asked { again: true } => self.ask(id, now),
            State::Asked { again: false } => {
                seat.state = State::Waiting;
                self.wait_for_seat(id, asks_at.map(|at| at.max(now + SHORTEST_WAIT)));
            }
            State::Recorded | State::Waiting | State::Held => {}
        }
    }

    /// Asks again for the seats that steps wait for, because one may have been called.
    pub(super) fn ask_for_seats_again(&mut self, now: Timestamp) {
        let mut waiting = Vec::new();
        for (id, seat) in &mut self.recorded.seats.by_call {
            match &mut seat.state {
                State::Asked { again } => *again = true,
                State::Waiting => waiting.push(*id),
                State::Recorded | State::Held => {}
            }
        }
        waiting.into_iter().for_each(|id| self.ask(id, now));
    }

    /// Notes that the oldest record that was handed out was not written, because it asked for a
    /// seat of a limit that is not declared. The step fails with that, so a replay does too.
    pub fn limit_undeclared(&mut self, now: Timestamp) {
        let Some(Sent::Seat(id)) = self.records.answered() else { return };
        if !matches!(self.calls.phase(id), Phase::AwaitingSeat { .. }) {
            return;
        }
        self.end_seat_wait(id);
        let Some(Seat { line, attempt, kind, asked_at, .. }) = self.recorded.seats.by_call.remove(&id) else { return };
        let name = &line.limit;
        let message = format!(
            "no worker has declared the limit {name:?}; declare it with \
             Worker::limit(Limit::new({name:?}).concurrency(..)), or set it with Client::limit({name:?}).set(..)"
        );
        let error = StoredError::new(ErrorKind::Refused, message).fatal().of_step(self.calls.key(id));
        let completed_at = self.time.tick(now);
        self.decide(id, completed_at, Record { error: Some(error), ..Record::begun(attempt, kind, asked_at) });
    }

    /// Returns the calls that have got a seat and not begun, once each.
    pub(super) fn take_seated(&mut self) -> Vec<CallId> {
        std::mem::take(&mut self.recorded.seats.seated)
    }

    /// Returns whether the step has a seat.
    pub(super) fn has_seat(&self, id: CallId) -> bool {
        self.recorded.seats.by_call.contains_key(&id)
    }

    /// Returns the effect that gives the seat of an attempt back, to be committed with its end.
    pub(super) fn give_seat_back(&mut self, id: CallId) -> Effect {
        match self.recorded.seats.by_call.remove(&id) {
            Some(seat) => Effect::LeaveSeat(seat.line),
            None => Effect::None,
        }
    }

    /// Ends the wait of a call for a seat.
    pub(super) fn end_seat_wait(&mut self, id: CallId) {
        let asks_at = self.recorded.seats.by_call.get(&id).and_then(|seat| seat.asks_at);
        self.timers.end_external_wait(asks_at, id);
        self.external.end_seat_wait();
    }

    /// Gives the seat of a call back whose attempt ends without an outcome, or its place in the
    /// line. Its row must not look as if the attempt still ran.
    pub(super) fn leave_seat(&mut self, id: CallId) {
        let Some(seat) = self.recorded.seats.by_call.remove(&id) else { return };
        self.recorded.seats.seated.retain(|seated| *seated != id);
        let error = StoredError::new(ErrorKind::Canceled, "the step was dropped before its attempt ended");
        let ended = Record {
            completed_at: Some(self.time.latest()),
            error: Some(error),
            effect: Effect::LeaveSeat(seat.line),
            ..Record::begun(seat.attempt, seat.kind, seat.asked_at)
        };
        self.record(id, ended);
    }

    /// Gives the seat of an attempt back that may not begin yet. The attempt asks again.
    pub(super) fn put_seat_off(&mut self, id: CallId) {
        let Some(seat) = self.recorded.seats.by_call.remove(&id) else { return };
        let effect = Effect::LeaveSeat(seat.line);
        self.record(id, Record { effect, ..Record::begun(seat.attempt, seat.kind, seat.asked_at) });
    }

    /// Returns whether the database may have seats of the run.
    #[must_use]
    pub fn has_seats(&self) -> bool {
        !self.recorded.seats.by_call.is_empty() || self.recorded.seats.may_be_left
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::model::{Retry, RunId};
    use crate::replay::{CallPoll, Delivered, Next, OutboxRow};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn machine(rows: Vec<StepAttempt>) -> Machine {
        Machine::new(RunId::from(uuid::Uuid::nil()), 1, 0, NOW, rows)
    }

    fn line() -> SeatLine {
        SeatLine { limit: "llm".into(), key: "acct-42".into() }
    }

    fn options() -> StepOptions {
        StepOptions { retry: Retry::none(), ..StepOptions::default() }
    }

    /// Polls the step as its future does.
    fn poll(machine: &mut Machine, id: CallId) -> CallPoll {
        machine.ask_for_seat(id, options(), &line(), NOW);
        machine.poll_step(id, options(), NOW)
    }

    /// Calls the step, and polls it.
    fn ask(machine: &mut Machine) -> CallId {
        let id = machine.call("ask", Location::caller());
        assert_eq!(poll(machine, id), CallPoll::Pending);
        id
    }

    /// Takes the only record.
    fn sent(machine: &mut Machine) -> OutboxRow {
        let mut outbox = machine.take_outbox();
        assert_eq!(outbox.len(), 1, "{outbox:?}");
        outbox.remove(0)
    }

    fn parks(machine: &mut Machine) -> bool {
        matches!(machine.next(|| NOW), Next::Wait { park_until: Some(Timestamp::FAR_FUTURE), .. })
    }

    #[test]
    fn a_body_begins_once_it_has_a_seat_and_gives_it_back_with_its_outcome() {
        let mut machine = machine(Vec::new());
        let id = ask(&mut machine);
        let question = sent(&mut machine);
        assert!(matches!(&question.effect, Effect::TakeSeat(asked) if **asked == line()));
        assert_eq!((question.row.attempt, question.row.status), (1, AttemptStatus::Running));
        assert!(!parks(&mut machine), "the question has no answer");
        machine.committed();
        assert_eq!(machine.next(|| NOW), Next::Start(vec![id]));
        assert_eq!(poll(&mut machine, id), CallPoll::Start { attempt: 1 });
        machine.attempt_ended(id, Ok("7".into()), NOW);
        let outcome = sent(&mut machine);
        assert!(matches!(outcome.effect, Effect::LeaveSeat(_)) && outcome.row.position == Some(1), "{outcome:?}");
        machine.committed();
        assert_eq!(machine.next(|| NOW), Next::Deliver(id));

        let mut replay = self::machine(vec![outcome.row]);
        let id = ask(&mut replay);
        assert_eq!(replay.next(|| NOW), Next::Deliver(id));
        assert_eq!(poll(&mut replay, id), CallPoll::Ended(Delivered::Recorded("7".into())));
        assert!(!replay.has_records() && !replay.has_seats());
    }

    #[test]
    fn a_step_that_waits_for_a_seat_parks_and_asks_again_after_a_look() {
        let mut machine = machine(Vec::new());
        let id = ask(&mut machine);
        let row = sent(&mut machine).row;
        machine.seat_waits(None, NOW);
        assert!(parks(&mut machine) && machine.awaits_external_events());
        for _ in 0..2 {
            machine.look_again();
            assert!(machine.begin_look().is_some_and(|awaited| awaited.signals.is_empty()));
            machine.looked(Vec::new(), false, Vec::new(), NOW);
            // Another look before the answer asks once more after it.
            machine.looked(Vec::new(), false, Vec::new(), NOW);
            assert!(matches!(sent(&mut machine).effect, Effect::TakeSeat(_)));
            machine.seat_waits(None, NOW);
            assert!(matches!(sent(&mut machine).effect, Effect::TakeSeat(_)));
            machine.seat_waits(None, NOW);
            assert!(parks(&mut machine));
        }
        machine.look_again();
        machine.looked(Vec::new(), false, Vec::new(), NOW);
        sent(&mut machine);
        machine.committed();
        assert_eq!(machine.next(|| NOW), Next::Start(vec![id]));
        assert!(!machine.awaits_external_events());

        // The next drive asks for the attempt that this one has begun.
        let mut next = self::machine(vec![row]);
        assert!(next.has_seats());
        ask(&mut next);
        assert_eq!(sent(&mut next).row.attempt, 1);
    }

    #[test]
    fn a_failed_attempt_gives_its_seat_back_before_the_next_one_asks() {
        let mut machine = machine(Vec::new());
        let options = StepOptions { retry: Retry::fixed(std::time::Duration::ZERO), ..StepOptions::default() };
        let id = machine.call("ask", Location::caller());
        machine.ask_for_seat(id, options, &line(), NOW);
        sent(&mut machine);
        machine.committed();
        assert_eq!(machine.next(|| NOW), Next::Start(vec![id]));
        assert_eq!(machine.poll_step(id, options, NOW), CallPoll::Start { attempt: 1 });
        machine.attempt_ended(id, Err(StoredError::new(ErrorKind::Application, "no")), NOW);
        let failed = sent(&mut machine);
        assert!(matches!(failed.effect, Effect::LeaveSeat(_)) && failed.row.position.is_none());
        machine.committed();
        assert_eq!(machine.fire_timers(NOW), [id]);
        machine.ask_for_seat(id, options, &line(), NOW);
        assert_eq!(machine.poll_step(id, options, NOW), CallPoll::Pending);
        assert_eq!(sent(&mut machine).row.attempt, 2);
    }

    #[test]
    fn a_dropped_step_leaves_the_line_once() {
        for answered in [false, true] {
            let mut machine = machine(Vec::new());
            let id = ask(&mut machine);
            let row = sent(&mut machine).row;
            if answered {
                machine.seat_waits(None, NOW);
            }
            machine.dropped(id);
            let left = sent(&mut machine);
            assert!(matches!(left.effect, Effect::LeaveSeat(_)), "{left:?}");
            assert_eq!((left.row.attempt, left.row.status, left.row.position), (1, AttemptStatus::Failed, None));
            assert!(!machine.has_seats());

            // If it dies before that commit, the next drive leaves. A replay after it does not.
            for (row, leaves) in [(row, true), (left.row, false)] {
                let mut replay = self::machine(vec![row]);
                replay.hold(true);
                let id = ask(&mut replay);
                replay.dropped(id);
                assert_eq!(replay.has_records(), leaves);
            }
        }
    }

    #[test]
    fn a_limit_that_is_not_declared_is_the_outcome_of_the_step() {
        let mut machine = machine(Vec::new());
        let id = ask(&mut machine);
        sent(&mut machine);
        machine.limit_undeclared(NOW);
        let outcome = sent(&mut machine);
        assert!(matches!(outcome.effect, Effect::None) && outcome.row.position == Some(1), "{outcome:?}");
        let error = outcome.row.error.as_ref().unwrap();
        assert!(error.fatal && error.kind == ErrorKind::Refused, "{error:?}");
        machine.committed();
        assert_eq!(machine.next(|| NOW), Next::Deliver(id));
        assert!(!machine.has_seats());
    }

    #[test]
    fn a_seat_is_given_back_while_the_breaker_refuses() {
        let mut machine = machine(Vec::new());
        let id = ask(&mut machine);
        sent(&mut machine);
        machine.committed();
        machine.next(|| NOW);
        let later = NOW + std::time::Duration::from_secs(60);
        machine.hold_for_breaker(id, later);
        let left = sent(&mut machine);
        assert!(matches!(left.effect, Effect::LeaveSeat(_)));
        assert_eq!(left.row.status, AttemptStatus::Running, "the attempt goes on later");
        machine.committed();
        assert_eq!(machine.fire_timers(later), [id]);
        ask_again(&mut machine, id);
    }

    fn ask_again(machine: &mut Machine, id: CallId) {
        assert_eq!(poll(machine, id), CallPoll::Pending);
        let question = sent(machine);
        assert!(matches!(question.effect, Effect::TakeSeat(_)) && question.row.attempt == 1, "{question:?}");
    }

    /// A machine whose only step was told when to ask again.
    fn told(asks_at: Timestamp) -> (Machine, CallId) {
        let mut machine = machine(Vec::new());
        let id = ask(&mut machine);
        sent(&mut machine);
        machine.seat_waits(Some(asks_at), NOW);
        (machine, id)
    }

    #[test]
    fn a_step_that_waits_for_a_rate_asks_again_at_its_time() {
        let at = NOW + Duration::from_secs(5);
        let (mut machine, id) = told(at);
        let waits = Next::Wait { timer: Some(at), park_until: Some(at) };
        assert_eq!(machine.next(|| NOW), waits, "it may park until then");
        assert_eq!(machine.fire_timers(NOW), []);
        assert_eq!(machine.fire_timers(at), [], "nothing is to be polled");
        let question = sent(&mut machine);
        assert!(matches!(question.effect, Effect::TakeSeat(_)) && question.row.attempt == 1, "{question:?}");
        assert_eq!(machine.next(|| at), Next::Wait { timer: None, park_until: None }, "it waits for the answer");
        machine.committed();
        assert_eq!(machine.next(|| at), Next::Start(vec![id]));
        assert_eq!(poll(&mut machine, id), CallPoll::Start { attempt: 1 });
        assert_eq!(machine.fire_timers(at), []);
    }

    #[test]
    fn a_step_that_is_told_a_time_that_has_passed_asks_a_little_later() {
        let (mut machine, _) = told(NOW);
        assert_eq!(machine.fire_timers(NOW), []);
        assert!(!machine.has_records());
        machine.fire_timers(NOW + SHORTEST_WAIT);
        sent(&mut machine);
    }

    #[test]
    fn a_step_that_is_woken_or_dropped_does_not_ask_at_its_time() {
        let at = NOW + Duration::from_secs(5);
        let (mut machine, _) = told(at);
        machine.look_again();
        machine.looked(Vec::new(), false, Vec::new(), NOW);
        sent(&mut machine);
        machine.seat_waits(None, NOW);
        assert!(parks(&mut machine), "it is woken");
        machine.fire_timers(at);
        assert!(!machine.has_records());

        let (mut machine, id) = told(at);
        machine.dropped(id);
        assert!(matches!(sent(&mut machine).effect, Effect::LeaveSeat(_)));
        machine.committed();
        assert_eq!(machine.next(|| at), Next::Wait { timer: None, park_until: None });
    }
}
