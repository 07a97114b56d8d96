//! The timeline of a run as lines of text.

use std::time::Duration;

use workflow_sdk::Timestamp;
use workflow_sdk::operate::{Bar, BarState, Mark, MarkKind, Timeline, TimelineRow};

use crate::clock::span;

/// The longest name of a step that is shown whole, in characters.
const LONGEST_NAME: usize = 28;
/// The most places of code that are shown.
const MOST_PLACES: usize = 5;
/// The columns of the sign and of the text behind the bars.
const AROUND: usize = 34;

/// The characters of a drawing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    succeeded: char,
    failed: char,
    running: char,
    cut_off: char,
    wait: char,
    back_off: char,
    crash: char,
}

impl Style {
    pub(super) const UNICODE: Self =
        Self {
            succeeded: '█', failed: '×', running: '▒', cut_off: '╌', wait: '░', back_off: '·', crash: '⚡'
        };
    pub(super) const ASCII: Self =
        Self { succeeded: '=', failed: 'x', running: '>', cut_off: '~', wait: ':', back_off: '.', crash: '!' };

    const fn of(self, state: BarState) -> char {
        match state {
            BarState::Succeeded => self.succeeded,
            BarState::Failed => self.failed,
            BarState::Running => self.running,
            BarState::CutOff | BarState::Dropped => self.cut_off,
            BarState::BackOff => self.back_off,
            _ => self.wait,
        }
    }
}

/// Returns the lines of a drawing, at most this many columns wide, and the source lines of steps
/// below it.
pub(super) fn draw(timeline: &Timeline, columns: usize, style: Style) -> Vec<String> {
    let names = timeline.rows.iter().map(|row| row.step.chars().count().min(LONGEST_NAME)).max().unwrap_or(0);
    let scale = Scale {
        from: timeline.from,
        total: timeline.to.since(timeline.from).max(Duration::from_millis(1)),
        columns: columns.saturating_sub(names + AROUND).clamp(10, 80),
    };
    let mut lines: Vec<String> =
        timeline.rows.iter().map(|row| line(row, &timeline.marks, names, &scale, style)).collect();
    let crashes: Vec<&Mark> = timeline.marks.iter().filter(|mark| mark.kind == MarkKind::Crashed).collect();
    if !crashes.is_empty() {
        let mut cells = vec![' '; scale.columns];
        for mark in &crashes {
            if let Some(cell) = cells.get_mut(scale.column(mark.at)) {
                *cell = style.crash;
            }
        }
        let many =
            if crashes.len() == 1 { "a worker died".to_owned() } else { format!("{} workers died", crashes.len()) };
        lines.push(format!("  {:names$}   {}  {many}", "", String::from_iter(cells)));
    }
    lines.extend(source_lines(timeline));
    lines
}

/// Returns where the steps are called that have failed or have not ended: these are the places that
/// their reader looks for next. Steps of one name have one line.
fn source_lines(timeline: &Timeline) -> Vec<String> {
    let is_asked = |row: &&TimelineRow| {
        row.bars.last().is_some_and(|last| !matches!(last.state, BarState::Succeeded | BarState::Waited))
    };
    let mut lines: Vec<String> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for row in timeline.rows.iter().filter(is_asked) {
        let Some(place) = row.source_line.as_deref().filter(|place| !seen.contains(place)) else { continue };
        if seen.len() == MOST_PLACES {
            break;
        }
        seen.push(place);
        lines.push(format!("  {} at {place}", row.step));
    }
    lines
}

/// Where a time stands in a drawing.
struct Scale {
    from: Timestamp,
    total: Duration,
    columns: usize,
}

impl Scale {
    fn column(&self, time: Timestamp) -> usize {
        let passed = time.since(self.from).as_micros() * self.columns as u128;
        let column = passed / self.total.as_micros().max(1);
        usize::try_from(column).unwrap_or(usize::MAX).min(self.columns.saturating_sub(1))
    }
}

fn line(row: &TimelineRow, marks: &[Mark], names: usize, scale: &Scale, style: Style) -> String {
    let mut cells = vec![' '; scale.columns];
    let end = scale.from + scale.total;
    for bar in &row.bars {
        let (first, last) = (scale.column(bar.from), scale.column(bar.to.unwrap_or(end)));
        for cell in cells.iter_mut().take(last + 1).skip(first) {
            *cell = style.of(bar.state);
        }
        // A repeated body keeps its first beginning. Its time up to the repetition is lost.
        let is_inside = |mark: &&Mark| mark.at > bar.from && bar.to.is_none_or(|to| mark.at < to);
        let resumed = marks.iter().rev().filter(|mark| mark.kind == MarkKind::Resumed).find(is_inside);
        // Without such a mark, nothing but the end of the body shows when it was repeated.
        let repeated_at = resumed.map(|mark| scale.column(mark.at)).or(bar.to.map(|_| last));
        if let Some(column) = repeated_at.filter(|_| bar.repeated) {
            for cell in cells.iter_mut().take(column).skip(first) {
                *cell = style.cut_off;
            }
        }
    }
    let name: String = match row.step.chars().count() {
        length if length > LONGEST_NAME => row.step.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
        _ => row.step.clone(),
    };
    let cells = String::from_iter(cells);
    format!("  {name:names$}   {cells}  {}", note(row)).trim_end().to_owned()
}

