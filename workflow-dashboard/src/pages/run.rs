//! One run: why it is where it is, its timeline, its history and its payloads.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use futures::future::join_all;
use maud::{Markup, html};
use serde::Deserialize;
use workflow_flows::{FLOW_TAG, FLOW_VERSION_TAG};
use workflow_http::internal::shown;
use workflow_sdk::operate::{
    Cursor, HistoryPage, ListApprovals, ListHistory, ListTimeline, Operate, PayloadOf, RunDetail, RunSummary, Timeline,
    TimelineRow,
};
use workflow_sdk::{FORKED_FROM, RunId, RunNow, SCHEDULE_TAG};

use crate::address::{Named, Parameters};
use crate::facets::{self, escaped};
use crate::flow;
use crate::frame::{Page, Section};
use crate::icons::Icon;
use crate::panel::{self, Step};
use crate::problem::{Problem, sentence};
use crate::scale::Window;
use crate::status::{self, Look};
use crate::timeline::{Drawing, Family, Shown, legend, split};
use crate::visit::Visit;
use crate::{Shared, clock};

use super::decisions::{self, Asked};
use super::run_family::{self, Relatives};
use super::run_graph::{self, Graph};
use super::run_signals::{self, Messages};
use super::run_timeline::{WINDOW, window_of};
use super::{run_actions, run_history, run_payload};

/// The most children that are drawn in place.
const MOST_CHILDREN: usize = 10;
/// The most steps of a child that are drawn in place.
const CHILD_WINDOW: u32 = 40;
/// The most approvals and decisions of the run that are drawn.
const QUESTIONS: u32 = 50;
/// The most attempts of a step and of its repetitions that are read for its panel.
const PANEL_HISTORY: u32 = 200;

/// The parameters of the page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Which {
    tab: Option<String>,
    /// The step whose panel is open.
    step: Option<String>,
    /// Which steps the timeline shows: `failed` or `slow`.
    show: Option<String>,
    /// The part of the time that the timeline shows: `2000-9000`, in milliseconds.
    at: Option<String>,
    /// The number of the last step that the timeline leaves out.
    from: Option<u32>,
    cursor: Option<Cursor>,
}

/// `GET /runs/{run}`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Named(id): Named<RunId>,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Problem> {
    let operate = &*shared.operate;
    let window = match which.tab.as_deref() {
        Some("graph") => ListTimeline::new(id).limit(run_graph::WINDOW),
        _ => ListTimeline::new(id).from(which.from.unwrap_or_default()).limit(WINDOW),
    };
    let approvals = operate.approvals(ListApprovals::new().run(id).limit(QUESTIONS));
    let reads = futures::future::join3(operate.run(id), operate.timeline_window(window), approvals);
    let (detail, timeline, approvals) = reads.await;
    let (detail, mut timeline) = (shown(detail?, &visit.actor), timeline?);
    let is_outside = |step: &&String| which.tab.is_none() && timeline.rows.iter().all(|row| row.step != **step);
    if let Some(step) = which.step.as_ref().filter(is_outside)
        && let Some(window) = window_of(operate, id, step).await
    {
        timeline = window;
    }
    let header = Header {
        detail: &detail,
        timeline: &timeline,
        approvals: decisions::asked(operate, &visit, approvals.map(|page| page.items).unwrap_or_default()).await,
    };
    let tab = match which.tab.as_deref() {
        Some("history") => {
            let mut list = ListHistory::new(id);
            list.cursor = which.cursor;
            Tab::History(operate.history(list).await?)
        }
        Some("data") => Tab::Data,
        Some("graph") => {
            let flow = run_graph::read(operate, &visit, &detail).await?;
            Tab::Graph(Box::new(Graph { flow, step: step_of(operate, &timeline, which.step.as_deref()).await }))
        }
        Some("signals") => Tab::Signals(Box::new(Messages::read(operate, &detail).await?)),
        Some("family") => Tab::Family(Box::new(Relatives::read(operate, &detail.summary).await?)),
        _ => {
            let (children, step) =
                futures::future::join(families(operate, &timeline), step_of(operate, &timeline, which.step.as_deref()))
                    .await;
            let shown = match which.show.as_deref() {
                Some("failed") => Shown::Failed,
                Some("slow") => Shown::Slow,
                _ => Shown::All,
            };
            let window = which.at.as_deref().and_then(Window::parse);
            Tab::Timeline { children, step, shown, window }
        }
    };
    let verb = if matches!(tab, Tab::History(_)) { "history" } else { "show" };
    let mut page = Page::new(Section::Runs, draw(&visit, &header, &tab), format!("workflow runs {verb} {id}"));
    let name = detail.summary.key.clone().unwrap_or_else(|| status::short_id(id));
    page.title = format!("{} {name}", flow::title(&detail.summary));
    page.top = Some(html! {
        nav.crumb aria-label="Place" { a href=(visit.link("/runs")) { "Runs" } (Icon::CHEVRON.draw()) }
        h1.cut-off dir="auto" { (page.title) }
    });
    Ok(shared.page(&visit, page).await)
}

