//! Begins and ends attempts and sleeps, and keeps their timers.

use std::time::Duration;

use crate::faults::planted;
use crate::model::{ErrorKind, RUNNING_ROW_DELAY, StepKind, StoredError, Timestamp, derived_fraction, in_generation};

use super::call::{Attempt, Phase, Work};
use super::records::Record;
use super::{CallId, Machine, StepOptions, Wait};

/// The end of the error text of a transaction that took too long.
const HUNG_TRANSACTION: &str = " and was rolled back; on SQLite nothing else of its process is written while a \
     transaction is open, so its body must not await another write: start runs with .within(&mut tx)";

impl Machine {
    /// Lets an idle call begin. A body begins at its next poll, a wait begins here.
    pub(super) fn grant(&mut self, id: CallId, now: Timestamp) {
        match std::mem::replace(&mut self.calls[id.0].phase, Phase::Called) {
            Phase::Idle(Work::Body(options)) => self.grant_body(id, options),
            Phase::Idle(Work::Sleep(wait)) => self.begin_sleep(id, wait, now),
            Phase::Idle(Work::Signal(wait)) => self.begin_receiving(id, wait, now),
            Phase::Idle(Work::Child(child)) => self.begin_child(id, child, now),
            other => self.calls[id.0].phase = other,
        }
    }

    fn grant_body(&mut self, id: CallId, options: StepOptions) {
        let key = &self.calls[id.0].key;
        let last = self.history.step(key).map(|step| &step.last);
        match last.map(|last| (last.number, last.failure.as_ref())) {
            // A recorded failure without a position was to be followed by another attempt. If the
            // policy was tightened since then, that attempt still begins, at once, because the row
            // of the failed attempt can no longer become the outcome.
            Some((number, Some((failed_at, error)))) => {
                let delay = self.retry_delay(key, number, error, options).unwrap_or_default();
                self.back_off(id, number.saturating_add(1), *failed_at + delay, options);
            }
            Some((number, None)) => self.let_begin(id, number, options),
            None => self.let_begin(id, 1, options),
        }
    }

    fn let_begin(&mut self, id: CallId, attempt: u32, options: StepOptions) {
        self.calls[id.0].phase = Phase::Granted { attempt, options };
        self.bodies += 1;
    }

    pub(super) fn back_off(&mut self, id: CallId, attempt: u32, until: Timestamp, options: StepOptions) {
        self.calls[id.0].phase = Phase::BackingOff { attempt, until, options };
        self.wait(until, id);
    }

    fn wait(&mut self, until: Timestamp, id: CallId) {
        self.timers.insert((until, id));
        self.waits.insert((until, id));
    }

    pub(super) fn begin(&mut self, id: CallId, number: u32, options: StepOptions, now: Timestamp) {
        self.running += 1;
        let started_at = self.tick(now);
        let transaction = options.kind == StepKind::Transaction;
        // The timeout of a transaction counts from the moment at which the transaction is open.
        // While it is open, SQLite cannot write a `running` row.
        let times_out_at = options.timeout.filter(|_| !transaction).map(|timeout| started_at + timeout);
        let shows_at = Some(started_at + RUNNING_ROW_DELAY).filter(|_| !transaction);
        self.timers.extend(times_out_at.into_iter().chain(shows_at).map(|at| (at, id)));
        self.calls[id.0].phase = Phase::Running(Attempt { number, started_at, options, times_out_at, shows_at });
    }

    fn begin_sleep(&mut self, id: CallId, wait: Wait, now: Timestamp) {
        let started = self.history.step(&self.calls[id.0].key).and_then(|step| {
            let until = serde_json::from_str::<Timestamp>(step.last.output.as_deref()?).ok()?;
            Some((until, step.last.started_at))
        });
        let (until, started_at) = started.unwrap_or_else(|| {
            let now = self.tick(now);
            let until = match wait {
                Wait::For(_) if planted("early-timer") => now,
                Wait::For(duration) => now + duration,
                Wait::Until(until) => until,
            };
            let output = Some(until.as_micros().to_string());
            self.record(id, Record { output, ..Record::begun(1, StepKind::Sleep, now) });
            (until, now)
        });
        self.calls[id.0].phase = Phase::Sleeping { until, started_at };
        self.wait(until, id);
    }

