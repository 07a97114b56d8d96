//! What the drive of a run does with its cell, between two polls of the workflow.

use std::task::Waker;

use crate::model::{InboxSignal, RunId};
use crate::replay::{
    Awaited, CallId, ChildEnd, Divergence, HistorySize, Interrupted, Interruption, Next, OutboxRow, Standstill,
};

use super::{Inner, RunCell, lock};

impl RunCell {
    /// What the drive is to do next. The calls that it concerns are woken.
    pub fn next(&self) -> Next {
        let mut inner = lock(&self.inner);
        let next = inner.machine.next(|| self.port.now());
        let (one, several) = match &next {
            Next::Deliver(call) => (inner.waker(*call), Vec::new()),
            Next::Start(calls) | Next::Interrupt(calls) => (None, inner.wakers(calls)),
            Next::Send | Next::Wait { .. } => (None, Vec::new()),
        };
        drop(inner);
        one.into_iter().chain(several).for_each(Waker::wake);
        next
    }

    /// Wakes the calls whose bodies were woken. Says whether there were any.
    pub fn wake_bodies(&self) -> bool {
        let calls = std::mem::take(&mut *lock(&self.woken.0));
        self.wake_calls(&calls)
    }

    /// Does what is due by now. Says whether anything was.
    pub fn fire_timers(&self) -> bool {
        let calls = lock(&self.inner).machine.fire_timers(self.port.now());
        self.report_timeouts(&calls);
        self.wake_calls(&calls)
    }

    fn wake_calls(&self, calls: &[CallId]) -> bool {
        let wakers = lock(&self.inner).wakers(calls);
        wakers.into_iter().for_each(Waker::wake);
        !calls.is_empty()
    }

    /// Whether there are records or transactions to be committed.
    pub fn has_records(&self) -> bool {
        let inner = lock(&self.inner);
        inner.machine.has_records() || !inner.commits.is_empty()
    }

    /// The records to be committed, in order. Each is answered by [`RunCell::committed`], in the same order.
    pub fn take_outbox(&self) -> Vec<OutboxRow> {
        lock(&self.inner).machine.take_outbox()
    }

    /// The oldest record that was handed out is committed.
    pub fn committed(&self) {
        lock(&self.inner).machine.committed();
    }

    /// What the run waits for outside, if somebody has to look for it now. Answered by [`RunCell::looked`].
    pub fn begin_look(&self) -> Option<Awaited> {
        lock(&self.inner).machine.begin_look()
    }

    /// Something has happened outside: whoever waits for it has to look.
    pub fn look_again(&self) {
        lock(&self.inner).machine.look_again();
    }

    /// Whether the run waits for something that others do.
    pub fn awaits_outside(&self) -> bool {
        lock(&self.inner).machine.awaits_outside()
    }

    /// What a look has found: see `Machine::looked`.
    pub fn looked(&self, signals: Vec<InboxSignal>, more: bool, ended: Vec<ChildEnd>) {
        lock(&self.inner).machine.looked(signals, more, ended, self.port.now());
    }

    /// The oldest record that was handed out started a child whose key belongs to another run. Neither was written.
    pub fn key_taken(&self, by: RunId) {
        lock(&self.inner).machine.key_taken(by, self.port.now());
    }

    /// Whether the run may have children.
    pub fn has_children(&self) -> bool {
        lock(&self.inner).machine.has_children()
    }

    /// The run is told to end: as soon as that is committed, its pending calls are. Only the first time counts.
    pub fn interrupt(&self, by: Interruption) {
        lock(&self.inner).machine.interrupt(by, self.port.now());
    }

    /// What told the run to end, if anything has.
    pub fn interrupted(&self) -> Option<Interrupted> {
        lock(&self.inner).machine.interrupted()
    }

    /// Drops the compensations that are armed: authors' values, whose destructors may panic.
    pub fn drop_compensations(&self) {
        let armed = std::mem::take(&mut *lock(&self.armed));
        drop(armed);
    }

    /// How large the history is, what is on its way included.
    pub fn history_size(&self) -> HistorySize {
        lock(&self.inner).machine.size()
    }

    /// Whether a body runs.
    pub fn is_running(&self) -> bool {
        lock(&self.inner).machine.is_running()
    }

    /// Lets no body begin, or lets them begin again. Says whether any may now.
    pub fn hold(&self, held: bool) -> bool {
        let calls = lock(&self.inner).machine.hold(held);
        self.wake_calls(&calls)
    }

    /// Why the run cannot go on with this code.
    pub fn divergence(&self) -> Option<Divergence> {
        lock(&self.inner).machine.divergence().cloned()
    }

    /// Where the replay has come to, once nothing recorded can be delivered any more.
    pub fn standstill(&self) -> Standstill {
        lock(&self.inner).machine.standstill()
    }

    /// The workflow function has ended: a divergence if recorded outcomes are left that it never asked for.
    pub fn ended(&self) -> Option<Divergence> {
        lock(&self.inner).machine.ended().cloned()
    }
}

impl Inner {
    fn wakers(&self, calls: &[CallId]) -> Vec<Waker> {
        calls.iter().filter_map(|call| self.waker(*call)).collect()
    }

    fn waker(&self, call: CallId) -> Option<Waker> {
        self.slots[call.index()].waker.clone()
    }
}
