//! Which outcome the workflow gets next, and when it may start, wait or be parked.

use crate::model::Timestamp;

use super::call::Phase;
use super::{CallId, Delivered, Machine};

/// What the drive is to do next.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Poll the workflow: this call takes its outcome.
    Deliver(CallId),
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
    /// What the drive is to do, after the workflow was polled until it was quiet.
    pub fn next(&mut self, now: Timestamp) -> Next {
        if let Some(id) = self.deliver_recorded().or_else(|| self.deliver_committed()) {
            return Next::Deliver(id);
        }
        if !self.held && self.divergence.is_none() && !self.idle.is_empty() {
            let started: Vec<_> = std::mem::take(&mut self.idle).into_iter().collect();
            for id in &started {
                self.grant(*id, now);
            }
            return Next::Start(started);
        }
        if !self.held && self.divergence.is_none() && self.take_signal(now) {
            return Next::Send;
        }
        Next::Wait { timer: self.timers.first().map(|(at, _)| *at), park_until: self.park_until() }
    }

    /// The recorded outcome with the lowest position among active calls. For the code that made the record that is always
    /// the next one; a call that was added since finds its outcome after a later position, hence the look ahead.
    fn deliver_recorded(&mut self) -> Option<CallId> {
        let (_, id) = self.deliverable.pop_first()?;
        let recorded = self.history.take_outcome(&self.calls[id.0].key)?;
        self.deliver(id, recorded.outcome, recorded.completed_at);
        Some(id)
    }

    /// The next new outcome. One whose call was dropped meanwhile is passed over, as every replay will.
    fn deliver_committed(&mut self) -> Option<CallId> {
        while let Some(id) = self.committed.pop_front() {
            if let Phase::Decided { outcome, completed_at } = &self.calls[id.0].phase {
                let (outcome, completed_at) = (outcome.clone(), *completed_at);
                self.deliver(id, outcome, completed_at);
                return Some(id);
            }
        }
        None
    }

    fn deliver(&mut self, id: CallId, outcome: Delivered, completed_at: Timestamp) {
        self.now = self.now.max(completed_at);
        self.trail.delivered(id, &self.calls[id.0].phase, &outcome);
        self.calls[id.0].phase = Phase::Ready(outcome);
    }

    fn park_until(&self) -> Option<Timestamp> {
        let quiet = self.bodies == 0 && self.idle.is_empty() && self.outbox.is_empty() && self.in_flight.is_empty();
        self.waits.first().map(|(until, _)| *until).filter(|_| quiet)
    }

    /// Whether no outcome is on its way to the workflow, neither decided nor committed.
    pub(super) fn nothing_undelivered(&self) -> bool {
        let on_its_way = self.outbox.iter().map(|row| &row.sent).chain(&self.in_flight).any(|sent| sent.is_outcome);
        !on_its_way && self.nothing_to_deliver()
    }

    pub(super) fn nothing_to_deliver(&self) -> bool {
        self.deliverable.is_empty() && self.committed.is_empty()
    }
}
