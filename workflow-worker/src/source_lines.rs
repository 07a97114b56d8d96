//! Notes at which lines of code a workflow calls its steps.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{PoisonError, RwLock};

use workflow_engine::model::{SourceLine, step_name};
use workflow_engine::store::MOST_SOURCE_LINES;

/// The most lines that are noted of one step. A step that is called at more lines is rare, and one
/// of them helps as much as all.
const MOST_LINES: usize = 4;

/// The places at which each step is called, in the order in which they were seen.
type Places = HashMap<String, Vec<&'static Location<'static>>>;

/// The lines of the steps of one version of a workflow, as far as this worker has seen them called.
#[derive(Debug)]
pub(crate) struct SourceLines {
    workflow: &'static str,
    version: &'static str,
    by_step: RwLock<Places>,
}

impl SourceLines {
    pub(crate) fn new(workflow: &'static str, version: &'static str) -> Self {
        Self { workflow, version, by_step: RwLock::default() }
    }

    /// Notes a call with this key. Returns what is to be written; `None` if nothing is new. Called
    /// for every call of every replay, so a known call only takes a shared lock.
    pub(crate) fn note(&self, key: &str, location: &'static Location<'static>) -> Option<SourceLine> {
        let step = step_name(key);
        if !is_new(&self.by_step.read().unwrap_or_else(PoisonError::into_inner), step, location) {
            return None;
        }
        let mut by_step = self.by_step.write().unwrap_or_else(PoisonError::into_inner);
        // Another call may have noted the line since.
        if !is_new(&by_step, step, location) {
            return None;
        }
        let lines = by_step.entry(step.to_owned()).or_default();
        lines.push(location);
        let lines: Vec<String> = lines.iter().map(|it| format!("{}:{}", it.file(), it.line())).collect();
        let (workflow, version) = (self.workflow.to_owned(), self.version.to_owned());
        Some(SourceLine { workflow, version, step: step.to_owned(), lines: lines.join(", ") })
    }
}

/// Returns whether the line is to be noted. The number of steps is bounded, because names may be
/// made of data.
fn is_new(by_step: &Places, step: &str, location: &Location<'_>) -> bool {
    let is_known = |lines: &[&'static Location<'static>]| {
        lines.iter().any(|known| known.line() == location.line() && known.file() == location.file())
    };
    match by_step.get(step) {
        Some(lines) => lines.len() < MOST_LINES && !is_known(lines),
        None => by_step.len() < MOST_SOURCE_LINES as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(lines: &SourceLines, key: &str, location: &'static Location<'static>) -> Option<String> {
        lines.note(key, location).map(|line| format!("{} {}", line.step, line.lines))
    }

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn a_line_is_noted_once() {
        let lines = SourceLines::new("checkout", "1");
        let (first, line) = (here(), line!());
        let (file, second) = (file!(), here());
        assert_eq!(noted(&lines, "charge", first), Some(format!("charge {file}:{line}")));
        assert_eq!(noted(&lines, "charge", first), None);
        assert_eq!(noted(&lines, "items/7/charge:3", first), None, "a repetition in a scope is the same step");
        let both = format!("charge {file}:{line}, {file}:{}", line + 1);
        assert_eq!(noted(&lines, "charge", second), Some(both));
        assert_eq!(noted(&lines, "charge", first), None);
        assert_eq!(noted(&lines, "mail", first), Some(format!("mail {file}:{line}")));
    }

    #[test]
    fn names_and_lines_are_bounded() {
        let lines = SourceLines::new("checkout", "1");
        let at = [here(), here(), here(), here(), here()];
        let of_one_line = at.into_iter().filter_map(|location| lines.note("charge", location)).count();
        assert_eq!(of_one_line, 1, "the calls stand in one line");
        let one = here();
        let two = here();
        let three = here();
        let four = here();
        let five = here();
        let noted = [one, two, three, four, five].into_iter().filter_map(|location| lines.note("mail", location));
        let numbers: Vec<usize> = noted.map(|line| line.lines.split(", ").count()).collect();
        assert_eq!(numbers, [1, 2, 3, MOST_LINES]);
        let written = (0..2 * MOST_SOURCE_LINES).filter_map(|number| lines.note(&format!("mail to {number}"), here()));
        assert_eq!(written.count(), MOST_SOURCE_LINES as usize - 2);
        assert!(lines.note("charge", one).is_some(), "a step that is known gets its lines");
    }
}
