//! The deployed flows, and the start of a run of each.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use futures::future::join;
use maud::{Markup, html};
use workflow_flows::{FLOW_TAG, FLOW_VERSION_TAG, FlowSummary};
use workflow_sdk::operate::Role;

use crate::facets::{self, escaped, tag};
use crate::forms::{self, Offer};
use crate::frame::{Page, Section, empty};
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock};

/// The most flows that stand on the page.
const MOST_FLOWS: u32 = 500;

/// `GET /flows`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
) -> Result<Response, Problem> {
    let body = match &shared.deployed {
        None => unserved(),
        Some(flows) => {
            let (list, counts) = join(flows.list_first(MOST_FLOWS), flows.counts()).await;
            draw(&visit, &list?, &counts?)
        }
    };
    Ok(shared.page(&visit, Page::new(Section::Flows, body, "workflow flow list")).await)
}

/// Says why there is nothing to list.
fn unserved() -> Markup {
    html! { div.page {
        (empty(
            "Flows are not served here",
            "This dashboard has no store of deployed flows. An application gives it to router_with_flows. The flows \
             of a server are listed by the command line.",
            Some("workflow flow list"),
        ))
    } }
}

pub(super) fn draw(visit: &Visit, flows: &[FlowSummary], counts: &BTreeMap<String, u64>) -> Markup {
    if flows.is_empty() {
        let text = "A flow is a workflow given as a document. Once it is deployed, runs are started by its name.";
        return html! { div.page {
            (empty("No flow is deployed", text, Some("workflow flow deploy triage.yaml")))
        } };
    }
    html! {
        table.wide aria-label="Flows" {
            thead {
                tr {
                    th { "Flow" }
                    th { "Version" }
                    th.r.opt { "Versions" }
                    th.opt { "Triggers" }
                    th.opt { "Deployed by" }
                    th.r.opt { "Deployed" }
                    th.r { span.hidden { "Runs" } }
                }
            }
            tbody { @for flow in flows {
                tr data-row=(flow.name) {
                    td.cut-off {
                        a.quiet href=(visit.link(&place(&flow.name))) {
                            strong dir="auto" { (flow.name) }
                        }
                        @if !flow.description.is_empty() {
                            div.dim.cut-off dir="auto" title=(flow.description) { (flow.description) }
                        }
                    }
                    td.mono.cut-off { (flow.version) }
                    td.r.opt.num { (clock::grouped(counts.get(&flow.name).copied().unwrap_or(1))) }
                    td.opt { (triggers(flow)) }
                    td.opt.dim.cut-off { (flow.created_by) }
                    td.r.opt.num.dim { (clock::at(flow.created_at, visit.now)) }
                    td.r { div.acts.end data-actions {
                        a.btn.ghost.opt href=(facets::link(visit, &tag(FLOW_TAG, &flow.name))) { "Runs" }
                        (start(visit, flow))
                    } }
                }
            } }
        }
        @if counts.len() > flows.len() {
            p.listfoot { (clock::grouped((counts.len() - flows.len()) as u64)) " more: workflow flow list" }
        }
    }
}

/// Returns the path of the page of a flow.
pub(super) fn place(name: &str) -> String {
    format!("/flows/{}", escaped(name))
}

/// Draws the kinds of the triggers of a version.
pub(super) fn triggers(flow: &FlowSummary) -> Markup {
    html! {
        @if flow.triggers.is_empty() { span.faint { "—" } }
        @else { span.tags { @for kind in &flow.triggers { span.tag { (kind) } } } }
    }
}

/// Returns the address of the runs of a version.
pub(super) fn runs(visit: &Visit, flow: &FlowSummary) -> String {
    facets::link(visit, &format!("{} {}", tag(FLOW_TAG, &flow.name), tag(FLOW_VERSION_TAG, &flow.version)))
}

/// Offers to start a run of a version.
pub(super) fn start(visit: &Visit, flow: &FlowSummary) -> Markup {
    let sentence = format!("A run of version {} begins as soon as a worker is free. It acts for you.", flow.version);
    Offer::new("start_flow", "Start", Role::Operator, sentence)
        .with("flow", &flow.name)
        .with("version", &flow.version)
        .verb("Start the run")
        .fields(html! {
            (forms::json("Input, as JSON", "input", "{}"))
            (forms::line("Key: a second start with it finds the first run", "key", "", "none"))
        })
        .draw(visit)
}
