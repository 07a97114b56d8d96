//! The keys of a run's outcomes, and how two lists of them differ.

use std::fmt;

use workflow_sdk::StepAttempt;

/// Returns the keys of a history's outcomes, in the order in which the workflow got them.
pub(super) fn outcome_keys(history: &[StepAttempt]) -> Vec<String> {
    let mut outcomes: Vec<(i64, &str)> =
        history.iter().filter_map(|row| Some((row.position?, row.step_key.as_str()))).collect();
    outcomes.sort_unstable();
    outcomes.into_iter().map(|(_, key)| key.to_owned()).collect()
}

/// Two lists side by side. Its `Display` form is the report.
#[derive(Debug, PartialEq)]
pub(super) struct Difference(Vec<Line>);

#[derive(Debug, PartialEq)]
enum Line {
    Both(String),
    Missing(String),
    Extra(String),
}

/// Compares two lists. `None` if they are equal.
pub(super) fn difference(expected: &[String], found: &[String]) -> Option<Difference> {
    if expected == found {
        return None;
    }
    let longest = longest_common(expected, found);
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < expected.len() || j < found.len() {
        if i < expected.len() && j < found.len() && expected[i] == found[j] {
            lines.push(Line::Both(expected[i].clone()));
            (i, j) = (i + 1, j + 1);
        } else if j == found.len() || i < expected.len() && longest[i + 1][j] >= longest[i][j + 1] {
            lines.push(Line::Missing(expected[i].clone()));
            i += 1;
        } else {
            lines.push(Line::Extra(found[j].clone()));
            j += 1;
        }
    }
    Some(Difference(lines))
}

/// Returns a table. Its entry `[i][j]` is the length of the longest common subsequence of
/// `one[i..]` and `other[j..]`.
fn longest_common(one: &[String], other: &[String]) -> Vec<Vec<usize>> {
    let mut longest = vec![vec![0; other.len() + 1]; one.len() + 1];
    for i in (0..one.len()).rev() {
        for j in (0..other.len()).rev() {
            longest[i][j] =
                if one[i] == other[j] { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
        }
    }
    longest
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.0 {
            match line {
                Line::Both(key) => writeln!(f, "    {key}")?,
                Line::Missing(key) => writeln!(f, "  - {key}    (expected, did not run)")?,
                Line::Extra(key) => writeln!(f, "  + {key}    (ran, not expected)")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn equal_lists_have_no_difference() {
        assert_eq!(difference(&keys("a b"), &keys("a b")), None);
        assert_eq!(difference(&[], &[]), None);
    }

    #[test]
    fn a_difference_shows_what_is_missing_and_what_is_extra() {
        let shown = difference(&keys("a b c"), &keys("a x c d")).unwrap().to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "    a",
                "  - b    (expected, did not run)",
                "  + x    (ran, not expected)",
                "    c",
                "  + d    (ran, not expected)"
            ]
        );
    }
}
