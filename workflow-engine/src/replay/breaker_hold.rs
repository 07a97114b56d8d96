//! Holds attempts back that may not begin yet for a reason outside of the run.

use crate::model::Timestamp;

use super::call::{Phase, Work};
use super::{CallId, Machine, StepOptions};

impl Machine {
    /// Returns whether the next poll of this step would begin an attempt. The call becomes active,
    /// as by a poll.
    pub fn is_about_to_begin(&mut self, id: CallId, options: StepOptions, now: Timestamp) -> bool {
        if self.divergence.is_none() && matches!(self.calls[id.0].phase, Phase::Called) {
            self.activate(id, Work::Body(options), now);
        }
        !self.held && self.divergence.is_none() && matches!(self.calls[id.0].phase, Phase::Granted { .. })
    }

    /// Makes an attempt that is about to begin wait until `until`. The wait is durable, and
    /// afterwards the attempt may begin with its number unchanged. The wait has no row, because
    /// nothing has happened that a replay would have to know.
    pub fn hold_for_breaker(&mut self, id: CallId, until: Timestamp) {
        if let Phase::Granted { attempt, options } = self.calls[id.0].phase {
            self.bodies -= 1;
            self.back_off(id, attempt, until, options);
        }
    }
}
