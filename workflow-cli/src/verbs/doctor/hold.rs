//! Keeps the runs of a database from going on until an operator has looked at it.

use workflow_sdk::operate::{Action, ListSchedules, Operate, SchedulePage, ScheduleView};

use crate::arguments::Author;
use crate::output::Output;
use crate::verbs::order::order;
use crate::{Exit, Failure};

/// The reason of the pauses. It tells a hold from the pauses that operators have ordered before.
pub(super) const REASON: &str = "held after a restore; workflow doctor --release ends it";

/// The most queues that [`Operate::queues`] returns.
const MOST_QUEUES: usize = 1000;

/// Pauses every schedule and every queue that is not paused. May be repeated. Pauses nothing if
/// there may be more queues than can be listed. Names the occurrences that the pauses skip.
pub(super) async fn hold(operate: &dyn Operate, output: &Output, author: &Author) -> Result<(), Failure> {
    let listed = operate.queues().await?;
    if listed.len() >= MOST_QUEUES {
        let message = format!("the database has {MOST_QUEUES} queues or more, and not all of them can be held");
        return Err(Failure::usage(message, "start no worker before you have compared the runs without --hold"));
    }
    let mut schedules = 0;
    for schedule in all_schedules(operate, output).await? {
        if schedule.state.paused.is_none() {
            let skipped = skipped(&schedule, output);
            operate.perform(order(Action::PauseSchedule { schedule: schedule.name }, author)).await?;
            if let Some(skipped) = skipped {
                output.note(skipped);
            }
            schedules += 1;
        }
    }
    let mut queues = 0;
    for queue in listed {
        if queue.pause.is_none() {
            operate.perform(order(Action::PauseQueue { queue: queue.name }, author)).await?;
            queues += 1;
        }
    }
    output.note(format!("{} and {} are held", counted(queues, "queue"), counted(schedules, "schedule")));
    Ok(())
}

/// Returns a sentence about the occurrences of a schedule that wait for the end of a run, if there
/// are any. Its pause skips them, because they may have started since the backup.
fn skipped(ScheduleView { name, state, .. }: &ScheduleView, output: &Output) -> Option<String> {
    let first = state.waiting.first()?;
    let occurrences = counted(state.waiting.len(), "occurrence");
    let at = output.clock().at(first.at);
    Some(format!(
        "schedule {name} skips {occurrences} from {at} on, which waited for the end of a run: workflow schedules backfill \
         {name} starts what has no run"
    ))
}

/// Resumes the queues and the schedules that a hold has paused, and no other ones.
pub(super) async fn release(operate: &dyn Operate, output: &Output, author: &Author) -> Result<Exit, Failure> {
    let mut schedules = 0;
    for schedule in all_schedules(operate, output).await? {
        if is_held(&schedule) {
            operate.perform(order(Action::ResumeSchedule { schedule: schedule.name }, author)).await?;
            schedules += 1;
        }
    }
    let mut queues = 0;
    for queue in operate.queues().await? {
        if queue.pause.is_some_and(|pause| pause.reason == REASON) {
            operate.perform(order(Action::ResumeQueue { queue: queue.name }, author)).await?;
            queues += 1;
        }
    }
    output.note(format!("{} and {} go on", counted(queues, "queue"), counted(schedules, "schedule")));
    Ok(Exit::Ok)
}

/// Returns whether a hold has paused the schedule.
pub(super) fn is_held(schedule: &ScheduleView) -> bool {
    schedule.state.paused.as_ref().is_some_and(|pause| pause.reason == REASON)
}

/// Reads all schedules, and names those that this program does not understand: no worker of this
/// release fires them.
pub(super) async fn all_schedules(operate: &dyn Operate, output: &Output) -> Result<Vec<ScheduleView>, Failure> {
    let mut all = Vec::new();
    let mut list = ListSchedules::new().limit(ListSchedules::MAX_LIMIT);
    loop {
        let SchedulePage { items, unreadable, next, .. } = operate.schedules(list.clone()).await?;
        all.extend(items);
        for schedule in unreadable {
            output.note(format!("schedule {} is not understood: {}", schedule.name, schedule.reason));
        }
        let Some(next) = next else { return Ok(all) };
        list = list.cursor(next);
    }
}

/// Returns a number of things in words.
pub(super) fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
