//! Which outcome the workflow gets next, and when it may start, wait or be parked.

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

/// What the drive is to do next.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Poll the workflow: this call takes its outcome.
    Deliver(CallId),
    /// Poll the workflow: the run was told to end, and these calls, if any, end with that.
    Interrupt(Vec<CallId>),
    /// Poll the workflow: these calls may begin.
    Start(Vec<CallId>),
    /// Send the records: a wait was met.
    Send,
    /// Wait: for a body, a commit, or the timer.
    Wait {
        /// When [`Machine::fire_timers`] has something to do.
        timer: Option<Timestamp>,
        /// The run may be parked until then: nothing runs, nothing is on its way, every active call is a durable wait.
        park_until: Option<Timestamp>,
    },
}

impl Machine {
    /// What the drive is to do, after the workflow was polled until it was quiet. `now` is asked only where something begins.
    pub fn next(&mut self, now: impl Fn() -> Timestamp) -> Next {
        self.interrupting = false;
        // What follows a patch must not be seen, and have no effect, before the patch is committed.
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

    /// The recorded outcome with the lowest position among active calls. For the code that made the record that is always
    /// the next one; a call that was added since finds its outcome after a later position, hence the look ahead.
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

    /// The next new outcome. One whose call was dropped meanwhile is passed over, as every replay will.
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

    /// Where the outcome with this position is among those that are not delivered.
    pub(super) fn undelivered_place(&self, position: i64) -> Option<usize> {
        self.undelivered.binary_search_by_key(&position, |next| next.position).ok()
    }

    fn deliver(&mut self, position: i64, id: CallId, outcome: Delivered, completed_at: Timestamp) {
        self.now = self.now.max(completed_at);
        self.trail.delivered(position, id, &outcome);
        let call = &mut self.calls[id.0];
        call.succeeded = !matches!(outcome, Delivered::Failed(_));
        call.phase = Phase::Ready(outcome);
    }

    fn park_until(&self) -> Option<Timestamp> {
        // An interruption that waits for a recorded outcome before it is no reason to stay.
        let delivered = self.undelivered.iter().all(|next| next.committed && next.receiver == Receiver::Run);
        let written = self.outbox.is_empty() && self.in_flight.is_empty() && delivered;
        // A signal that could not be taken yet, for the run is held: its wake was seen, and nobody would wake the run again.
        let met = self.waits_with_a_signal();
        let quiet = self.bodies == 0 && self.idle.is_empty() && written && !met;
        self.waits.first().map(|(until, _)| *until).filter(|_| quiet)
    }

    /// Whether no outcome is on its way to the workflow, neither decided nor committed.
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
