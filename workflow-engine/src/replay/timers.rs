use std::collections::BTreeSet;

use crate::model::Timestamp;

use super::call::CallId;

/// The timers and the durable waits of a run's calls.
#[derive(Debug, Default)]
pub(super) struct Timers {
    timers: BTreeSet<(Timestamp, CallId)>,
    /// The durable waits by their ends. A wait without an end stands at
    /// [`Timestamp::FAR_FUTURE`].
    waits: BTreeSet<(Timestamp, CallId)>,
}

impl Timers {
    /// Sets a timer of a call.
    pub(super) fn set(&mut self, at: Timestamp, id: CallId) {
        self.timers.insert((at, id));
    }

    /// Removes a timer of a call.
    pub(super) fn clear(&mut self, at: Timestamp, id: CallId) {
        self.timers.remove(&(at, id));
    }

    /// Begins a durable wait with an end, at which a timer fires.
    pub(super) fn begin_wait(&mut self, until: Timestamp, id: CallId) {
        self.timers.insert((until, id));
        self.waits.insert((until, id));
    }

    /// Ends a durable wait with an end.
    pub(super) fn end_wait(&mut self, until: Timestamp, id: CallId) {
        self.timers.remove(&(until, id));
        self.waits.remove(&(until, id));
    }

    /// Begins a durable wait for an external event, which may have a timeout.
    pub(super) fn begin_external_wait(&mut self, until: Option<Timestamp>, id: CallId) {
        self.waits.insert((until.unwrap_or(Timestamp::FAR_FUTURE), id));
        self.timers.extend(until.map(|until| (until, id)));
    }

    /// Ends a durable wait for an external event.
    pub(super) fn end_external_wait(&mut self, until: Option<Timestamp>, id: CallId) {
        self.waits.remove(&(until.unwrap_or(Timestamp::FAR_FUTURE), id));
        if let Some(until) = until {
            self.timers.remove(&(until, id));
        }
    }

    /// Returns the time of the first timer.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns the end of the durable wait that ends first.
    pub(super) fn first_wait(&self) -> Option<Timestamp> {
        self.waits.first().map(|(until, _)| *until)
    }

    /// Removes and returns the first timer that is due. The durable wait that it ends stays.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, CallId)> {
        self.first().filter(|at| *at <= now)?;
        self.timers.pop_first()
    }
}
