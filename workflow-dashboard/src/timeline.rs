//! The timeline of a run as a drawing: a row per step, and the life of its workers above them.

use maud::{Markup, html};
use workflow_sdk::operate::{Bar, BarState, Mark, MarkKind, RunSpan, RunSummary, SpanState, Timeline, TimelineRow};
use workflow_sdk::{StepKind, Timestamp};

use crate::clock;
use crate::flow;
use crate::icons::Icon;
use crate::scale::{Scale, Window};
use crate::status::Look;

/// A run that a step started, with the beginning of its own timeline.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) step: String,
    pub(crate) run: RunSummary,
    pub(crate) timeline: Timeline,
}

/// Which rows are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    #[default]
    All,
    Failed,
    Slow,
}

/// The content of a drawing.
#[derive(Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) children: &'a [Family],
    pub(crate) shown: Shown,
    /// The part of the time that is shown, if it is not the whole.
    pub(crate) window: Option<Window>,
    /// The step whose panel is open.
    pub(crate) selected: Option<&'a str>,
    pub(crate) may_see: bool,
}

impl Drawing<'_> {
    /// Draws the axis, the marks and the rows. `link` returns the address that opens the panel of
    /// a step, `child` that of a run.
    pub(crate) fn draw(&self, link: &dyn Fn(&str) -> String, child: &dyn Fn(&RunSummary) -> String) -> Markup {
        let timeline = self.timeline;
        let scale = match self.window {
            Some(window) => Scale::part(timeline.from, window),
            None => Scale::new(timeline.from, timeline.to),
        };
        let ticks = scale.ticks();
        html! {
            div.g-body {
                div.g-row.g-axis {
                    div.lab { "Step" }
                    svg.bars aria-hidden="true" {
                        @for (index, (place, label)) in ticks.iter().enumerate() {
                            text x=(percent(*place)) y="17" text-anchor=(if index == 0 { "start" } else { "middle" }) {
                                (label)
                            }
                        }
                    }
                    div.dur { "Took" }
                }
                div.g-rows {
                    div.g-marks { (marks(timeline, &scale, &ticks)) }
                    (workers(timeline, &scale))
                    @for row in self.rows(&scale) {
                        (self.row(row, &timeline.marks, &scale, (0, &link(&row.step))))
                        @for family in self.children.iter().filter(|family| family.step == row.step) {
                            @let place = child(&family.run);
                            @for row in &family.timeline.rows {
                                (self.row(row, &family.timeline.marks, &scale, (1, &place)))
                            }
                        }
                    }
                }
            }
        }
    }

    fn rows(&self, scale: &Scale) -> Vec<&TimelineRow> {
        let is_seen = |row: &&TimelineRow| self.window.is_none() || is_shown(row, scale, self.timeline.to);
        let rows = self.timeline.rows.iter().filter(is_seen);
        match self.shown {
            Shown::All => rows.collect(),
            Shown::Failed => rows.filter(|row| row.bars.iter().any(|bar| bar.state == BarState::Failed)).collect(),
            Shown::Slow => {
                let worked = |row: &&TimelineRow| is_work(row.kind);
                let mut rows: Vec<&TimelineRow> = rows.filter(worked).collect();
                rows.sort_by_key(|row| std::cmp::Reverse(took(row, self.timeline.to)));
                rows.truncate(20);
                rows
            }
        }
    }

    fn row(&self, row: &TimelineRow, marks: &[Mark], scale: &Scale, (depth, link): (usize, &str)) -> Markup {
        let to = self.timeline.to;
        let is_on = depth == 0 && self.selected == Some(&row.step);
        let label = describe(row, to, self.may_see);
        html! {
            a.g-row.on[is_on] href=(link) aria-current=[is_on.then_some("true")] data-step
                title=(row.step) {
                span class=(format!("lab d{depth}")) {
                    (look(row).icon())
                    span.k dir="auto" { (row.step) }
                    @for tag in tags(row, self.children) { span.tag { (tag) } }
                }
                svg.bars aria-hidden="true" {
                    @let parts = row.bars.iter().flat_map(|bar| parts(row.kind, bar, marks, to));
                    @for part in parts.filter(|part| scale.shows(part.from, part.to)) {
                        rect class=(part.class) x=(percent(scale.place(part.from)))
                            width=(percent(scale.width(part.from, part.to)))
                            y=(part.top) height=(part.height) rx="3" { title { (part.title) } }
                    }
                }
                span.dur { (clock::span(took(row, to))) }
                span.hidden { (label) }
            }
        }
    }
}

