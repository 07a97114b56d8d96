//! The rules of a run's retry: when it starts, and which steps are attempted again.

use std::time::Duration;

use super::{AttemptStatus, ErrorKind, Retry, RunId, StepAttempt, StoredError, derived_fraction};

/// Returns the keys of the steps that are attempted again when a run that failed with `error` is
/// retried.
///
/// These are the step that the error names and every failure delivered after it. If the error names
/// no step, the workflow made the error from the failures after the last success, so those are
/// attempted again. The workflow handled each earlier failure, so it stays.
#[must_use]
pub fn steps_to_retry(history: &[StepAttempt], error: Option<&StoredError>) -> Vec<String> {
    let mut outcomes: Vec<(i64, &StepAttempt)> =
        history.iter().filter_map(|row| Some((row.position?, row))).filter(|(_, row)| row.kind.is_call()).collect();
    outcomes.sort_unstable_by_key(|(position, _)| *position);
    let failed = |row: &StepAttempt| row.status == AttemptStatus::Failed;
    let named = error.and_then(|error| error.step_key.as_deref());
    let named = outcomes.iter().position(|(_, row)| failed(row) && Some(row.step_key.as_str()) == named);
    let first = named.unwrap_or_else(|| outcomes.iter().rposition(|(_, row)| !failed(row)).map_or(0, |last| last + 1));
    outcomes[first..].iter().filter(|(_, row)| failed(row)).map(|(_, row)| row.step_key.clone()).collect()
}

/// Returns the delay before the run's next attempt, or `None` if the last attempt failed. `attempt`
/// is the number of the run's attempt that failed, from 1.
#[must_use]
pub fn run_retry_delay(policy: Option<Retry>, run: RunId, attempt: i64, error: &StoredError) -> Option<Duration> {
    let may_differ = match error.kind {
        // An error that names a step is that of a child, which another attempt starts anew.
        ErrorKind::Deadline | ErrorKind::CrashLoop | ErrorKind::HistoryLimit => {
            error.step_key.is_some() && !error.fatal
        }
        ErrorKind::Divergence | ErrorKind::Refused => false,
        _ => !error.fatal,
    };
    let policy = policy.filter(|_| may_differ)?;
    let fraction = derived_fraction(run, &format!("retry of the run {attempt}"));
    let delay = policy.delay_after(u32::try_from(attempt).unwrap_or(u32::MAX), fraction)?;
    // A delay that a step's error asks for was meant for the step. It also applies to the run,
    // because the run waits for that step.
    Some(error.retry_after().unwrap_or(delay))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{StepKind, Timestamp};

    /// Builds a history of outcomes in the order of their positions. A word that begins with `!` is
    /// the key of a failed step, any other word that of a succeeded one. `_` leaves a position out.
    pub(in crate::model) fn history(words: &[&str]) -> Vec<StepAttempt> {
        let rows = words.iter().zip(1..).filter(|(word, _)| **word != "_");
        rows.map(|(word, position)| row(word, Some(position))).collect()
    }

    pub(in crate::model) fn row(word: &str, position: Option<i64>) -> StepAttempt {
        let failed = word.starts_with('!');
        StepAttempt {
            step_key: word.trim_start_matches('!').into(),
            attempt: 1,
            kind: StepKind::Step,
            status: if failed { AttemptStatus::Failed } else { AttemptStatus::Succeeded },
            position,
            output: None,
            error: failed.then(|| StoredError::new(ErrorKind::Application, "no")),
            epoch: 1,
            started_at: Timestamp::from_micros(0),
            completed_at: None,
        }
    }

    #[test]
    fn a_retried_run_attempts_the_failures_that_ended_it_again() {
        let table: &[(&[&str], Option<&str>, &[&str])] = &[
            (&[], None, &[]),
            (&["a", "!b"], Some("b"), &["b"]),
            // A sibling that succeeded later keeps its outcome; a sibling that failed later does
            // not.
            (&["a", "!b", "c", "!d"], Some("b"), &["b", "d"]),
            // A failure that the workflow handled earlier stays.
            (&["!primary", "fallback", "!ship"], Some("ship"), &["ship"]),
            (&["!primary", "fallback", "!ship"], None, &["ship"]),
            (&["a", "!b", "!c"], None, &["b", "c"]),
            // The workflow's own error: handled failures stay, and only the workflow's code runs
            // again.
            (&["!primary", "fallback"], None, &[]),
            // The workflow returned the error later, or the error names a step that has not failed.
            (&["!b", "notify"], Some("b"), &["b"]),
            (&["a", "!b"], Some("a"), &["b"]),
            (&["a", "!b"], Some("gone"), &["b"]),
        ];
        for (words, named, again) in table {
            let error = StoredError::new(ErrorKind::Application, "no");
            let error = match named {
                Some(key) => error.of_step(key),
                None => error,
            };
            assert_eq!(steps_to_retry(&history(words), Some(&error)), *again, "{words:?} {named:?}");
        }
    }

    #[test]
    fn rows_without_a_position_and_compensations_are_not_attempted_again() {
        let mut rows = history(&["a", "!undo"]);
        rows[1].kind = StepKind::Compensation;
        rows.push(row("!b", None));
        assert_eq!(steps_to_retry(&rows, None), Vec::<String>::new());
    }

    #[test]
    fn a_run_is_retried_by_its_policy_unless_no_retry_can_help() {
        let run = RunId::generate();
        let policy = Some(Retry::fixed(Duration::from_secs(3)).max_attempts(2));
        let error = |kind| StoredError::new(kind, "no");
        let application = error(ErrorKind::Application);
        assert_eq!(run_retry_delay(policy, run, 1, &application), Some(Duration::from_secs(3)));
        assert_eq!(run_retry_delay(policy, run, 1, &error(ErrorKind::Panic)), Some(Duration::from_secs(3)));
        assert_eq!(run_retry_delay(policy, run, 2, &application), None, "the policy is used up");
        assert_eq!(run_retry_delay(None, run, 1, &application), None);
        assert_eq!(run_retry_delay(policy, run, 1, &application.fatal()), None);
        for kind in [ErrorKind::Deadline, ErrorKind::CrashLoop, ErrorKind::Divergence, ErrorKind::Refused] {
            assert_eq!(run_retry_delay(policy, run, 1, &error(kind)), None, "{kind}");
        }
        for kind in [ErrorKind::Deadline, ErrorKind::CrashLoop, ErrorKind::HistoryLimit] {
            let of_child = error(kind).of_step("child");
            assert_eq!(run_retry_delay(policy, run, 1, &of_child), Some(Duration::from_secs(3)), "{kind}");
            assert_eq!(run_retry_delay(policy, run, 1, &of_child.fatal()), None, "{kind}");
        }
        let jittered = Some(Retry::exponential());
        assert_eq!(
            run_retry_delay(jittered, run, 1, &error(ErrorKind::Panic)),
            run_retry_delay(jittered, run, 1, &error(ErrorKind::Panic)),
            "the random number is derived from the run and its attempt"
        );
    }
}
