//! Whether all is well, and what is under way.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use futures::future::join;
use maud::{Markup, html};
use workflow_sdk::operate::{
    Counts, ListRuns, ListSchedules, QueueView, RunSummary, ScheduleView, WorkerView, WorkflowView,
};

use crate::frame::{Page, Section, empty};
use crate::problem::Problem;
use crate::status::{self, Look, count};
use crate::verdict::{Facts, Verdict, asleep, judge};
use crate::visit::Visit;
use crate::{Shared, clock, facets};

use super::queues::{limits, meter};

/// The most rows of each card.
const MOST: usize = 8;

/// `GET /`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
) -> Result<Response, Problem> {
    let operate = &*shared.operate;
    let failed = ListRuns::new(
        "status:failed".parse().map_err(|error| Problem::from(workflow_sdk::operate::OperateError::from(error)))?,
    )
    .limit(6);
    let (counts, (queues, (workers, (workflows, (schedules, failed))))) = join(
        operate.counts(),
        join(
            operate.queues(),
            join(
                operate.workers(),
                join(
                    operate.workflows(),
                    join(operate.schedules(ListSchedules::new().limit(100)), operate.runs(failed)),
                ),
            ),
        ),
    )
    .await;
    let mut schedules = schedules?.items;
    schedules.retain(|schedule| !schedule.next.is_empty());
    schedules.sort_by_key(|schedule| schedule.next.first().copied());
    let content = Content {
        counts: counts?,
        queues: queues?,
        workers: workers?,
        workflows: workflows?,
        schedules,
        failed: failed?.items,
    };
    Ok(shared.page(&visit, Page::new(Section::Overview, draw(&visit, &content), "workflow counts")).await)
}

/// The answers that the page shows.
pub(super) struct Content {
    pub(super) counts: Counts,
    pub(super) queues: Vec<QueueView>,
    pub(super) workers: Vec<WorkerView>,
    pub(super) workflows: Vec<WorkflowView>,
    pub(super) schedules: Vec<ScheduleView>,
    pub(super) failed: Vec<RunSummary>,
}

pub(super) fn draw(visit: &Visit, content: &Content) -> Markup {
    let Content { counts, queues, workers, workflows, .. } = content;
    if workflows.is_empty() && workers.is_empty() {
        return html! { div.page { (begin()) } };
    }
    let verdict = judge(&Facts { counts, queues, workers, workflows, now: visit.now });
    html! {
        div.page {
            section #verdict data-key="verdict" { (judged(visit, &verdict)) }
            dl.stats #stats data-key="stats" { (stats(visit, content)) }
            // The chart of ended runs and the failures by cause stand here once they are counted.
            div.cols {
                div.stack { (queue_card(visit, queues)) (worker_card(visit, workers)) }
                div.stack { (failure_card(visit, &content.failed)) (schedule_card(visit, &content.schedules)) }
            }
        }
    }
}

fn begin() -> Markup {
    html! {
        (empty(
            "Nothing has run here yet",
            "Start a worker of your program, and a run. Both appear on this page at once.",
            Some("orders run     # your program\nworkflow runs start WORKFLOW --input '{}'"),
        ))
        p.center.faint { "To see a crash and a resumption without code: " code { "workflow demo" } }
    }
}

fn judged(visit: &Visit, verdict: &Verdict) -> Markup {
    html! {
        h2.verdict { (verdict.headline) }
        ul.sub {
            @for finding in &verdict.details { li { a.quiet href=(visit.link(&finding.place)) { (finding.text) } } }
        }
    }
}

fn stats(visit: &Visit, content: &Content) -> Markup {
    let Content { counts, queues, workers, .. } = content;
    let live = workers.iter().filter(|worker| worker.live).count();
    let oldest = queues
        .iter()
        .filter(|queue| queue.pause.is_none())
        .filter_map(|queue| Some((queue.oldest_due?, queue)))
        .min_by_key(|(due, _)| *due);
    let stat = |place: String, name: &str, number: String, small: String| {
        html! { a.stat href=(place) { dt { (name) } dd { (number) small { (small) } } } }
    };
    let search = |query: &str| facets::link(visit, query);
    let workers = if live == 1 { "1 worker".to_owned() } else { format!("{live} workers") };
    html! {
        (stat(search("status:running"), "Running now", count(counts.running), format!("on {workers}")))
        (stat(search("is:due"), "Due now", count(counts.due), format!("{} pending", count(counts.pending))))
        @match oldest {
            Some((due, queue)) => (stat(
                search("is:due"),
                "Oldest wait for a worker",
                clock::age_text(due, visit.now),
                queue.name.clone(),
            )),
            None => (stat(search("is:due"), "Oldest wait for a worker", "0 s".into(), "none waits".into())),
        }
        (stat(search("status:parked"), "Asleep or waiting", asleep(counts), "no worker held".into()))
        (stat(search("status:failed"), "Failed", count(counts.failed), format!("{} canceled", count(counts.canceled))))
    }
}