/// Returns `true` if a bar of the row lies in the part of the time that is shown.
fn is_shown(row: &TimelineRow, scale: &Scale, end: Timestamp) -> bool {
    row.bars.iter().any(|bar| scale.shows(bar.from, bar.to.unwrap_or(end).min(end)))
}

/// Returns a number as a length of a drawing.
pub(crate) fn percent(number: f64) -> String {
    format!("{number:.2}%")
}

/// A rectangle of a row.
#[derive(Debug, PartialEq)]
struct Part {
    class: &'static str,
    from: Timestamp,
    to: Timestamp,
    top: u8,
    height: u8,
    title: String,
}

/// Returns the rectangles of a bar: two if a crash cut its body off and another worker repeated it.
fn parts(kind: StepKind, bar: &Bar, marks: &[Mark], end: Timestamp) -> Vec<Part> {
    let to = bar.to.unwrap_or(end).min(end).max(bar.from);
    let took = clock::between(bar.from, to);
    let (class, word) = match bar.state {
        BarState::Succeeded => ("t-ok", "worked"),
        BarState::Failed => ("t-bad", "failed after"),
        BarState::Running => ("t-run", "running for"),
        BarState::CutOff => ("t-cut", "cut off by a crash after"),
        BarState::Dropped => ("t-cut", "dropped after"),
        BarState::BackOff => ("t-wait", "waits between attempts,"),
        BarState::Waiting if kind == StepKind::Child => ("t-run", "the child run has taken"),
        BarState::Waited if kind == StepKind::Child => ("t-ok", "the child run took"),
        _ => ("t-hatch", "waited"),
    };
    let (top, height) = match bar.state {
        BarState::BackOff => (15, 2),
        BarState::Waiting | BarState::Waited if kind == StepKind::Child => (14, 4),
        _ => (11, 10),
    };
    let title = format!("attempt {}: {word} {took}", bar.attempt);
    let whole = Part { class, from: bar.from, to, top, height, title };
    let is_inside = |mark: &&Mark| mark.at > bar.from && mark.at < to;
    let last = |kind: MarkKind| marks.iter().rev().filter(|mark| mark.kind == kind).find(is_inside);
    match last(MarkKind::Resumed).filter(|_| bar.repeated) {
        // Nothing but the end of the body shows when it was repeated.
        None if bar.repeated && bar.to.is_some() => {
            let title = format!("attempt {}: cut off by a crash, and repeated", bar.attempt);
            let end = Part { class, from: to, to, top, height, title: title.clone() };
            vec![Part { class: "t-cut", title, ..whole }, end]
        }
        None => vec![whole],
        Some(again) => {
            let crash = last(MarkKind::Crashed).map_or(again.at, |crash| crash.at.min(again.at));
            let title = format!("attempt {}: cut off by a crash", bar.attempt);
            let lost = Part { class: "t-cut", to: crash, title, ..whole };
            let (word, title) = (clock::between(again.at, to), bar.attempt);
            let repeated =
                Part { class, from: again.at, to, top, height, title: format!("attempt {title}, again: {word}") };
            vec![lost, repeated]
        }
    }
}

const fn is_work(kind: StepKind) -> bool {
    matches!(kind, StepKind::Step | StepKind::Transaction | StepKind::Compensation | StepKind::Child)
}

