use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::model::{InboxSignal, RunId, Timestamp};

use super::call::CallId;
use super::external::{AwaitedEvents, BegunWait};

/// The external events that are known to a run, and the calls that wait for one.
#[derive(Debug, Default)]
pub(super) struct ExternalEvents {
    /// The signals that were read and not consumed, by name.
    inbox: BTreeMap<String, VecDeque<InboxSignal>>,
    /// The number of the last consumed signal of each name. The signal is read again until its
    /// consumption is committed.
    consumed: HashMap<String, i64>,
    /// The waits for signals, decisions and events that have begun, by call.
    waits: BTreeMap<CallId, Box<BegunWait>>,
    /// The waits for events whose timeouts have passed and are not committed, by call.
    timed_out: BTreeMap<CallId, Box<BegunWait>>,
    /// The calls that wait for the end of a child, by child.
    children: BTreeMap<RunId, CallId>,
    /// The number of calls that wait for a seat.
    seats: usize,
    /// The children that an earlier drive has started and that no look has looked for yet.
    recorded_children: Vec<RunId>,
    /// Whether the drive has to look: a wait has begun, or an event may have occurred, since the
    /// last look.
    look_is_due: bool,
    /// Whether the database may hold more signals than the last look has read.
    has_more: bool,
}

/// A signal together with the wait that consumes it.
pub(super) struct Consumed {
    pub(super) id: CallId,
    pub(super) wait: Box<BegunWait>,
    pub(super) signal: InboxSignal,
    /// The timeouts of the other waits for signals of this name.
    pub(super) other_timeouts: Vec<(Timestamp, CallId)>,
}

impl ExternalEvents {
    /// Returns whether a call waits for an external event.
    pub(super) fn are_awaited(&self) -> bool {
        !self.waits.is_empty() || !self.children.is_empty() || self.seats > 0
    }

    /// Notes that a call waits for a seat.
    pub(super) fn await_seat(&mut self) {
        self.seats += 1;
    }

    /// Notes that a call does not wait for a seat any more.
    pub(super) fn end_seat_wait(&mut self) {
        self.seats = self.seats.saturating_sub(1);
    }

    /// Returns whether a call waits for the end of a child.
    pub(super) fn are_children_awaited(&self) -> bool {
        !self.children.is_empty()
    }

    /// Returns the awaited events if the drive has to look for them now.
    pub(super) fn begin_look(&mut self) -> Option<AwaitedEvents> {
        if !std::mem::take(&mut self.look_is_due) || !self.are_awaited() {
            return None;
        }
        let names: BTreeSet<&str> = self.waits.values().map(|wait| wait.name.as_str()).collect();
        let signals = names.into_iter().map(str::to_owned).collect();
        let children = self.children.keys().copied().collect();
        Some(AwaitedEvents { signals, children, recorded_children: self.recorded_children.clone() })
    }

    /// Notes that an awaited event may have occurred.
    pub(super) fn look_again(&mut self) {
        self.look_is_due |= self.are_awaited();
    }

    /// Adds the signals that a look has read, and whether the database holds more. The look has
    /// found every recorded child that is missing.
    pub(super) fn add_signals(&mut self, signals: Vec<InboxSignal>, has_more: bool) {
        self.has_more = has_more;
        self.recorded_children.clear();
        for signal in signals {
            let kept = self.inbox.entry(signal.name.clone()).or_default();
            let last = kept.back().map(|last| last.seq).max(self.consumed.get(&signal.name).copied());
            if last.is_none_or(|last| signal.seq > last) {
                kept.push_back(signal);
            }
        }
    }

    /// Adds a wait that has begun. The drive then has to look for its signal.
    pub(super) fn begin_wait(&mut self, id: CallId, wait: Box<BegunWait>) {
        self.waits.insert(id, wait);
        self.look_is_due = true;
    }

    /// Removes the wait of a call.
    pub(super) fn end_wait(&mut self, id: CallId) -> Option<Box<BegunWait>> {
        // The page of signals may have been full of signals for this wait alone.
        self.look_is_due |= self.has_more;
        self.waits.remove(&id)
    }

