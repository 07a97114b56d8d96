//! Queues with their limits, and the limits of steps.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::operate::{LimitView, QueueView, Role};
use workflow_sdk::{GateLimits, LimitRule, QueueLimits};

use crate::facets::{self, escaped, word};
use crate::forms::{self, Offer};
use crate::frame::{Page, Section, empty};
use crate::problem::Problem;
use crate::status::count;
use crate::visit::Visit;
use crate::{Shared, clock};

/// `GET /queues`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
) -> Result<Response, Problem> {
    let (queues, rules) = futures::future::join(shared.operate.queues(), shared.operate.limits()).await;
    let body = draw(&visit, &queues?, &rules?);
    Ok(shared.page(&visit, Page::new(Section::Queues, body, "workflow queues list")).await)
}

pub(super) fn draw(visit: &Visit, queues: &[QueueView], rules: &[LimitView]) -> Markup {
    html! {
        @if queues.is_empty() {
            div.page {
                (empty(
                    "There is no queue yet",
                    "The first start of a run makes its queue, and a worker those that it serves.",
                    None,
                ))
            }
        } @else {
            table.wide aria-label="Queues" {
                thead {
                    tr {
                        th { "Queue" }
                        th { "Under way" }
                        th.opt {}
                        th.opt { "Limits" }
                        th.r { "Waiting" }
                        th.r { "Oldest" }
                        th.r.opt { "Workers" }
                        th.r { span.hidden { "Actions" } }
                    }
                }
                tbody { @for queue in queues { (row(visit, queue)) } }
            }
        }
        @if !rules.is_empty() {
            h2.table-title { "Limits of steps" }
            table.wide aria-label="Limits of steps" {
                thead {
                    tr {
                        th { "Limit" }
                        th { "Seats taken" }
                        th.opt { "Rule" }
                        th.r { "Waiting" }
                        th.r { span.hidden { "Actions" } }
                    }
                }
                tbody { @for rule in rules { (rule_row(visit, rule)) } }
            }
        }
    }
}

fn row(visit: &Visit, queue: &QueueView) -> Markup {
    let words = limits(&queue.limits);
    html! {
        tr data-row=(queue.name) {
            td.cut-off {
                a href=(visit.link(&format!("/queues/{}", escaped(&queue.name)))) { strong { (queue.name) } }
                @if queue.has_gates { " " span.tag { "gates" } }
                @if let Some(pause) = &queue.pause { " " span.tag.warn title=(pause.reason) { "paused" } }
            }
            td.num { (count(queue.running)) @if let Some(limit) = queue.limits.concurrency { " of " (limit) } }
            td.opt { (meter(queue)) }
            td.opt.dim {
                @if words.is_empty() { span.faint { "no limit" } } @else { (words.join(", ")) }
                @if queue.overridden.is_some() { " " span.tag { "set by hand" } }
            }
            td.r.num {
                a.quiet href=(facets::link(visit, &format!("{} status:pending", word("queue", &queue.name)))) {
                    (count(queue.waiting))
                }
            }
            td.r.num {
                @match queue.oldest_due {
                    Some(due) => span.warn[visit.now.since(due).as_secs() > 60] { (clock::age(due, visit.now)) },
                    None => span.faint { "—" }
                }
            }
            td.r.opt.num { span.bad[queue.workers == 0] { (queue.workers) } }
            td.r { div.acts.end data-actions { (actions(visit, queue)) } }
        }
    }
}

