use std::time::Duration;

/// A retry policy: decides whether and when a failed attempt is followed by another one.
///
/// The delay before attempt n+1 is `initial_delay * factor^(n-1)`, at most `max_delay`. It is
/// multiplied by a fraction between 0 and 1 that is drawn for each attempt (full jitter), so that
/// runs that failed together do not retry together.
///
/// ```
/// use std::time::Duration;
/// use workflow_sdk::Retry;
///
/// let retry = Retry::exponential().initial_delay(Duration::from_millis(200)).max_attempts(5);
/// assert_eq!(retry.delay_after(1, 1.0), Some(Duration::from_millis(200)));
/// assert_eq!(retry.delay_after(3, 1.0), Some(Duration::from_millis(800)));
/// assert_eq!(retry.delay_after(5, 1.0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    initial_delay: Duration,
    factor: f64,
    max_delay: Duration,
    max_attempts: u32,
    jitter: bool,
}

impl Retry {
    /// The policy of a step by default: exponential from 1 s, doubled to at most 60 s, full jitter,
    /// 10 attempts.
    pub const STEP_DEFAULT: Self = Self::exponential();

    /// The policy of a workflow by default: 1 attempt. An error that a workflow returns is its
    /// answer, because its steps have already been retried.
    pub const WORKFLOW_DEFAULT: Self = Self::none();

    /// The policy of a compensation by default: exponential from 1 s, doubled to at most 5 minutes,
    /// full jitter, 25 attempts, which takes about an hour. It is more patient than a step's
    /// policy, because nothing else undoes the step if the compensation fails.
    pub const COMPENSATION_DEFAULT: Self = Self::exponential().max_delay(Duration::from_secs(300)).max_attempts(25);

    /// Returns a policy with delays of 1 s, doubled to at most 60 s, with full jitter; 10 attempts.
    #[must_use]
    pub const fn exponential() -> Self {
        Self {
            initial_delay: Duration::from_secs(1),
            factor: 2.0,
            max_delay: Duration::from_secs(60),
            max_attempts: 10,
            jitter: true,
        }
    }

    /// Returns a policy with the given delay before every attempt, without jitter; 10 attempts.
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self { initial_delay: delay, factor: 1.0, max_delay: delay, max_attempts: 10, jitter: false }
    }

    /// Returns a policy with a single attempt.
    #[must_use]
    pub const fn none() -> Self {
        Self { max_attempts: 1, ..Self::exponential() }
    }

    /// Sets the total number of attempts. Default: 10. Range: 1 or more; 0 is treated as 1, because
    /// a step without an attempt could not end.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Sets the delay after the first attempt, before jitter. Default: 1 s.
    #[must_use]
    pub const fn initial_delay(mut self, delay: Duration) -> Self {
        self.initial_delay = delay;
        self
    }

    /// Sets the longest delay. Default: 60 s.
    #[must_use]
    pub const fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Sets the factor by which each delay is multiplied to get the next one. Default: 2. Range: 1
    /// or more; a smaller value or NaN is treated as 1.
    #[must_use]
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = if factor >= 1.0 { factor } else { 1.0 };
        self
    }

    /// Sets whether each delay is drawn at random between zero and its value. Default: yes, except
    /// for [`Retry::fixed`].
    #[must_use]
    pub const fn jitter(mut self, jitter: bool) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns how many attempts can follow attempt number `attempt` (from 1).
    ///
    /// ```
    /// use workflow_sdk::Retry;
    ///
    /// assert_eq!(Retry::exponential().max_attempts(5).attempts_left(2), 3);
    /// assert_eq!(Retry::none().attempts_left(1), 0);
    /// ```
    #[must_use]
    pub const fn attempts_left(&self, attempt: u32) -> u32 {
        self.max_attempts.saturating_sub(attempt)
    }

    /// Returns the delay after attempt number `attempt` (from 1) failed, or `None` if it was the
    /// last. `fraction`, from 0 to 1, is the random number drawn for the attempt.
    #[must_use]
    pub fn delay_after(&self, attempt: u32, fraction: f64) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.initial_delay.as_secs_f64() * self.factor.powi(exponent);
        // `min` also handles an overflow to infinity.
        let delay = Duration::try_from_secs_f64(seconds.min(self.max_delay.as_secs_f64())).unwrap_or(self.max_delay);
        if !self.jitter {
            return Some(delay);
        }
        // Rounded to a floating-point number, the longest duration is longer than any duration.
        Some(Duration::try_from_secs_f64(delay.as_secs_f64() * fraction.clamp(0.0, 1.0)).unwrap_or(delay))
    }

    /// Returns the number of the attempt within its round. A round has as many attempts as the
    /// policy allows. When a run is retried, its steps begin a new round and their attempt numbers
    /// continue.
    pub fn round_of(&self, attempt: u32) -> u32 {
        attempt.saturating_sub(1) % self.max_attempts + 1
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::STEP_DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_delays_do_not_overflow() {
        let longest = Retry::exponential().initial_delay(Duration::MAX).max_delay(Duration::MAX).factor(f64::MAX);
        for retry in [longest, longest.jitter(false), Retry::fixed(Duration::MAX)] {
            assert_eq!(retry.delay_after(9, 1.0), Some(Duration::MAX), "{retry:?}");
        }
        assert_eq!(longest.delay_after(1, 0.0), Some(Duration::ZERO));
    }
}