    /// Returns the waits that have no signal and no row yet, and marks them as recorded.
    pub(super) fn take_unrecorded(&mut self) -> Vec<(CallId, &BegunWait)> {
        let is_unmet =
            |wait: &BegunWait| !wait.recorded && wait.event.is_none() && !has_signal(&self.inbox, &wait.name);
        let unmet = self.waits.iter_mut().filter(|(_, wait)| is_unmet(wait));
        unmet
            .map(|(id, wait)| {
                wait.recorded = true;
                (*id, &**wait)
            })
            .collect()
    }

    /// Returns whether a wait for an event is not registered, because another transaction emits
    /// that event.
    pub(super) fn is_any_unregistered(&self) -> bool {
        self.waits.values().any(|wait| wait.event.is_some() && !wait.recorded)
    }

    /// Sets whether the wait of this call for an event is registered. Returns the wait.
    pub(super) fn set_registered(&mut self, id: CallId, registered: bool) -> Option<&BegunWait> {
        let wait = self.waits.get_mut(&id)?;
        wait.recorded = registered;
        Some(wait)
    }

    /// Returns the wait of a call.
    pub(super) fn wait(&self, id: CallId) -> Option<&BegunWait> {
        self.waits.get(&id).map(|wait| &**wait)
    }

    /// Keeps a wait for an event whose timeout has passed until that is committed.
    pub(super) fn keep_timed_out(&mut self, id: CallId, wait: Box<BegunWait>) {
        self.timed_out.insert(id, wait);
    }

    /// Takes a wait for an event whose timeout has passed.
    pub(super) fn take_timed_out(&mut self, id: CallId) -> Option<Box<BegunWait>> {
        self.timed_out.remove(&id)
    }

    /// Gives the oldest wait that has a signal its signal, and removes both.
    pub(super) fn consume(&mut self) -> Option<Consumed> {
        let (id, wait) = self.waits.iter().find(|(_, wait)| has_signal(&self.inbox, &wait.name))?;
        let id = *id;
        let signal = self.inbox.get_mut(&wait.name)?.pop_front()?;
        let wait = self.end_wait(id)?;
        self.consumed.insert(wait.name.clone(), signal.seq);
        let others = self.waits.iter().filter(|(_, other)| other.name == wait.name);
        let other_timeouts = others.filter_map(|(id, other)| Some((other.until?, *id))).collect();
        Some(Consumed { id, wait, signal, other_timeouts })
    }

    /// Returns whether any wait has its signal.
    pub(super) fn any_wait_is_met(&self) -> bool {
        self.waits.values().any(|wait| has_signal(&self.inbox, &wait.name))
    }

    /// Returns whether the wait of this call has its signal and only waits for its turn. Its
    /// timeout can no longer end it.
    pub(super) fn is_met(&self, id: CallId) -> bool {
        self.waits.get(&id).is_some_and(|wait| has_signal(&self.inbox, &wait.name))
    }

    /// Returns whether the signal of this wait may have come in time and was not read, because the
    /// drive has to look first. The end of a wait for an event asks the database itself.
    pub(super) fn may_be_met(&self, id: CallId) -> bool {
        self.look_is_due && self.waits.get(&id).is_some_and(|wait| wait.event.is_none())
    }

    /// Notes that a call waits for the end of a child.
    pub(super) fn await_child(&mut self, id: CallId, run_id: RunId) {
        self.children.insert(run_id, id);
    }

    /// Notes that a call waits for the end of a child that an earlier drive has started. The drive
    /// then has to look for it.
    pub(super) fn await_recorded_child(&mut self, id: CallId, run_id: RunId) {
        self.await_child(id, run_id);
        self.recorded_children.push(run_id);
        self.look_is_due = true;
    }

    /// Removes a child. Returns the call that waits for its end.
    pub(super) fn remove_child(&mut self, run_id: RunId) -> Option<CallId> {
        self.children.remove(&run_id)
    }
}

fn has_signal(inbox: &BTreeMap<String, VecDeque<InboxSignal>>, name: &str) -> bool {
    inbox.get(name).is_some_and(|signals| !signals.is_empty())
}