fn card(key: &str, title: &str, right: Markup, body: Markup) -> Markup {
    html! { section.card id=(key) data-key=(key) { header { h2 { (title) } span.right { (right) } } (body) } }
}

fn queue_card(visit: &Visit, queues: &[QueueView]) -> Markup {
    card(
        "queues",
        "Queues",
        html! { a.quiet href=(visit.link("/queues")) { "All " (queues.len()) } },
        html! {
            @if queues.is_empty() { p.faint.pad { "The first start makes the first queue." } } @else {
                table {
                    thead { tr { th { "Queue" } th { "Under way" } th.opt {} th.r { "Waiting" } th.r { "Oldest" } } }
                    tbody { @for queue in queues.iter().take(MOST) { tr {
                        td.cut-off {
                            a.quiet href=(visit.link(&format!("/queues/{}", facets::escaped(&queue.name)))) {
                                (queue.name)
                            }
                            @if queue.pause.is_some() { " " span.tag { "paused" } }
                        }
                        td.num {
                            (count(queue.running))
                            @if let Some(limit) = queue.limits.concurrency { " of " (limit) }
                        }
                        td.opt { (meter(queue)) @if limits(&queue.limits).is_empty() { span.faint { "no limit" } } }
                        td.r.num { (count(queue.waiting)) }
                        td.r.num {
                            @if let Some(due) = queue.oldest_due {
                                span.warn[visit.now.since(due).as_secs() > 60] { (clock::age(due, visit.now)) }
                            }  @else {
                                span.faint { "—" }
                            }
                        }
                    } } }
                }
            }
        },
    )
}

fn worker_card(visit: &Visit, workers: &[WorkerView]) -> Markup {
    let live = workers.iter().filter(|worker| worker.live).count();
    card(
        "workers",
        "Workers",
        html! { a.quiet href=(visit.link("/workers")) { (live) " live" } },
        html! {
            @if workers.is_empty() { p.faint.pad { "No worker lives. Runs wait until one starts." } } @else {
                table { tbody { @for worker in workers.iter().take(MOST) { tr {
                    td.mono { (status::worker(worker.id)) }
                    td { @if worker.live { span.dim { (worker.lanes.len()) " lanes" } } @else { span.bad { "died" } } }
                    td.dim { "since " (clock::at(worker.started_at, visit.now)) }
                    td.r.num { (count(worker.runs)) " runs" }
                } } } }
            }
        },
    )
}

fn failure_card(visit: &Visit, failed: &[RunSummary]) -> Markup {
    let all = html! { a.quiet href=(facets::link(visit, "status:failed")) { "All" } };
    card(
        "failures",
        "Failed last",
        all,
        html! {
            @if failed.is_empty() { p.faint.pad { "No run has failed." } }
            @for run in failed {
                a.fail href=(visit.link(&format!("/runs/{}", run.id))) {
                    span.t.icon-line { (Look::of(run).icon()) span.cut-off dir="auto" {
                        @match run.error.as_ref().filter(|_| visit.actor.payloads) {
                            Some(error) => (error.message.lines().next().unwrap_or_default()),
                            None => "Failed"
                        }
                    } }
                    span.num.dim { (clock::age(run.completed_at.unwrap_or(run.created_at), visit.now)) }
                    span.m {
                        (run.lane.workflow)
                        @if let Some(step) = run.error.as_ref().and_then(|error| error.step_key.as_ref()) {
                            " › "
                            (step)
                        }
                        @if let Some(key) = &run.key { " · " (key) }
                    }
                }
            }
        },
    )
}

fn schedule_card(visit: &Visit, schedules: &[ScheduleView]) -> Markup {
    let all = html! { a.quiet href=(visit.link("/schedules")) { "All" } };
    card(
        "schedules",
        "Next on schedule",
        all,
        html! {
            @if schedules.is_empty() { p.faint.pad { "No schedule will start a run." } } @else {
                table { tbody { @for schedule in schedules.iter().take(MOST) { tr {
                    td.cut-off { (schedule.name) }
                    td.dim.cut-off { (super::schedules::timing(&schedule.declaration.timing)) }
                    td.r.num.nowrap { @if let Some(next) = schedule.next.first() { (clock::age(*next, visit.now)) } }
                } } } }
            }
        },
    )
}
