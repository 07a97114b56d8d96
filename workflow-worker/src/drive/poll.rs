//! The workflow that a drive polls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::coop::has_budget_remaining;
use tokio::task::yield_now;
use tokio::time::Instant;
use workflow_engine::replay::{CallId, Next};
use workflow_engine::runtime::{Polled, Poller, Port, RunCell};
use workflow_sdk::internal::Entry;

/// A workflow with its run cell, and whether the workflow must be polled again.
pub(super) struct DrivenWorkflow {
    cell: Arc<RunCell>,
    /// `None` once the future is dropped.
    poller: Option<Poller>,
    /// Whether something has moved since the last poll.
    needs_poll: bool,
    polled_at: Instant,
}

impl DrivenWorkflow {
    /// Calls the workflow function. Its future is not polled yet.
    pub(super) fn begin(entry: &Entry, cell: Arc<RunCell>, input: String, port: Arc<dyn Port>) -> Self {
        let future = entry.call(Arc::clone(&cell), input);
        Self { cell, poller: Some(Poller::new(future, port)), needs_poll: true, polled_at: Instant::now() }
    }

    pub(super) fn cell(&self) -> &RunCell {
        &self.cell
    }

    /// Returns whether the workflow must be polled.
    pub(super) fn needs_poll(&self) -> bool {
        self.needs_poll
    }

    /// Returns whether the workflow must be polled. The caller then polls it.
    pub(super) fn take_needs_poll(&mut self) -> bool {
        std::mem::take(&mut self.needs_poll)
    }

    pub(super) fn require_poll(&mut self) {
        self.needs_poll = true;
    }

    /// Gives the thread back if bodies have used up the budget of this task. Without budget,
    /// `tokio::select!` in the workflow polls none of its branches, and wakes the workflow later.
    /// It takes `&mut self` because the future of a workflow is not `Sync`.
    pub(super) async fn restore_budget(&mut self) {
        if !has_budget_remaining() {
            yield_now().await;
        }
    }

    /// Polls the workflow. If that uses up the budget, it must be polled again, and the wakes that
    /// it asked for may be those of `tokio::select!`. The runtime makes these at some time, also
    /// after the next poll.
    pub(super) fn poll(&mut self) -> Polled {
        self.polled_at = Instant::now();
        let _in_drive = self.cell.settings().span.span().enter();
        let polled = self.poller.as_mut().map_or(Polled::Pending, Poller::poll);
        if !has_budget_remaining() {
            self.needs_poll = true;
            if let Some(poller) = &mut self.poller {
                poller.excuse_wakes();
            }
        }
        polled
    }

    /// The time for which nothing has moved.
    pub(super) fn since_poll(&self) -> Duration {
        self.polled_at.elapsed()
    }

    /// Returns the drive's next action, and wakes the calls that it concerns.
    pub(super) fn next(&self) -> Next {
        self.waking(RunCell::next)
    }

    /// Delivers an outcome before its commit, if one may be. Returns the call that takes it.
    pub(super) fn deliver_early(&self) -> Option<CallId> {
        self.waking(RunCell::deliver_early)
    }

    /// Wakes the calls whose bodies were woken. Returns whether something that is not a call of the
    /// context has woken the workflow.
    pub(super) fn wake_bodies(&mut self) -> bool {
        let is_foreign = self.poller.as_ref().is_some_and(Poller::take_foreign_wake);
        let is_excused = self.poller.as_ref().is_some_and(Poller::take_excused_wake);
        self.needs_poll |= self.waking(RunCell::wake_bodies) || is_foreign || is_excused;
        is_foreign
    }

    pub(super) fn fire_timers(&mut self) {
        self.needs_poll |= self.waking(RunCell::fire_timers);
    }

    /// Forbids bodies to begin, or allows it again.
    pub(super) fn hold_bodies(&mut self, is_held: bool) {
        self.needs_poll |= self.waking(|cell| cell.hold(is_held));
    }

    /// Wakes calls so that the wake does not count as a foreign one.
    fn waking<R>(&self, wake: impl FnOnce(&RunCell) -> R) -> R {
        match &self.poller {
            Some(poller) => poller.waking(|| wake(&self.cell)),
            None => wake(&self.cell),
        }
    }

    /// Drops the workflow and its bodies. Returns whether one of their destructors panicked. The
    /// destructors are the author's code, so a panic must not end the worker.
    pub(super) fn drop_future(&mut self) -> bool {
        let poller = self.poller.take();
        let cell = &self.cell;
        let _in_drive = cell.settings().span.span().enter();
        let drop_all = || {
            drop(poller);
            cell.drop_compensations();
        };
        catch_unwind(AssertUnwindSafe(drop_all)).is_err()
    }
}
