//! Whether all is well, what ended, and what is under way.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use futures::future::join;
use maud::{Markup, html};
use serde::Deserialize;
use workflow_sdk::operate::{
    Counts, FailureView, ListFailures, ListSchedules, Operate, QueueView, ScheduleView, StatsBy, StatsGroup, StatsPage,
    WorkerView, WorkflowView,
};

use crate::address::Parameters;
use crate::chart::{self, Range};
use crate::frame::{Page, Section, empty};
use crate::problem::Problem;
use crate::status::{self, count};
use crate::verdict::{Facts, Verdict, asleep, judge};
use crate::visit::Visit;
use crate::{Shared, clock, facets};

use super::queues::{limits, meter};

/// The most rows of each card.
const MOST: usize = 8;

/// The parameters of a page with charts.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Which {
    /// How far back the charts go: `1h`, `24h` or `7d`.
    pub(super) range: Option<String>,
}

/// `GET /`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Problem> {
    let operate = &*shared.operate;
    let reads = join(
        join(operate.counts(), join(operate.queues(), operate.workers())),
        join(
            join(operate.workflows(), operate.schedules(ListSchedules::new().limit(100))),
            Numbers::cached(&shared, Range::of(which.range.as_deref())),
        ),
    );
    let ((counts, (queues, workers)), ((workflows, schedules), numbers)) = reads.await;
    let mut schedules = schedules?.items;
    schedules.retain(|schedule| !schedule.next.is_empty());
    schedules.sort_by_key(|schedule| schedule.next.first().copied());
    let numbers = numbers?;
    let content =
        Content { counts: counts?, queues: queues?, workers: workers?, workflows: workflows?, schedules, numbers };
    Ok(shared.page(&visit, Page::new(Section::Overview, draw(&visit, &content), "workflow counts")).await)
}

/// The statistics and the failures of a range.
pub(crate) struct Numbers {
    pub(super) range: Range,
    pub(super) all: StatsPage,
    pub(super) workflows: StatsPage,
    pub(super) lanes: StatsPage,
    pub(super) failures: Vec<FailureView>,
}

impl Numbers {
    /// How long all visitors see the same numbers. Workers write them once per second.
    const AGE: Duration = Duration::from_secs(2);

    async fn cached(shared: &Shared, range: Range) -> Result<Arc<Self>, Problem> {
        let [hour, day, week] = &*shared.numbers;
        let cache = match range {
            Range::Hour => hour,
            Range::Day => day,
            Range::Week => week,
        };
        cache.get(Self::AGE, async { Self::read(&*shared.operate, range).await.map(Arc::new) }).await
    }

    async fn read(operate: &dyn Operate, range: Range) -> Result<Self, Problem> {
        let list = range.stats()?;
        let mut failures = ListFailures::new().limit(6);
        failures.since = list.since;
        let ((all, workflows), (lanes, failures)) = join(
            join(operate.stats(list.clone()), operate.stats(list.clone().by(StatsBy::Workflow))),
            join(operate.stats(list.by(StatsBy::Lane)), operate.failures(failures)),
        )
        .await;
        Ok(Self { range, all: all?, workflows: workflows?, lanes: lanes?, failures: failures?.items })
    }
}

/// The answers that the page shows.
pub(super) struct Content {
    pub(super) counts: Counts,
    pub(super) queues: Vec<QueueView>,
    pub(super) workers: Vec<WorkerView>,
    pub(super) workflows: Vec<WorkflowView>,
    pub(super) schedules: Vec<ScheduleView>,
    pub(super) numbers: Arc<Numbers>,
}

