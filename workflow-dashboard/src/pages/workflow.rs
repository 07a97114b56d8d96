//! One workflow: what its runs took, how they ended, its versions and its failures.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use futures::future::join3;
use maud::{Markup, html};
use workflow_sdk::operate::{
    FailureView, ListFailures, Stats, StatsBy, StatsGroup, StatsPage, VersionView, WorkflowView,
};

use crate::address::{Named, Parameters};
use crate::chart::{self, Range};
use crate::facets::{self, escaped, word};
use crate::frame::{Page, Section, option};
use crate::icons::Icon;
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock, status};

use super::overview::Which;

/// `GET /workflows/{workflow}`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Named(name): Named<String>,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Problem> {
    let range = Range::of(which.range.as_deref());
    let list = range.stats()?.workflow(&name);
    let (all, lanes, rest) = join3(
        shared.operate.stats(list.clone()),
        shared.operate.stats(list.by(StatsBy::Lane)),
        futures::future::join(
            shared.operate.workflows(),
            shared.operate.failures(ListFailures::new().workflow(&name).limit(8)),
        ),
    )
    .await;
    let (workflows, failures) = rest;
    let workflow = workflows?.into_iter().find(|workflow| workflow.name == name);
    let workflow = workflow.ok_or_else(|| Problem::unknown("workflow", &name))?;
    let failures = failures?.items;
    let content = Content { workflow, range, all: all?, lanes: lanes?, failures };
    let mut page = Page::new(
        Section::Workflows,
        draw(&visit, &content),
        format!("workflow stats --since {} {}", range.word(), option("workflow", &name)),
    );
    page.title = format!("Workflow {name}");
    page.top = Some(html! {
        nav.crumb aria-label="Place" { a href=(visit.link("/workflows")) { "Workflows" } (Icon::CHEVRON.draw()) }
        h1.cut-off dir="auto" { (name) }
    });
    Ok(shared.page(&visit, page).await)
}

/// The answers that the page shows.
pub(super) struct Content {
    pub(super) workflow: WorkflowView,
    pub(super) range: Range,
    pub(super) all: StatsPage,
    pub(super) lanes: StatsPage,
    pub(super) failures: Vec<FailureView>,
}

pub(super) fn draw(visit: &Visit, content: &Content) -> Markup {
    let Content { workflow, range, all, lanes, failures } = content;
    let path = format!("/workflows/{}", escaped(&workflow.name));
    let words = word("workflow", &workflow.name);
    let total = chart::total(all);
    let stat = |name: &str, number: String, small: String| {
        html! { div.stat { dt { (name) } dd { (number) small { (small) } } } }
    };
    html! {
        div.page {
            dl.stats #stats data-key="stats" {
                (stat("Started", clock::grouped(total.started), format!("in {}", range.name())))
                (stat("Ended", clock::grouped(total.ended()), chart::well(&total)))
                @let mean = format!("mean {}", chart::micros(total.mean_duration_us));
                (stat("First claim to end, p50", chart::micros(total.p50_us), mean))
                (stat("p95", chart::micros(total.p95_us), format!("p99 {}", chart::micros(total.p99_us))))
                (stat("Start to first claim", chart::micros(total.mean_wait_us), "mean".into()))
            }
            section.card #chart data-key="chart" {
                header {
                    h2 { "Runs ended" }
                    span.right { (chart::meaning()) (range.links(visit, &path)) }
                }
                @if let Some(group) = all.groups.first() {
                    (chart::ended(visit, all, group, &chart::deploys(lanes), &words))
                }
            }
            div.cols {
                (versions(visit, content))
                section.card #failures data-key="failures" {
                    header {
                        h2 { "What fails" }
                        @let all = visit.link(&format!("/failures?workflow={}", escaped(&workflow.name)));
                        span.right { a.quiet href=(all) { "All" } }
                    }
                    @if failures.is_empty() { p.faint.pad { "No run of it has failed." } }
                    @for failure in failures { (super::failures::line(visit, failure)) }
                }
            }
        }
    }
}

/// A version in a queue with its numbers.
struct Row<'a> {
    version: &'a str,
    queue: &'a str,
    workers: usize,
    total: Stats,
}

/// Returns the known versions, and earlier versions that only the statistics still have.
fn rows(content: &Content) -> Vec<Row<'_>> {
    let Content { workflow, lanes, .. } = content;
    let is_of = |group: &StatsGroup, version: &VersionView| chart::is_of(group, &workflow.name, version);
    let known = workflow.versions.iter().map(|version| Row {
        version: &version.version,
        queue: &version.queue,
        workers: version.workers.len(),
        total: lanes.groups.iter().find(|group| is_of(group, version)).map(|group| group.total).unwrap_or_default(),
    });
    let past = lanes.groups.iter().filter(|group| !workflow.versions.iter().any(|version| is_of(group, version)));
    let past = past.filter_map(|group| {
        let (version, queue) = group.version.as_deref().zip(group.queue.as_deref())?;
        Some(Row { version, queue, workers: 0, total: group.total })
    });
    known.chain(past).collect()
}

fn versions(visit: &Visit, content: &Content) -> Markup {
    let name = &content.workflow.name;
    html! {
        section.card #versions data-key="versions" {
            header {
                h2 { "Versions" }
                span.right { a.quiet href=(facets::link(visit, &word("workflow", name))) { "All runs" } }
            }
            table {
                thead { tr {
                    th { "Version" }
                    th.opt { "Queue" }
                    th.r { "Workers" }
                    th.r { "Ended" }
                    th.r { "Failed" }
                    th.r.opt { "p50" }
                    th.r.opt { "p95" }
                } }
                tbody { @for Row { version, queue, workers, total } in rows(content) { tr {
                    td.mono.cut-off { a.quiet href=(super::workflows::runs(visit, name, version)) { (version) } }
                    td.opt.dim.cut-off { (queue) }
                    td.r.num { (workers) }
                    td.r.num { (clock::grouped(total.ended())) }
                    td.r.num { (status::failed(total.failed)) }
                    td.r.num.opt.nowrap { (chart::micros(total.p50_us)) }
                    td.r.num.opt.nowrap { (chart::micros(total.p95_us)) }
                } } }
            }
        }
    }
}