fn took(row: &TimelineRow, end: Timestamp) -> std::time::Duration {
    let from = row.bars.iter().map(|bar| bar.from).min();
    let to = row.bars.iter().map(|bar| bar.to.unwrap_or(end).min(end)).max();
    from.zip(to).map(|(from, to)| to.since(from)).unwrap_or_default()
}

/// Returns the look of a row's last state.
pub(crate) fn look(row: &TimelineRow) -> Look {
    let look = |word, icon, color| Look { word, icon, color };
    match row.bars.last().map(|bar| bar.state) {
        Some(BarState::Succeeded | BarState::Waited) => look("Done", Icon::SUCCEEDED, "ok"),
        Some(BarState::Failed) => look("Failed", Icon::FAILED, "bad"),
        Some(BarState::Running) => look("Running", Icon::RUNNING, "run"),
        Some(BarState::CutOff) => look("Cut off", Icon::CANCELED, "idle"),
        Some(BarState::Dropped) => look("Dropped", Icon::CANCELED, "idle"),
        Some(BarState::BackOff) => look("Retrying", Icon::RETRY, "warn"),
        Some(_) if row.kind == StepKind::Child => look("Running", Icon::RUNNING, "run"),
        Some(_) => look("Waiting", Icon::WAITING, "wait"),
        None => look("Pending", Icon::PENDING, "idle"),
    }
}

/// Returns the words behind the name of a step: its kind if it is no plain step, and its attempts.
fn tags(row: &TimelineRow, children: &[Family]) -> Vec<String> {
    let mut tags = Vec::new();
    let child = children.iter().find(|family| family.step == row.step);
    match (row.kind, child, &row.event) {
        (StepKind::Step, _, _) => {}
        (StepKind::Child, Some(family), _) => tags.push(format!("child · {}", flow::title(&family.run))),
        (StepKind::Event, _, Some(event)) => tags.push(format!("event · {}", event.name)),
        (kind, _, _) => tags.push(kind.to_string()),
    }
    let attempts = row.bars.iter().filter(|bar| bar.state != BarState::BackOff).map(|bar| bar.attempt).max();
    if let Some(attempts) = attempts.filter(|attempts| *attempts > 1) {
        tags.push(format!("{attempts} tries"));
    }
    tags
}

/// Returns a row in words, for readers of the screen: `charge: failed after 1.9 s, worked 2.1 s`.
fn describe(row: &TimelineRow, end: Timestamp, may_see: bool) -> String {
    let bars = row.bars.iter().filter(|bar| bar.state != BarState::BackOff).map(|bar| {
        let took = clock::between(bar.from, bar.to.unwrap_or(end).min(end));
        match bar.state {
            BarState::Succeeded if bar.repeated => format!("cut off by a crash and repeated, done after {took}"),
            BarState::Succeeded => format!("done after {took}"),
            BarState::Failed => format!("failed after {took}"),
            BarState::Running => format!("running for {took}"),
            BarState::CutOff => format!("cut off by a crash after {took}"),
            BarState::Dropped => format!("dropped after {took}"),
            BarState::Waited => format!("waited {took}"),
            _ => format!("waits for {took}"),
        }
    });
    let mut words = format!("{}: {}", row.step, bars.collect::<Vec<_>>().join(", "));
    if let Some(error) = row.error.as_ref().filter(|_| may_see) {
        words.push_str(&format!(": {}", error.lines().next().unwrap_or_default()));
    }
    words
}

/// A worker that was lost, and when another one went on.
fn crashes(spans: &[RunSpan], to: Timestamp) -> Vec<(Timestamp, Option<Timestamp>)> {
    let lost = spans.iter().filter(|span| span.state == SpanState::Lost);
    lost.map(|span| (span.from, span.to.filter(|end| *end < to))).collect()
}

