use std::borrow::Cow;
use std::time::Duration;

use super::{InvalidName, NameSubject, Timestamp, check_name};

/// When a step stops calling a service that fails, and waits for it instead: a circuit breaker.
///
/// All steps that name the same breaker share one *circuit* in each worker, across all of its runs. After so many
/// [`failures`](Breaker::failures) [`within`](Breaker::within) a window the circuit opens: no attempt of these steps begins,
/// and their runs park, for the time of [`open_for`](Breaker::open_for). Then one attempt is let through as a probe. If it
/// succeeds, the circuit closes and all go on; if it fails, the circuit stays open for as long again.
///
/// [`Step::breaker`](crate::Step::breaker) takes it, with an example.
///
/// # What counts
/// An attempt has failed if it ended with an error, a panic or a timeout. A [fatal](crate::Error::fatal) error says that the
/// request was bad, not the service, and counts neither way; nor does a body that was dropped because its step lost a race. So
/// mark as fatal what no retry can mend: one run whose request can never succeed fails as often as its
/// [policy](crate::Step::retry) lets it, and these failures count like those of many runs.
///
/// # While it is open
/// The attempt that is held back has not begun: it has no number used up, no row in the history, and its
/// [timeout](crate::Step::timeout) does not run. The delay of the retry policy and the wait for the circuit overlap; the later
/// end decides. Runs come back spread over a further half of the time that the circuit is open, at random, so that most of
/// them find the probe's outcome and do not call a service that has just recovered all at once. A probe that has not ended
/// after the time of `open_for` makes room for another. After the service has recovered it can take three times `open_for`
/// until the last run goes on.
///
/// The worker's log has a warning with the name and the last error when a circuit opens, and a line when it closes. Nothing of
/// a circuit is in the database: a parked run looks like one that backs off, each worker learns for itself, and a worker that
/// starts begins with closed circuits. A replay asks no circuit for what is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    name: Cow<'static, str>,
    failures: u32,
    within: Duration,
    open_for: Duration,
}

/// Why a [`Breaker`] was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBreaker {
    /// Its name cannot be told apart.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// It opens after no failure at all, or after more than are counted.
    #[error("breaker {name:?} opens after {failures} failures; use 1 to {}", Breaker::MAX_FAILURES)]
    Failures {
        /// Its name.
        name: String,
        /// What was asked for.
        failures: u32,
    },
    /// Its window is empty.
    #[error("breaker {name:?} counts failures within {within:?}; use 1 microsecond or more")]
    Within {
        /// Its name.
        name: String,
        /// What was asked for.
        within: Duration,
    },
    /// It would be open for no time.
    #[error("breaker {name:?} is open for {open_for:?}; use 1 microsecond or more")]
    OpenFor {
        /// Its name.
        name: String,
        /// What was asked for.
        open_for: Duration,
    },
}

impl Breaker {
    /// Default of [`Breaker::failures`]: a single hiccup must not stop every run, and no service is helped by more calls than
    /// these.
    pub const DEFAULT_FAILURES: u32 = 5;
    /// Default of [`Breaker::within`]: as long as the longest delay of the default [`Retry`](crate::Retry), so a service that
    /// is down is noticed by the retries of a single run too.
    pub const DEFAULT_WITHIN: Duration = Duration::from_secs(60);
    /// Default of [`Breaker::open_for`]: time for a restart or a failover; and two probes a minute are no load.
    pub const DEFAULT_OPEN_FOR: Duration = Duration::from_secs(30);
    /// The most [`Breaker::failures`]: their times are kept in memory.
    pub const MAX_FAILURES: u32 = 10_000;

    /// A breaker of this name: opens after 5 failures within 60 s, for 30 s. The name is best that of the service. Range: 1 to
    /// 255 bytes without control characters.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self::of(Cow::Borrowed(name))
    }

    /// As [`Breaker::new`], with a name that is known only when the workflow runs: one circuit a customer's server, say.
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

    /// How many failures open the circuit. Successes in between do not matter, so set it above what is normal for the service
    /// at your rate of calls. Default: 5. Range: 1 to 10,000.
    #[must_use]
    pub const fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// The window in which so many failures open the circuit; one that is exactly so long ago still counts. Default: 60 s.
    /// Range: 1 µs or more.
    #[must_use]
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// How long the circuit stays open before a probe, and how long a probe keeps others from being one. Default: 30 s. Range:
    /// 1 µs or more.
    #[must_use]
    pub const fn open_for(mut self, open_for: Duration) -> Self {
        self.open_for = open_for;
        self
    }

    /// The name under which steps share a circuit.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is in range.
    ///
    /// # Errors
    /// [`InvalidBreaker`]: what is not, and what is.
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
        // Instants are whole microseconds.
        if self.within.as_micros() == 0 {
            return Err(InvalidBreaker::Within { name: name(), within: self.within });
        }
        if self.open_for.as_micros() == 0 {
            return Err(InvalidBreaker::OpenFor { name: name(), open_for: self.open_for });
        }
        Ok(())
    }

    /// How many failures open the circuit, within which window.
    pub(super) fn limit(&self) -> (u32, Duration) {
        (self.failures, self.within)
    }

    pub(super) fn opens_for(&self) -> Duration {
        self.open_for
    }

    /// When an attempt that may not begin before `not_before` asks again. `fraction`, from 0 to 1, is its draw: of those that
    /// come back the first is the probe, and the others are to find its outcome.
    pub fn asks_again_at(&self, not_before: Timestamp, fraction: f64) -> Timestamp {
        not_before + self.open_for.mul_f64(fraction.clamp(0.0, 1.0) / 2.0)
    }
}
