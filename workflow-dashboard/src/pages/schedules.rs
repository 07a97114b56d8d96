//! Schedules: when they start runs, and why one does not.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use workflow_sdk::Origin;
use workflow_sdk::operate::{ListSchedules, Role, SchedulePage, ScheduleView};

use crate::address::{Parameters, Place};
use crate::facets::{self, word};
use crate::flow;
use crate::forms::Offer;
use crate::frame::{Page, Section, empty, next_page};
use crate::problem::Problem;
use crate::visit::Visit;
use crate::{Shared, clock, timing};

/// `GET /schedules`.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(place): Parameters<Place>,
) -> Result<Response, Problem> {
    let mut list = ListSchedules::new();
    list.cursor = place.cursor;
    let page = shared.operate.schedules(list).await?;
    Ok(shared.page(&visit, Page::new(Section::Schedules, draw(&visit, &page), "workflow schedules list")).await)
}

pub(super) fn draw(visit: &Visit, page: &SchedulePage) -> Markup {
    if page.items.is_empty() && page.unreadable.is_empty() {
        let text =
            "Declare one on a worker with Worker::schedule(..). It starts runs by the clock, each occurrence once.";
        return html! { div.page { (empty("There is no schedule", text, None)) } };
    }
    html! {
        table.wide aria-label="Schedules" {
            thead {
                tr {
                    th { "Schedule" }
                    th.opt { "Starts" }
                    th { "Times" }
                    th { "Next" }
                    th.opt { "Last" }
                    th.r.opt { "Started" }
                    th.r { span.hidden { "Actions" } }
                }
            }
            tbody {
                @for schedule in &page.items { (row(visit, schedule)) }
                @for schedule in &page.unreadable {
                    tr data-row=(schedule.name) {
                        td { strong { (schedule.name) } }
                        td.bad colspan="6" { (schedule.reason) }
                    }
                }
            }
        }
        (next_page(visit, page.next.as_ref(), "/schedules", "More"))
    }
}

fn row(visit: &Visit, schedule: &ScheduleView) -> Markup {
    let now = visit.now;
    let state = &schedule.state;
    html! {
        tr data-row=(schedule.name) {
            td.cut-off {
                a href=(facets::link(visit, &word("schedule", &schedule.name))) { strong { (schedule.name) } }
                @if state.paused.is_some() { " " span.tag.warn { "paused" } }
                @if schedule.drifted_from.is_some() { " " span.tag.warn { "changed by hand" } }
            }
            td.opt.dim {
                @let declaration = &schedule.declaration;
                (flow::label_of(&declaration.lane.workflow, &declaration.tags))
            }
            td.dim.cut-off title=(timing::expressions(&schedule.declaration.timing)) {
                (timing::words(&schedule.declaration.timing))
            }
            td {
                @match (&state.paused, schedule.next.first()) {
                    (Some(pause), _) => span.dim { "paused " (clock::at(pause.since, now)) ": " (pause.reason) },
                    (None, Some(next)) => span
                        title=(schedule.next.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")) {
                        (clock::age(*next, now))
                        span.faint { " · " (clock::at(*next, now)) }
                    },
                    (None, None) => span.faint { "never again" },
                }
            }
            td.opt.dim { @match (state.last_at, &state.last_run) {
                (Some(at), Some(run)) => a.quiet href=(visit.link(&format!("/runs/{run}"))) { (clock::at(at, now)) },
                (Some(at), None) => (clock::at(at, now)),
                (None, _) => "—",
            } }
            td.r.opt.num
                title=(format!("{} by hand, {} skipped, {} missed", state.triggered, state.skipped, state.missed)) {
                (clock::grouped(state.started)) @if state.missed > 0 { span.warn { " · " (state.missed) " missed" } }
            }
            td.r { div.acts.end data-actions { (actions(visit, schedule)) } }
        }
    }
}

fn actions(visit: &Visit, schedule: &ScheduleView) -> Markup {
    let name = &schedule.name;
    let started = flow::title_of(&schedule.declaration.lane.workflow, &schedule.declaration.tags);
    let pause = match schedule.state.paused {
        Some(_) => Offer::new(
            "resume_schedule",
            "Resume",
            Role::Operator,
            format!("{name} starts runs again, from its next time on."),
        ),
        None => Offer::new(
            "pause_schedule",
            "Pause",
            Role::Operator,
            format!("{name} starts no run until it is resumed. Its runs go on."),
        )
        .with_reason(),
    };
    let run = Offer::new(
        "trigger_schedule",
        "Run now",
        Role::Operator,
        format!("One run of {started} starts now, beside the schedule."),
    );
    let revert = Offer::new("revert_schedule", "Revert", Role::Admin, "The times and policies of the code hold again.");
    let delete =
        Offer::new("delete_schedule", "Delete", Role::Admin, "The schedule is removed. Its runs stay.").dangerous();
    html! {
        (run.with("schedule", name).draw(visit))
        (pause.with("schedule", name).draw(visit))
        @if schedule.drifted_from.is_some() { (revert.with("schedule", name).draw(visit)) }
        @if schedule.origin == Origin::Api { (delete.with("schedule", name).draw(visit)) }
    }
}
