//! Which part of a history is kept when a run is tried again or forked.

use std::collections::HashSet;
use std::time::Duration;

use super::{AttemptStatus, ErrorKind, Retry, RunId, StepAttempt, StepKind, StoredError, derived_fraction};

/// What a fork finds under the name of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepChoice {
    /// It is recorded: outcomes before this position are kept.
    Before(i64),
    /// Nothing is recorded under it. The keys from which the run can be forked, in the order of the history.
    Unknown(Vec<String>),
}

/// Where a fork from this step parts from the history. A step without an outcome parts from it at its end.
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

/// Whether a row is that of a call which the workflow waits for; not the trace of something else.
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

/// The steps that are attempted again when a run which failed with this error is tried again.
///
/// The step that the error names, and every failure that was delivered after it. Where the error names none: the failures
/// after which nothing succeeded, for the error was made of them. A failure before that was handled by the workflow, and
/// stays.
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

/// The rows of a history that a fork keeps whose first position that is not kept is `before`: outcomes before it, the failed attempts
/// before each, and the changes of the code taken. `copy_history.sql` says the same to the databases.
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

/// How long a run waits before its next attempt; `None`: this was the last. `attempt` is that of the run, from 1.
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
    // The delay that a step's error asks for was meant for the step, and holds for the run that waits for it all the same.
    Some(error.retry_after().unwrap_or(delay))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;

    /// `key` succeeded, or failed where it begins with `!`; in the order of positions, `_` leaves one out.
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
    fn the_failures_that_ended_a_run_are_attempted_again() {
        let table: &[(&[&str], Option<&str>, &[&str])] = &[
            (&[], None, &[]),
            (&["a", "!b"], Some("b"), &["b"]),
            // A sibling that succeeded later keeps its outcome, one that failed later does not.
            (&["a", "!b", "c", "!d"], Some("b"), &["b", "d"]),
            // A failure that the workflow handled before stays.
            (&["!primary", "fallback", "!ship"], Some("ship"), &["ship"]),
            (&["!primary", "fallback", "!ship"], None, &["ship"]),
            (&["a", "!b", "!c"], None, &["b", "c"]),
            // The workflow's own error: what was handled stays, and the code is called again.
            (&["!primary", "fallback"], None, &[]),
            // The error was kept and returned later; or names a step that has no failure.
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
    fn attempts_without_a_position_and_traces_are_left_alone() {
        let mut rows = history(&["a", "!undo"]);
        rows[1].kind = StepKind::Compensation;
        rows.push(row("!b", None));
        assert_eq!(attempted_again(&rows, None), Vec::<String>::new());
    }

    #[test]
    fn a_fork_parts_at_the_outcome_of_its_step() {
        let mut rows = history(&["a", "!b", "_", "c"]);
        assert_eq!(fork_position(&rows, "c"), StepChoice::Before(4));
        assert_eq!(fork_position(&rows, "b"), StepChoice::Before(2));
        rows.push(row("!d", None));
        assert_eq!(fork_position(&rows, "d"), StepChoice::Before(i64::MAX), "it has no outcome yet");
        rows[0].kind = StepKind::Patch;
        assert_eq!(fork_position(&rows, "a"), StepChoice::Unknown(vec!["b".into(), "c".into(), "d".into()]));
    }

    #[test]
    fn a_run_is_retried_by_its_policy_unless_that_is_in_vain() {
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
            "the draw belongs to the run and its attempt"
        );
    }
}
