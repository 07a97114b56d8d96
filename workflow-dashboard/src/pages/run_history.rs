//! The history of a run: its attempts in the order in which the workflow got their outcomes.

use maud::{Markup, html};
use workflow_sdk::operate::{HistoryPage, StoredPayload};
use workflow_sdk::{AttemptStatus, RunId};

use crate::clock;
use crate::facets::escaped;
use crate::frame::next_page;
use crate::payload::beginning;
use crate::visit::Visit;

/// Draws one page of the history.
pub(super) fn draw(visit: &Visit, run: RunId, page: &HistoryPage) -> Markup {
    let may_see = visit.actor.payloads;
    html! {
        section #history data-key="history" aria-label="History" {
            @if page.items.is_empty() { p.faint.pad { "No step has begun yet." } }
            @else {
                table.wide {
                    thead {
                        tr {
                            th.r { "Position" }
                            th { "Step" }
                            th.opt { "Kind" }
                            th { "Status" }
                            th.r.opt { "Try" }
                            th.opt { "Began" }
                            th.r { "Took" }
                            th.opt { "Result" }
                        }
                    }
                    tbody { @for item in &page.items { tr {
                        td.r.num.faint { (item.position.map(|position| position.to_string()).unwrap_or_default()) }
                        td.cut-off dir="auto" title=(item.step) {
                            a.quiet href=(visit.link(&format!("/runs/{run}?step={}", escaped(&item.step)))) {
                                (item.step)
                            }
                        }
                        td.opt.dim { (item.kind) }
                        td {
                            span
                                class=(color(item.status)) {
                                (item.status)
                            }
                        }
                        td.r.opt.num.dim { (item.attempt) }
                        td.opt.dim.nowrap { (clock::at(item.started_at, visit.now)) }
                        td.r.num.dim.nowrap {
                            @if let Some(end) = item.completed_at { (clock::between(item.started_at, end)) }
                        }
                        td.opt.mono.dim.cut-off {
                            @match (&item.error, &item.output) {
                                _ if !may_see => {},
                                (Some(error), _) => span.bad { (beginning(&error.message)) },
                                (None, Some(output)) => (short(output)),
                                (None, None) => {},
                            }
                        }
                    } } }
                }
            }
            (next_page(visit, page.next.as_ref(), &format!("/runs/{run}?tab=history"), "Later attempts"))
        }
    }
}

const fn color(status: AttemptStatus) -> &'static str {
    match status {
        AttemptStatus::Failed => "bad",
        AttemptStatus::Running => "run",
        _ => "dim",
    }
}

/// Returns the beginning of a payload, or its size.
fn short(payload: &StoredPayload) -> String {
    payload.json.as_ref().map_or_else(|| clock::bytes(payload.bytes), |json| beginning(json.as_str()))
}