/// Returns the words behind the bars of a step.
fn note(row: &TimelineRow) -> String {
    let Some(last) = row.bars.last() else { return String::new() };
    let attempts = row.bars.iter().map(|bar| bar.attempt).max().unwrap_or(1);
    let took = |bar: &Bar| bar.to.map(|to| span(to.since(bar.from))).unwrap_or_default();
    let mut note = match last.state {
        BarState::Succeeded | BarState::Waited => took(last),
        BarState::Failed => format!("failed after {}", took(last)),
        BarState::Running => "running".to_owned(),
        BarState::CutOff => "cut off by a crash".to_owned(),
        BarState::Dropped => "dropped".to_owned(),
        BarState::BackOff => "waits for its next attempt".to_owned(),
        _ => "waits".to_owned(),
    };
    if attempts > 1 {
        note.push_str(&format!(", attempt {attempts}"));
    }
    if let Some(asks) = &row.asks {
        note.push_str(&format!(", asks {asks}"));
    }
    if let Some(error) = &row.error {
        note.push_str(&format!(": {}", error.lines().next().unwrap_or_default()));
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Timeline {
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_body_that_was_cut_off_and_repeated_shows_both() {
        let timeline = read(
            r#"{"run":"01a21730-6529-71e4-8c47-396ccb3ad9cb","status":"succeeded","from":0,"to":100000000,"spans":[],
                "rows":[
                    {"step":"charge","kind":"step","bars":[{"state":"succeeded","attempt":1,"from":0,"to":20000000}]},
                    {"step":"ship","kind":"step","bars":[
                        {"state":"succeeded","attempt":1,"from":20000000,"to":99000000,"repeated":true}]},
                    {"step":"pay","kind":"step","error":"no luck","bars":[
                        {"state":"failed","attempt":2,"from":99000000,"to":100000000}]}],
                "marks":[{"at":30000000,"kind":"crashed"},{"at":60000000,"kind":"resumed"}],
                "left_out":0,"complete":true}"#,
        );
        let lines = draw(&timeline, 60, Style::ASCII);
        let expected = [
            "  charge   =====                 20 s",
            "  ship         ~~~~~~~~========  1 min 19 s",
            "  pay                         x  failed after 1.0 s, attempt 2: no luck",
            "                 !               a worker died",
        ];
        assert_eq!(lines, expected);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    }

    #[test]
    fn a_repeated_body_that_is_the_first_to_end_after_the_crash_shows_both() {
        let timeline = read(
            r#"{"run":"01a21730-6529-71e4-8c47-396ccb3ad9cb","status":"succeeded","from":0,"to":100000000,"spans":[],
                "rows":[
                    {"step":"charge","kind":"step","bars":[{"state":"succeeded","attempt":1,"from":0,"to":20000000}]},
                    {"step":"ship","kind":"step","bars":[
                        {"state":"succeeded","attempt":1,"from":20000000,"to":60000000,"repeated":true}]}],
                "marks":[{"at":30000000,"kind":"crashed"},{"at":60000000,"kind":"resumed"}],
                "left_out":0,"complete":true}"#,
        );
        let expected = [
            "  charge   =====                 20 s",
            "  ship         ~~~~~~~~=         40 s",
            "                 !               a worker died",
        ];
        assert_eq!(draw(&timeline, 60, Style::ASCII), expected);
    }

    #[test]
    fn a_step_that_failed_or_has_not_ended_shows_its_source_line() {
        let timeline = read(
            r#"{"run":"01a21730-6529-71e4-8c47-396ccb3ad9cb","status":"running","from":0,"to":100000000,"spans":[],
                "rows":[
                    {"step":"charge","kind":"step","source_line":"src/orders.rs:41","bars":[
                        {"state":"succeeded","attempt":1,"from":0,"to":20000000}]},
                    {"step":"ship","kind":"step","source_line":"src/orders.rs:42","bars":[
                        {"state":"running","attempt":1,"from":20000000}]},
                    {"step":"ship:1","kind":"step","source_line":"src/orders.rs:42","bars":[
                        {"state":"running","attempt":1,"from":20000000}]},
                    {"step":"pay","kind":"step","source_line":"src/orders.rs:7","error":"no luck","bars":[
                        {"state":"failed","attempt":2,"from":99000000,"to":100000000}]},
                    {"step":"mail","kind":"step","bars":[{"state":"running","attempt":1,"from":99000000}]}],
                "marks":[],"left_out":0,"complete":true}"#,
        );
        assert_eq!(source_lines(&timeline), ["  ship at src/orders.rs:42", "  pay at src/orders.rs:7"]);
        assert!(draw(&timeline, 60, Style::ASCII).ends_with(&source_lines(&timeline)));
    }
}
