//! The list of runs, with search and filters.

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use workflow_sdk::operate::{
    Counts, Cursor, Direction, ListRuns, OperateErrorCode, Query, QueryError, Role, RunNow, RunPage, RunSummary,
    WorkflowView,
};
use workflow_sdk::{RunStatus, Timestamp};

use crate::address::Parameters;
use crate::facets::{self, escaped};
use crate::flow;
use crate::frame::{Page, Section, argument, empty};
use crate::icons::Icon;
use crate::problem::Problem;
use crate::status::{self, Look};
use crate::visit::Visit;
use crate::{Shared, clock};

/// The parameters of the list.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Which {
    #[serde(default)]
    q: String,
    /// The place at which the page begins, if it is not the newest run.
    cursor: Option<Cursor>,
    /// `newer`: the page ends at the place.
    direction: Option<Direction>,
}

/// `GET /runs`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Problem> {
    if let Some(place) = found_by_id(&shared, &visit, &which.q).await {
        return Ok(see_other(place));
    }
    let query: Query = match which.q.parse() {
        Ok(query) => query,
        Err(error) => return Ok(refused(&shared, &visit, &which.q, &error).await),
    };
    visit.check_search(&query)?;
    let mut list = ListRuns::new(query.clone()).direction(which.direction.unwrap_or_default());
    list.cursor = which.cursor.clone();
    let reads = futures::future::join3(shared.operate.runs(list), shared.operate.counts(), shared.operate.workflows());
    let (page, counts, workflows) = reads.await;
    let page = page?;
    if which.direction == Some(Direction::Newer) && page.complete {
        // The first page has these runs, and it shows those that start later.
        return Ok(see_other(facets::link(&visit, &query.to_string())));
    }
    let is_first = which.cursor.is_none();
    let content =
        Content { query: &query, page: &page, is_first, counts: counts.ok(), workflows: workflows.unwrap_or_default() };
    let command = if query.is_empty() {
        "workflow runs list".to_owned()
    } else {
        format!("workflow runs list {}", argument(&query))
    };
    let mut page = Page::new(Section::Runs, draw(&visit, &content), command);
    page.top = Some(search(&visit, &which.q));
    page.right = html! { a.btn.primary href=(visit.link("/workflows")) { "Start a run" } };
    Ok(shared.page(&visit, page).await)
}

fn see_other(place: String) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response()
}

/// Returns the address of the run if the text is the id of one, or a part of its id.
async fn found_by_id(shared: &Shared, visit: &Visit, text: &str) -> Option<String> {
    let text = text.trim();
    let is_id = text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let found = if is_id { shared.operate.find_runs(text, 2).await.ok()? } else { return None };
    match found.as_slice() {
        [run] => Some(visit.link(&format!("/runs/{}", run.id))),
        _ => None,
    }
}

/// Returns the page of a query that is refused: the search with the place of the mistake.
async fn refused(shared: &Shared, visit: &Visit, text: &str, error: &QueryError) -> Response {
    let code = OperateErrorCode::BadQuery.http_status();
    let body = html! {
        div.page { section.empty role="alert" {
            h2 { "The search cannot be read" }
            p.mistake.mono { (before(text, error.byte)) mark { (marked(text, error)) } (behind(text, error)) }
            p { "Column " (error.column) ": " (error.message) "." }
            p.dim { (crate::problem::sentence(&error.help)) }
            p.acts { a.btn href=(visit.link("/runs")) { "All runs" } }
        } }
    };
    let mut page = Page::new(Section::Runs, body, "workflow runs list");
    page.top = Some(search(visit, text));
    page.live = false;
    let mut response = shared.page(visit, page).await;
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
    response
}

fn before(text: &str, byte: usize) -> &str {
    text.get(..byte).unwrap_or(text)
}

/// Returns the text from the mistake to the end of its word.
fn marked<'a>(text: &'a str, error: &QueryError) -> &'a str {
    let rest = text.get(error.byte..).unwrap_or_default();
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    rest.get(..end).filter(|word| !word.is_empty()).unwrap_or("…")
}

fn behind<'a>(text: &'a str, error: &QueryError) -> &'a str {
    let rest = text.get(error.byte..).unwrap_or_default();
    rest.get(rest.find(char::is_whitespace).unwrap_or(rest.len())..).unwrap_or_default()
}