/// Draws what can be done with a queue.
pub(super) fn actions(visit: &Visit, queue: &QueueView) -> Markup {
    let (name, limits) = (&queue.name, &queue.limits);
    let pause = match queue.pause {
        Some(_) => Offer::new(
            "resume_queue",
            "Resume",
            Role::Operator,
            format!("Runs of {name} are claimed again as they are due."),
        ),
        None => {
            let sentence = format!(
                "No run of {name} is claimed until it is resumed. Runs under way go on until they end or wait: to stop \
                 them too, pause them in the list of runs. Starts are accepted."
            );
            Offer::new("pause_queue", "Pause", Role::Operator, sentence).with_reason()
        }
    };
    let sentence =
        format!("These limits hold for {name} in place of those of the code, on every worker within seconds.");
    let set = Offer::new("set_queue_limits", "Set limits", Role::Admin, sentence).verb("Set").fields(html! {
        (forms::number("Runs at once; with 0 none is claimed", "concurrency", limits.concurrency))
        (forms::number("Runs that may wait", "max_waiting", limits.max_waiting))
        (forms::rate("Runs that may begin", "", limits.rate))
        (forms::number("Runs at once behind each gate", "gate_concurrency", limits.per_gate.concurrency))
        (forms::number("Runs that may wait behind each gate", "gate_max_waiting", limits.per_gate.max_waiting))
        (forms::rate("Runs that may begin behind each gate", "gate_", limits.per_gate.rate))
    });
    let clear = Offer::new("clear_queue_limits", "Unset", Role::Admin, "The limits of the code hold again.");
    html! {
        (pause.with("queue", name).draw(visit))
        (set.with("queue", name).draw(visit))
        @if queue.overridden.is_some() { (clear.with("queue", name).draw(visit)) }
    }
}

fn rule_row(visit: &Visit, view: &LimitView) -> Markup {
    let name = &view.name;
    let rule = view.rule.unwrap_or_else(LimitRule::none);
    let mut words: Vec<String> =
        rule.concurrency.map(|bodies| format!("{bodies} at once per key")).into_iter().collect();
    words.extend(rule.rate.map(|rate| format!("{rate} per key")));
    let sentence = format!("This rule holds for {name} in place of that of the code, on every worker within seconds.");
    let set = Offer::new("set_limit", "Set", Role::Admin, sentence).with("limit", name).fields(html! {
        (forms::number("Bodies at once per key", "concurrency", rule.concurrency))
        (forms::rate("Bodies that may begin per key", "", rule.rate))
    });
    let clear =
        Offer::new("clear_limit", "Unset", Role::Admin, "The rule of the code holds again.").with("limit", name);
    html! {
        tr data-row=(format!("limit {name}")) {
            td.cut-off {
                strong { (name) }
                @if let Some(reason) = &view.not_understood { " " span.tag.bad title=(reason) { "not understood" } }
            }
            td.num { (count(view.held)) }
            td.opt.dim { (words.join(", ")) @if view.overridden.is_some() { " " span.tag { "set by hand" } } }
            td.r.num { (count(view.waiting)) }
            td.r {
                div.acts.end data-actions { (set.draw(visit)) @if view.overridden.is_some() { (clear.draw(visit)) } }
            }
        }
    }
}

/// Returns the limits of a queue in words.
pub(super) fn limits(limits: &QueueLimits) -> Vec<String> {
    let QueueLimits { concurrency, rate, max_waiting, per_gate, .. } = limits;
    let GateLimits { concurrency: runs, rate: begun, max_waiting: waiting, .. } = per_gate;
    let parts = [
        concurrency.map(|runs| format!("{runs} at once")),
        rate.map(|rate| rate.to_string()),
        max_waiting.map(|runs| format!("{runs} may wait")),
        runs.map(|runs| format!("{runs} per gate")),
        begun.map(|rate| format!("{rate} per gate")),
        waiting.map(|runs| format!("{runs} may wait per gate")),
    ];
    parts.into_iter().flatten().collect()
}

/// Draws how much of its concurrency a queue uses.
pub(super) fn meter(queue: &QueueView) -> Markup {
    let Some(limit) = queue.limits.concurrency else { return html! {} };
    let used = f64::from(queue.running.runs) / f64::from(limit.max(1)) * 100.0;
    let class = if used >= 100.0 { "t-wait" } else { "t-run" };
    html! {
        svg.meter role="img" aria-label=(format!("{used:.0} % used")) {
            rect.t-track width="100%" height="6" rx="3" {}
            rect class=(class) width=(format!("{:.1}%", used.min(100.0))) height="6" rx="3" {}
        }
    }
}
