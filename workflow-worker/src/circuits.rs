use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use workflow_engine::model::{Admission, Circuit, CircuitChange, ServiceReport};
use workflow_sdk::{Breaker, Timestamp};

/// From this number on, circuits without a relevant failure are removed. A worker lives long, and
/// names of breakers may be made from data.
const MANY: usize = 1000;

/// The circuits of a worker's breakers, by name. A service has a circuit only after it has failed.
#[derive(Debug, Default)]
pub(crate) struct Circuits(Mutex<HashMap<String, Circuit>>);

impl Circuits {
    fn by_name(&self) -> MutexGuard<'_, HashMap<String, Circuit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits an attempt.
    ///
    /// # Errors
    /// The time before which the attempt may not begin.
    pub(crate) fn admit(&self, breaker: &Breaker, now: Timestamp) -> Result<Admission, Timestamp> {
        match self.by_name().get_mut(breaker.name()) {
            Some(circuit) => circuit.admit(breaker, now),
            None => Ok(Admission::default()),
        }
    }

    /// Takes note of the result of an admitted attempt, and logs a change of the circuit.
    pub(crate) fn report(&self, breaker: &Breaker, admission: Admission, report: ServiceReport<'_>, now: Timestamp) {
        let change = self.update(breaker, admission, report, now);
        let error = if let ServiceReport::Fails(error) = report { error } else { "" };
        let name = breaker.name();
        match change {
            Some(CircuitChange::Opened) => tracing::warn!(
                breaker = name,
                %error,
                "circuit opened: its service fails too often; runs wait for it before they call it again"
            ),
            Some(CircuitChange::StaysOpen) => {
                tracing::debug!(breaker = name, %error, "circuit stays open: the probe failed")
            }
            Some(CircuitChange::Closed) => tracing::info!(breaker = name, "circuit closed: its service works again"),
            None => {}
        }
    }

    /// Returns the change of the circuit, if there is one.
    fn update(
        &self,
        breaker: &Breaker,
        admission: Admission,
        report: ServiceReport<'_>,
        now: Timestamp,
    ) -> Option<CircuitChange> {
        let mut circuits = self.by_name();
        if let Some(circuit) = circuits.get_mut(breaker.name()) {
            return circuit.report(breaker, admission, report, now);
        }
        if !matches!(report, ServiceReport::Fails(_)) {
            return None;
        }
        if circuits.len() >= MANY {
            circuits.retain(|_, circuit| !circuit.is_forgettable(now));
        }
        circuits.entry(breaker.name().to_owned()).or_default().report(breaker, admission, report, now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn fail(circuits: &Circuits, breaker: &Breaker, now: Timestamp) {
        let admission = circuits.admit(breaker, now).unwrap();
        circuits.report(breaker, admission, ServiceReport::Fails("no"), now);
    }

    #[test]
    fn steps_of_one_name_share_a_circuit_and_others_do_not() {
        let circuits = Circuits::default();
        let now = Timestamp::from_micros(0);
        fail(&circuits, &Breaker::new("bank").failures(2), now);
        fail(&circuits, &Breaker::named("bank").failures(2), now);
        assert!(circuits.admit(&Breaker::new("bank"), now).is_err());
        assert!(circuits.admit(&Breaker::new("post"), now).is_ok());
    }

    #[test]
    fn services_that_never_failed_and_old_failures_take_no_memory() {
        let circuits = Circuits::default();
        let now = Timestamp::from_micros(0);
        let works = Breaker::new("works");
        let admission = circuits.admit(&works, now).unwrap();
        circuits.report(&works, admission, ServiceReport::Works, now);
        assert_eq!(circuits.by_name().len(), 0);
        fail(&circuits, &Breaker::new("down").failures(1), now);
        for n in 0..MANY {
            fail(&circuits, &Breaker::named(format!("{n}")), now);
        }
        assert_eq!(circuits.by_name().len(), MANY + 1, "every failure still counts");
        let later = now + Breaker::DEFAULT_WITHIN + Duration::from_micros(1);
        fail(&circuits, &Breaker::new("later"), later);
        let mut left: Vec<_> = circuits.by_name().keys().cloned().collect();
        left.sort_unstable();
        assert_eq!(left, ["down", "later"], "an open circuit is kept");
    }
}
