//! The panel beside a timeline: one step with its attempts, or the run with its payloads.

use maud::{Markup, html};
use workflow_sdk::operate::{BarState, HistoryItem, Role, RunDetail, StoredPayload, Timeline, TimelineRow};
use workflow_sdk::{AttemptStatus, RunId, StoredError};

use crate::facets::escaped;
use crate::forms::{self, Offer};
use crate::icons::Icon;
use crate::visit::Visit;
use crate::{clock, payload, timeline};

/// One step, as its panel shows it.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) run: RunId,
    pub(crate) row: &'a TimelineRow,
    /// The rows of its history. Empty if they could not be read.
    pub(crate) items: Vec<HistoryItem>,
    /// Its output, if that is all that was read.
    pub(crate) output: Option<StoredPayload>,
    pub(crate) end: workflow_sdk::Timestamp,
}

impl Step<'_> {
    pub(crate) fn draw(&self, visit: &Visit, close: &str) -> Markup {
        let Self { row, items, .. } = self;
        let position = items.iter().find_map(|item| item.position);
        let kind = match position {
            Some(position) => format!("{} · position {position}", row.kind),
            None => row.kind.to_string(),
        };
        html! {
            aside.panel #panel data-key="panel" aria-label=(format!("Step {}", row.step)) {
                h2 {
                    (timeline::look(row).icon())
                    span.wrap dir="auto" { (row.step) }
                    span.tag.right { (kind) }
                    a.close href=(close) aria-label="Close the panel" { "×" }
                }
                h3 { (if row.bars.len() == 1 { "Attempt" } else { "Attempts" }) }
                (self.attempts(visit))
                (self.error(visit))
                (self.result(visit))
                h3 { "Facts" }
                dl.kv {
                    dt { "Key" } dd.mono title=(row.step) { (row.step) }
                    @if let Some(line) = &row.source_line { dt { "Source line" } dd.mono.wrap { (line) } }
                    @if let Some(asks) = &row.asks { dt { "Asks" } dd { (asks) } }
                    @if let Some(event) = &row.event { dt { "Event" } dd.mono { (event.name) " " (event.key) } }
                    @if let Some(child) = &row.child {
                        dt { "Child" }
                        dd.mono { a.quiet href=(visit.link(&format!("/runs/{child}"))) { (child) } }
                    }
                    @if let Some(first) = row.bars.first() { dt { "Began" } dd { (clock::at(first.from, visit.now)) } }
                }
                (self.again(visit))
            }
        }
    }

    fn attempts(&self, visit: &Visit) -> Markup {
        let bars = self.row.bars.iter().filter(|bar| bar.state != BarState::BackOff);
        html! {
            @for bar in bars {
                @let (icon, color, word) = match bar.state {
                    BarState::Succeeded if bar.repeated => (Icon::SUCCEEDED, "ok", "repeated after a crash"),
                    BarState::Succeeded => (Icon::SUCCEEDED, "ok", ""),
                    BarState::Failed => (Icon::FAILED, "bad", "failed"),
                    BarState::Running => (Icon::RUNNING, "run", "running"),
                    BarState::CutOff => (Icon::CANCELED, "idle", "cut off by a crash"),
                    BarState::Dropped => (Icon::CANCELED, "idle", "dropped"),
                    BarState::Waited => (Icon::SUCCEEDED, "ok", "waited"),
                    _ => (Icon::WAITING, "wait", "waits"),
                };
                div.att {
                    span class=(color) { (icon.draw()) }
                    span { "Attempt " (bar.attempt) " " span.faint { (word) } }
                    span.dim.num { (clock::between(bar.from, bar.to.unwrap_or(self.end).min(self.end))) }
                    @let item = self.items.iter().find(|item| item.attempt == bar.attempt);
                    @let error = item.and_then(|item| item.error.as_ref());
                    @if let Some(error) = error.filter(|_| visit.actor.payloads) {
                        span.e { (error.message.lines().next().unwrap_or_default()) }
                    }
                }
            }
        }
    }

    fn error(&self, visit: &Visit) -> Markup {
        let whole = self.items.iter().rev().find_map(|item| item.error.as_ref());
        html! {
            @if visit.actor.payloads && self.items.iter().all(|item| item.status == AttemptStatus::Failed) {
                @match (whole, &self.row.error) {
                    (Some(error), _) => (show_error(error)),
                    (None, Some(text)) => { h3 { "Error" } pre.wrap { (text) } },
                    (None, None) => {},
                }
            }
        }
    }

    fn result(&self, visit: &Visit) -> Markup {
        let item = self.items.iter().rev().find(|item| item.output.is_some());
        let output = item.and_then(|item| item.output.as_ref()).or(self.output.as_ref());
        let attempt = item.map_or_else(|| self.row.bars.last().map_or(1, |bar| bar.attempt), |item| item.attempt);
        let place = format!("/runs/{}/payload?of=step&step={}&attempt={attempt}", self.run, escaped(&self.row.step));
        html! {
            @if let Some(output) = output {
                h3 { (if item.is_some_and(|item| item.completed_at.is_none()) { "Waits for" } else { "Output" }) }
                (payload::show(output, Some(&visit.link(&place)), visit.actor.payloads))
            }
        }
    }

    fn again(&self, visit: &Visit) -> Markup {
        let sentence = "A new run begins here: it keeps every outcome before this step, and does this step and all \
                        that follow again. This run stays as it is.";
        let fork = Offer::new("fork_run", "Run again from here", Role::Operator, sentence)
            .icon(Icon::RETRY)
            .with("run", self.run)
            .with("step", &self.row.step)
            .fields(forms::json("Input, if it should be another one", "input", ""));
        html! { @if visit.may(Role::Operator) { h3 { "From here" } div.acts { (fork.draw(visit)) } } }
    }
}

/// Draws an error with its causes.
pub(crate) fn show_error(error: &StoredError) -> Markup {
    html! {
        h3 { "Error" span.tag.right { (error.kind) } }
        pre.wrap.fault tabindex="0" { (error.message) }
        @for cause in &error.causes { p.cause { span.faint { "because " } (cause) } }
    }
}

/// Draws the run's payloads, if no step is selected.
pub(crate) fn of_run(visit: &Visit, detail: &RunDetail, timeline: &Timeline) -> Markup {
    let place = |of: &str| visit.link(&format!("/runs/{}/payload?of={of}", detail.summary.id));
    let may_see = visit.actor.payloads;
    html! {
        aside.panel #panel data-key="panel" aria-label="The run" {
            h2 { "Run" span.tag.right { "attempt " (detail.summary.attempt) } }
            @if let Some(error) = detail.error.as_ref().filter(|_| may_see) { (show_error(error)) }
            @if let Some(output) = &detail.output {
                h3 { "Output" }
                (payload::show(output, Some(&place("output")), may_see))
            }
            @if let Some(input) = &detail.input {
                h3 { "Input" }
                (payload::show(input, Some(&place("input")), may_see))
            }
            @if !timeline.rows.is_empty() { p.faint.below { "Choose a step to see its attempts and its output." } }
        }
    }
}
