//! Decides which outcome the workflow receives next, and when it may begin a body, wait or park.

use crate::faults::planted;
use crate::model::{StoredError, Timestamp};

use super::Machine;
use crate::replay::call::{CallId, Delivered, Phase};
use crate::replay::deliveries::Receiver;
use crate::replay::divergence::Divergence;
use crate::replay::interruption::{self, Interrupted, Interruption};
use crate::replay::records::{OutboxRow, Record, Sent};

/// The drive's next action.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Poll the workflow: this call takes its outcome.
    Deliver(CallId),
    /// Poll the workflow: the run was told to end, and these calls end with that. There may be
    /// none.
    Interrupt(Vec<CallId>),
    /// Poll the workflow: these calls may begin.
    Start(Vec<CallId>),
    /// Poll the workflow: the map of this scope may begin one more item than its limit allows.
    Admit(String),
    /// Send the records: a wait has received its signal.
    Send,
    /// Give the run up, because its history does not fit the code.
    Diverged(Divergence),
    /// Give the run up, unless something that is not a call of the context has woken the workflow:
    /// a call may begin, and the code has not asked for all recorded outcomes.
    Passed(Divergence),
    /// Wait for a body, a commit or the timer.
    Wait {
        /// The time at which [`Machine::fire_timers`] has something to do.
        timer: Option<Timestamp>,
        /// The time until which the run may be parked. It is set only if no body runs, every active
        /// call is a durable wait, and no record waits for its commit but those that are committed
        /// together with the park ([`Machine::take_last_outbox`]).
        park_until: Option<Timestamp>,
    },
}

impl Machine {
    /// Returns the drive's next action. Call it after the workflow was polled until it no longer
    /// woke itself. `now` is called only if something begins.
    pub fn next(&mut self, now: impl Fn() -> Timestamp) -> Next {
        self.interruption.end_delivery();
        if let Some(divergence) = &self.divergence {
            return Next::Diverged(divergence.clone());
        }
        if self.early.is_some() {
            return self.next_before_commit(now);
        }
        // Code behind a patch must not be seen or have an effect before the patch is committed, nor
        // a step after a wait for an event before the wait is.
        if self.awaits_confirmation() {
            return Next::Wait { timer: self.timers.first(), park_until: None };
        }
        if let Some(scope) = self.recorded.withheld.admit(&self.recorded.history, self.deliveries.first_recorded()) {
            return Next::Admit(scope);
        }
        let begin_first = planted("race-loser-rerun") && self.calls.has_idle();
        if !begin_first && let Some(next) = self.deliver_recorded().or_else(|| self.deliver_committed()) {
            return next;
        }
        // If the function has not failed after all that is recorded, its code was changed.
        self.undo_is_recorded &= self.undoes || begin_first;
        if self.calls.has_idle() && !begin_first && self.recorded.history.unasked().next().is_some() {
            return Next::Passed(self.comparison().passed());
        }
        if !self.bodies.are_held() {
            if self.calls.has_idle() {
                let (started, now) = (self.calls.take_idle(), now());
                for id in &started {
                    if self.awaits_confirmation() {
                        self.calls.add_idle(*id);
                    } else {
                        self.grant(*id, now);
                    }
                }
                return Next::Start(started);
            }
            let seated = self.take_seated();
            if !seated.is_empty() {
                return Next::Start(seated);
            }
            if self.consume_signal(&now) {
                return Next::Send;
            }
        }
        Next::Wait { timer: self.timers.first(), park_until: self.park_until() }
    }

    fn deliver_recorded(&mut self) -> Option<Next> {
        let interruption_is_due = self.interruption_is_due();
        match self.deliveries.take_recorded(interruption_is_due)? {
            (_, Receiver::Run) => Some(Next::Interrupt(self.deliver_interruption())),
            (position, Receiver::Call(id)) => {
                let recorded = self.recorded.history.take_outcome(self.calls.key(id))?;
                self.deliver(position, id, recorded.outcome, recorded.completed_at);
                Some(Next::Deliver(id))
            }
        }
    }

    fn deliver_committed(&mut self) -> Option<Next> {
        let interruption_is_due = self.interruption_is_due();
        let takes_outcome = |id| matches!(self.calls.phase(id), Phase::Decided { .. });
        match self.deliveries.take_committed(interruption_is_due, takes_outcome)? {
            (_, Receiver::Run) => Some(Next::Interrupt(self.deliver_interruption())),
            (position, Receiver::Call(id)) => self.deliver_decided(position, id).map(Next::Deliver),
        }
    }

    /// Delivers the outcome that this call has decided.
    pub(super) fn deliver_decided(&mut self, position: i64, id: CallId) -> Option<CallId> {
        let Phase::Decided { outcome, completed_at } = self.calls.phase(id) else { return None };
        let (outcome, completed_at) = (outcome.clone(), *completed_at);
        self.deliver(position, id, outcome, completed_at);
        Some(id)
    }

    fn deliver(&mut self, position: i64, id: CallId, outcome: Delivered, completed_at: Timestamp) {
        self.time.deliver(completed_at);
        self.position.add_delivered(position, id, &outcome);
        self.calls.deliver(id, outcome);
    }

    fn park_until(&self) -> Option<Timestamp> {
        self.timers.first_wait().filter(|_| self.records.are_committed() && self.only_waits())
    }

    /// Returns whether no call is active: the workflow waits only for something that is not a call
    /// of its context.
    #[must_use]
    pub fn awaits_only_foreign(&self) -> bool {
        let has_timer = self.timers.first().is_some() || self.timers.first_wait().is_some();
        !has_timer && self.records.are_committed() && self.only_waits()
    }

