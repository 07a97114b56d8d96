//! Asks for a seat before each attempt of a step with a limit.

use crate::model::SeatLine;
use crate::replay::{CallId, StepOptions};

use super::{RunCell, lock};

impl RunCell {
    /// Called before each poll of a step with a limit. If the poll would begin an attempt, the call
    /// asks for a seat and waits for it.
    pub fn ask_for_seat(&self, call: CallId, options: StepOptions, line: &SeatLine) {
        let mut inner = lock(&self.inner);
        if inner.current.is_none() && self.port.may_begin() {
            inner.machine.ask_for_seat(call, options, line, self.port.now());
        }
    }
}
