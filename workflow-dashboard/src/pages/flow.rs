//! One deployed flow: its versions, and the graph of one of them.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use futures::future::join3;
use maud::{Markup, html};
use serde::Deserialize;
use workflow_flows::{FLOW_TAG, FlowSummary, FlowVersion};

use crate::address::{Named, Parameters};
use crate::facets::{self, escaped, tag};
use crate::flow::{View, is_small};
use crate::frame::{Page, Section, argument};
use crate::icons::Icon;
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock};

use super::flows;

/// The most versions that stand on the page.
const MOST_VERSIONS: u32 = 100;

/// The version whose graph is shown. Default: the newest.
#[derive(Debug, Deserialize)]
pub(crate) struct Which {
    version: Option<String>,
}

/// `GET /flows/{flow}`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Named(name): Named<String>,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Problem> {
    let deployed = shared.deployed()?;
    let shown = deployed.find(&name, which.version.as_deref());
    let (versions, counts, shown) =
        join3(deployed.versions_first(&name, MOST_VERSIONS), deployed.counts(), shown).await;
    let all = counts?.get(&name).copied().unwrap_or_default();
    let body = draw(&visit, &versions?, all, &shown?);
    let mut page = Page::new(Section::Flows, body, format!("workflow flow list {}", argument(&name)));
    // A version never changes, and the drawing of a large flow is costly.
    page.live = false;
    page.title = format!("Flow {name}");
    page.top = Some(html! {
        nav.crumb aria-label="Place" { a href=(visit.link("/flows")) { "Flows" } (Icon::CHEVRON.draw()) }
        h1.cut-off dir="auto" { (name) }
    });
    Ok(shared.page(&visit, page).await)
}

pub(super) fn draw(visit: &Visit, versions: &[FlowSummary], all: u64, shown: &FlowVersion) -> Markup {
    let summary = FlowSummary::from(shown);
    html! {
        div.page {
            (graph(visit, shown, &summary))
            (list(visit, versions, all, &summary))
        }
    }
}

/// Draws the graph of a version, for an actor that sees payloads.
fn graph(visit: &Visit, shown: &FlowVersion, summary: &FlowSummary) -> Markup {
    let flow = &shown.definition;
    let view = (visit.actor.payloads && is_small(flow)).then(|| View::of_flow(flow));
    html! {
        section.card #graph data-key="graph" {
            header {
                h2 { "Version " (summary.version) }
                (flows::triggers(summary))
                span.right {
                    @if let Some(view) = &view { (view.summary()) }
                    (flows::start(visit, summary))
                }
            }
            @if !summary.description.is_empty() { p.pad.wrap dir="auto" { (summary.description) } }
            @match view {
                Some(view) => div.flow-area tabindex="0" role="region" aria-label="Graph" {
                    (view.draw(&|_| String::new(), None))
                },
                None if visit.actor.payloads => p.faint.pad { "The flow has too many steps for a drawing." },
                None => p.faint.pad { "The steps of flows are hidden from you, as payloads are." },
            }
        }
    }
}

fn list(visit: &Visit, versions: &[FlowSummary], all: u64, shown: &FlowSummary) -> Markup {
    let runs = facets::link(visit, &tag(FLOW_TAG, &shown.name));
    let place = flows::place(&shown.name);
    html! {
        section.card.below #versions data-key="versions" {
            header {
                h2 { "Versions" }
                span.right { a.quiet href=(runs) { "All runs" } }
            }
            table {
                thead { tr {
                    th { "Version" }
                    th.opt { "Digest" }
                    th.opt { "Triggers" }
                    th { "Deployed by" }
                    th.r.opt { "Deployed" }
                    th.r { span.hidden { "Runs" } }
                } }
                tbody { @for version in versions {
                    @let is_shown = version.version == shown.version;
                    tr data-row=(version.version) {
                        td.mono.cut-off {
                            a.quiet href=(visit.link(&format!("{place}?version={}", escaped(&version.version))))
                                aria-current=[is_shown.then_some("true")] { (version.version) }
                            @if is_shown { " " span.tag { "shown" } }
                        }
                        td.opt.mono.dim { (version.digest.chars().take(12).collect::<String>()) }
                        td.opt { (flows::triggers(version)) }
                        td.dim.cut-off { (version.created_by) }
                        td.r.opt.num.dim { (clock::at(version.created_at, visit.now)) }
                        td.r { a.btn.ghost href=(flows::runs(visit, version)) { "Runs" } }
                    }
                } }
            }
            @let older = all.saturating_sub(versions.len() as u64);
            @if older > 0 {
                p.faint.pad { (clock::grouped(older)) " older ones are not shown." }
            }
        }
    }
}