/// Reads the runs that the steps of a timeline have started.
async fn families(operate: &dyn Operate, timeline: &Timeline) -> Vec<Family> {
    let children = timeline.rows.iter().filter_map(|row| Some((row.step.clone(), row.child?)));
    let reads = children.take(MOST_CHILDREN).map(async |(step, child)| {
        let window = ListTimeline::new(child).limit(CHILD_WINDOW);
        let (run, timeline) = futures::future::join(operate.run(child), operate.timeline_window(window)).await;
        Some(Family { step, run: run.ok()?.summary, timeline: timeline.ok()? })
    });
    join_all(reads).await.into_iter().flatten().collect()
}

/// Reads what the panel of a step shows.
async fn step_of<'a>(operate: &dyn Operate, timeline: &'a Timeline, step: Option<&str>) -> Option<Step<'a>> {
    let row: &TimelineRow = timeline.rows.iter().find(|row| Some(row.step.as_str()) == step)?;
    let page = operate.history(ListHistory::new(timeline.run).step(&row.step).limit(PANEL_HISTORY)).await.ok();
    let items = page.map(|page| page.items).unwrap_or_default();
    let items: Vec<_> = items.into_iter().filter(|item| item.step == row.step).collect();
    let attempt = row.bars.last().map_or(1, |bar| bar.attempt);
    let output = match items.is_empty() {
        true => operate.payload(timeline.run, PayloadOf::Step { step: row.step.clone(), attempt }).await.ok(),
        false => None,
    };
    Some(Step { run: timeline.run, row, items, output, end: timeline.to })
}

/// The part above the tabs.
pub(super) struct Header<'a> {
    pub(super) detail: &'a RunDetail,
    pub(super) timeline: &'a Timeline,
    pub(super) approvals: Vec<Asked>,
}

/// The tab that is open.
pub(super) enum Tab<'a> {
    Timeline {
        children: Vec<Family>,
        step: Option<Step<'a>>,
        shown: Shown,
        window: Option<Window>,
    },
    /// The graph of a flow.
    Graph(Box<Graph<'a>>),
    History(HistoryPage),
    Signals(Box<Messages>),
    Family(Box<Relatives>),
    Data,
}

pub(super) fn draw(visit: &Visit, header: &Header<'_>, tab: &Tab<'_>) -> Markup {
    html! {
        (head(visit, header))
        (tabs(visit, &header.detail.summary, tab))
        @match tab {
            Tab::Timeline { children, step, shown, window } => {
                (timeline_tab(visit, header, children, step.as_ref(), (*shown, *window)))
            },
            Tab::Graph(graph) => (run_graph::draw(visit, header, graph)),
            Tab::Signals(messages) => (run_signals::draw(visit, &header.detail.summary, messages)),
            Tab::Family(relatives) => (run_family::draw(visit, &header.detail.summary, relatives)),
            Tab::History(page) => (run_history::draw(visit, header.detail.summary.id, page)),
            Tab::Data => (run_payload::draw(visit, header.detail)),
        }
    }
}

fn head(visit: &Visit, header: &Header<'_>) -> Markup {
    let Header { detail, timeline, approvals } = header;
    let run = &detail.summary;
    html! {
        section.run-head #head data-key="head" {
            div.line {
                h2.wrap dir="auto" { (flow::title(run)) }
                (flow::mark(run))
                @if let Some(key) = &run.key { span.mono.dim.wrap dir="auto" { (key) } }
                (Look::of(run).pill())
                div.right.acts data-actions { (run_actions::draw(visit, run)) }
            }
            p.why { (clock::prose(&sentence(&detail.why), visit.now)) }
            @for approval in approvals { (approval.draw(visit)) }
            (facts(visit, run, timeline))
        }
    }
}

