//! Decides which outcome the workflow receives next, and when it may begin a body, wait or park.

use crate::faults::planted;
use crate::model::Timestamp;

use super::call::Phase;
use super::records::Receiver;
use super::{CallId, Delivered, Machine};

/// A new outcome, from its decision to its delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undelivered {
    pub(super) position: i64,
    pub(super) receiver: Receiver,
    pub(super) committed: bool,
}

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
    /// Send the records: a wait has received its signal.
    Send,
    /// Wait for a body, a commit or the timer.
    Wait {
        /// The time at which [`Machine::fire_timers`] has something to do.
        timer: Option<Timestamp>,
        /// The time until which the run may be parked. It is set only if no body runs, no record
        /// waits for its commit, and every active call is a durable wait.
        park_until: Option<Timestamp>,
    },
}

impl Machine {
    /// Returns the drive's next action. Call it after the workflow was polled until it was quiet.
    /// `now` is called only if something begins.
    pub fn next(&mut self, now: impl Fn() -> Timestamp) -> Next {
        self.interrupting = false;
        // Code behind a patch must not be seen or have an effect before the patch is committed.
        if self.unconfirmed > 0 {
            return Next::Wait { timer: self.timers.first().map(|(at, _)| *at), park_until: None };
        }
        let begin_first = planted("race-loser-rerun") && !self.idle.is_empty();
        if !begin_first && let Some(next) = self.deliver_recorded().or_else(|| self.deliver_committed()) {
            return next;
        }
        if !self.held && self.divergence.is_none() && !self.idle.is_empty() {
            let started: Vec<_> = std::mem::take(&mut self.idle).into_iter().collect();
            let now = now();
            for id in &started {
                self.grant(*id, now);
            }
            return Next::Start(started);
        }
        if !self.held && self.divergence.is_none() && self.take_signal(&now) {
            return Next::Send;
        }
        Next::Wait { timer: self.timers.first().map(|(at, _)| *at), park_until: self.park_until() }
    }

    /// Delivers the recorded outcome with the lowest position among active calls. With the code
    /// that wrote the history, this is always the next outcome. A call that was added since then
    /// receives its outcome after a later position, hence the search.
    fn deliver_recorded(&mut self) -> Option<Next> {
        let blocked = |receiver: &Receiver| *receiver == Receiver::Run && !self.interruption_is_due();
        let position = *self.deliverable.iter().find(|(_, receiver)| !blocked(receiver))?.0;
        match self.deliverable.remove(&position)? {
            Receiver::Run => Some(Next::Interrupt(self.deliver_interruption())),
            Receiver::Call(id) => {
                let recorded = self.history.take_outcome(&self.calls[id.0].key)?;
                self.deliver(position, id, recorded.outcome, recorded.completed_at);
                Some(Next::Deliver(id))
            }
        }
    }

    /// Delivers the next new outcome. An outcome whose call was dropped meanwhile is skipped, as in
    /// every replay.
    fn deliver_committed(&mut self) -> Option<Next> {
        let mut place = 0;
        loop {
            let Undelivered { position, receiver, committed } = *self.undelivered.get(place)?;
            match receiver {
                _ if !committed => return None,
                Receiver::Run if !self.interruption_is_due() => place += 1,
                Receiver::Run => {
                    self.undelivered.remove(place);
                    return Some(Next::Interrupt(self.deliver_interruption()));
                }
                Receiver::Call(id) => {
                    self.undelivered.remove(place);
                    if let Phase::Decided { outcome, completed_at } = &self.calls[id.0].phase {
                        let (outcome, completed_at) = (outcome.clone(), *completed_at);
                        self.deliver(position, id, outcome, completed_at);
                        return Some(Next::Deliver(id));
                    }
                }
            }
        }
    }

    /// Returns the index of the undelivered outcome with this position.
    pub(super) fn undelivered_index(&self, position: i64) -> Option<usize> {
        self.undelivered.binary_search_by_key(&position, |next| next.position).ok()
    }

    fn deliver(&mut self, position: i64, id: CallId, outcome: Delivered, completed_at: Timestamp) {
        self.now = self.now.max(completed_at);
        self.position.delivered(position, id, &outcome);
        let call = &mut self.calls[id.0];
        call.succeeded = !matches!(outcome, Delivered::Failed(_));
        call.phase = Phase::Ready(outcome);
    }

    fn park_until(&self) -> Option<Timestamp> {
        // An interruption may wait for an earlier recorded outcome. That does not prevent a park.
        let delivered = self.undelivered.iter().all(|next| next.committed && next.receiver == Receiver::Run);
        let written = self.outbox.is_empty() && self.in_flight.is_empty() && delivered;
        // A signal may be unconsumed only because the run is held. The run has seen its wake, and
        // no other event would wake the run, so it must not park.
        let met = self.waits_with_a_signal();
        let quiet = self.bodies == 0 && self.idle.is_empty() && written && !met;
        self.waits.first().map(|(until, _)| *until).filter(|_| quiet)
    }

    /// Returns whether no outcome is on its way to the workflow, neither recorded nor new.
    pub(super) fn nothing_undelivered(&self) -> bool {
        self.undelivered.is_empty() && self.deliverable.is_empty()
    }

    pub(super) fn nothing_to_deliver(&self) -> bool {
        self.deliverable.is_empty() && !self.next_is_committed()
    }

    fn next_is_committed(&self) -> bool {
        self.undelivered.front().is_some_and(|next| next.committed)
    }
}
