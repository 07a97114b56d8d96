//! Begins and ends attempts and sleeps, and keeps their timers.

use std::time::Duration;

use crate::faults::planted;
use crate::model::{ErrorKind, RUNNING_ROW_DELAY, StepKind, StoredError, Timestamp, derived_fraction, in_generation};

use crate::replay::call::{Attempt, CallId, Delivered, Phase, StepOptions, Wait, Work};
use crate::replay::deliveries::Receiver;
use crate::replay::history::LastAttempt;
use crate::replay::records::{CommitRow, Record};

use super::Machine;

/// The end of the error text of a transaction that took too long.
const HUNG_TRANSACTION: &str = " and was rolled back; on SQLite nothing else of its process is written while a \
     transaction is open, so its body must not await another write: start runs with .within(&mut tx)";

impl Machine {
    /// Lets an idle call begin. A body begins at its next poll, a wait begins here.
    pub(super) fn grant(&mut self, id: CallId, now: Timestamp) {
        match self.calls.replace_phase(id, Phase::Called) {
            Phase::Idle(Work::Body(options)) => self.grant_body(id, options),
            Phase::Idle(Work::Sleep(wait)) => self.begin_sleep(id, wait, now),
            Phase::Idle(Work::Signal(wait)) => self.begin_signal_wait(id, wait, now),
            Phase::Idle(Work::Child(child)) => self.begin_child(id, child, now),
            other => self.calls.set_phase(id, other),
        }
    }

    fn grant_body(&mut self, id: CallId, options: StepOptions) {
        let key = self.calls.key(id);
        let last = self.recorded.history.step(key).map(|step| &step.last);
        match last.map(|last| (last.number, last.failure.as_ref())) {
            // A recorded failure without a position was to be followed by another attempt. If the
            // policy was tightened since then, that attempt still begins, at once, because the row
            // of the failed attempt can no longer become the outcome.
            Some((number, Some((failed_at, error)))) => {
                let delay = self.retry_delay(key, number, error, options).unwrap_or_default();
                self.back_off(id, number.saturating_add(1), *failed_at + delay, options);
            }
            Some((number, None)) => self.allow_body(id, number, options),
            None => self.allow_body(id, 1, options),
        }
    }

    pub(super) fn allow_body(&mut self, id: CallId, attempt: u32, options: StepOptions) {
        self.calls.set_phase(id, Phase::Granted { attempt, options });
        self.bodies.grant();
    }

    fn back_off(&mut self, id: CallId, attempt: u32, until: Timestamp, options: StepOptions) {
        self.calls.set_phase(id, Phase::BackingOff { attempt, until, options });
        self.timers.begin_wait(until, id);
    }

    pub(super) fn begin(&mut self, id: CallId, number: u32, options: StepOptions, now: Timestamp) {
        self.bodies.begin();
        let started_at = self.time.tick(now);
        let transaction = options.kind == StepKind::Transaction;
        // The timeout of a transaction counts from the moment at which the transaction is open.
        // While it is open, SQLite cannot write a `running` row.
        let times_out_at = options.timeout.filter(|_| !transaction).map(|timeout| started_at + timeout);
        // The row of an attempt with a seat was written when it asked for the seat.
        let shows_at = Some(started_at + RUNNING_ROW_DELAY).filter(|_| !transaction && !self.has_seat(id));
        for at in times_out_at.into_iter().chain(shows_at) {
            self.timers.set(at, id);
        }
        self.calls.set_phase(id, Phase::Running(Attempt { number, started_at, options, times_out_at, shows_at }));
    }

    fn begin_sleep(&mut self, id: CallId, wait: Wait, now: Timestamp) {
        let last = self.recorded.history.step(self.calls.key(id)).map(|step| &step.last);
        // A row that has ended without an outcome is one of an earlier attempt of the run. The
        // sleep begins anew: a step that is attempted again has the whole time of its timeout.
        let attempt = last.map_or(1, LastAttempt::next);
        let started = last.filter(|last| !last.has_ended).and_then(|last| {
            let until = serde_json::from_str::<Timestamp>(last.output.as_deref()?).ok()?;
            Some((until, last.started_at))
        });
        let (until, started_at) = started.unwrap_or_else(|| {
            let now = self.time.tick(now);
            let until = match wait {
                Wait::For(_) if planted("early-timer") => now,
                Wait::For(duration) => now + duration,
                Wait::Until(until) => until,
            };
            let output = Some(until.as_micros().to_string());
            self.record(id, Record { output, ..Record::begun(attempt, StepKind::Sleep, now) });
            (until, now)
        });
        self.calls.set_phase(id, Phase::Sleeping { attempt, until, started_at });
        self.timers.begin_wait(until, id);
    }

