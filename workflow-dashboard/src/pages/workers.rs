//! Workers: which live, what they serve, and what they hold.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::operate::{WorkerView, WorkflowView};

use crate::facets;
use crate::frame::{Page, Section, empty};
use crate::problem::Problem;
use crate::status::{self, count};
use crate::visit::Visit;
use crate::{Shared, clock};

/// `GET /workers`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
) -> Result<Response, Problem> {
    let (workers, workflows) = futures::future::join(shared.operate.workers(), shared.operate.workflows()).await;
    let body = draw(&visit, &workers?, &workflows?);
    Ok(shared.page(&visit, Page::new(Section::Workers, body, "workflow workers")).await)
}

pub(super) fn draw(visit: &Visit, workers: &[WorkerView], workflows: &[WorkflowView]) -> Markup {
    let unserved = workflows.iter().flat_map(|workflow| {
        workflow.versions.iter().filter(|version| version.unserved).map(move |version| (workflow, version))
    });
    let takes_over = workers.iter().any(|worker| worker.live);
    html! {
        @for (workflow, version) in unserved {
            p.alert role="status" {
                span.bad { (crate::icons::Icon::STUCK.draw()) }
                span {
                    "Runs of "
                    b { (workflow.name) }
                    " version "
                    b { (version.version) }
                    " in queue "
                    b { (version.queue) }
                    " are due, and no live worker serves them."
                }
            }
        }
        @if workers.is_empty() {
            div.page {
                (empty(
                    "No worker lives",
                    "Runs wait until a program with a worker starts. Nothing is lost meanwhile.",
                    Some("orders run     # your program"),
                ))
            }
        } @else {
            table.wide aria-label="Workers" {
                thead { tr { th { "Worker" } th { "State" } th.r { "Runs" } th.opt { "Serves" } th.r { "Since" } } }
                tbody { @for worker in workers { tr data-row=(worker.id) {
                    td.mono title=(worker.id) { (status::worker(worker.id)) }
                    td {
                        @if worker.live {
                            span.ok { "live" }
                        }  @else {
                            span.bad { "died" }
                            span.faint {
                                @if takes_over { " · its runs are taken over" }
                                @else { " · its runs wait for another worker" }
                            }
                        }
                    }
                    td.r.num {
                        a.quiet href=(facets::link(visit, &format!("worker:{}", worker.id))) { (count(worker.runs)) }
                    }
                    td.opt { div.tags {
                        @for lane in worker.lanes.iter().take(12) {
                            span.tag title=(lane) {
                                (lane.workflow)
                                " "
                                (lane.version)
                                @if lane.queue != workflow_sdk::DEFAULT_QUEUE { " · " (lane.queue) }
                            }
                        }
                        @if worker.lanes.len() > 12 { span.faint { (worker.lanes.len() - 12) " more" } }
                    } }
                    td.r.num.dim { (clock::age(worker.started_at, visit.now)) }
                } } }
            }
        }
    }
}
