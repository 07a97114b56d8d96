//! The family of a run: the run that started it, the runs that it started, and its copies.

use futures::future::join3;
use maud::{Markup, html};
use workflow_sdk::RunId;
use workflow_sdk::operate::{AuditEntry, ListAudit, ListRuns, Operate, OperateError, Query, RunPage, RunSummary};

use crate::clock;
use crate::facets;
use crate::flow;
use crate::status::{self, Look};
use crate::visit::Visit;

use super::runs::{duration, now_line};

/// The relatives of a run, as far as they are recorded.
pub(super) struct Relatives {
    parent: Option<RunSummary>,
    children: RunPage,
    forks: Vec<AuditEntry>,
}

impl Relatives {
    pub(super) async fn read(operate: &dyn Operate, run: &RunSummary) -> Result<Self, OperateError> {
        let query: Query = format!("parent:{}", run.id).parse()?;
        let parent = async {
            match &run.parent {
                Some(parent) => operate.run(parent.run_id).await.ok().map(|detail| detail.summary),
                None => None,
            }
        };
        let orders = ListAudit::new().verb("run.fork").target(format!("run:{}", run.id)).limit(20);
        let (parent, children, forks) = join3(parent, operate.runs(ListRuns::new(query)), operate.audit(orders)).await;
        Ok(Self { parent, children: children?, forks: forks?.items })
    }
}

/// Draws the relatives of a run.
pub(super) fn draw(visit: &Visit, run: RunId, relatives: &Relatives) -> Markup {
    let Relatives { parent, children, forks } = relatives;
    html! {
        div #family data-key="family" {
            h2.table-title { "Parent" }
            @match parent {
                Some(parent) => (table(visit, std::slice::from_ref(parent), "Parent")),
                None => p.faint.indent { "No other run has started this one, or it was deleted." }
            }
            h2.table-title { "Children" }
            @if children.items.is_empty() { p.faint.indent {
                @if children.complete { "The run has started no other run." }
                @else { "None among the newest runs." }
            } } @else { (table(visit, &children.items, "Children")) }
            @if !children.complete || children.next.is_some() { p.indent {
                a.quiet href=(facets::link(visit, &format!("parent:{run}"))) { "Search for all children" }
            } }
            h2.table-title { "Copies" }
            @if forks.is_empty() { p.faint.indent { "No person has run it again as a new run." } }
            @for fork in forks { p.indent {
                "Run again "
                @if let Some(step) = fork.arguments.get("from").and_then(|from| from.as_str()) {
                    "from " b { (step) } " "
                }
                "by " (fork.actor.as_deref().unwrap_or("a program")) " "
                (clock::age(fork.at, visit.now)) " ago"
                @if let Some(reason) = &fork.reason { ": " (reason) }
            } }
        }
    }
}

fn table(visit: &Visit, runs: &[RunSummary], name: &str) -> Markup {
    html! {
        table.wide aria-label=(name) { tbody { @for run in runs { tr {
            td.cut-off { a.icon-line href=(visit.link(&format!("/runs/{}", run.id))) {
                (Look::of(run).icon())
                strong dir="auto" { (flow::title(run)) }
                (flow::mark(run))
                span.mono.faint.cut-off { (run.key.clone().unwrap_or_else(|| status::short_id(run.id))) }
            } }
            td.opt.dim.cut-off { @if let Some(parent) = &run.parent { "step " (parent.step_key) } }
            td.dim.cut-off { (now_line(run, visit)) }
            td.r.num.dim.nowrap { (duration(run, visit.now)) }
        } } } }
    }
}
