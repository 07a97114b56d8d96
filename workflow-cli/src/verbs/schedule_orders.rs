//! Schedules that the command line creates, changes and backfills, and their next times.

use std::time::Duration;

use comfy_table::Cell;
use workflow_sdk::operate::{self, Action, BackfillView, OccurrenceView, Operate, ScheduleSettings};
use workflow_sdk::{CatchUp, Overlap, Schedule, Timestamp};

use crate::arguments::{
    BackfillSchedule, CatchUpPolicy, CreateSchedule, NextTimes, OverlapPolicy, Settings, UpdateSchedule,
};
use crate::clock::Clock;
use crate::output::{Output, Rows};
use crate::{Exit, Failure};

use super::order::perform;
use super::payload;
use super::run_changes::agrees;
use super::run_start::{millis, read_tags};

/// The most occurrences that wait under the policy that lets all wait.
const MOST_WAITING: u32 = 100;

pub(super) async fn next(operate: &dyn Operate, output: &Output, next: NextTimes) -> Result<Exit, Failure> {
    let NextTimes { schedule, count, .. } = next;
    // The command line has refused a call without a schedule and without an expression.
    show(output, &operate.next_occurrences(&schedule.unwrap_or_default(), count).await?)
}

/// Prints the next times of an expression, by the clock and the zone data of this machine.
pub(super) fn next_of_expression(output: &Output, expression: &str, zone: &str, count: u32) -> Result<Exit, Failure> {
    let schedule = Schedule::cron("--cron", expression).zone(zone);
    let next = schedule.next_after(output.clock().now(), count as usize);
    let next = next.map_err(operate::OperateError::from)?;
    show(output, &next.into_iter().map(OccurrenceView::from).collect::<Vec<_>>())
}

fn show(output: &Output, next: &[OccurrenceView]) -> Result<Exit, Failure> {
    output.list(&next, next, |next| next.at.to_string(), |clock| table(clock, next))?;
    if next.is_empty() && output.is_for_people() {
        output.note("there is no further time");
    }
    Ok(Exit::Ok)
}

fn table(clock: &Clock, next: &[OccurrenceView]) -> Rows {
    let mut rows = Rows::new(&["NEXT", "IN ITS ZONE"]);
    for next in next {
        rows.push(vec![Cell::new(clock.relative(next.at)), Cell::new(&next.local)]);
    }
    rows
}

pub(super) async fn create(operate: &dyn Operate, output: &Output, create: CreateSchedule) -> Result<Exit, Failure> {
    let CreateSchedule { schedule, workflow, input, settings, author } = create;
    let mut order = operate::CreateSchedule::new(schedule, workflow, payload::load(input).await?);
    order.settings = read(output, settings)?;
    let now = output.clock().now();
    check_end(order.settings.until.filter(|until| *until <= now))?;
    perform(operate, output, Action::CreateSchedule(Box::new(order)), &author).await
}

pub(super) async fn update(operate: &dyn Operate, output: &Output, update: UpdateSchedule) -> Result<Exit, Failure> {
    let UpdateSchedule { schedule, input, settings, clear, author } = update;
    let mut order = operate::UpdateSchedule::new(schedule);
    order.input = payload::load_given(input).await?;
    order.settings = read(output, settings)?;
    let now = output.clock().now();
    // `now` ends the schedule.
    check_end(order.settings.until.filter(|until| *until < now))?;
    order.settings.clear = clear.into_iter().map(Into::into).collect();
    perform(operate, output, Action::UpdateSchedule(Box::new(order)), &author).await
}

/// Refuses an end that has passed: the schedule would start nothing.
fn check_end(passed: Option<Timestamp>) -> Result<(), Failure> {
    let Some(until) = passed else { return Ok(()) };
    let message = format!("the schedule would start nothing: its end, {until}, has passed");
    Err(Failure::usage(message, "give a later --until, or leave it out"))
}

