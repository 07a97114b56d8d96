//! The methods of the run cell that the drive of a run calls between two polls of the workflow.

use std::task::Waker;

use crate::model::{InboxSignal, RunId, Timestamp};
use crate::replay::{
    AwaitedEvents, CallId, ChildEnd, Divergence, HistorySize, Interrupted, Interruption, Next, OutboxRow, Snapshot,
};

use super::{Inner, RunCell, lock};

impl RunCell {
    /// Returns the drive's next action and wakes the calls that it concerns.
    pub fn next(&self) -> Next {
        let mut inner = lock(&self.inner);
        let next = inner.machine.next(|| self.port.now());
        let (one, several) = match &next {
            Next::Deliver(call) => (inner.waker(*call), Vec::new()),
            Next::Start(calls) | Next::Interrupt(calls) => (None, inner.wakers(calls)),
            Next::Admit(scope) => (inner.maps.remove(scope), Vec::new()),
            Next::Send | Next::Diverged(_) | Next::Passed(_) | Next::Wait { .. } => (None, Vec::new()),
        };
        drop(inner);
        one.into_iter().chain(several).for_each(Waker::wake);
        next
    }

    /// Delivers the outcome that waits for its commit, if only the run's own code can depend on it,
    /// and wakes its call. Returns that call.
    pub fn deliver_early(&self) -> Option<CallId> {
        let mut inner = lock(&self.inner);
        let call = inner.machine.deliver_early()?;
        let waker = inner.waker(call);
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
        Some(call)
    }

    /// Returns whether the workflow has seen an outcome that was not handed out yet.
    pub fn is_ahead(&self) -> bool {
        lock(&self.inner).machine.is_ahead()
    }

    /// Returns whether the workflow has seen an outcome that was handed out and is not committed.
    pub fn awaits_early_commit(&self) -> bool {
        lock(&self.inner).machine.awaits_early_commit()
    }

    /// Wakes the calls whose bodies were woken. Returns whether there were any.
    pub fn wake_bodies(&self) -> bool {
        let calls = std::mem::take(&mut *lock(&self.woken.0));
        self.wake_calls(&calls)
    }

    /// Fires the timers that are due now. Returns whether any was.
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

    /// Returns whether records or transactions wait to be committed.
    pub fn has_records(&self) -> bool {
        let inner = lock(&self.inner);
        inner.machine.has_records() || !inner.commits.is_empty()
    }

    /// Takes the records to be committed, in order. Each of them is answered by
    /// [`RunCell::committed`], in that order.
    pub fn take_outbox(&self) -> Vec<OutboxRow> {
        lock(&self.inner).machine.take_outbox()
    }

    /// Takes all records to be committed, in order, for the last write of the drive.
    pub fn take_last_outbox(&self) -> Vec<OutboxRow> {
        lock(&self.inner).machine.take_last_outbox()
    }

    /// Notes that the oldest record that was handed out is committed.
    pub fn committed(&self) {
        lock(&self.inner).machine.committed();
    }

    /// Returns the external events that the run waits for, if the drive has to look for them now.
    /// Answered by [`RunCell::looked`].
    pub fn begin_look(&self) -> Option<AwaitedEvents> {
        lock(&self.inner).machine.begin_look()
    }

    /// Notes that an external event has occurred, so the drive has to look again.
    pub fn look_again(&self) {
        lock(&self.inner).machine.look_again();
    }

    /// Returns whether the run waits for an external event.
    pub fn awaits_external_events(&self) -> bool {
        lock(&self.inner).machine.awaits_external_events()
    }

    /// Returns whether the run waits for the end of a child.
    pub fn awaits_children(&self) -> bool {
        lock(&self.inner).machine.awaits_children()
    }

    /// Passes on what a look has found: see `Machine::looked`.
    pub fn looked(&self, signals: Vec<InboxSignal>, more: bool, ended: Vec<ChildEnd>) {
        lock(&self.inner).machine.looked(signals, more, ended, self.port.now());
    }

    /// Notes that the oldest record that was handed out started a child whose key belongs to
    /// another run. Neither the record nor the child was written.
    pub fn key_taken(&self, by: RunId) {
        lock(&self.inner).machine.key_taken(by, self.port.now());
    }

    /// Notes that the oldest record that was handed out was not written, because another
    /// transaction emits the event of its wait.
    pub fn event_busy(&self) {
        lock(&self.inner).machine.event_busy(self.port.now());
    }

    /// Notes that the oldest record that was handed out was not written, because its wait has
    /// received its event.
    pub fn event_delivered(&self) {
        lock(&self.inner).machine.event_delivered();
    }

    /// Notes that the oldest record that was handed out asked for a seat, and that its step waits.
    /// `asks_at`: when it asks again by itself.
    pub fn seat_waits(&self, asks_at: Option<Timestamp>) {
        lock(&self.inner).machine.seat_waits(asks_at, self.port.now());
    }

    /// Notes that the oldest record that was handed out was not written, because it asked for a
    /// seat of a limit that is not declared.
    pub fn limit_undeclared(&self) {
        lock(&self.inner).machine.limit_undeclared(self.port.now());
    }

    /// Returns whether the database may have seats of the run.
    pub fn has_seats(&self) -> bool {
        lock(&self.inner).machine.has_seats()
    }

    /// Returns whether the database may have open waits of the run for events.
    pub fn has_event_waits(&self) -> bool {
        lock(&self.inner).machine.has_event_waits()
    }

    /// Returns whether the run may have children.
    pub fn has_children(&self) -> bool {
        lock(&self.inner).machine.has_children()
    }

    /// Tells the run to end. Its pending calls end as soon as this is committed. Only the first
    /// interruption counts.
    pub fn interrupt(&self, by: Interruption) {
        lock(&self.inner).machine.interrupt(by, self.port.now());
    }

    /// Notes that the function has failed and that its compensations begin.
    pub fn begin_undo(&self) {
        lock(&self.inner).machine.begin_undo();
    }

    /// Returns whether the compensations of the run have begun, in this drive or in an earlier one.
    pub fn has_begun_undo(&self) -> bool {
        lock(&self.inner).machine.has_begun_undo()
    }

    /// Returns what told the run to end, if anything has.
    pub fn interrupted(&self) -> Option<Interrupted> {
        lock(&self.inner).machine.interrupted()
    }

    /// Drops the armed compensations. They hold authors' values, whose destructors may panic.
    pub fn drop_compensations(&self) {
        let armed = std::mem::take(&mut *lock(&self.armed));
        drop(armed);
    }

    /// Returns the size of the history, including records that are not committed yet.
    pub fn history_size(&self) -> HistorySize {
        lock(&self.inner).machine.size()
    }

    /// Returns whether no call is active: the workflow waits only for something that is not a call
    /// of its context.
    pub fn awaits_only_foreign(&self) -> bool {
        lock(&self.inner).machine.awaits_only_foreign()
    }

    /// Returns whether a body runs.
    pub fn is_running(&self) -> bool {
        lock(&self.inner).machine.is_running()
    }

    /// Forbids bodies to begin, or allows it again. Returns whether a body may begin now.
    pub fn hold(&self, held: bool) -> bool {
        let calls = lock(&self.inner).machine.hold(held);
        self.wake_calls(&calls)
    }

    /// Returns how far the replay has come, once no recorded outcome can be delivered.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.inner).machine.snapshot()
    }

    /// Notes that the workflow function has ended. Returns a divergence if recorded outcomes are
    /// left that it never asked for.
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
