//! Bulk operations: which were ordered, and how far each has come.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::operate::{BulkId, BulkPage, BulkStatus, BulkView, ListBulks, Role};

use crate::address::{Named, Parameters, Place};
use crate::facets;
use crate::forms::Offer;
use crate::frame::{Page, Section, empty, next_page};
use crate::icons::Icon;
use crate::problem::Problem;
use crate::timeline::percent;
use crate::visit::Visit;
use crate::{Shared, clock, status};

/// `GET /bulk`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(place): Parameters<Place>,
) -> Result<Response, Problem> {
    let mut list = ListBulks::new();
    list.cursor = place.cursor;
    let page = shared.operate.bulks(list).await?;
    Ok(shared.page(&visit, Page::new(Section::Bulk, draw(&visit, &page), "workflow bulk list")).await)
}

/// `GET /bulk/{bulk}`.
pub(crate) async fn one(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Named(id): Named<BulkId>,
) -> Result<Response, Problem> {
    let bulk = shared.operate.bulk(id).await?;
    let mut page = Page::new(Section::Bulk, draw_one(&visit, &bulk), format!("workflow bulk show {id}"));
    page.title = format!("Bulk {}", bulk.verb);
    page.top = Some(html! {
        nav.crumb aria-label="Place" { a href=(visit.link("/bulk")) { "Bulk" } (Icon::CHEVRON.draw()) }
        h1.cut-off { (bulk.verb) " " (status::short_id(id)) }
    });
    Ok(shared.page(&visit, page).await)
}

pub(super) fn draw(visit: &Visit, page: &BulkPage) -> Markup {
    if page.items.is_empty() {
        let text = "Choose runs on the page of runs, or all that a search finds, and what to do with them. A worker \
                    does it in the background, and this page shows how far it has come.";
        let command = "workflow runs retry --where 'status:failed workflow:checkout' --reason '…'";
        return html! { div.page { (empty("No bulk operation was ordered yet", text, Some(command))) } };
    }
    html! {
        table.wide aria-label="Bulk operations" {
            thead { tr {
                th { "Operation" }
                th { "Status" }
                th.opt { "Runs" }
                th { "Progress" }
                th.r { "Done" }
                th.r.opt { "Skipped" }
                th.r { "Failed" }
                th.opt { "By" }
                th.r.opt { "Ordered" }
            } }
            tbody { @for bulk in &page.items { tr data-row=(bulk.id) {
                td.nowrap { a href=(visit.link(&format!("/bulk/{}", bulk.id))) { strong { (bulk.verb) } } }
                td { (pill(bulk)) }
                td.opt.mono.cut-off title=(bulk.query) { (words(bulk)) }
                td { (meter(bulk)) }
                td.r.num { (clock::grouped(bulk.done)) }
                td.r.opt.num.dim { (clock::grouped(bulk.skipped)) }
                td.r.num { (status::failed(bulk.failed)) }
                td.opt.dim.cut-off title=[bulk.reason.as_deref()] {
                    (bulk.actor.as_deref().unwrap_or("—"))
                    @if let Some(reason) = &bulk.reason { ": " (reason) }
                }
                td.r.opt.num.dim.nowrap { (clock::age(bulk.created_at, visit.now)) }
            } } }
        }
        (next_page(visit, page.next.as_ref(), "/bulk", "Older"))
    }
}

