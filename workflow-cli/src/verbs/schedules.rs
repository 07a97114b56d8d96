use std::fmt::Write as _;

use comfy_table::{Cell, Color};
use workflow_sdk::Timing;
use workflow_sdk::operate::{Action, ListSchedules, Operate, SchedulePage, ScheduleView};

use crate::arguments::SchedulesVerb;
use crate::clock::{Clock, span};
use crate::output::{Output, Rows, maybe, number};
use crate::{Exit, Failure};

use super::order::perform;
use super::run_list::{cursor_of, text_of};
use super::{payload, schedule_orders};

pub(super) async fn run(operate: &dyn Operate, output: &Output, verb: SchedulesVerb) -> Result<Exit, Failure> {
    let (action, author) = match verb {
        SchedulesVerb::List { limit, cursor } => return list(operate, output, limit, cursor.as_deref()).await,
        SchedulesVerb::Show { schedule } => return show(operate, output, &schedule).await,
        SchedulesVerb::Next(next) => return schedule_orders::next(operate, output, next).await,
        SchedulesVerb::Create(create) => return schedule_orders::create(operate, output, *create).await,
        SchedulesVerb::Update(update) => return schedule_orders::update(operate, output, *update).await,
        SchedulesVerb::Backfill(backfill) => return schedule_orders::backfill(operate, output, backfill).await,
        SchedulesVerb::Pause(one) => (Action::PauseSchedule { schedule: one.schedule }, one.author),
        SchedulesVerb::Resume(one) => (Action::ResumeSchedule { schedule: one.schedule }, one.author),
        SchedulesVerb::Revert(one) => (Action::RevertSchedule { schedule: one.schedule }, one.author),
        SchedulesVerb::Delete(one) => (Action::DeleteSchedule { schedule: one.schedule }, one.author),
        SchedulesVerb::Trigger { schedule, input, author } => {
            let input = payload::load_given(input).await?;
            (Action::TriggerSchedule { schedule, input }, author)
        }
    };
    perform(operate, output, action, &author).await
}

async fn list(operate: &dyn Operate, output: &Output, limit: u32, cursor: Option<&str>) -> Result<Exit, Failure> {
    let mut list = ListSchedules::new().limit(limit);
    list.cursor = cursor.map(cursor_of).transpose()?;
    let page = operate.schedules(list).await?;
    output.list(&page, &page.items, |schedule| schedule.name.clone(), |clock| table(clock, &page))?;
    if output.is_for_people() {
        for schedule in &page.unreadable {
            output.note(format!("schedule {} is not understood: {}", schedule.name, schedule.reason));
        }
    }
    let more = page.next.as_ref().map(|next| format!("later schedules: --cursor {}", text_of(next)));
    output.page_end(page.items.is_empty().then_some("there is no schedule"), more);
    Ok(Exit::Ok)
}

fn table(clock: &Clock, page: &SchedulePage) -> Rows {
    let mut rows = Rows::new(&["SCHEDULE", "WORKFLOW", "TIMES", "NEXT", "LAST", "STARTED", "STATE"]);
    for schedule in &page.items {
        rows.push(vec![
            Cell::new(&schedule.name),
            Cell::new(&schedule.declaration.lane.workflow),
            Cell::new(timing(&schedule.declaration.timing)),
            maybe(schedule.next.first().map(|next| clock.relative(*next))),
            maybe(schedule.state.last_at.map(|last| clock.relative(last))),
            number(schedule.state.started),
            state(clock, schedule),
        ]);
    }
    rows
}

fn state(clock: &Clock, schedule: &ScheduleView) -> Cell {
    match &schedule.state.paused {
        Some(pause) => Cell::new(format!("paused since {}: {}", clock.at(pause.since), pause.reason)).fg(Color::Yellow),
        None if schedule.drifted_from.is_some() => Cell::new("changed by an operator").fg(Color::Yellow),
        None => Cell::new("active"),
    }
}

async fn show(operate: &dyn Operate, output: &Output, name: &str) -> Result<Exit, Failure> {
    let schedule = operate.schedule(name).await?;
    output.one(&schedule, || schedule.name.clone(), |clock| text(clock, &schedule))?;
    Ok(Exit::Ok)
}

fn text(clock: &Clock, schedule: &ScheduleView) -> String {
    let ScheduleView { name, declaration, state: counts, .. } = schedule;
    let mut text = format!("schedule {name}\n");
    let mut fact = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:9} {value}");
    };
    fact("starts", declaration.lane.to_string());
    fact("times", timing(&declaration.timing));
    match &counts.paused {
        Some(pause) => fact("state", format!("paused since {}: {}", clock.at(pause.since), pause.reason)),
        None => fact("state", "active".to_owned()),
    }
    if schedule.drifted_from.is_some() {
        fact("changed", format!("by an operator; workflow schedules revert {name} takes it back"));
    }
    if let Some(last) = counts.last_at {
        fact("last", format!("{} ({})", clock.at(last), clock.relative(last)));
    }
    for next in &schedule.next {
        fact("next", format!("{} ({})", clock.at(*next), clock.relative(*next)));
    }
    fact("started", format!("{} runs, {} by hand", counts.started, counts.triggered));
    fact("left out", format!("{} skipped, {} missed", counts.skipped, counts.missed));
    text.trim_end().to_owned()
}

/// Returns the rule by which the times follow each other.
fn timing(timing: &Timing) -> String {
    let mut parts: Vec<String> =
        timing.cron.iter().map(|expression| format!("{expression} ({})", timing.zone)).collect();
    parts.extend(timing.every.map(|every| format!("every {}", span(every))));
    parts.join(", ")
}
