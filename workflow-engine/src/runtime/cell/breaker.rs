//! Asks a step's breaker before each attempt, and reports to it when the attempt has ended in any
//! way.

use crate::model::{Admission, Breaker, ErrorKind, ServiceReport, StoredError, derived_fraction};
use crate::replay::{CallId, StepOptions};

use super::{RunCell, lock};

/// An attempt that a breaker has admitted.
pub(super) struct AdmittedAttempt {
    breaker: Breaker,
    admission: Admission,
    attempt: u32,
}

impl RunCell {
    /// Called before each poll of a step with a breaker. If the poll would begin an attempt, asks
    /// the breaker for admission. If the breaker refuses, the call waits.
    pub fn ask_breaker(&self, call: CallId, options: StepOptions, breaker: &Breaker) {
        let mut inner = lock(&self.inner);
        let inner = &mut *inner;
        // An attempt may have been admitted but not begun, because the run was held. It is still
        // admitted.
        if inner.current.is_some() || inner.slots[call.index()].admitted.is_some() || !self.port.may_begin() {
            return;
        }
        if !inner.machine.is_about_to_begin(call, options, self.port.now()) {
            return;
        }
        let Some(attempt) = inner.machine.attempt(call) else { return };
        match self.port.breaker_admits(breaker) {
            Ok(admission) => {
                inner.slots[call.index()].admitted =
                    Some(Box::new(AdmittedAttempt { breaker: breaker.clone(), admission, attempt }));
            }
            Err(not_before) => {
                // The random number depends on the time, because otherwise one run would be the
                // probe every time, whatever its request.
                let purpose = format!("breaker {} {}", inner.machine.key(call), not_before.as_micros());
                let fraction = derived_fraction(self.settings.run_id, &purpose);
                inner.machine.hold_for_breaker(call, breaker.asks_again_at(not_before, fraction));
            }
        }
    }

    /// Reports the result of an attempt whose body has ended by itself.
    pub(super) fn report_attempt(&self, call: CallId, result: &Result<String, StoredError>) {
        let mut inner = lock(&self.inner);
        let Some(admitted) = inner.slots[call.index()].admitted.take() else { return };
        let key = inner.machine.key(call).to_owned();
        drop(inner);
        match result {
            Ok(_) => self.report(*admitted, ServiceReport::Works),
            Err(error) if error.fatal => self.report(*admitted, ServiceReport::Nothing),
            // This text goes to the log, so it must not contain texts of the author's code.
            Err(error) => self.report(*admitted, ServiceReport::Fails(&format!("step {key:?}: {}", error.kind))),
        }
    }

    /// Reports the attempts among these calls that have timed out. A timer of each call has fired;
    /// an attempt that is over although its body has not ended has timed out.
    pub fn report_timeouts(&self, calls: &[CallId]) {
        for call in calls {
            let mut inner = lock(&self.inner);
            let running = inner.machine.attempt(*call);
            let timed_out = inner.slots[call.index()].admitted.take_if(|admitted| running != Some(admitted.attempt));
            let Some(timed_out) = timed_out else { continue };
            let error = format!("step {:?}: {}", inner.machine.key(*call), ErrorKind::Timeout);
            drop(inner);
            self.report(*timed_out, ServiceReport::Fails(&error));
        }
    }

    /// Reports that the future of a call was dropped.
    pub(super) fn report_drop(&self, admitted: Option<Box<AdmittedAttempt>>) {
        if let Some(admitted) = admitted {
            self.report(*admitted, ServiceReport::Nothing);
        }
    }

    /// Reports to the breaker. Must not hold the lock, because the port may take its time.
    fn report(&self, admitted: AdmittedAttempt, report: ServiceReport<'_>) {
        self.port.breaker_report(&admitted.breaker, admitted.admission, report);
    }
}
