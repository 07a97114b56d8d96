//! The instance and its database, the numbers by state, and how long ended runs stay.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::operate::{Counts, DatabaseView, MOST_COUNTED, WorkerView};

use crate::frame::{Page, Section};
use crate::problem::Problem;
use crate::status::{self, count};
use crate::visit::Visit;
use crate::{Shared, clock};

/// `GET /system`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
) -> Result<Response, Problem> {
    let operate = &shared.operate;
    let (counts, workers, system) = futures::future::join3(operate.counts(), operate.workers(), operate.system()).await;
    let body = draw(&visit, &counts?, &workers?, &system?.database);
    Ok(shared.page(&visit, Page::new(Section::System, body, "workflow doctor")).await)
}

fn draw(visit: &Visit, counts: &Counts, workers: &[WorkerView], database: &DatabaseView) -> Markup {
    let numbers = [
        ("Pending", counts.pending),
        ("Due", counts.due),
        ("Delayed", counts.delayed),
        ("Running", counts.running),
        ("Waiting", counts.parked),
        ("Paused", counts.paused),
        ("Stuck", counts.stuck),
        ("Failed", counts.failed),
        ("Canceled", counts.canceled),
    ];
    html! {
        div.page {
            div.cols {
                section.card #instance data-key="instance" {
                    header { h2 { "This dashboard" } }
                    dl.kv.pad {
                        dt { "Release" } dd { (env!("CARGO_PKG_VERSION")) }
                        dt {
                            "You are"
                        }  dd {
                            (visit.actor.name)
                            ", "
                            (format!("{:?}", visit.actor.role).to_lowercase())
                        }
                        dt { "Payloads" } dd { (if visit.actor.payloads { "shown to you" } else { "hidden from you" }) }
                        dt { "Below" } dd.mono { (visit.root()) }
                        dt { "Time" } dd { (clock::at(visit.now, visit.now)) }
                    }
                }
                section.card #counts data-key="counts" {
                    header { h2 { "Runs by state" } span.right { "counted to " (clock::grouped(MOST_COUNTED.into())) } }
                    dl.kv.pad { @for (name, number) in numbers { dt { (name) } dd.num { (count(number)) } } }
                }
            }
            section.card.below #database data-key="database" {
                header { h2 { "Database" } span.right { "workflow doctor judges it" } }
                dl.kv.pad {
                    dt { "Kind" } dd { (database.kind) " " (database.version) }
                    dt { "Schema" } dd { "level " (database.schema_level) }
                    @if let Some(bytes) = database.bytes { dt { "Size" } dd { (clock::bytes(bytes)) } }
                }
            }
            section.card.below #retention data-key="retention" {
                header { h2 { "How long ended runs stay" } span.right { "declared by the workers" } }
                (retention(workers))
            }
        }
    }
}

fn retention(workers: &[WorkerView]) -> Markup {
    let keeps_all = workers.iter().all(|worker| {
        worker
            .retention
            .as_ref()
            .is_some_and(|retention| serde_json::to_value(retention).is_ok_and(|value| is_empty(&value)))
    });
    html! {
        @if workers.is_empty() { p.faint.pad { "No worker lives. Nothing is deleted." } }
        @else if keeps_all {
            p.pad {
                "No worker deletes ended runs: the tables grow for ever. "
                code { "Worker::retain(..)" }
                " bounds them."
            }
        }
        @else {
            table { tbody { @for worker in workers { tr {
                td.mono { (status::worker(worker.id)) }
                td.mono.dim.cut-off { @match &worker.retention {
                    None => span.bad { "not understood by this release" },
                    Some(retention) => (serde_json::to_string(retention).unwrap_or_default()),
                } }
            } } } }
        }
    }
}

fn is_empty(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => true,
        serde_json::Value::Object(object) => object.values().all(is_empty),
        serde_json::Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