fn search(visit: &Visit, text: &str) -> Markup {
    html! {
        h1.hide-s { "Runs" }
        form.search role="search" method="get" action=(visit.link("/runs")) {
            (Icon::SEARCH.draw())
            input name="q" value=(text) aria-label="Search runs" data-search=(visit.link("/words")) spellcheck="false"
                autocomplete="off" placeholder="status:failed  workflow:check*  tag.customer:42  started:>-1h";
            kbd.needs-script { "/" }
            a.words-link href=(visit.link(&format!("/words?q={}", escaped(text)))) title="Words of the search"
                aria-label="Words of the search" { "?" }
        }
    }
}

/// The answers that the list shows.
pub(super) struct Content<'a> {
    pub(super) query: &'a Query,
    pub(super) page: &'a RunPage,
    /// `true` if the page begins at the newest run.
    pub(super) is_first: bool,
    pub(super) counts: Option<Counts>,
    pub(super) workflows: Vec<WorkflowView>,
}

pub(super) fn draw(visit: &Visit, content: &Content<'_>) -> Markup {
    let Content { query, page, is_first, counts, workflows } = content;
    html! {
        div.runs {
            aside.facets #facets data-key="facets" aria-label="Filters" {
                (facets::draw(visit, query, counts.as_ref(), workflows))
            }
            form.chosen method="get" action=(visit.link("/bulk/new")) {
                input type="hidden" name="q" value=(query);
                // Enter presses the first button of a form, which must not be that of all runs.
                button.hidden name="action" value="" tabindex="-1" aria-hidden="true" { "Change the chosen runs" }
                @if page.items.is_empty() { (nothing(visit, content)) } @else { (table(visit, page, *is_first)) }
                (foot(visit, content))
                @if !page.items.is_empty() && visit.may(Role::Operator) { (choice()) }
            }
        }
    }
}

fn table(visit: &Visit, page: &RunPage, is_first: bool) -> Markup {
    html! {
        div.newrows hidden data-newer { a href=(visit.link(visit.inner())) { span data-newer-count {} } }
        table.list aria-label="Runs" data-rows=[is_first.then_some("")] {
            thead {
                tr {
                    th { span.hidden { "Choose, and status" } }
                    th { "Run" }
                    th { "Now" }
                    th.opt { "Worker" }
                    th.r.opt { "Duration" }
                    th.r { "Started" }
                }
            }
            tbody { @for run in &page.items { (row(visit, run)) } }
        }
    }
}

/// Draws the buttons for the chosen runs, which the style sheet shows once one is chosen.
fn choice() -> Markup {
    html! {
        div.bulk role="group" aria-label="Chosen runs" {
            span.picked-count { " chosen" }
            button.btn.ghost name="all" value="1" { "All that match" }
            span.sep {}
            button.btn name="action" value="retry_run" { (Icon::RETRY.draw()) "Retry" }
            button.btn name="action" value="pause_run" { (Icon::PAUSE.draw()) "Pause" }
            button.btn.danger name="action" value="cancel_run" { "Cancel" }
            button.btn name="action" value="" aria-label="More actions" { "•••" }
            button.btn.ghost type="reset" aria-label="Choose none" { "×" }
        }
    }
}

/// Draws one run. `data-row` lets the script refresh it where it stands.
fn row(visit: &Visit, run: &RunSummary) -> Markup {
    let now = visit.now;
    let worker = match &run.now {
        RunNow::Running { worker: Some(worker), .. } => Some(status::worker(worker)),
        _ => None,
    };
    html! {
        tr data-row=(run.id) {
            td { div.pick {
                @if visit.may(Role::Operator) {
                    input type="checkbox" name="run" value=(run.id)
                        aria-label=(format!("Choose {} {}", flow::title(run), run.key.as_deref().unwrap_or_default()));
                }
                (Look::of(run).icon())
            } }
            td.run-cell {
                a.name href=(visit.link(&format!("/runs/{}", run.id))) {
                    strong { (flow::title(run)) }
                    (flow::mark(run))
                    span.key.mono dir="auto" { (run.key.clone().unwrap_or_else(|| status::short_id(run.id))) }
                }
            }
            td.now { span.clamp { (now_line(run, visit)) } }
            td.opt.mono.dim { (worker.unwrap_or_default()) }
            td.opt.r.num.dim { (duration(run, now)) }
            td.r.num.dim.nowrap { (clock::age(run.created_at, now)) }
        }
    }
}