/// Draws what stands behind the rows: the grid, the crashes and the present.
fn marks(timeline: &Timeline, scale: &Scale, ticks: &[(f64, String)]) -> Markup {
    let line = |place: f64| {
        let place = percent(place);
        html! { line x1=(place) x2=(place) y1="0" y2="100%" {} }
    };
    let mut crashes = crashes(&timeline.spans, timeline.to);
    crashes.retain(|(from, to)| scale.shows(*from, to.unwrap_or(timeline.to)));
    let is_seen = |at: Timestamp| scale.shows(at, at);
    html! {
        svg aria-hidden="true" {
            g.grid { @for (place, _) in ticks.iter().filter(|(place, _)| *place > 0.0) { (line(*place)) } }
            g.gap {
                @for (from, to) in &crashes {
                    rect x=(percent(scale.place(*from))) y="0"
                        width=(percent(scale.width(*from, to.unwrap_or(timeline.to)))) height="100%" {}
                }
            }
            @for (from, to) in &crashes {
                @if is_seen(*from) { g.crash { (line(scale.place(*from))) } }
                @if let Some(to) = to.filter(|to| is_seen(*to)) { g.resume { (line(scale.place(to))) } }
            }
            @for mark in timeline.marks.iter().filter(|mark| mark.kind == MarkKind::Interrupted && is_seen(mark.at)) {
                g.told { (line(scale.place(mark.at))) }
            }
            @if !timeline.status.is_terminal() && is_seen(timeline.to) {
                g.nowline { (line(scale.place(timeline.to))) }
            }
        }
    }
}

/// Draws the row of the workers: where one held the run, and where one died.
fn workers(timeline: &Timeline, scale: &Scale) -> Markup {
    let to = timeline.to;
    html! {
        div.g-row.g-workers {
            span.lab.faint { "Workers" }
            svg.bars role="img" aria-label=(life(timeline)) {
                @for span in timeline.spans.iter().filter(|span| scale.shows(span.from, span.to.unwrap_or(to))) {
                    @let end = span.to.unwrap_or(to).min(to);
                    @let class = match span.state {
                        SpanState::Queued => Some("t-queue"),
                        SpanState::Ran => Some("t-idle"),
                        SpanState::Failed => Some("t-bad"),
                        _ => None,
                    };
                    @if let Some(class) = class {
                        rect class=(class) x=(percent(scale.place(span.from)))
                            width=(percent(scale.width(span.from, end))) y="9" height="5" rx="2.5" {
                            title { (span_word(span.state)) " " (clock::between(span.from, end)) }
                        }
                    }
                }
                @let seen = |from: &Timestamp, again: &Option<Timestamp>| scale.shows(*from, again.unwrap_or(*from));
                @let crashes = crashes(&timeline.spans, to);
                @for (from, again) in crashes.iter().filter(|(from, again)| seen(from, again)).take(4) {
                    @let place = scale.place(*from);
                    g.crash {
                        text.halo x=(percent(place)) dx=(if place > 14.0 { "-6" } else { "6" }) y="15.5"
                            text-anchor=(if place > 14.0 { "end" } else { "start" }) {
                            "worker died"
                        }
                    }
                    @if let Some(again) = again {
                        @let place = scale.place(*again);
                        g.resume { text.halo x=(percent(place)) dx=(if place < 70.0 { "6" } else { "-6" }) y="15.5"
                            text-anchor=(if place < 70.0 { "start" } else { "end" }) {
                            "resumed after " (clock::between(*from, *again))
                        } }
                    }
                }
            }
            span.dur {}
        }
    }
}

const fn span_word(state: SpanState) -> &'static str {
    match state {
        SpanState::Queued => "in the queue",
        SpanState::Ran => "on a worker",
        SpanState::Parked => "waiting",
        SpanState::Failed => "failed, until it was tried again",
        SpanState::Lost => "without its worker",
        _ => "in another state",
    }
}

/// Returns the life of a run in words.
fn life(timeline: &Timeline) -> String {
    let spans = timeline.spans.iter().take(20);
    let words = spans
        .map(|span| format!("{} {}", span_word(span.state), clock::between(span.from, span.to.unwrap_or(timeline.to))));
    words.collect::<Vec<_>>().join(", ")
}

