//! The approvals and decisions that wait for a person.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::ApprovalKind;
use workflow_sdk::operate::{Cursor, ListApprovals};

use crate::address::{Parameters, Place};
use crate::flow;
use crate::frame::{Page, Section, empty, next_page};
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock, status};

use super::decisions::{Asked, SHORT, asked, cut, shown};

/// The most approvals and decisions of one page. Each one of a flow costs the read of its question.
const ROWS: u32 = 50;
/// The most values beside a question that are drawn in a row. The page of the run has more.
const SHOWN_IN_ROW: usize = 5;

/// `GET /approvals`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(Place { cursor }): Parameters<Place>,
) -> Result<Response, Problem> {
    let mut list = ListApprovals::new().limit(ROWS);
    list.cursor = cursor;
    let page = shared.operate.approvals(list).await?;
    let asked = asked(&*shared.operate, &visit, page.items).await;
    let body = draw(&visit, &asked, page.next.as_ref());
    Ok(shared.page(&visit, Page::new(Section::Approvals, body, "workflow approvals list")).await)
}

pub(super) fn draw(visit: &Visit, asked: &[Asked], next: Option<&Cursor>) -> Markup {
    if asked.is_empty() && next.is_some() {
        return html! { div.page {
            p.faint { "The waits that were looked at are those of runs that have ended." }
            (next_page(visit, next, "/approvals", "Later ones"))
        } };
    }
    if asked.is_empty() {
        return html! { div.page {
            (empty(
                "No decision is asked for",
                "A workflow that calls ctx.approval(..), or a flow with a step approval or decision, waits here for an \
                 answer, and holds no worker meanwhile.",
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
            tbody { @for asked in asked { (row(visit, asked)) } }
        }
        (next_page(visit, next, "/approvals", "Later ones"))
    }
}

fn row(visit: &Visit, asked: &Asked) -> Markup {
    let wait = &asked.wait;
    let link = visit.link(&format!("/runs/{}", wait.run_id));
    html! {
        tr data-row=(format!("{}-{}", wait.run_id, wait.key)) {
            td.cut-off {
                a href=(link) { strong { (wait.key) } }
                @if wait.kind == ApprovalKind::Decision { " " span.tag { "decision" } }
                @if let Some(question) = &asked.question {
                    @let prompt = cut(&question.prompt, SHORT);
                    div.dim.cut-off dir="auto" title=(prompt) { (prompt) }
                    (shown(question, SHOWN_IN_ROW, SHORT))
                }
            }
            td.cut-off {
                a.quiet href=(link) {
                    (flow::label_of(&wait.lane.workflow, &wait.tags))
                    " "
                    span.mono.faint { (status::short_id(wait.run_id)) }
                }
            }
            td.opt.dim { (cut(asked.to().unwrap_or("—"), SHORT)) }
            td.r.num.dim { (clock::age(wait.since, visit.now)) }
            td.r.opt.num.dim {
                @match wait.until { Some(until) => (clock::at(until, visit.now)), None => "no end" }
            }
            td.r { div.acts.end data-actions { (asked.answers(visit)) } }
        }
    }
}
