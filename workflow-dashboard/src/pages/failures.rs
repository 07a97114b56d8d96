//! Groups of alike failures, with their numbers.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use workflow_sdk::operate::{FailurePage, FailureView, ListFailures};

use crate::address::Parameters;
use crate::chart::Range;
use crate::facets::{self, escaped, word};
use crate::flow;
use crate::frame::{Page, Section, empty, option};
use crate::icons::Icon;
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock};

/// The most groups of one page.
const MOST: u32 = 100;

/// The parameters of the page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Which {
    /// How far back the last failure of a group lies: `1h`, `24h` or `7d`. Default: all.
    range: Option<String>,
    #[serde(default)]
    workflow: String,
}

/// `GET /failures`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Problem> {
    let mut list = ListFailures::new().limit(MOST);
    if which.range.is_some() {
        list.since = Range::of(which.range.as_deref()).stats()?.since;
    }
    if !which.workflow.is_empty() {
        list = list.workflow(which.workflow.clone());
    }
    let page = shared.operate.failures(list).await?;
    let body = draw(&visit, &which, &page);
    Ok(shared.page(&visit, Page::new(Section::Failures, body, command(&which))).await)
}

/// Returns the command that lists the same groups.
pub(super) fn command(which: &Which) -> String {
    let mut command = "workflow failures".to_owned();
    if which.range.is_some() {
        command.push_str(&format!(" --since {}", Range::of(which.range.as_deref()).word()));
    }
    if !which.workflow.is_empty() {
        command.push_str(&format!(" {}", option("workflow", &which.workflow)));
    }
    command
}

pub(super) fn draw(visit: &Visit, which: &Which, page: &FailurePage) -> Markup {
    let range = which.range.as_ref().map(|range| Range::of(Some(range)));
    let place = |range: Option<Range>| {
        let range = range.map_or_else(String::new, |range| format!("range={}&", range.word()));
        visit.link(&format!("/failures?{range}workflow={}", escaped(&which.workflow)))
    };
    let link = |to: Option<Range>, name: &str| {
        html! { a.on[to == range] href=(place(to)) aria-current=[(to == range).then_some("true")] { (name) } }
    };
    html! {
        div.filters {
            span.seg aria-label="Failed last" {
                (link(None, "Ever"))
                @for range in Range::ALL { (link(Some(range), range.name().trim_start_matches("the "))) }
            }
            @if !which.workflow.is_empty() {
                a.tag href=(visit.link("/failures")) title="All workflows" { (which.workflow) " ×" }
            }
        }
        @if page.items.is_empty() {
            @let text = "Failed runs are grouped here by workflow, step and message, with their numbers.";
            (empty(if range.is_some() { "Nothing failed since then" } else { "No run has failed" }, text, None))
        } @else {
            table.wide aria-label="Failures" {
                thead { tr {
                    th { "Failure" }
                    th { "Where" }
                    th.r { "Runs" }
                    th.opt { "First" }
                    th.r.opt { "Last" }
                    th.r { span.hidden { "Runs of it" } }
                } }
                tbody { @for failure in &page.items { (row(visit, failure)) } }
            }
            @if !page.complete { p.listfoot { "Further groups failed earlier." } }
        }
    }
}

fn row(visit: &Visit, failure: &FailureView) -> Markup {
    // The key must not repeat the message, which not every visitor may see.
    let key = format!("{}/{}/{}", failure.workflow, failure.step.as_deref().unwrap_or_default(), failure.message);
    let key = format!("{:016x}", crate::assets::hash(key.as_bytes()));
    html! {
        tr data-row=(key) {
            td.cut-off { a.icon-line href=(last(visit, failure)) title=(message(visit, failure)) {
                span.bad { (Icon::FAILED.draw()) }
                strong.cut-off dir="auto" { (message(visit, failure)) }
            } }
            td.cut-off dir="auto" { (place(failure)) }
            td.r.num { (clock::grouped(failure.count)) }
            td.opt.dim.nowrap { (clock::at(failure.first_at, visit.now)) ", version " (failure.first_version) }
            td.r.num.dim.nowrap.opt { (clock::age(failure.last_at, visit.now)) }
            td.r { div.acts.end {
                a.btn.ghost.opt href=(last(visit, failure)) { "Last run" }
                a.btn.ghost href=(runs(visit, failure)) { "Runs" }
            } }
        }
    }
}

/// Draws a group in two lines.
pub(super) fn line(visit: &Visit, failure: &FailureView) -> Markup {
    html! {
        a.fail href=(runs(visit, failure)) {
            span.t.icon-line {
                span.bad { (Icon::FAILED.draw()) }
                span.cut-off dir="auto" title=(message(visit, failure)) { (message(visit, failure)) }
            }
            strong.num { (clock::grouped(failure.count)) }
            span.m {
                (place(failure))
                " · first "
                (clock::at(failure.first_at, visit.now))
                " with version "
                (failure.first_version)
                " · last "
                (clock::age(failure.last_at, visit.now))
                " ago"
            }
        }
    }
}

fn message(visit: &Visit, failure: &FailureView) -> String {
    match failure.message.lines().next() {
        Some(line) if visit.actor.payloads && !line.is_empty() => line.to_owned(),
        _ => format!("Error of kind {}", failure.kind),
    }
}

/// Draws where the runs failed. The name of a flow is that of the last run: a group has the runs of
/// all flows that fail alike.
fn place(failure: &FailureView) -> Markup {
    html! {
        (flow::label_of(&failure.workflow, &failure.tags))
        @if let Some(step) = &failure.step { " › " (step) }
    }
}

/// Returns the address of the failed runs of the group; those of its workflow if the visitor may
/// not see messages, or a codec encodes them.
fn runs(visit: &Visit, failure: &FailureView) -> String {
    let runs = format!("status:failed {}", word("workflow", &failure.workflow));
    let is_known = visit.actor.payloads && !matches!(failure.message.trim(), "" | "(encoded)");
    let message = is_known.then(|| word("error", failure.message.trim()));
    facets::link(visit, &[Some(runs), message].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

fn last(visit: &Visit, failure: &FailureView) -> String {
    visit.link(&format!("/runs/{}", failure.last_run))
}
