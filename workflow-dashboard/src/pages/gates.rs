//! One queue with its gates.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::operate::{GatePage, GateView, ListGates, OperateErrorCode, QueueView, Role, StatsPage};

use crate::address::{Named, Parameters, Place};
use crate::chart::{self, Range};
use crate::facets::{self, escaped, word};
use crate::forms::{self, Offer};
use crate::frame::{Page, Section, argument, next_page};
use crate::icons::Icon;
use crate::problem::{Problem, sentence};
use crate::status::count;
use crate::visit::Visit;
use crate::{Shared, clock};

use super::queues::{actions, limits};

/// `GET /queues/{queue}`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Named(name): Named<String>,
    Parameters(place): Parameters<Place>,
) -> Result<Response, Problem> {
    let mut list = ListGates::new(&name);
    list.cursor = place.cursor;
    let ended = shared.operate.stats(Range::Hour.stats()?.queue(&name));
    let (queues, gates, ended) =
        futures::future::join3(shared.operate.queues(), shared.operate.gates(list), ended).await;
    let gates = match gates {
        // The page of a queue that is declared shows it before its first run.
        Err(error) if error.code == OperateErrorCode::NotFound => None,
        gates => Some(gates?),
    };
    let queue = queues?.into_iter().find(|queue| queue.name == name);
    let queue = queue.ok_or_else(|| Problem::unknown("queue", &name))?;
    let mut page = Page::new(
        Section::Queues,
        draw(&visit, &queue, gates.as_ref(), &ended?),
        format!("workflow queues gates {}", argument(&name)),
    );
    page.title = format!("Queue {name}");
    page.top = Some(html! {
        nav.crumb aria-label="Place" { a href=(visit.link("/queues")) { "Queues" } (Icon::CHEVRON.draw()) }
        h1.cut-off { (name) }
    });
    Ok(shared.page(&visit, page).await)
}

fn draw(visit: &Visit, queue: &QueueView, gates: Option<&GatePage>, ended: &StatsPage) -> Markup {
    let total = chart::total(ended);
    let words = limits(&queue.limits);
    html! {
        section.run-head #head data-key="head" {
            div.line { h2.wrap { (queue.name) } div.right.acts data-actions { (actions(visit, queue)) } }
            p.why { @match &queue.pause {
                Some(pause) => { "Paused: " (sentence(&pause.reason)) },
                None if queue.workers == 0 => "No live worker serves a lane of this queue.",
                None => "Open.",
            } }
            dl.facts {
                div { dt { "Under way" } dd.num { (count(queue.running)) } }
                div { dt { "Waiting" } dd.num { (count(queue.waiting)) } }
                div {
                    dt { "Ended in an hour" }
                    dd.num { (clock::grouped(total.ended())) " · " (chart::well(&total)) }
                }
                div { dt { "Mean wait for a worker" } dd.num { (chart::micros(total.mean_wait_us)) } }
                div { dt { "Workers" } dd.num { (queue.workers) } }
                div { dt { "Limits" } dd { @if words.is_empty() { "none" } @else { (words.join(", ")) } } }
                div {
                    dt { "Runs" }
                    dd { a.quiet href=(facets::link(visit, &word("queue", &queue.name))) { "Search" } }
                }
            }
        }
        @if let Some(group) = ended.groups.first() {
            section.card.inset #chart data-key="chart" {
                header { h2 { "Runs ended each minute" } span.right { (chart::meaning()) } }
                (chart::ended(visit, ended, group, &[], &word("queue", &queue.name)))
            }
        }
        @let items = gates.map(|page| page.items.as_slice()).unwrap_or_default();
        @if items.is_empty() { p.faint.pad { "No run of this queue was ever started behind a gate." } } @else {
            table.wide aria-label="Gates" {
                thead {
                    tr {
                        th { "Gate" }
                        th.r { "Under way" }
                        th.r { "Waiting" }
                        th.r { "Weight" }
                        th.r { span.hidden { "Actions" } }
                    }
                }
                tbody { @for gate in items { (row(visit, queue, gate)) } }
            }
        }
        @let next = gates.and_then(|page| page.next.as_ref());
        (next_page(visit, next, &format!("/queues/{}", escaped(&queue.name)), "More gates"))
    }
}

fn row(visit: &Visit, queue: &QueueView, gate: &GateView) -> Markup {
    let sentence = "A gate with weight 2 begins two runs in its turn where others begin one.";
    let weigh = Offer::new("weigh_gate", "Weigh", Role::Admin, sentence)
        .with("queue", &queue.name)
        .with("gate", &gate.name)
        .fields(forms::number("Weight, 1 to 1000", "weight", Some(gate.weight)));
    let search = format!("{} {}", word("queue", &queue.name), word("gate", &gate.name));
    html! {
        tr data-row=(gate.name) {
            td.cut-off { a href=(facets::link(visit, &search)) { strong { (gate.name) } } }
            td.r.num { (count(gate.running)) }
            td.r.num { (count(gate.waiting)) }
            td.r.num { (gate.weight) }
            td.r { div.acts.end data-actions { (weigh.draw(visit)) } }
        }
    }
}
