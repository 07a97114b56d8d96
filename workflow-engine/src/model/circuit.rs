use std::collections::VecDeque;
use std::time::Duration;

use super::{Breaker, Timestamp};

/// What a worker knows of the service behind a breaker's name: closed, open, or open with one probe on its way. Takes instants,
/// has no clock.
///
/// Steps that share a name are judged each by the settings of its own breaker.
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
/// assert_eq!(circuit.report(&breaker, admission, ServiceReport::Fails("busy"), now), Some(CircuitChange::Opened));
/// assert_eq!(circuit.admit(&breaker, now), Err(now + Duration::from_secs(30)));
/// ```
#[derive(Debug, Default)]
pub struct Circuit {
    state: State,
    /// Raised whenever the circuit opens or closes: what was admitted before says nothing of the service as it is now.
    era: u64,
    /// Probes so far.
    probes: u64,
}

#[derive(Debug)]
enum State {
    Closed(Failures),
    Open {
        /// When the next probe may begin.
        until: Timestamp,
        /// How long before `until` that was decided.
        length: Duration,
        /// The probe that is on its way.
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
    /// The most that any breaker of the name asks for.
    most: usize,
    /// The widest window of any breaker of the name.
    widest: Duration,
}

/// Leave to begin an attempt; goes back with what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a probe that is never reported keeps its place until its time is over"]
pub struct Admission {
    era: u64,
    probe: Option<u64>,
}

impl Admission {
    /// Whether it is the one that finds out whether the service works again.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }
}

/// What an attempt says of the service that it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceReport<'a> {
    /// It works.
    Works,
    /// It fails: which step, and the kind of its error. This is logged, so the error's text is no part of it.
    Fails(&'a str),
    /// Nothing: the request was bad, or the body was dropped.
    Nothing,
}

/// What a report changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitChange {
    /// Failures were enough: no attempt begins any more.
    Opened,
    /// The probe failed.
    StaysOpen,
    /// The probe succeeded.
    Closed,
}

impl Circuit {
    /// Whether an attempt may begin now.
    ///
    /// # Errors
    /// The instant before which it may not.
    pub fn admit(&mut self, breaker: &Breaker, now: Timestamp) -> Result<Admission, Timestamp> {
        let State::Open { until, length, probe } = &mut self.state else {
            return Ok(Admission { era: self.era, probe: None });
        };
        // A clock that is set back must not keep it open for longer.
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

    /// An attempt that was admitted is over.
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
            // Also from a probe that was slow and has made room for another: otherwise a service whose every answer takes
            // longer than that would never be found to work.
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

    /// Whether it is closed and remembers nothing that counts: a new one would do the same.
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
    /// Adds a failure. Says whether that makes as many as the breaker allows within its window.
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