    /// Notes that a body has ended, with a value that the call keeps or with an error.
    pub fn attempt_ended(&mut self, id: CallId, result: Result<String, StoredError>, now: Timestamp) {
        let Phase::Running(attempt) = self.calls[id.0].phase else { return };
        self.stop_body(id, attempt);
        let completed_at = self.tick(now);
        let record = Record::begun(attempt.number, attempt.options.kind, attempt.started_at);
        match result {
            Ok(output) if attempt.options.kind == StepKind::Transaction => {
                self.commit(id, attempt, completed_at, Record { output: Some(output), ..record });
            }
            Ok(output) => self.decide(id, completed_at, Record { output: Some(output), ..record }),
            Err(error) => self.attempt_failed(id, attempt, error, completed_at),
        }
    }

    /// Plans the next attempt after a failed one, or makes its error the outcome.
    pub(super) fn attempt_failed(&mut self, id: CallId, attempt: Attempt, error: StoredError, completed_at: Timestamp) {
        let record = Record::begun(attempt.number, attempt.options.kind, attempt.started_at);
        let error = error.of_step(&self.calls[id.0].key);
        let delay = self.retry_delay(&self.calls[id.0].key, attempt.number, &error, attempt.options);
        match delay {
            Some(delay) => {
                let next_attempt_at = completed_at + delay;
                // The stored plan is for readers only. A replay follows the policy of its own code.
                let error = error.followed(attempt.options.retry.attempts_left(attempt.number), next_attempt_at);
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
        let attempt = if self.is_retry { options.retry.round_of(attempt) } else { attempt };
        let delay = options.retry.delay_after(attempt, fraction)?;
        Some(error.retry_after().unwrap_or(delay))
    }

    pub(super) fn stop_body(&mut self, id: CallId, attempt: Attempt) {
        self.bodies -= 1;
        self.running -= 1;
        for at in attempt.times_out_at.into_iter().chain(attempt.shows_at) {
            self.timers.remove(&(at, id));
        }
    }

    /// Returns the time of a new record. The times of one run never go back, even if the clock
    /// does.
    pub(super) fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Fires the timers that are due: ends sleeps and back-offs, ends attempts at their timeouts,
    /// records long attempts. Returns the calls to poll.
    pub fn fire_timers(&mut self, now: Timestamp) -> Vec<CallId> {
        let mut fired = Vec::new();
        while let Some((at, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, id));
            if self.is_met(id) {
                continue;
            }
            self.waits.remove(&(at, id));
            self.fire(id, at, now);
            fired.push(id);
        }
        fired
    }

    fn fire(&mut self, id: CallId, at: Timestamp, now: Timestamp) {
        match &self.calls[id.0].phase {
            Phase::Sleeping { until, started_at } => {
                let (until, started_at) = (*until, *started_at);
                let completed_at = self.tick(now);
                let output = Some(until.as_micros().to_string());
                self.decide(id, completed_at, Record { output, ..Record::begun(1, StepKind::Sleep, started_at) });
            }
            Phase::Receiving(_) => self.receive_nothing(id, now),
            Phase::BackingOff { attempt, options, .. } => self.let_begin(id, *attempt, *options),
            Phase::Running(attempt) if attempt.times_out_at == Some(at) => {
                let attempt = *attempt;
                let limit = attempt.options.timeout.unwrap_or_default();
                let mut message = format!("attempt {} took longer than its timeout of {limit:?}", attempt.number);
                if attempt.options.kind == StepKind::Transaction {
                    message.push_str(HUNG_TRANSACTION);
                }
                self.attempt_ended(id, Err(StoredError::new(ErrorKind::Timeout, message)), now);
            }
            Phase::Running(attempt) => self.show(id, *attempt),
            _ => {}
        }
    }

    /// Writes the `running` row of an attempt that takes long.
    fn show(&mut self, id: CallId, attempt: Attempt) {
        self.calls[id.0].phase = Phase::Running(Attempt { shows_at: None, ..attempt });
        self.record(id, Record::begun(attempt.number, attempt.options.kind, attempt.started_at));
    }
}
