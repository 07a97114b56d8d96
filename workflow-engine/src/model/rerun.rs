//! Decides which part of a history stays when a run is retried or forked.

use std::collections::HashSet;
use std::time::Duration;

use super::{AttemptStatus, ErrorKind, Retry, RunId, StepAttempt, StepKind, StoredError, derived_fraction};

/// Where a fork that names a step leaves the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepChoice {
    /// The step is recorded. The fork keeps the outcomes whose position is below this one.
    Before(i64),
    /// No step with this name is recorded. Holds the keys from which the run can be forked, in the
    /// order of the history.
    Unknown(Vec<String>),
}

/// Returns the position at which a fork from this step leaves the history. For a step without an
/// outcome that is the end of the history.
#[must_use]
pub fn fork_position(history: &[StepAttempt], key: &str) -> StepChoice {
    let steps = || history.iter().filter(|row| is_call(row.kind));
    let rows: Vec<&StepAttempt> = steps().filter(|row| row.step_key == key).collect();
    if !rows.is_empty() {
        return StepChoice::Before(rows.iter().find_map(|row| row.position).unwrap_or(i64::MAX));
    }
    let mut keys: Vec<String> = Vec::new();
    for row in steps() {
        if !keys.contains(&row.step_key) {
            keys.push(row.step_key.clone());
        }
    }
    StepChoice::Unknown(keys)
}

/// Returns whether rows of this kind record a call whose outcome the workflow waits for.
fn is_call(kind: StepKind) -> bool {
    match kind {
        StepKind::Step
        | StepKind::Sleep
        | StepKind::Signal
        | StepKind::Approval
        | StepKind::Child
        | StepKind::Transaction => true,
        StepKind::Compensation | StepKind::Interruption | StepKind::Patch | StepKind::Published | StepKind::Emitted => {
            false
        }
    }
}

/// Returns the keys of the steps that are attempted again when a run that failed with `error` is
/// retried.
///
/// These are the step that the error names and every failure delivered after it. If the error names
/// no step, the workflow made the error from the failures after the last success, so those are
/// attempted again. The workflow handled each earlier failure, so it stays.
#[must_use]
pub fn attempted_again(history: &[StepAttempt], error: Option<&StoredError>) -> Vec<String> {
    let mut outcomes: Vec<(i64, &StepAttempt)> =
        history.iter().filter_map(|row| Some((row.position?, row))).filter(|(_, row)| is_call(row.kind)).collect();
    outcomes.sort_unstable_by_key(|(position, _)| *position);
    let failed = |row: &StepAttempt| row.status == AttemptStatus::Failed;
    let named = error.and_then(|error| error.step_key.as_deref());
    let named = outcomes.iter().position(|(_, row)| failed(row) && Some(row.step_key.as_str()) == named);
    let first = named.unwrap_or_else(|| outcomes.iter().rposition(|(_, row)| !failed(row)).map_or(0, |last| last + 1));
    outcomes[first..].iter().filter(|(_, row)| failed(row)).map(|(_, row)| row.step_key.clone()).collect()
}

/// Returns the rows that a fork keeps: outcomes at positions below `before`, the failed attempts
/// that precede each of them, and the patches that the run has taken. `copy_history.sql` implements
/// the same rule in both databases.
pub fn kept_by_fork(history: Vec<StepAttempt>, before: i64) -> Vec<StepAttempt> {
    let told_to_end =
        history.iter().filter(|row| row.kind == StepKind::Interruption).filter_map(|row| row.position).min();
    let cut = told_to_end.map_or(before, |position| position.min(before));
    let is_before = |row: &StepAttempt| row.position.is_some_and(|position| position < cut);
    let outcomes: HashSet<String> =
        history.iter().filter(|row| is_before(row)).map(|row| row.step_key.clone()).collect();
    let is_kept = |row: &StepAttempt| match row.kind {
        StepKind::Published | StepKind::Emitted => false,
        _ if row.position.is_some() => is_before(row),
        StepKind::Patch => true,
        _ => row.status == AttemptStatus::Failed && outcomes.contains(&row.step_key),
    };
    history.into_iter().filter(is_kept).collect()
}

/// Returns the delay before the run's next attempt, or `None` if the last attempt failed. `attempt`
/// is the number of the run's attempt that failed, from 1.
#[must_use]
pub fn retry_of_run(policy: Option<Retry>, run: RunId, attempt: i64, error: &StoredError) -> Option<Duration> {
    let may_differ = match error.kind {
        ErrorKind::Deadline
        | ErrorKind::CrashLoop
        | ErrorKind::Divergence
        | ErrorKind::Refused
        | ErrorKind::HistoryLimit => false,
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
mod tests {
    use super::*;
    use crate::model::Timestamp;

    /// Builds a history of outcomes in the order of their positions. A word that begins with `!` is
    /// the key of a failed step, any other word that of a succeeded one. `_` leaves a position out.
    fn history(words: &[&str]) -> Vec<StepAttempt> {
        let rows = words.iter().zip(1..).filter(|(word, _)| **word != "_");
        rows.map(|(word, position)| row(word, Some(position))).collect()
    }

    fn row(word: &str, position: Option<i64>) -> StepAttempt {
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
            assert_eq!(attempted_again(&history(words), Some(&error)), *again, "{words:?} {named:?}");
        }
    }

    #[test]
    fn rows_without_a_position_and_compensations_are_not_attempted_again() {
        let mut rows = history(&["a", "!undo"]);
        rows[1].kind = StepKind::Compensation;
        rows.push(row("!b", None));
        assert_eq!(attempted_again(&rows, None), Vec::<String>::new());
    }

    #[test]
    fn a_fork_leaves_the_history_at_the_outcome_of_its_step() {
        let mut rows = history(&["a", "!b", "_", "c"]);
        assert_eq!(fork_position(&rows, "c"), StepChoice::Before(4));
        assert_eq!(fork_position(&rows, "b"), StepChoice::Before(2));
        rows.push(row("!d", None));
        assert_eq!(fork_position(&rows, "d"), StepChoice::Before(i64::MAX), "it has no outcome yet");
        rows[0].kind = StepKind::Patch;
        assert_eq!(fork_position(&rows, "a"), StepChoice::Unknown(vec!["b".into(), "c".into(), "d".into()]));
    }

    #[test]
    fn a_run_is_retried_by_its_policy_unless_no_retry_can_help() {
        let run = RunId::generate();
        let policy = Some(Retry::fixed(Duration::from_secs(3)).max_attempts(2));
        let error = |kind| StoredError::new(kind, "no");
        let application = error(ErrorKind::Application);
        assert_eq!(retry_of_run(policy, run, 1, &application), Some(Duration::from_secs(3)));
        assert_eq!(retry_of_run(policy, run, 1, &error(ErrorKind::Panic)), Some(Duration::from_secs(3)));
        assert_eq!(retry_of_run(policy, run, 2, &application), None, "the policy is used up");
        assert_eq!(retry_of_run(None, run, 1, &application), None);
        assert_eq!(retry_of_run(policy, run, 1, &application.fatal()), None);
        for kind in [ErrorKind::Deadline, ErrorKind::CrashLoop, ErrorKind::Divergence, ErrorKind::Refused] {
            assert_eq!(retry_of_run(policy, run, 1, &error(kind)), None, "{kind}");
        }
        let jittered = Some(Retry::exponential());
        assert_eq!(
            retry_of_run(jittered, run, 1, &error(ErrorKind::Panic)),
            retry_of_run(jittered, run, 1, &error(ErrorKind::Panic)),
            "the random number is derived from the run and its attempt"
        );
    }
}
