use std::collections::VecDeque;
use std::time::Duration;

use super::{Breaker, Timestamp};

/// The state of the service behind a breaker's name, as one worker knows it: closed, open, or open
/// with a running probe. It has no clock: its methods take the time.
///
/// Steps with breakers of one name share a circuit. Each step applies the settings of its own
/// breaker.
///
/// ```
/// use std::time::Duration;
/// use workflow_sdk::{Breaker, Timestamp};
/// use workflow_engine::model::{Circuit, CircuitChange, ServiceReport};
///
/// let breaker = Breaker::new("bank").failures(1).open_for(Duration::from_secs(30));
/// let mut circuit = Circuit::default();
/// let now = Timestamp::from_micros(0);
/// let admission = circuit.admit(&breaker, now).unwrap();
/// let change = circuit.report(&breaker, admission, ServiceReport::Fails("busy"), now);
/// assert_eq!(change, Some(CircuitChange::Opened));
/// assert_eq!(circuit.admit(&breaker, now), Err(now + Duration::from_secs(30)));
/// ```
#[derive(Debug, Default)]
pub struct Circuit {
    state: State,
    /// Rises whenever the circuit opens or closes. An attempt that was admitted in an earlier era
    /// says nothing about the service's present state.
    era: u64,
    /// The number of probes so far.
    probes: u64,
}

#[derive(Debug)]
enum State {
    Closed(Failures),
    Open {
        /// The time at which the next probe may begin.
        until: Timestamp,
        /// The distance from the decision to `until`.
        length: Duration,
        /// The number of the running probe.
        probe: Option<u64>,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed(Failures::default())
    }
}

/// The last failures of a closed circuit.
#[derive(Debug, Default)]
struct Failures {
    at: VecDeque<Timestamp>,
    /// The largest number of failures that any breaker of this name asks for.
    most: usize,
    /// The widest window of any breaker of this name.
    widest: Duration,
}

/// The permission to begin an attempt. It is returned with a report when the attempt has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a probe that is never reported keeps its place until its time is over"]
pub struct Admission {
    era: u64,
    probe: Option<u64>,
}

impl Admission {
    /// Returns whether the attempt is the probe that finds out whether the service works again.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }
}

/// The evidence that an ended attempt gives about the service that it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceReport<'a> {
    /// The service works.
    Works,
    /// The service fails. Holds the step and the kind of its error. This text is logged, so it does
    /// not contain the error's text.
    Fails(&'a str),
    /// Nothing: the request was bad, or the body was dropped.
    Nothing,
}

/// The change of a circuit that a report caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitChange {
    /// The failures reached the limit: no further attempt begins.
    Opened,
    /// The probe failed.
    StaysOpen,
    /// The probe succeeded.
    Closed,
}

impl Circuit {
    /// Admits an attempt that wants to begin now.
    ///
    /// # Errors
    /// The time before which no attempt may begin.
    pub fn admit(&mut self, breaker: &Breaker, now: Timestamp) -> Result<Admission, Timestamp> {
        let State::Open { until, length, probe } = &mut self.state else {
            return Ok(Admission { era: self.era, probe: None });
        };
        // A clock that is set back must not keep the circuit open for longer.
        *until = (*until).min(now + *length);
        if now < *until {
            return Err(*until);
        }
        self.probes += 1;
        *length = breaker.opens_for();
        *until = now + *length;
        *probe = Some(self.probes);
        Ok(Admission { era: self.era, probe: *probe })
    }

    /// Reports the end of an admitted attempt.
    pub fn report(
        &mut self,
        breaker: &Breaker,
        admission: Admission,
        report: ServiceReport<'_>,
        now: Timestamp,
    ) -> Option<CircuitChange> {
        if admission.era != self.era {
            return None;
        }
        match (&mut self.state, report) {
            (State::Closed(failures), ServiceReport::Fails(_)) => {
                if !failures.reach_limit(breaker, now) {
                    return None;
                }
                self.era += 1;
                self.state = open(breaker, now);
                Some(CircuitChange::Opened)
            }
            (State::Closed(_), ServiceReport::Works | ServiceReport::Nothing) => None,
            // The report of a slow probe that has made room for another one also counts. Otherwise
            // a service that always answers slower than `open_for` would never be found to work.
            (State::Open { .. }, ServiceReport::Works) => {
                self.era += 1;
                self.state = State::default();
                Some(CircuitChange::Closed)
            }
            (state @ State::Open { .. }, ServiceReport::Fails(_)) => {
                *state = open(breaker, now);
                Some(CircuitChange::StaysOpen)
            }
            (State::Open { until, probe, .. }, ServiceReport::Nothing) => {
                if probe.is_some() && *probe == admission.probe {
                    *probe = None;
                    *until = now;
                }
                None
            }
        }
    }

    /// Returns whether the circuit is closed and remembers no failure that counts. A new circuit
    /// would then behave identically.
    #[must_use]
    pub fn is_forgettable(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Closed(failures) => failures.at.back().is_none_or(|last| now.since(*last) > failures.widest),
            State::Open { .. } => false,
        }
    }
}

fn open(breaker: &Breaker, now: Timestamp) -> State {
    let length = breaker.opens_for();
    State::Open { until: now + length, length, probe: None }
}

impl Failures {
    /// Adds a failure. Returns whether the failures have reached the breaker's limit within its
    /// window.
    fn reach_limit(&mut self, breaker: &Breaker, now: Timestamp) -> bool {
        let (limit, within) = breaker.limit();
        let limit = limit as usize;
        self.most = self.most.max(limit);
        self.widest = self.widest.max(within);
        self.at.push_back(now);
        if self.at.len() > self.most {
            self.at.pop_front();
        }
        let first = self.at.len().checked_sub(limit).and_then(|index| self.at.get(index));
        first.is_some_and(|first| now.since(*first) <= within)
    }
}

#[cfg(test)]
mod tests;