    /// Notes that a body has ended, with a value that the call keeps or with an error.
    pub fn attempt_ended(&mut self, id: CallId, result: Result<String, StoredError>, now: Timestamp) {
        let Phase::Running(attempt) = *self.calls.phase(id) else { return };
        self.stop_body(id, attempt);
        let completed_at = self.time.tick(now);
        let record = Record::begun(attempt.number, attempt.options.kind, attempt.started_at);
        match result {
            Ok(output) if attempt.options.kind == StepKind::Transaction => {
                self.commit(id, attempt, completed_at, Record { output: Some(output), ..record });
            }
            Ok(output) => {
                let effect = self.give_seat_back(id);
                self.decide(id, completed_at, Record { output: Some(output), effect, ..record });
            }
            Err(error) => self.attempt_failed(id, attempt, error, completed_at),
        }
    }

    /// Plans the next attempt after a failed one, or makes its error the outcome.
    fn attempt_failed(&mut self, id: CallId, attempt: Attempt, error: StoredError, completed_at: Timestamp) {
        let begun = Record::begun(attempt.number, attempt.options.kind, attempt.started_at);
        let record = Record { effect: self.give_seat_back(id), ..begun };
        let error = error.of_step(self.calls.key(id));
        let delay = self.retry_delay(self.calls.key(id), attempt.number, &error, attempt.options);
        match delay {
            Some(delay) => {
                let next_attempt_at = completed_at + delay;
                // The stored plan is for readers only. A replay follows the policy of its own code.
                let number = self.number_in_round(self.calls.key(id), attempt.number);
                let error = error.followed(attempt.options.retry.attempts_left(number), next_attempt_at);
                self.record(id, Record { error: Some(error), completed_at: Some(completed_at), ..record });
                self.back_off(id, attempt.number.saturating_add(1), next_attempt_at, attempt.options);
            }
            None => self.decide(id, completed_at, Record { error: Some(error), ..record }),
        }
    }

    /// Returns the delay before the next attempt, or `None` if no attempt follows.
    fn retry_delay(&self, key: &str, attempt: u32, error: &StoredError, options: StepOptions) -> Option<Duration> {
        if error.fatal {
            return None;
        }
        let purpose = in_generation(self.generation, format!("retry {key} {attempt}"));
        let fraction = derived_fraction(self.run_id, &purpose);
        // The attempt that ended a round, before the run was retried, has the number 0 in the next.
        let number = Some(self.number_in_round(key, attempt)).filter(|number| *number > 0)?;
        let delay = options.retry.delay_after(number, fraction)?;
        Some(error.retry_after().unwrap_or(delay))
    }

    /// Returns the number of an attempt within its round, from 1. When a run is retried, each step
    /// that ended in a failure begins a new round, with all attempts of its policy.
    fn number_in_round(&self, key: &str, attempt: u32) -> u32 {
        let step = self.recorded.history.step(key).filter(|_| self.is_retry());
        attempt.saturating_sub(step.map_or(0, |step| step.ended_round))
    }

    /// Ends the body of an attempt, and its timers.
    pub(super) fn stop_body(&mut self, id: CallId, attempt: Attempt) {
        self.bodies.end();
        for at in attempt.times_out_at.into_iter().chain(attempt.shows_at) {
            self.timers.clear(at, id);
        }
    }

    /// Takes the run's next position for the outcome of a transaction whose body has succeeded. Its
    /// transaction is to commit the outcome.
    fn commit(&mut self, id: CallId, attempt: Attempt, completed_at: Timestamp, record: Record) {
        let position = self.deliveries.take_position(Receiver::Call(id));
        let record = Record { completed_at: Some(completed_at), ..record };
        self.records.add_commit(id, self.calls.key(id), record, position);
        self.calls.set_phase(id, Phase::Committing { attempt, completed_at });
    }

    /// Notes that the transaction is open and its body runs. The timeout counts from now, without
    /// the wait for a connection.
    pub fn transaction_opened(&mut self, id: CallId, now: Timestamp) {
        let now = self.time.tick(now);
        let Some(attempt) = self.calls.running_attempt(id) else { return };
        attempt.times_out_at = attempt.options.timeout.map(|timeout| now + timeout);
        if let Some(at) = attempt.times_out_at {
            self.timers.set(at, id);
        }
    }

    /// Takes the outcomes to be committed by their transactions.
    pub fn take_commits(&mut self) -> Vec<CommitRow> {
        self.records.take_commits()
    }

