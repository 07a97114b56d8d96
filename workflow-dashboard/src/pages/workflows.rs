//! Workflows, the workers of each version, and the start of a run.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::operate::{Role, VersionView, WorkflowView};

use crate::Shared;
use crate::facets::{self, word};
use crate::forms::{self, Offer};
use crate::frame::{Page, Section, empty};
use crate::problem::Problem;
use crate::visit::Visit;

/// `GET /workflows`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
) -> Result<Response, Problem> {
    let workflows = shared.operate.workflows().await?;
    Ok(shared.page(&visit, Page::new(Section::Workflows, draw(&visit, &workflows), "workflow workflows")).await)
}

pub(super) fn draw(visit: &Visit, workflows: &[WorkflowView]) -> Markup {
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
                    th { "State" }
                    th.r { "Runs" }
                }
            }
            tbody {
                @for workflow in workflows {
                    @for (index, version) in workflow.versions.iter().enumerate() {
                        tr data-row=(format!("{}/{}/{}", workflow.name, version.queue, version.version)) {
                            td.cut-off { @if index == 0 { strong dir="auto" { (workflow.name) } } }
                            td.mono { (version.version) }
                            td.opt.dim { (version.queue) }
                            td.num { (version.workers.len()) }
                            td { (state(version)) }
                            td.r { div.acts.end {
                                a.btn.ghost href=(runs(visit, workflow, version)) { "Runs" }
                                (start(visit, workflow, version))
                            } }
                        }
                    }
                }
            }
        }
    }
}

fn runs(visit: &Visit, workflow: &WorkflowView, version: &VersionView) -> String {
    facets::link(visit, &format!("{} {}", word("workflow", &workflow.name), word("version", &version.version)))
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
