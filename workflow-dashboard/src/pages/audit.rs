//! The changes that operators have made, when, and why.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use workflow_sdk::operate::{AuditEntry, AuditPage, Cursor, ListAudit};

use crate::address::Parameters;
use crate::facets::escaped;
use crate::frame::{Page, Section, empty, next_page, option};
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock, status};

/// The parameters of the page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Which {
    /// The beginning of the verb.
    #[serde(default)]
    verb: String,
    #[serde(default)]
    target: String,
    #[serde(default)]
    actor: String,
    cursor: Option<Cursor>,
}

/// `GET /audit`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Problem> {
    let mut list = ListAudit::new().verb(which.verb.trim());
    for (text, set) in
        [(&which.target, ListAudit::target as fn(ListAudit, String) -> ListAudit), (&which.actor, ListAudit::actor)]
    {
        if !text.trim().is_empty() {
            list = set(list, text.trim().to_owned());
        }
    }
    list.cursor = which.cursor.clone();
    let page = shared.operate.audit(list).await?;
    Ok(shared.page(&visit, Page::new(Section::Audit, draw(&visit, &which, &page), command(&which))).await)
}

/// Returns the command that lists the same changes.
pub(super) fn command(which: &Which) -> String {
    let filters = [("verb", &which.verb), ("target", &which.target), ("by", &which.actor)];
    let given = filters.into_iter().filter(|(_, text)| !text.trim().is_empty());
    given.fold("workflow audit".to_owned(), |command, (name, text)| format!("{command} {}", option(name, text.trim())))
}

pub(super) fn draw(visit: &Visit, which: &Which, page: &AuditPage) -> Markup {
    let is_filtered = !(which.verb.is_empty() && which.target.is_empty() && which.actor.is_empty());
    html! {
        form.filters method="get" action=(visit.link("/audit")) {
            label { "Verb" input name="verb" value=(which.verb) placeholder="run. or queue.pause"; }
            label { "Target" input name="target" value=(which.target) placeholder="queue:mail"; }
            label { "Actor" input name="actor" value=(which.actor) placeholder="any"; }
            button.btn { "Filter" }
            @if is_filtered { a.btn.ghost href=(visit.link("/audit")) { "All" } }
        }
        @if page.items.is_empty() {
            @if is_filtered {
                (empty("No order matches", "The verb may be the beginning of one; target and actor are whole.", None))
            }
            @else {
                (empty(
                    "Nothing was changed yet",
                    "Each order of an operator leaves a row here, in the same commit as the change.",
                    None,
                ))
            }
        } @else {
            table.wide aria-label="Audit" {
                thead {
                    tr {
                        th { "When" }
                        th { "Actor" }
                        th { "Verb" }
                        th { "Target" }
                        th.opt { "Reason" }
                        th.opt { "Outcome" }
                    }
                }
                tbody { @for entry in &page.items { (row(visit, entry)) } }
            }
        }
        @let [verb, target, actor] = [&which.verb, &which.target, &which.actor].map(|text| escaped(text));
        @let filter = format!("verb={verb}&target={target}&actor={actor}");
        (next_page(visit, page.next.as_ref(), &format!("/audit?{filter}"), "Older"))
    }
}

fn row(visit: &Visit, entry: &AuditEntry) -> Markup {
    let run = entry.target.strip_prefix("run:");
    let arguments =
        entry.arguments.as_object().filter(|object| !object.is_empty()).map(|_| entry.arguments.to_string());
    html! {
        tr data-row=(entry.id) {
            td.nowrap.dim { (clock::at(entry.at, visit.now)) }
            td { (entry.actor.as_deref().unwrap_or("—")) }
            td.mono { (entry.verb) }
            td.mono.cut-off title=(entry.target) {
                @match run {
                    Some(run) => a.quiet href=(visit.link(&format!("/runs/{run}"))) { "run " (status::short_id(run)) },
                    None => (entry.target)
                }
                @if let Some(arguments) = &arguments { span.faint { " " (arguments) } }
            }
            td.opt.dim { (entry.reason.as_deref().unwrap_or("")) }
            td.opt.dim { (entry.outcome) }
        }
    }
}