/// Draws how much of the time a run spent in which state.
pub(crate) fn split(timeline: &Timeline) -> Markup {
    let states = [
        (SpanState::Queued, "t-idle"),
        (SpanState::Ran, "t-ok"),
        (SpanState::Parked, "t-hatch"),
        (SpanState::Failed, "t-bad"),
        (SpanState::Lost, "t-bad"),
    ];
    let to = timeline.to;
    let sum = |state: SpanState| -> f64 {
        let spans = timeline.spans.iter().filter(|span| span.state == state);
        spans.map(|span| span.to.unwrap_or(to).min(to).since(span.from).as_secs_f64()).sum()
    };
    let sums = states.map(|(state, class)| (state, class, sum(state)));
    let total: f64 = sums.iter().map(|(_, _, sum)| sum).sum::<f64>().max(0.000_001);
    let words: Vec<String> = sums
        .iter()
        .filter(|(_, _, sum)| *sum > 0.0)
        .map(|(state, _, sum)| {
            format!("{} {}", span_word(*state), clock::span(std::time::Duration::from_secs_f64(*sum)))
        })
        .collect();
    let words = words.join(", ");
    let mut place = 0.0;
    html! {
        svg.split role="img" aria-label=(words) {
            title { (words) }
            @for (_, class, sum) in sums.into_iter().filter(|(_, _, sum)| *sum > 0.0) {
                @let width = sum / total * 100.0;
                rect class=(class) x=(percent(place)) width=(percent((width - 0.4).max(0.4))) height="6" rx="1" {}
                @let () = place += width;
            }
        }
    }
}

/// Draws the meaning of the colors.
pub(crate) fn legend() -> Markup {
    let entries = [
        ("t-queue", "in the queue"),
        ("t-ok", "worked"),
        ("t-bad", "failed attempt"),
        ("t-run", "running"),
        ("t-cut", "cut off by a crash"),
        ("t-hatch", "waits, costs no worker"),
    ];
    html! {
        div.legend aria-hidden="true" {
            @for (class, word) in entries { span { svg { rect class=(class) width="16" height="8" rx="2" {} } (word) } }
            span { svg { rect.t-wait y="3" width="16" height="2" {} } "back-off" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(state: BarState, from: i64, to: Option<i64>, repeated: bool) -> Bar {
        let to = to.map_or("null".to_owned(), |to| to.to_string());
        let state = serde_json::to_string(&state).unwrap_or_default();
        let text = format!(r#"{{"state":{state},"attempt":1,"from":{from},"to":{to},"repeated":{repeated}}}"#);
        serde_json::from_str(&text).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn drawn(bar: &Bar, marks: &str) -> Vec<(&'static str, i64, i64)> {
        let marks: Vec<Mark> = serde_json::from_str(marks).unwrap_or_default();
        let parts = parts(StepKind::Step, bar, &marks, Timestamp::from_micros(100));
        parts.iter().map(|part| (part.class, part.from.as_micros(), part.to.as_micros())).collect()
    }

    #[test]
    fn a_body_that_was_cut_off_is_drawn_twice() {
        let marks = r#"[{"at":30,"kind":"crashed"},{"at":50,"kind":"resumed"}]"#;
        let repeated = bar(BarState::Succeeded, 10, Some(70), true);
        assert_eq!(drawn(&repeated, marks), [("t-cut", 10, 30), ("t-ok", 50, 70)]);
        let until_its_end = bar(BarState::Succeeded, 30, Some(50), true);
        assert_eq!(drawn(&until_its_end, marks), [("t-cut", 30, 50), ("t-ok", 50, 50)]);
        let once = bar(BarState::Succeeded, 55, Some(70), false);
        assert_eq!(drawn(&once, marks), [("t-ok", 55, 70)]);
    }

    #[test]
    fn an_open_bar_ends_at_the_present() {
        assert_eq!(drawn(&bar(BarState::Running, 10, None, false), "[]"), [("t-run", 10, 100)]);
        assert_eq!(drawn(&bar(BarState::Waiting, 10, Some(900), false), "[]"), [("t-hatch", 10, 100)]);
    }
}