    /// Notes that a transaction committed the outcome with this position, or failed to. If it
    /// failed, the position is given up and the attempt has failed.
    pub fn transaction_ended(&mut self, id: CallId, position: i64, result: Result<(), StoredError>, now: Timestamp) {
        let committing = match *self.calls.phase(id) {
            Phase::Committing { attempt, completed_at } => Some((attempt, completed_at)),
            // The call was dropped meanwhile, by an outcome with an earlier position. Every replay
            // will drop it too.
            _ => None,
        };
        match (result, committing) {
            (Ok(()), committing) => {
                self.deliveries.committed(position);
                if let Some((_, completed_at)) = committing {
                    self.calls.set_phase(id, Phase::Decided { outcome: Delivered::Kept, completed_at });
                }
            }
            (Err(error), committing) => {
                self.deliveries.give_up(position);
                if let Some((attempt, _)) = committing {
                    let completed_at = self.time.tick(now);
                    self.attempt_failed(id, attempt, error, completed_at);
                }
            }
        }
    }

    /// Returns whether the next poll of this step would begin an attempt. The call becomes active,
    /// as by a poll.
    pub fn is_about_to_begin(&mut self, id: CallId, options: StepOptions, now: Timestamp) -> bool {
        if self.divergence.is_none() && matches!(self.calls.phase(id), Phase::Called) {
            self.activate(id, Work::Body(options), now);
        }
        let granted = matches!(self.calls.phase(id), Phase::Granted { .. });
        granted && !self.bodies.are_held() && self.divergence.is_none()
    }

    /// Makes an attempt that is about to begin wait until `until`, because its breaker does not
    /// admit it. The wait is durable, and afterwards the attempt may begin with its number
    /// unchanged. The wait has no row, because nothing has happened that a replay would have to
    /// know.
    pub fn hold_for_breaker(&mut self, id: CallId, until: Timestamp) {
        if let Phase::Granted { attempt, options } = *self.calls.phase(id) {
            self.bodies.withdraw();
            self.back_off(id, attempt, until, options);
            self.put_seat_off(id);
        }
    }

    /// Fires the timers that are due: ends sleeps and back-offs, ends attempts at their timeouts,
    /// records long attempts, asks for seats again. Returns the calls to poll. None fires before
    /// the commit of an outcome that was delivered early: a body could begin.
    pub fn fire_timers(&mut self, now: Timestamp) -> Vec<CallId> {
        let (mut fired, mut kept) = (Vec::new(), Vec::new());
        if self.early.is_some() {
            return fired;
        }
        while let Some((at, id)) = self.timers.take_due(now) {
            if self.external.is_met(id) {
                continue;
            }
            if self.external.may_be_met(id) {
                kept.push((at, id));
                continue;
            }
            self.timers.end_wait(at, id);
            if matches!(self.calls.phase(id), Phase::AwaitingSeat { .. }) {
                // A poll would find nothing new, and would begin the worker's linger anew.
                self.fire_seat_wait(id, now);
                continue;
            }
            self.fire(id, at, now);
            fired.push(id);
        }
        for (at, id) in kept {
            self.timers.set(at, id);
        }
        fired
    }

    fn fire(&mut self, id: CallId, at: Timestamp, now: Timestamp) {
        match *self.calls.phase(id) {
            Phase::Sleeping { attempt, until, started_at } => {
                let completed_at = self.time.tick(now);
                let output = Some(until.as_micros().to_string());
                self.decide(id, completed_at, Record { output, ..Record::begun(attempt, StepKind::Sleep, started_at) });
            }
            Phase::AwaitingSignal => self.fire_signal_wait(id, now),
            Phase::BackingOff { attempt, options, .. } => self.allow_body(id, attempt, options),
            Phase::Running(attempt) if attempt.times_out_at == Some(at) => {
                let limit = attempt.options.timeout.unwrap_or_default();
                let mut message = format!("attempt {} took longer than its timeout of {limit:?}", attempt.number);
                if attempt.options.kind == StepKind::Transaction {
                    message.push_str(HUNG_TRANSACTION);
                }
                self.attempt_ended(id, Err(StoredError::new(ErrorKind::Timeout, message)), now);
            }
            Phase::Running(attempt) => self.show(id, attempt),
            _ => {}
        }
    }

    /// Writes the `running` row of an attempt that takes long.
    fn show(&mut self, id: CallId, attempt: Attempt) {
        self.calls.set_phase(id, Phase::Running(Attempt { shows_at: None, ..attempt }));
        self.record(id, Record::begun(attempt.number, attempt.options.kind, attempt.started_at));
    }
}