pub(super) fn draw_one(visit: &Visit, bulk: &BulkView) -> Markup {
    let stop = "No further run is changed. Runs that were changed before stay so.";
    let stop = Offer::new("stop_bulk", "Stop", Role::Operator, stop).with("bulk", bulk.id).dangerous();
    html! {
        section.run-head #head data-key="head" {
            div.line {
                h2 { (bulk.verb) }
                (pill(bulk))
                @if !bulk.status.has_ended() { div.right.acts data-actions { (stop.draw(visit)) } }
            }
            p.why { (told(bulk)) }
            (meter(bulk))
            dl.facts {
                div { dt { "Runs" } dd.mono.cut-off {
                    a.quiet href=(facets::link(visit, &bulk.query)) { (words(bulk)) }
                } }
                @if let Some(matched) = bulk.matched { div { dt { "Matched" } dd.num { (clock::grouped(matched)) } } }
                div { dt { "Changed" } dd.num { (clock::grouped(bulk.done)) } }
                div { dt { "Nothing to change" } dd.num { (clock::grouped(bulk.skipped)) } }
                div { dt { "Refused" } dd.num { (clock::grouped(bulk.failed)) } }
                div { dt { "Ordered" } dd { (clock::at(bulk.created_at, visit.now)) } }
                @if let Some(end) = bulk.ended_at { div { dt { "Ended" } dd { (clock::at(end, visit.now)) } } }
                @if let Some(worker) = bulk.worker { div { dt { "Worker" } dd.mono { (status::worker(worker)) } } }
                @if let Some(actor) = &bulk.actor { div { dt { "By" } dd { (actor) } } }
                @if let Some(reason) = &bulk.reason { div { dt { "Reason" } dd.wrap { (reason) } } }
                div { dt { "Each run" } dd {
                    a.quiet href=(visit.link(&format!("/audit?verb={}", facets::escaped(&bulk.verb)))) { "Audit log" }
                } }
            }
        }
        @if bulk.failures.is_empty() { p.faint.pad { "No run has refused the change." } } @else {
            table.wide aria-label="Runs that refused the change" {
                thead { tr { th { "Run" } th { "Why it was not changed" } } }
                tbody { @for failure in &bulk.failures { tr data-row=(failure.run) {
                    td.mono { a.quiet href=(visit.link(&format!("/runs/{}", failure.run))) {
                        (status::short_id(failure.run))
                    } }
                    td.dim { (failure.reason) }
                } } }
            }
            @if bulk.failed > bulk.failures.len() as u64 {
                p.listfoot { "These are the first " (bulk.failures.len()) "." }
            }
        }
    }
}

fn words(bulk: &BulkView) -> &str {
    if bulk.query.is_empty() { "every run" } else { &bulk.query }
}

fn pill(bulk: &BulkView) -> Markup {
    let (color, icon, word) = match bulk.status {
        BulkStatus::Running => ("run", Icon::RUNNING, "Running"),
        BulkStatus::Done => ("ok", Icon::SUCCEEDED, "Done"),
        BulkStatus::Stopped => ("idle", Icon::CANCELED, "Stopped"),
        _ => ("idle", Icon::PENDING, "Other"),
    };
    html! { span class=(format!("pill {color}")) { (icon.draw()) (word) } }
}

/// Returns how much of the operation is done, in per cent, if that is known.
fn share(bulk: &BulkView) -> Option<f64> {
    let dealt = bulk.done + bulk.skipped + bulk.failed;
    match (bulk.status, bulk.matched) {
        (BulkStatus::Done, _) => Some(100.0),
        (_, Some(0)) => Some(100.0),
        (_, Some(matched)) => Some((dealt as f64 / matched as f64 * 100.0).min(100.0)),
        (_, None) => None,
    }
}

fn meter(bulk: &BulkView) -> Markup {
    let color = match bulk.status {
        BulkStatus::Running => "t-run",
        BulkStatus::Done => "t-ok",
        _ => "t-idle",
    };
    html! {
        @match share(bulk) {
            Some(share) => svg.meter role="img" aria-label=(format!("{share:.0} % done")) {
                rect.t-track width="100%" height="6" rx="3" {}
                rect class=(color) width=(percent(share)) height="6" rx="3" {}
            },
            None => span.faint { (clock::grouped(bulk.done + bulk.skipped + bulk.failed)) " dealt with" }
        }
    }
}

fn told(bulk: &BulkView) -> String {
    let dealt = bulk.done + bulk.skipped + bulk.failed;
    let runs = clock::counted(dealt, "run");
    match (bulk.status, bulk.matched) {
        (BulkStatus::Running, Some(matched)) => {
            let all = clock::counted(matched, "run");
            format!("{} of {all} dealt with. A worker goes on in the background.", clock::grouped(dealt))
        }
        (BulkStatus::Running, None) => format!("{runs} dealt with. A worker goes on in the background."),
        (BulkStatus::Stopped, _) => format!("Stopped after {runs}. The others stay as they were."),
        _ => format!("{runs} dealt with."),
    }
}