/// Returns how long a run has taken, from its first claim on.
pub(crate) fn duration(run: &RunSummary, now: Timestamp) -> String {
    match run.started_at {
        Some(started) => clock::between(started, run.completed_at.unwrap_or(now.max(started))),
        None => "—".to_owned(),
    }
}

/// Returns the present state of a run as a short line.
pub(crate) fn now_line(run: &RunSummary, visit: &Visit) -> Markup {
    let now = visit.now;
    let error = run.error.as_ref().filter(|_| visit.actor.payloads);
    let failure = html! {
        @if let Some(error) = error {
            @if let Some(step) = &error.step_key { b { (step) } " · " }
            (error.message.lines().next().unwrap_or_default())
        } @else { "Failed" }
    };
    html! {
        @match &run.now {
            RunNow::Due { since } => { "Due for " (clock::age_text(*since, now)) ", waits for a worker" }
            RunNow::WaitsUntil {
                until
            }  if run.error.is_some() => {
                (failure)
                " · attempt "
                (run.attempt)
                " "
                (clock::age_text(*until, now))
            }
            RunNow::WaitsUntil {
                until
            }  if run.status == RunStatus::Pending => {
                "Starts "
                b { (clock::at(*until, now)) }
                " · "
                (clock::age_text(*until, now))
            }
            RunNow::WaitsUntil {
                until
            }  => {
                "Waits "
                @if let Some(awaited) = run.awaited() { "for " (awaited) " " }
                "until "
                b { (clock::at(*until, now)) }
                " · "
                (clock::age_text(*until, now))
            }
            RunNow::Waits => {
                "Waits for "
                (run.awaited().as_deref().unwrap_or("a signal, an event or a child"))
            }
            RunNow::Running { lease_until, .. } if *lease_until < now => { "Its worker has died or is stuck" }
            RunNow::Running { .. } if run.crashes > 0 => { "Running again after a crash" }
            RunNow::Running { .. } => { "Running" }
            RunNow::Paused { since } => { "Paused " (clock::at(*since, now)) " · resume it to let it go on" }
            RunNow::Stuck => { (failure) " · waits for code" }
            RunNow::Ended { .. } if run.status == RunStatus::Failed => { (failure) }
            RunNow::Ended { .. } if run.status == RunStatus::Canceled => { "Canceled" }
            RunNow::Ended { .. } if run.attempt > 1 => { "Done at attempt " (run.attempt) }
            RunNow::Ended { .. } => { "Done" }
            _ => { (run.status) }
        }
    }
}

fn nothing(visit: &Visit, content: &Content<'_>) -> Markup {
    match (content.query.is_empty() && content.is_first, !content.page.complete) {
        (true, _) => {
            let text = "Start one from your program, from here, or in a terminal. It appears at once.";
            empty("No run yet", text, Some("workflow runs start WORKFLOW --input '{}'"))
        }
        (false, true) => empty(
            "Nothing found so far",
            "The search of one page has a budget. More runs may match: go on below.",
            None,
        ),
        (false, false) => html! {
            (empty("No run matches", "Take a word of the search away.", None))
            p.center { a.btn href=(visit.link("/runs")) { "All runs" } }
        },
    }
}

fn foot(visit: &Visit, content: &Content<'_>) -> Markup {
    let Content { query, page, is_first, .. } = content;
    let at = |cursor: &Cursor, direction: &str| {
        visit.link(&format!("/runs?q={}&direction={direction}&cursor={}", escaped(&query.to_string()), cursor.as_str()))
    };
    let newer = page.previous.as_ref().filter(|_| !is_first);
    html! {
        div.listfoot {
            @if !page.items.is_empty() { span { (clock::counted(page.items.len() as u64, "run")) } }
            @if let Some(until) = page.searched_to { span { "searched back to " (clock::at(until, visit.now)) } }
            @if !page.items.is_empty() && visit.may(Role::Operator) {
                button.plain.quiet name="all" value="1" { "Change all that match" }
            }
            span.right {
                @if !is_first { a.btn href=(facets::link(visit, &query.to_string())) { "Newest" } }
                @if let Some(cursor) = newer { a.btn href=(at(cursor, "newer")) rel="prev" { "Newer" } }
                @if let Some(cursor) = &page.next { a.btn href=(at(cursor, "older")) rel="next" { "Older" } }
            }
        }
    }
}
