//! Retry rules of flows as policies of the engine.

use std::time::Duration;

use workflow_sdk::Retry;

use crate::ErrorClass;
use crate::failure::Again;
use crate::graph::{AddedDelay, Backoff, RetryRule};

/// Returns the policy of a step's engine step. Delays that it cannot express are given by each
/// error: see [`again`].
pub(super) fn policy(rule: Option<&RetryRule>) -> Retry {
    let Some(rule) = rule else { return Retry::none() };
    let policy = match &rule.backoff {
        Backoff::None => Retry::fixed(Duration::ZERO),
        Backoff::Constant { delay } | Backoff::Linear { delay, .. } => Retry::fixed(*delay),
        Backoff::Exponential { delay, max_delay } => Retry::exponential().initial_delay(*delay).max_delay(*max_delay),
        Backoff::Delays(delays) => Retry::fixed(delays.first().copied().unwrap_or_default()),
    };
    policy.jitter(rule.jitter).max_attempts(rule.attempts)
}

/// Returns whether an attempt may follow a failure of this class.
pub(super) fn retries(rule: Option<&RetryRule>, class: ErrorClass) -> bool {
    rule.is_some_and(|rule| class != ErrorClass::Invalid && (rule.on.is_empty() || rule.on.contains(&class)))
}

/// Returns what follows the failure of this attempt, counted from 1, in a step of the engine. A
/// failure that is left to the policy counts for a breaker, and [`Again::Never`] does not.
pub(super) fn again(
    rule: Option<&RetryRule>,
    class: ErrorClass,
    asked: Option<Duration>,
    attempt: u32,
    random: u64,
) -> Again {
    match (rule, asked) {
        (None, _) if class != ErrorClass::Invalid => Again::ByPolicy,
        _ if !retries(rule, class) => Again::Never,
        (_, Some(delay)) => Again::After(delay),
        (Some(rule), None)
            if rule.added.is_some() || matches!(rule.backoff, Backoff::Linear { .. } | Backoff::Delays(_)) =>
        {
            let attempt = policy(Some(rule)).round_of(attempt);
            Again::After(delay(rule, attempt, random))
        }
        _ => Again::ByPolicy,
    }
}

/// Returns the delay after this attempt, counted from 1. `random` is a number of
/// [`Ctx::random`](workflow_sdk::Ctx::random), so the delay is equal in each replay.
pub(super) fn delay(rule: &RetryRule, attempt: u32, random: u64) -> Duration {
    let delay = match &rule.backoff {
        Backoff::None => Duration::ZERO,
        Backoff::Constant { delay } => *delay,
        Backoff::Linear { delay, max_delay } => delay.saturating_mul(attempt).min(*max_delay),
        Backoff::Exponential { delay, max_delay } => {
            delay.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1))).min(*max_delay)
        }
        Backoff::Delays(delays) => {
            let index = (attempt as usize).saturating_sub(1);
            delays.get(index).or(delays.last()).copied().unwrap_or_default()
        }
    };
    let share = random as f64 / u64::MAX as f64;
    let delay = if rule.jitter { delay.mul_f64(share) } else { delay };
    match rule.added {
        Some(AddedDelay { from, to }) => {
            delay.saturating_add(from).saturating_add(to.saturating_sub(from).mul_f64(share))
        }
        None => delay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rule(backoff: Backoff, on: Vec<ErrorClass>) -> RetryRule {
        RetryRule { attempts: 4, backoff, jitter: false, added: None, on }
    }

    #[test]
    fn each_backoff_has_its_delays() {
        let of = |backoff| {
            let rule = rule(backoff, Vec::new());
            [1, 2, 3, 4].map(|attempt| delay(&rule, attempt, 0).as_secs())
        };
        assert_eq!(of(Backoff::None), [0, 0, 0, 0]);
        assert_eq!(of(Backoff::Constant { delay: SECOND }), [1, 1, 1, 1]);
        assert_eq!(of(Backoff::Linear { delay: SECOND, max_delay: 3 * SECOND }), [1, 2, 3, 3]);
        assert_eq!(of(Backoff::Exponential { delay: SECOND, max_delay: 5 * SECOND }), [1, 2, 4, 5]);
        assert_eq!(of(Backoff::Delays(vec![30 * SECOND, 120 * SECOND])), [30, 120, 120, 120]);
    }

    #[test]
    fn the_class_decides_about_another_attempt() {
        let delays = rule(Backoff::Delays(vec![30 * SECOND, 120 * SECOND]), Vec::new());
        let again = |rule, class, asked, attempt| again(rule, class, asked, attempt, 0);
        assert_eq!(again(Some(&delays), ErrorClass::Invalid, Some(SECOND), 1), Again::Never);
        assert_eq!(again(Some(&delays), ErrorClass::RateLimited, Some(SECOND), 1), Again::After(SECOND));
        assert_eq!(again(Some(&delays), ErrorClass::Failed, None, 2), Again::After(120 * SECOND));
        // The fifth attempt is the first one of a run that was tried again.
        assert_eq!(again(Some(&delays), ErrorClass::Failed, None, 5), Again::After(30 * SECOND));
        let some = rule(Backoff::None, vec![ErrorClass::Timeout]);
        assert_eq!(again(Some(&some), ErrorClass::Timeout, None, 1), Again::ByPolicy);
        assert_eq!(again(Some(&some), ErrorClass::Failed, None, 1), Again::Never);
        let invalid = rule(Backoff::None, vec![ErrorClass::Invalid]);
        assert_eq!(again(Some(&invalid), ErrorClass::Invalid, None, 1), Again::Never);
        // The policy of a step without a rule has one attempt.
        assert_eq!(again(None, ErrorClass::Timeout, Some(SECOND), 1), Again::ByPolicy);
        assert_eq!(again(None, ErrorClass::Invalid, None, 1), Again::Never);
    }

    #[test]
    fn a_random_part_is_taken_off() {
        let rule = RetryRule { jitter: true, ..rule(Backoff::Delays(vec![SECOND]), Vec::new()) };
        assert_eq!([0, u64::MAX].map(|random| delay(&rule, 1, random)), [Duration::ZERO, SECOND]);
        let halved = again(Some(&rule), ErrorClass::Failed, None, 1, u64::MAX / 2);
        assert_eq!(halved, Again::After(SECOND / 2));
    }

    #[test]
    fn a_random_part_is_added() {
        let added = Some(AddedDelay { from: SECOND, to: 3 * SECOND });
        let rule = RetryRule { added, ..rule(Backoff::Constant { delay: SECOND }, Vec::new()) };
        assert_eq!([0, u64::MAX].map(|random| delay(&rule, 1, random)), [2 * SECOND, 4 * SECOND]);
        let halved = again(Some(&rule), ErrorClass::Failed, None, 1, u64::MAX / 2);
        assert_eq!(halved, Again::After(3 * SECOND));
    }
}
