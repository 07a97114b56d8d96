//! The family of a run: the run that started it, the runs that it started, and its copies.

use futures::future::join5;
use maud::{Markup, html};
use workflow_sdk::operate::{
    AuditEntry, ListAudit, ListRuns, Operate, OperateError, OperateErrorCode, RunDetail, RunPage, RunSummary,
};
use workflow_sdk::{FORKED_FROM, RunId};

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
    /// The run that this one was copied from. `None`: it is not a copy, or that run was deleted.
    source: Option<RunSummary>,
    copies: RunPage,
    /// The orders that made copies.
    orders: Vec<AuditEntry>,
}

impl Relatives {
    pub(super) async fn read(operate: &dyn Operate, run: &RunSummary) -> Result<Self, OperateError> {
        let one = async |id: Option<RunId>| match id {
            Some(id) => found(operate.run(id).await),
            None => Ok(None),
        };
        let all = async |query: String| operate.runs(ListRuns::new(query.parse()?)).await;
        let orders = ListAudit::new().verb("run.fork").target(format!("run:{}", run.id)).limit(50);
        let (parent, source, children, copies, orders) = join5(
            one(run.parent.as_ref().map(|parent| parent.run_id)),
            one(source_of(run)),
            all(format!("parent:{}", run.id)),
            all(facets::tag(FORKED_FROM, &run.id.to_string())),
            operate.audit(orders),
        )
        .await;
        Ok(Self { parent: parent?, children: children?, source: source?, copies: copies?, orders: orders?.items })
    }

    /// Returns the order that made a copy, if one did.
    fn order_of(&self, copy: RunId) -> Option<&AuditEntry> {
        self.orders.iter().find(|order| order.started() == Some(copy))
    }
}

/// Returns the run that was read. `None`: it was deleted.
fn found(read: Result<RunDetail, OperateError>) -> Result<Option<RunSummary>, OperateError> {
    match read {
        Ok(run) => Ok(Some(run.summary)),
        Err(error) if error.code == OperateErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the id of the run that this one was copied from.
pub(super) fn source_of(run: &RunSummary) -> Option<RunId> {
    run.tags.get(FORKED_FROM)?.parse().ok()
}

/// Draws the relatives of a run.
pub(super) fn draw(visit: &Visit, run: &RunSummary, relatives: &Relatives) -> Markup {
    let Relatives { parent, children, source, copies, .. } = relatives;
    let step = |run: &RunSummary| html! { @if let Some(parent) = &run.parent { "step " (parent.step_key) } };
    let nothing = |_: &RunSummary| html! {};
    html! {
        div #family data-key="family" {
            h2.table-title { "Parent" }
            @match parent {
                Some(parent) => (table(visit, std::slice::from_ref(parent), "Parent", &nothing)),
                None => p.faint.indent { "No other run has started this one, or it was deleted." }
            }
            h2.table-title { "Children" }
            @if children.items.is_empty() { p.faint.indent {
                @if children.complete { "The run has started no other run." }
                @else { "None among the newest runs." }
            } } @else { (table(visit, &children.items, "Children", &step)) }
            (rest(visit, children, &format!("parent:{}", run.id), "Search for all children"))
            @if source_of(run).is_some() {
                h2.table-title { "Copy of" }
                @match source {
                    Some(source) => (table(visit, std::slice::from_ref(source), "Copy of", &nothing)),
                    None => p.faint.indent { "The run of which this one is a copy was deleted." }
                }
            }
            h2.table-title { "Copies" }
            @if copies.items.is_empty() { p.faint.indent { "No new run began with the history of this one." } }
            @else { (table(visit, &copies.items, "Copies", &|copy| origin(visit, relatives.order_of(copy.id)))) }
            (rest(visit, copies, &facets::tag(FORKED_FROM, &run.id.to_string()), "Search for all copies"))
        }
    }
}

/// Draws the link to all runs of a list that is not complete.
fn rest(visit: &Visit, page: &RunPage, query: &str, words: &str) -> Markup {
    html! { @if !page.complete || page.next.is_some() {
        p.indent { a.quiet href=(facets::link(visit, query)) { (words) } }
    } }
}

/// Says where a copy leaves the history, and on whose behalf it was made.
fn origin(visit: &Visit, order: Option<&AuditEntry>) -> Markup {
    html! {
        @if let Some(order) = order {
            @if let Some(step) = order.arguments.get("from").and_then(|from| from.as_str()) { "from " b { (step) } " " }
            "by " (order.actor.as_deref().unwrap_or("a program")) ", "
            (clock::age(order.at, visit.now)) " ago"
            @if let Some(reason) = &order.reason { ": " (reason) }
        }
    }
}

fn table(visit: &Visit, runs: &[RunSummary], name: &str, note: &dyn Fn(&RunSummary) -> Markup) -> Markup {
    html! {
        table.wide aria-label=(name) { tbody { @for run in runs { tr {
            td.cut-off { a.icon-line href=(visit.link(&format!("/runs/{}", run.id))) {
                (Look::of(run).icon())
                strong dir="auto" { (flow::title(run)) }
                (flow::mark(run))
                span.mono.faint.cut-off { (run.key.clone().unwrap_or_else(|| status::short_id(run.id))) }
            } }
            td.opt.dim.cut-off { (note(run)) }
            td.dim.cut-off { (now_line(run, visit)) }
            td.r.num.dim.nowrap { (duration(run, visit.now)) }
        } } } }
    }
}
