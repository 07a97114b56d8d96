//! The rules of a fork: where it leaves the history of its run, and which rows it keeps.

use std::collections::HashSet;

use super::{AttemptStatus, StepAttempt, StepKind};

/// Where a fork that names a step leaves the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkPoint {
    /// The step is recorded. The fork keeps the outcomes whose position is below this one.
    Before(i64),
    /// No step with this name is recorded. Holds the keys from which the run can be forked, in the
    /// order of the history.
    Unknown(Vec<String>),
}

/// Returns the position at which a fork from this step leaves the history. For a step without an
/// outcome that is the end of the history.
#[must_use]
pub fn find_fork_point(history: &[StepAttempt], key: &str) -> ForkPoint {
    let steps = || history.iter().filter(|row| row.kind.is_call());
    let rows: Vec<&StepAttempt> = steps().filter(|row| row.step_key == key).collect();
    if !rows.is_empty() {
        return ForkPoint::Before(rows.iter().find_map(|row| row.position).unwrap_or(i64::MAX));
    }
    let mut keys: Vec<String> = Vec::new();
    for row in steps() {
        if !keys.contains(&row.step_key) {
            keys.push(row.step_key.clone());
        }
    }
    ForkPoint::Unknown(keys)
}

/// Returns the rows that a fork keeps: outcomes at positions below `before`, the failed attempts
/// that precede each of them, and the patches that the run has taken. `copy_history.sql` implements
/// the same rule in both databases.
pub fn rows_kept_by_fork(history: Vec<StepAttempt>, before: i64) -> Vec<StepAttempt> {
    let interrupted =
        history.iter().filter(|row| row.kind == StepKind::Interruption).filter_map(|row| row.position).min();
    let cut = interrupted.map_or(before, |position| position.min(before));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::run_retry::tests::{history, row};

    #[test]
    fn a_fork_leaves_the_history_at_the_outcome_of_its_step() {
        let mut rows = history(&["a", "!b", "_", "c"]);
        assert_eq!(find_fork_point(&rows, "c"), ForkPoint::Before(4));
        assert_eq!(find_fork_point(&rows, "b"), ForkPoint::Before(2));
        rows.push(row("!d", None));
        assert_eq!(find_fork_point(&rows, "d"), ForkPoint::Before(i64::MAX), "it has no outcome yet");
        rows[0].kind = StepKind::Patch;
        assert_eq!(find_fork_point(&rows, "a"), ForkPoint::Unknown(vec!["b".into(), "c".into(), "d".into()]));
    }
}
