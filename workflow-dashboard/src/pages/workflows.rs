//! Workflows, the workers of each version, and the start of a run.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::operate::{Role, StatsBy, StatsPage, VersionView, WorkflowView};

use crate::chart::{self, Range};
use crate::facets::{self, escaped, word};
use crate::forms::{self, Offer};
use crate::frame::{Page, Section, empty};
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock, status};

/// `GET /workflows`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
) -> Result<Response, Problem> {
    let list = Range::Day.stats()?.by(StatsBy::Lane);
    let (workflows, lanes) = futures::future::join(shared.operate.workflows(), shared.operate.stats(list)).await;
    let body = draw(&visit, &workflows?, &lanes?);
    Ok(shared.page(&visit, Page::new(Section::Workflows, body, "workflow workflows")).await)
}

pub(super) fn draw(visit: &Visit, workflows: &[WorkflowView], lanes: &StatsPage) -> Markup {
    if workflows.is_empty() {
        let text = "Workflows appear with the first worker that serves them, or the first run of them.";
        return html! { div.page { (empty("No workflow is known", text, Some("orders run     # your program"))) } };
    }
    html! {
        table.wide aria-label="Workflows" {
            thead {
                tr {
                    th { "Workflow" }
                    th { "Version" }
                    th.opt { "Queue" }
                    th { "Workers" }
                    th.opt { "State" }
                    th.opt { "Ended in 24 h" }
                    th.r.opt {}
                    th.r.opt { "Failed" }
                    th.r.opt title="Half of the runs took at most this long, from the first claim to the end" { "p50" }
                    th.r.opt { "p95" }
                    th.r.opt { "p99" }
                    th.r { span.hidden { "Runs" } }
                }
            }
            tbody {
                @for workflow in workflows {
                    @for (index, version) in workflow.versions.iter().enumerate() {
                        @let group = lanes.groups.iter().find(|group| chart::is_of(group, &workflow.name, version));
                        @let total = group.map(|group| group.total).unwrap_or_default();
                        tr data-row=(format!("{}/{}/{}", workflow.name, version.queue, version.version)) {
                            td.cut-off { @if index == 0 {
                                @let place = format!("/workflows/{}?range=24h", escaped(&workflow.name));
                                a.quiet href=(visit.link(&place)) {
                                    strong dir="auto" { (workflow.name) }
                                }
                            } }
                            td.mono { (version.version) }
                            td.opt.dim { (version.queue) }
                            td.num { (version.workers.len()) }
                            td.opt { (state(version)) }
                            td.opt { (chart::spark(lanes, &group.into_iter().collect::<Vec<_>>())) }
                            td.r.opt.num { (clock::grouped(total.ended())) }
                            td.r.opt.num {
                                (status::failed(total.failed))
                            }
                            td.r.opt.num.nowrap { (chart::micros(total.p50_us)) }
                            td.r.opt.num.nowrap.dim { (chart::micros(total.p95_us)) }
                            td.r.opt.num.nowrap.dim { (chart::micros(total.p99_us)) }
                            td.r { div.acts.end {
                                a.btn.ghost.opt href=(runs(visit, &workflow.name, &version.version)) { "Runs" }
                                (start(visit, workflow, version))
                            } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the address of the runs of a version.
pub(super) fn runs(visit: &Visit, workflow: &str, version: &str) -> String {
    facets::link(visit, &format!("{} {}", word("workflow", workflow), word("version", version)))
}

fn state(version: &VersionView) -> Markup {
    html! {
        @match (version.unserved, version.workers.is_empty(), version.due) {
            (true, _, _) => span.bad { "due, and no worker serves it" },
            (_, true, _) => span.faint { "no worker" },
            (_, _, true) => span.dim { "served, runs are due" },
            _ => span.dim { "served" },
        }
    }
}

fn start(visit: &Visit, workflow: &WorkflowView, version: &VersionView) -> Markup {
    let sentence = match version.workers.is_empty() {
        true => "A run begins once a worker serves this version.",
        false => "A run begins at once, on a worker that serves this version.",
    };
    Offer::new("start_run", "Start", Role::Operator, sentence)
        .with("workflow", &workflow.name)
        .with("version", &version.version)
        .with("queue", &version.queue)
        .verb("Start the run")
        .fields(html! {
            (forms::json("Input, as JSON", "input", "null"))
            (forms::line("Key: a second start with it finds the first run", "key", "", "none"))
            label { "Tags, one per line" textarea.mono name="tags" rows="2" placeholder="customer=42" {} }
        })
        .draw(visit)
}
