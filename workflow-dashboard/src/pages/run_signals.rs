//! The signals, events and decisions that a run has received, or waits for.

use maud::{Markup, html};
use workflow_sdk::operate::{HistoryItem, HistoryPage, Role, RunSummary};
use workflow_sdk::{RunId, StepKind};

use crate::clock;
use crate::facets::escaped;
use crate::icons::Icon;
use crate::payload;
use crate::visit::Visit;

/// Draws the messages among the rows of a history, and the form that sends one.
pub(super) fn draw(visit: &Visit, run: &RunSummary, page: &HistoryPage) -> Markup {
    let is_message = |item: &&HistoryItem| matches!(item.kind, StepKind::Signal | StepKind::Event | StepKind::Approval);
    let items: Vec<&HistoryItem> = page.items.iter().filter(is_message).collect();
    let is_open = !run.status.is_terminal();
    html! {
        div.data #signals data-key="signals" {
            section.broad {
                @if items.is_empty() {
                    p.faint { "The run has received no signal, and waits for none." }
                } @else {
                    table aria-label="Signals" {
                        thead { tr {
                            th { "Name" }
                            th.opt { "Kind" }
                            th { "State" }
                            th.r { "Waited" }
                            th.opt { "Value" }
                        } }
                        tbody { @for item in &items { (row(visit, run.id, item)) } }
                    }
                }
                @if page.next.is_some() {
                    p.faint.below { "The run has more steps: later signals stand in its history." }
                }
                p.faint.below { "A signal that no step has asked for yet waits in the inbox, and is not listed." }
            }
            @if is_open && visit.may(Role::Operator) {
                section { h2 { "Send a signal" } (super::run_actions::signal(run).form(visit)) }
            }
        }
    }
}

fn row(visit: &Visit, run: RunId, item: &HistoryItem) -> Markup {
    let place = visit.link(&format!("/runs/{run}?step={}", escaped(&item.step)));
    html! {
        tr {
            td.cut-off { a.quiet href=(place) dir="auto" { strong { (item.step) } } }
            td.opt.dim { (item.kind) }
            td { @match item.completed_at {
                Some(at) => span.icon-line { span.ok { (Icon::SUCCEEDED.draw()) } (clock::at(at, visit.now)) },
                None => span.icon-line { span.wait { (Icon::WAITING.draw()) } "waits" }
            } }
            td.r.num.nowrap { (clock::between(item.started_at, item.completed_at.unwrap_or(visit.now))) }
            td.opt.mono.cut-off {
                @if let (Some(output), Some(_)) = (&item.output, item.completed_at) {
                    @match output.json.as_ref().filter(|_| visit.actor.payloads) {
                        Some(json) => (payload::beginning(json.as_str())),
                        None => (clock::bytes(output.bytes))
                    }
                }
            }
        }
    }
}
