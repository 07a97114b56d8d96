use std::borrow::Cow;
use std::time::Duration;

use super::{InvalidName, NameSubject, Timestamp, check_name};

/// A circuit breaker: stops the calls of a step to a service that fails until the service works
/// again.
///
/// All steps that name the same breaker share one *circuit* in each worker, across all of its runs.
/// The circuit opens after [`failures`](Breaker::failures) failures [`within`](Breaker::within) a
/// window. For the time of [`open_for`](Breaker::open_for), no attempt of these steps begins, and
/// their runs park. Then one attempt is admitted as a probe. If it succeeds, the circuit closes and
/// all steps continue. If it fails, the circuit stays open for the same time again.
///
/// `Step::breaker` takes a breaker and has an example.
///
/// # What counts
/// An attempt counts as failed if it ended with an error, a panic or a timeout. A fatal error
/// (`Error::fatal`) says that the request was bad, not the service, so it does not count either
/// way. A body that was dropped because its step lost a race does not count either. Mark an error
/// as fatal if no retry can succeed: otherwise one run whose request can never succeed fails as
/// often as its policy (`Step::retry`) allows, and these failures count like the failures of many
/// runs.
///
/// # While it is open
/// An attempt that is held back has not begun: it uses up no attempt number, has no row in the
/// history, and its timeout (`Step::timeout`) does not run. The delay of the retry policy and the
/// wait for the circuit overlap, and the later end decides. After the time of `open_for`, runs
/// resume at random times over a further half of that time. Most of them therefore find the outcome
/// of the probe and do not all call a service that has just recovered. A probe that has not ended
/// after the time of `open_for` makes room for another one. After the service has recovered, it can
/// take three times `open_for` until the last run continues.
///
/// The worker logs a warning with the breaker's name and the last error when a circuit opens, and a
/// line when it closes. A circuit is not stored in the database: a parked run looks like one that
/// backs off, each worker learns separately, and a new worker begins with closed circuits. A replay
/// of recorded outcomes does not ask the circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    name: Cow<'static, str>,
    failures: u32,
    within: Duration,
    open_for: Duration,
}

/// The reason why a [`Breaker`] was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBreaker {
    /// The breaker's name is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// [`Breaker::failures`] is out of range.
    #[error("breaker {name:?} opens after {failures} failures; use 1 to {}", Breaker::MAX_FAILURES)]
    Failures {
        /// The breaker's name.
        name: String,
        /// The refused number of failures.
        failures: u32,
    },
    /// [`Breaker::within`] is zero.
    #[error("breaker {name:?} counts failures within {within:?}; use 1 microsecond or more")]
    Within {
        /// The breaker's name.
        name: String,
        /// The refused window.
        within: Duration,
    },
    /// [`Breaker::open_for`] is zero.
    #[error("breaker {name:?} is open for {open_for:?}; use 1 microsecond or more")]
    OpenFor {
        /// The breaker's name.
        name: String,
        /// The refused duration.
        open_for: Duration,
    },
}

impl Breaker {
    /// The default of [`Breaker::failures`]. A single failure must not stop every run, and further
    /// calls do not help a service that fails this often.
    pub const DEFAULT_FAILURES: u32 = 5;
    /// The default of [`Breaker::within`]. It equals the longest delay of the default
    /// [`Retry`](crate::model::Retry), so that the retries of a single run are enough to notice
    /// that a service is down.
    pub const DEFAULT_WITHIN: Duration = Duration::from_secs(60);
    /// The default of [`Breaker::open_for`]. It leaves time for a restart or a failover, and at
    /// most two probes per minute are not a load.
    pub const DEFAULT_OPEN_FOR: Duration = Duration::from_secs(30);
    /// The upper bound of [`Breaker::failures`]. It exists because the times of failures are held
    /// in memory.
    pub const MAX_FAILURES: u32 = 10_000;

    /// Creates a breaker with this name that opens for 30 s after 5 failures within 60 s. The best
    /// name is the name of the service. Range: 1 to 255 bytes without control characters.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self::of(Cow::Borrowed(name))
    }

    /// Creates a breaker as [`Breaker::new`] does, with a name that is known only when the workflow
    /// runs, such as one circuit per customer's server.
    ///
    /// ```
    /// use workflow_sdk::Breaker;
    ///
    /// let host = String::from("hooks.example.com");
    /// let breaker = Breaker::named(format!("webhook {host}")).failures(3);
    /// assert_eq!(breaker.name(), "webhook hooks.example.com");
    /// ```
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self::of(Cow::Owned(name.into()))
    }

    const fn of(name: Cow<'static, str>) -> Self {
        Self { name, failures: Self::DEFAULT_FAILURES, within: Self::DEFAULT_WITHIN, open_for: Self::DEFAULT_OPEN_FOR }
    }

    /// Sets how many failures open the circuit. Successes in between do not matter, so choose more
    /// than is normal for the service at your rate of calls. Default: 5. Range: 1 to 10,000.
    #[must_use]
    pub const fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// Sets the window in which the failures must occur to open the circuit. A failure that is
    /// exactly as old as the window still counts. Default: 60 s. Range: 1 µs or more.
    #[must_use]
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Sets how long the circuit stays open before a probe, and how long a running probe keeps
    /// other attempts from being a probe. Default: 30 s. Range: 1 µs or more.
    #[must_use]
    pub const fn open_for(mut self, open_for: Duration) -> Self {
        self.open_for = open_for;
        self
    }

    /// Returns the name under which steps share a circuit.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that the name and every setting are in range.
    ///
    /// # Errors
    /// [`InvalidBreaker`] names the first setting that is out of range, and its range.
    ///
    /// ```
    /// use workflow_sdk::Breaker;
    ///
    /// assert!(Breaker::new("bank").check().is_ok());
    /// let refused = Breaker::new("bank").failures(0).check().unwrap_err();
    /// assert_eq!(refused.to_string(), "breaker \"bank\" opens after 0 failures; use 1 to 10000");
    /// ```
    pub fn check(&self) -> Result<(), InvalidBreaker> {
        check_name(NameSubject::Breaker, &self.name)?;
        let name = || self.name.clone().into_owned();
        if !(1..=Self::MAX_FAILURES).contains(&self.failures) {
            return Err(InvalidBreaker::Failures { name: name(), failures: self.failures });
        }
        // Times are whole microseconds, so a shorter duration would be zero.
        if self.within.as_micros() == 0 {
            return Err(InvalidBreaker::Within { name: name(), within: self.within });
        }
        if self.open_for.as_micros() == 0 {
            return Err(InvalidBreaker::OpenFor { name: name(), open_for: self.open_for });
        }
        Ok(())
    }

    /// Returns how many failures open the circuit, and within which window.
    pub(super) fn limit(&self) -> (u32, Duration) {
        (self.failures, self.within)
    }

    pub(super) fn opens_for(&self) -> Duration {
        self.open_for
    }

    /// Returns when an attempt that must not begin before `not_before` asks the circuit again.
    /// `fraction`, from 0 to 1, is drawn per attempt. It spreads the attempts, so that the first
    /// one becomes the probe and the others find its outcome.
    pub fn asks_again_at(&self, not_before: Timestamp, fraction: f64) -> Timestamp {
        not_before + self.open_for.mul_f64(fraction.clamp(0.0, 1.0) / 2.0)
    }
}