pub(super) fn draw(visit: &Visit, content: &Content) -> Markup {
    let Content { counts, queues, workers, workflows, numbers, .. } = content;
    if workflows.is_empty() && workers.is_empty() {
        return html! { div.page { (begin()) } };
    }
    let (ended, range) = (numbers.workflows.groups.as_slice(), numbers.range.name());
    let verdict = judge(&Facts { counts, queues, workers, workflows, ended, range, now: visit.now });
    html! {
        div.page {
            section #verdict data-key="verdict" { (judged(visit, &verdict)) }
            dl.stats #stats data-key="stats" { (stats(visit, content)) }
            (chart_card(visit, numbers))
            div.cols {
                div.stack {
                    (workflow_card(visit, numbers))
                    (queue_card(visit, queues, &numbers.lanes))
                    (worker_card(visit, workers))
                }
                div.stack {
                    (failure_card(visit, numbers))
                    (schedule_card(visit, &content.schedules))
                }
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
    let Content { counts, queues, workers, numbers, .. } = content;
    let live = workers.iter().filter(|worker| worker.live).count();
    let oldest = queues
        .iter()
        .filter(|queue| queue.pause.is_none())
        .filter_map(|queue| Some((queue.oldest_due?, queue)))
        .min_by_key(|(due, _)| *due);
    let stat = |place: String, name: &str, number: String, small: String| {
        html! { div.stat { dt { a href=(place) { (name) } } dd { (number) small { (small) } } } }
    };
    let search = |query: &str| facets::link(visit, query);
    let workers = format!("on {}", clock::counted(live as u64, "worker"));
    let total = chart::total(&numbers.all);
    let since = format!("ended:>-{}", numbers.range.word());
    let p99 = format!("p99 {}", chart::micros(total.p99_us));
    html! {
        (stat(search("status:running"), "Running now", count(counts.running), workers))
        (stat(
            search(&since),
            &format!("Ended in {}", numbers.range.name()),
            clock::grouped(total.ended()),
            chart::well(&total),
        ))
        (stat(visit.link("/workflows"), "First claim to end, median", chart::micros(total.p50_us), p99))
        @match oldest {
            Some((due, queue)) => (stat(
                search("is:due"),
                "Oldest wait for a worker",
                clock::age_text(due, visit.now),
                queue.name.clone(),
            )),
            None => (stat(
                search("is:due"),
                "Oldest wait for a worker",
                "0 s".into(),
                format!("mean {}", chart::micros(total.mean_wait_us)),
            )),
        }
        (stat(search("status:parked"), "Asleep or waiting", asleep(counts), "no worker held".into()))
    }
}

fn chart_card(visit: &Visit, numbers: &Numbers) -> Markup {
    let right = html! { (chart::meaning()) (numbers.range.links(visit, "/")) };
    let step = match numbers.all.step {
        workflow_sdk::operate::StatisticsSpan::Minute => "Runs ended each minute",
        workflow_sdk::operate::StatisticsSpan::Hour => "Runs ended each hour",
        _ => "Runs ended each day",
    };
    let body = html! {
        @if let Some(group) = numbers.all.groups.first() {
            (chart::ended(visit, &numbers.all, group, &chart::deploys(&numbers.lanes), ""))
        }
    };
    card("chart", step, right, body)
}

fn workflow_card(visit: &Visit, numbers: &Numbers) -> Markup {
    let mut groups: Vec<&StatsGroup> = numbers.workflows.groups.iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.total.ended()));
    let all = html! { a.quiet href=(visit.link("/workflows")) { "All" } };
    card(
        "ended",
        "Workflows",
        all,
        html! {
            @if groups.is_empty() { p.faint.pad { "No run ended in " (numbers.range.name()) "." } } @else {
                table {
                    thead { tr {
                        th { "Workflow" }
                        th.opt { "Ended" }
                        th.r { "Runs" }
                        th.r { "Failed" }
                        th.r title="Time from the first claim to the end" { "p50" }
                        th.r.opt { "p95" }
                        th.r.opt { "p99" }
                        th.r.opt title="Mean time from the start to the first claim" { "Queue wait" }
                    } }
                    tbody { @for group in groups.iter().take(MOST) {
                        (workflow_row(visit, numbers, group))
                    } }
                }
            }
        },
    )
}

fn workflow_row(visit: &Visit, numbers: &Numbers, group: &StatsGroup) -> Markup {
    let (name, total) = (group.workflow.as_deref().unwrap_or_default(), group.total);
    let place = visit.link(&format!("/workflows/{}?range={}", facets::escaped(name), numbers.range.word()));
    html! {
        tr {
            td.cut-off { a.quiet href=(place) dir="auto" { (name) } }
            td.opt { (chart::spark(&numbers.workflows, &[group])) }
            td.r.num { (clock::grouped(total.ended())) }
            td.r.num { (status::failed(total.failed)) }
            td.r.num.nowrap { (chart::micros(total.p50_us)) }
            td.r.num.nowrap.opt.dim { (chart::micros(total.p95_us)) }
            td.r.num.nowrap.opt.dim { (chart::micros(total.p99_us)) }
            td.r.num.nowrap.opt.dim { (chart::micros(total.mean_wait_us)) }
        }
    }
}

fn card(key: &str, title: &str, right: Markup, body: Markup) -> Markup {
    html! { section.card id=(key) data-key=(key) { header { h2 { (title) } span.right { (right) } } (body) } }
}

fn queue_card(visit: &Visit, queues: &[QueueView], lanes: &StatsPage) -> Markup {
    let ended = |queue: &QueueView| -> Vec<&StatsGroup> {
        lanes.groups.iter().filter(|group| group.queue.as_ref() == Some(&queue.name)).collect()
    };
    card(
        "queues",
        "Queues",
        html! { a.quiet href=(visit.link("/queues")) { "All " (queues.len()) } },
        html! {
            @if queues.is_empty() { p.faint.pad { "The first start makes the first queue." } } @else {
                table {
                    thead { tr {
                        th { "Queue" }
                        th { "Under way" }
                        th.opt {}
                        th.opt { "Ended" }
                        th.r { "Waiting" }
                        th.r { "Oldest" }
                    } }
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
                        td.opt { (chart::spark(lanes, &ended(queue))) }
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
                    td {
                        @if worker.live { span.dim { (clock::counted(worker.lanes.len() as u64, "lane")) } }
                        @else { span.bad { "died" } }
                    }
                    td.dim { "since " (clock::at(worker.started_at, visit.now)) }
                    td.r.num { (status::runs(worker.runs)) }
                } } } }
            }
        },
    )
}

fn failure_card(visit: &Visit, numbers: &Numbers) -> Markup {
    let all = visit.link(&format!("/failures?range={}", numbers.range.word()));
    let all = html! { a.quiet href=(all) { (numbers.range.name()) } };
    card(
        "failures",
        "What fails",
        all,
        html! {
            @if numbers.failures.is_empty() { p.faint.pad { "No run failed." } }
            @for failure in &numbers.failures { (super::failures::line(visit, failure)) }
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
                    @let timing = crate::timing::words(&schedule.declaration.timing);
                    td.dim.cut-off title=(timing) { (timing) }
                    td.r.num.nowrap { @if let Some(next) = schedule.next.first() { (clock::age(*next, visit.now)) } }
                } } } }
            }
        },
    )
}
