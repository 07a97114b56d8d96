//! Delivers an outcome before its commit.
//!
//! A run's own code is pure, so it may see an outcome early: if the process dies before the commit,
//! the next drive runs the step again, and nothing remembers the first outcome. Nothing may leave
//! the run before that commit. So an outcome is delivered early only if it is the only record
//! without a commit and no body runs. Until its commit no further outcome is delivered, no timer
//! fires, and neither a body nor a wait for something external begins. What the code records
//! meanwhile, such as a sleep or a published value, is handed out behind the outcome's commit, or
//! together with the last write of the drive. So a step and the end or the park behind it share a
//! commit.

use crate::model::Timestamp;

use super::Machine;
use super::delivery::Next;
use crate::replay::call::CallId;

impl Machine {
    /// Delivers the outcome that waits for its commit, if only the run's own code can depend on it.
    /// Call it when [`Machine::next`] says to wait. Returns the call that takes the outcome: poll
    /// the workflow. The outcome is still the first record to be handed out.
    pub fn deliver_early(&mut self) -> Option<CallId> {
        if self.divergence.is_some() || self.awaits_confirmation() || self.early.is_some() || !self.bodies.are_over() {
            return None;
        }
        let (id, position) = self.records.only_outcome()?;
        if self.calls.has_idle() || !self.deliveries.take_early(position) {
            return None;
        }
        self.early = Some(position);
        self.deliver_decided(position, id)
    }

    /// Returns whether the workflow has seen an outcome that was not handed out yet.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.early.is_some() && self.records.none_is_in_flight()
    }

    /// Returns whether the workflow has seen an outcome that was handed out and is not committed.
    /// Then no other record is handed out, and the run must not end.
    #[must_use]
    pub fn awaits_early_commit(&self) -> bool {
        self.early.is_some() && !self.records.none_is_in_flight()
    }

    /// Returns the drive's next action while an outcome that was delivered is not committed.
    pub(super) fn next_before_commit(&mut self, now: impl Fn() -> Timestamp) -> Next {
        let may_wait = self.is_ahead() && !self.awaits_confirmation();
        // A sleep is a row and no more, so it may begin, and the run may park behind it.
        if may_wait && !self.bodies.are_held() {
            for id in self.calls.take_idle_sleeps() {
                self.grant(id, now());
            }
        }
        let park_until = self.timers.first_wait().filter(|_| may_wait && self.only_waits());
        Next::Wait { timer: None, park_until }
    }
}