fn facts(visit: &Visit, run: &RunSummary, timeline: &Timeline) -> Markup {
    let now = visit.now;
    let schedule = run.tags.get(SCHEDULE_TAG);
    html! {
        dl.facts {
            div { dt { "Run" } dd.mono title=(run.id) { span data-copied { (status::short_id(run.id)) } } }
            @if let Some(version) = flow::version(run) { div { dt { "Version" } dd { (version) } } }
            div {
                dt { "Queue" }
                dd {
                    (run.lane.queue)
                    @if let Some(gate) = &run.gate { " · gate " (gate) }
                    @if let Some(priority) = run.priority { " · " (format!("{priority:?}").to_lowercase()) }
                }
            }
            div { dt { "Started" } dd { (clock::at(run.created_at, now)) } }
            div { dt { "Duration" } dd.num { (super::runs::duration(run, now)) } }
            div { dt { "Where the time went" } dd { (split(timeline)) } }
            @if run.attempt > 1 { div { dt { "Attempt" } dd { (run.attempt) } } }
            @if run.generation > 0 { div { dt { "Continued" } dd { (run.generation) " times" } } }
            @if let RunNow::Running {
                worker: Some(worker), ..
            }  = &run.now {
                div { dt { "Worker" } dd.mono { (status::worker(worker)) } }
            }
            @if let Some(deadline) = run.deadline_at { div { dt { "Deadline" } dd { (clock::at(deadline, now)) } } }
            @if let Some(parent) = &run.parent {
                div {
                    dt { "Parent" }
                    dd {
                        a.quiet
                            href=(visit.link(&format!("/runs/{}?step={}", parent.run_id, escaped(&parent.step_key)))) {
                            (status::short_id(parent.run_id))
                            " · "
                            (parent.step_key)
                        }
                    }
                }
            }
            @if let Some(source) = run_family::source_of(run) {
                div {
                    dt { "Copy of" }
                    dd { a.quiet href=(visit.link(&format!("/runs/{source}"))) { (status::short_id(source)) } }
                }
            }
            @if let Some(schedule) = schedule {
                div { dt { "Schedule" } dd { a.quiet href=(visit.link("/schedules")) { (schedule) } } }
            }
            @let tags: Vec<(&String, &String)> = run.tags.iter().filter(|(name, _)| is_label(name)).collect();
            @if !tags.is_empty() {
                div { dt { "Tags" } dd.tags {
                    @for (name, value) in tags {
                        a.tag
                            href=(facets::link(visit, &facets::tag(name, value))) {
                            (name)
                            " "
                            (value)
                        }
                    }
                } }
            }
        }
    }
}

/// Returns whether a tag says something that no other fact of the page says.
fn is_label(tag: &str) -> bool {
    ![SCHEDULE_TAG, FORKED_FROM, FLOW_TAG, FLOW_VERSION_TAG].contains(&tag)
}

fn tabs(visit: &Visit, run: &RunSummary, tab: &Tab<'_>) -> Markup {
    let link = |tab: &str| visit.link(&format!("/runs/{}{tab}", run.id));
    let entry = |is_on: bool, place: String, name: &str| {
        html! {
            a href=(place) aria-current=[is_on.then_some("page")] { (name) }
        }
    };
    html! {
        nav.tabs aria-label="Parts of the run" {
            (entry(matches!(tab, Tab::Timeline { .. }), link(""), "Timeline"))
            @if flow::is_flow(run) { (entry(matches!(tab, Tab::Graph(_)), link("?tab=graph"), "Graph")) }
            (entry(matches!(tab, Tab::History(_)), link("?tab=history"), "History"))
            (entry(matches!(tab, Tab::Signals(_)), link("?tab=signals"), "Signals"))
            (entry(matches!(tab, Tab::Family(_)), link("?tab=family"), "Family"))
            (entry(matches!(tab, Tab::Data), link("?tab=data"), "Input & output"))
        }
    }
}