/// Returns the settings of the command line.
fn read(output: &Output, settings: Settings) -> Result<ScheduleSettings, Failure> {
    let given = |list: Vec<String>| if list.is_empty() { None } else { Some(list) };
    let now = output.clock().now();
    let mut read = ScheduleSettings::default();
    (read.cron, read.except) = (given(settings.cron), given(settings.except));
    (read.every_ms, read.offset_ms) = (settings.every.map(millis), settings.offset.map(millis));
    (read.zone, read.jitter_ms) = (settings.zone, settings.jitter.map(millis));
    (read.from, read.until) = (settings.from.map(|from| from.at(now)), settings.until.map(|until| until.at(now)));
    read.overlap = settings.overlap.map(overlap);
    read.catch_up = settings.catch_up.map(|policy| catch_up(policy, settings.window));
    (read.limit, read.pause_on_failure) = (settings.limit, settings.pause_on_failure);
    (read.queue, read.gate, read.version) = (settings.queue, settings.gate, settings.version);
    (read.priority, read.deadline_ms) = (settings.priority.map(|rank| rank.priority()), settings.deadline.map(millis));
    if !settings.tags.is_empty() {
        read.tags = Some(read_tags(&settings.tags)?);
    }
    Ok(read)
}

fn overlap(policy: OverlapPolicy) -> Overlap {
    match policy {
        OverlapPolicy::Skip => Overlap::Skip,
        OverlapPolicy::BufferOne => Overlap::BufferOne,
        OverlapPolicy::BufferAll => Overlap::BufferAll { max: MOST_WAITING },
        OverlapPolicy::CancelOther => Overlap::CancelOther,
        OverlapPolicy::Allow => Overlap::Allow,
    }
}

fn catch_up(policy: CatchUpPolicy, window: Option<Duration>) -> CatchUp {
    let or_day = window.unwrap_or(CatchUp::DEFAULT_WINDOW);
    match policy {
        CatchUpPolicy::Latest => CatchUp::Latest { window: or_day },
        CatchUpPolicy::All => CatchUp::All { window: or_day, max: CatchUp::MOST },
        CatchUpPolicy::Skip => CatchUp::Skip { within: window.unwrap_or(CatchUp::PUNCTUAL) },
    }
}

pub(super) async fn backfill(
    operate: &dyn Operate,
    output: &Output,
    backfill: BackfillSchedule,
) -> Result<Exit, Failure> {
    let BackfillSchedule { schedule, from, until, max, input, yes, dry_run, author } = backfill;
    let now = output.clock().now();
    let mut order = operate::BackfillSchedule::new(schedule, from.at(now), until.at(now));
    (order.max, order.input) = (Some(max), payload::load_given(input).await?);
    if dry_run || !yes {
        let preview = operate.backfill_preview(order.clone()).await?;
        if dry_run {
            let id = order.schedule.clone();
            output.one(&preview, || id, |clock| text(clock, &preview))?;
            return Ok(Exit::Ok);
        }
        let change = format!("schedule {} by the runs of {} occurrences", order.schedule, preview.count);
        if preview.count > 0 && !agrees(&change, false).await? {
            let message = format!("the backfill of schedule {} has {} occurrences", order.schedule, preview.count);
            return Err(Failure::new(Exit::Usage, message).help("add --yes to start them, or --dry-run to see them"));
        }
    }
    perform(operate, output, Action::BackfillSchedule(Box::new(order)), &author).await
}

fn text(clock: &Clock, BackfillView { count, first, last, .. }: &BackfillView) -> String {
    let line = |occurrence: &OccurrenceView| format!("  {} ({})", occurrence.local, clock.relative(occurrence.at));
    let mut lines = vec![format!("{count} occurrences; each without a run gets one")];
    lines.extend(first.iter().map(line));
    // If there are few occurrences, the last ones are also among the first ones.
    let end = first.last().map(|occurrence| occurrence.at);
    let rest: Vec<String> = last.iter().filter(|occurrence| Some(occurrence.at) > end).map(line).collect();
    let left_out = usize::try_from(*count).unwrap_or(usize::MAX).saturating_sub(first.len() + rest.len());
    if left_out > 0 {
        lines.push(format!("  ... {left_out} more"));
    }
    lines.extend(rest);
    lines.join("\n")
}