    /// Returns whether every active call is a durable wait. Records may wait for their commits.
    pub(super) fn only_waits(&self) -> bool {
        // A signal may be unconsumed only because the run is held. The run has seen its wake, and
        // no other event would wake the run, so it must not park.
        self.bodies.are_over()
            && !self.calls.has_idle()
            && self.deliveries.are_over()
            && !self.external.any_wait_is_met()
    }

    /// Makes the outcome of a call final: an error, or a value that the call has kept.
    pub(super) fn decide(&mut self, id: CallId, completed_at: Timestamp, record: Record) {
        let outcome = record.error.clone().map_or(Delivered::Kept, Delivered::Failed);
        self.decide_as(id, completed_at, record, outcome);
    }

    /// Makes the outcome of a call final. Its record takes the run's next position.
    pub(super) fn decide_as(&mut self, id: CallId, completed_at: Timestamp, record: Record, outcome: Delivered) {
        let position = self.deliveries.take_position(Receiver::Call(id));
        let record = Record { completed_at: Some(completed_at), ..record };
        self.records.post_outcome(id, self.calls.key(id), record, position);
        self.calls.set_phase(id, Phase::Decided { outcome, completed_at });
    }

    /// Writes a row of a call that is not an outcome.
    pub(super) fn record(&mut self, id: CallId, record: Record) {
        self.records.post_progress(id, self.calls.key(id), record);
    }

    /// Returns whether there are records to be committed.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.records.has_outbox() && !self.awaits_early_commit()
    }

    /// Takes the records to be committed, in order. Each of them is answered by
    /// [`Machine::committed`], in that order. An outcome that was delivered early is taken alone,
    /// and those behind it once it is committed.
    pub fn take_outbox(&mut self) -> Vec<OutboxRow> {
        match self.early {
            None => self.records.take_outbox(usize::MAX),
            Some(_) if self.is_ahead() => self.records.take_outbox(1),
            Some(_) => Vec::new(),
        }
    }

    /// Takes all records to be committed, in order, for the last write of the drive. None of them
    /// may be committed without those before it, nor the last write without them.
    pub fn take_last_outbox(&mut self) -> Vec<OutboxRow> {
        if self.awaits_early_commit() { Vec::new() } else { self.records.take_outbox(usize::MAX) }
    }

    /// Notes that the oldest record that was handed out is committed.
    pub fn committed(&mut self) {
        match self.records.answered() {
            Some(Sent::Outcome(position, receiver)) => {
                self.deliveries.committed(position);
                self.early.take_if(|early| *early == position);
                if let Receiver::Call(id) = receiver {
                    self.external.take_timed_out(id);
                }
            }
            Some(Sent::Seat(id)) => self.seat_taken(id),
            Some(Sent::Note | Sent::Progress(_)) | None => {}
        }
    }

    /// Tells the run to end. Only the first interruption counts.
    pub fn interrupt(&mut self, by: Interruption, now: Timestamp) {
        if self.interruption.get().is_some() || self.has_begun_undo() {
            return;
        }
        let at = self.time.tick(now);
        let position = self.deliveries.take_position(Receiver::Run);
        self.records.post_interruption(interruption::KEY, by.as_json(), at, position);
        self.interruption.set(by, at, position);
    }

    /// Notes that the function has failed and that its compensations begin. From now on nothing
    /// tells the run to end.
    pub fn begin_undo(&mut self) {
        self.undoes = true;
    }

    /// Returns whether the compensations of the run have begun, in this drive or in an earlier one.
    #[must_use]
    pub fn has_begun_undo(&self) -> bool {
        self.undoes || self.undo_is_recorded
    }

    /// Returns what told the run to end, if anything has.
    #[must_use]
    pub fn interrupted(&self) -> Option<Interrupted> {
        self.interruption.get()
    }

    /// Returns the interruption that was delivered, unless what is polled now is shielded from it.
    #[must_use]
    pub fn told_to_end(&self) -> Option<Interruption> {
        let delivered = self.interruption.get().filter(|interrupted| interrupted.delivered)?;
        (!self.interruption.is_shielding()).then_some(delivered.by)
    }

    /// Notes that something that is no call ends with the interruption, so no later call does.
    pub fn take_interruption(&mut self) {
        // The caller knows what told the run to end.
        let _ = self.interruption.take_owed();
    }

    /// Sets whether calls that are polled for the first time from now on are shielded. Returns the
    /// previous value.
    pub fn shield(&mut self, shielding: bool) -> bool {
        self.interruption.shield(shielding)
    }

    /// Returns whether a body may not begin because its call is about to be interrupted.
    pub(super) fn awaits_interruption(&self, id: CallId) -> bool {
        !self.calls.is_shielded(id) && self.interruption_is_due()
    }

    fn interruption_is_due(&self) -> bool {
        self.interruption.is_due(|| self.recorded.history.unasked().next().map(|(position, _)| position))
    }

    /// Ends every active call that is not shielded. Returns these calls in the order of calls.
    fn deliver_interruption(&mut self) -> Vec<CallId> {
        let ids = self.calls.interruptible();
        let Some(interrupted) = self.interruption.deliver(!ids.is_empty()) else { return Vec::new() };
        self.time.deliver(interrupted.at);
        for id in &ids {
            let error = interrupted.by.error().of_step(self.calls.key(*id));
            self.leave_phase(*id, Phase::Ready(Delivered::Failed(error)));
        }
        ids
    }

    /// Returns the interruption for a call that becomes active after it, unless another call has
    /// taken it.
    pub(super) fn take_owed(&mut self, id: CallId) -> Option<StoredError> {
        let by = self.interruption.take_owed()?;
        Some(by.error().of_step(self.calls.key(id)))
    }
}