fn timeline_tab(
    visit: &Visit,
    header: &Header<'_>,
    children: &[Family],
    step: Option<&Step<'_>>,
    (shown, window): (Shown, Option<Window>),
) -> Markup {
    let Header { detail, timeline, .. } = header;
    let run = detail.summary.id;
    let from = timeline.left_out;
    let at = window.map_or_else(String::new, |window| format!("&at={}", window.text()));
    let whole_time = move |parts: &str| visit.link(&format!("/runs/{run}?from={from}{parts}"));
    let place = |parts: &str| whole_time(&format!("{at}{parts}"));
    let show = match shown {
        Shown::All => "",
        Shown::Failed => "&show=failed",
        Shown::Slow => "&show=slow",
    };
    let link = |step: &str| place(&format!("{show}&step={}", escaped(step)));
    let child = |child: &RunSummary| visit.link(&format!("/runs/{}", child.id));
    let selected = step.map(|step| step.row.step.as_str());
    let drawing = Drawing { timeline, children, shown, window, selected, may_see: visit.actor.payloads };
    let segment = |is_on: bool, parts: &str, name: &str| {
        html! {
            a.on[is_on] href=(place(parts)) aria-current=[is_on.then_some("true")] { (name) }
        }
    };
    html! {
        div.detail {
            section.gantt #gantt data-key="gantt" aria-label="Timeline" {
                div.g-tools {
                    span.seg {
                        (segment(shown == Shown::All, "", "All"))
                        (segment(shown == Shown::Slow, "&show=slow", "Slow"))
                        (segment(shown == Shown::Failed, "&show=failed", "Failed"))
                    }
                    span { (summary(timeline, children)) }
                    span.right {
                        (windows(visit, timeline))
                        @let chosen = selected.map_or_else(String::new, |step| format!("&step={}", escaped(step)));
                        (zoom(timeline, step, window, &|at| whole_time(&format!("{at}{show}{chosen}"))))
                    }
                }
                @if timeline.rows.is_empty() && from > 0 { p.faint.g-none { "No step has this number." } }
                @else if timeline.rows.is_empty() { p.faint.g-none { "No step has begun yet." } }
                (drawing.draw(&link, &child))
                @if timeline.cut {
                    p.faint.g-none {
                        "Some attempts are left out, because the run has too many for one page. "
                        a.quiet href=(visit.link(&format!("/runs/{run}?tab=history"))) { "The history has all of them" }
                        "."
                    }
                }
                (legend())
            }
            @match step {
                Some(step) => (step.draw(visit, &place(show))),
                None => (panel::of_run(visit, detail, timeline)),
            }
        }
    }
}

/// Draws the links to a closer and a wider part of the time. A closer one shows the open step.
fn zoom(timeline: &Timeline, step: Option<&Step<'_>>, window: Option<Window>, link: &dyn Fn(&str) -> String) -> Markup {
    let whole = Window::whole(timeline.from, timeline.to);
    let shown = window.unwrap_or(whole);
    let first = step.and_then(|step| step.row.bars.first()).map(|bar| Window::whole(timeline.from, bar.from).to);
    let middle = first.unwrap_or_else(|| shown.middle());
    let to = |window: Window| link(&if window == whole { String::new() } else { format!("&at={}", window.text()) });
    html! {
        span.seg.zoom {
            @if window.is_some() {
                a href=(to(shown.beside(false, whole))) aria-label="Earlier" { "‹" }
                a href=(to(shown.beside(true, whole))) aria-label="Later" { "›" }
            }
            a href=(to(shown.wider(whole))) aria-label="Wider" data-zoom="out" { "−" }
            a.on[window.is_none()] href=(link("")) { "Fit" }
            a href=(to(shown.closer(middle, whole))) aria-label="Closer" data-zoom="in" { "+" }
        }
    }
}

fn summary(timeline: &Timeline, children: &[Family]) -> String {
    let crashes = timeline.marks.iter().filter(|mark| mark.kind == workflow_sdk::operate::MarkKind::Crashed).count();
    let mut words = vec![clock::counted(timeline.rows.len() as u64, "step")];
    if !children.is_empty() {
        words.push(clock::counted(children.len() as u64, "child run"));
    }
    if crashes > 0 {
        words.push(clock::counted(crashes as u64, "crash"));
    }
    words.join(" · ")
}

/// Draws the links to the other steps of a run that has too many for one page.
fn windows(visit: &Visit, timeline: &Timeline) -> Markup {
    let place = |from: u32| visit.link(&format!("/runs/{}?from={from}", timeline.run));
    let from = timeline.left_out;
    html! {
        @if from > 0 { a.btn rel="prev" href=(place(from.saturating_sub(WINDOW))) { "Earlier steps" } }
        @if !timeline.complete { a.btn rel="next" href=(place(from.saturating_add(WINDOW))) { "Later steps" } }
    }
}
