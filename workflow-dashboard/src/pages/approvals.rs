//! The approvals that wait for a person's decision.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::operate::{ApprovalPage, ListApprovals};

use crate::flow::FlowNames;
use crate::frame::{Page, Section, empty};
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock, status};

use super::run_actions::answers;

/// `GET /approvals`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
) -> Result<Response, Problem> {
    let page = shared.operate.approvals(ListApprovals::new()).await?;
    let runs = page.items.iter().map(|approval| (approval.run_id, approval.lane.workflow.as_str()));
    let flows = shared.flows.names(&*shared.operate, &runs.collect::<Vec<_>>()).await;
    let body = draw(&visit, &page, &flows);
    Ok(shared.page(&visit, Page::new(Section::Approvals, body, "workflow approvals list")).await)
}

pub(super) fn draw(visit: &Visit, page: &ApprovalPage, flows: &FlowNames) -> Markup {
    if page.items.is_empty() {
        return html! { div.page {
            (empty(
                "No decision is asked for",
                "A workflow that calls ctx.approval(..) waits here for an answer, and holds no worker meanwhile.",
                None,
            ))
        } };
    }
    html! {
        table.wide.inbox aria-label="Approvals" {
            thead {
                tr {
                    th { "Asked" }
                    th { "Run" }
                    th.opt { "Asks" }
                    th.r { "Since" }
                    th.r.opt { "Until" }
                    th.r { "Answer" }
                }
            }
            tbody { @for approval in &page.items {
                @let link = visit.link(&format!("/runs/{}", approval.run_id));
                @let (run, workflow) = (approval.run_id, approval.lane.workflow.as_str());
                tr data-row=(format!("{}-{}", approval.run_id, approval.key)) {
                    td.cut-off { a href=(link) { strong { (approval.key) } } }
                    td.cut-off {
                        a.quiet href=(link) {
                            (flows.label(run, workflow))
                            " "
                            span.mono.faint { (status::short_id(run)) }
                        }
                    }
                    td.opt.dim { (approval.to.as_deref().unwrap_or("—")) }
                    td.r.num.dim { (clock::age(approval.since, visit.now)) }
                    td.r.opt.num.dim {
                        @match approval.until { Some(until) => (clock::at(until, visit.now)), None => "no end" }
                    }
                    td.r { div.acts.end data-actions { (answers(visit, approval)) } }
                }
            } }
        }
        @if !page.complete { p.listfoot { "More wait behind these." } }
    }
}
