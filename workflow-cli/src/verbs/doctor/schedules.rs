//! Faults of schedules.

use workflow_sdk::operate::{ScheduleView, UnreadableView, ZoneDataView};
use workflow_sdk::{Declaration, Origin, PauseCause, Timestamp};

use crate::clock::span;

use super::{Facts, Finding, LATE, SCHEDULES};

/// The schedules with one kind of fault that are named one by one.
const MOST: usize = 10;

/// Adds a line with the time zone data, then a line per fault.
pub(super) fn examine(facts: &Facts, now: Timestamp, findings: &mut Vec<Finding>) {
    if let Some(ZoneDataView { directory, version, .. }) = &facts.system.zone_data {
        let version = version.as_deref().unwrap_or("of an unknown release");
        let place = directory.as_deref().map_or("a part of the program".to_owned(), |at| format!("from {at}"));
        findings.push(Finding::ok(format!("zone data {version}, {place}")));
    }
    let page = &facts.schedules;
    findings.extend(page.unreadable.iter().map(unreadable));
    let schedules = &page.items;
    add(schedules.iter().filter_map(paused).collect(), "paused by the engine", findings);
    add(schedules.iter().filter_map(|schedule| late(facts, schedule, now)).collect(), "overdue", findings);
    add(schedules.iter().filter_map(|schedule| unserved(facts, schedule)).collect(), "without a worker", findings);
    add(schedules.iter().filter_map(drifted).collect(), "in drift", findings);
    if page.next.is_some() {
        findings.push(Finding::warn(
            format!("only the first {SCHEDULES} schedules were looked at"),
            "workflow schedules list",
        ));
    }
}

/// Adds the first findings of one kind, and says how many more there are.
fn add(found: Vec<Finding>, kind: &str, findings: &mut Vec<Finding>) {
    let more = found.len().saturating_sub(MOST);
    let level = found.first().map(|finding| finding.level);
    findings.extend(found.into_iter().take(MOST));
    if let Some(level) = level.filter(|_| more > 0) {
        let fix = Some("workflow schedules list".to_owned());
        findings.push(Finding { level, fact: format!("{more} more schedules are {kind}"), fix });
    }
}

fn unreadable(UnreadableView { name, reason, unknown_zone, .. }: &UnreadableView) -> Finding {
    match unknown_zone {
        Some(zone) => Finding::bad(
            format!("schedule {name} has the time zone {zone}, which the zone data lacks"),
            format!(
                "install newer zone data (package tzdata, or a directory that TZDIR names) on this host and on those of \
                 the workers, or: workflow schedules update {name} --zone ZONE"
            ),
        ),
        None => Finding::bad(
            format!("schedule {name} is not understood: {reason}"),
            "deploy the release that wrote it, or a later one",
        ),
    }
}

fn paused(schedule: &ScheduleView) -> Option<Finding> {
    let pause = schedule.state.paused.as_ref().filter(|pause| pause.cause != PauseCause::Operator)?;
    let fact = format!("schedule {} is paused: {}", schedule.name, pause.reason);
    Some(Finding::warn(fact, format!("workflow schedules show {}", schedule.name)))
}

/// Finds a schedule that was due, and that no worker has fired.
fn late(facts: &Facts, schedule: &ScheduleView, now: Timestamp) -> Option<Finding> {
    let next = schedule.state.next_at.filter(|_| schedule.state.paused.is_none())?;
    let late = now.since(next + schedule.declaration.timing.jitter);
    let fix = if facts.workers.iter().any(|worker| worker.live) {
        "if code computes its input, start a worker that declares it; else the logs of the workers tell why they cannot \
         fire schedules"
    } else {
        "start a worker"
    };
    let fact = || format!("schedule {} was due {} ago, and no worker has fired it", schedule.name, span(late));
    (late > LATE).then(|| Finding::bad(fact(), fix))
}

/// Finds a schedule whose runs no live worker would claim: its code is gone.
fn unserved(facts: &Facts, schedule: &ScheduleView) -> Option<Finding> {
    let live = || facts.workers.iter().filter(|worker| worker.live);
    let ScheduleView { name, origin, declaration, state, .. } = schedule;
    let lane = &declaration.lane;
    // A worker without lanes is one of a release that did not record them.
    let is_known = live().next().is_some() && live().all(|worker| !worker.lanes.is_empty());
    let is_over = state.paused.is_some() || state.next_at.is_none();
    if !is_known || is_over || live().any(|worker| worker.lanes.contains(lane)) {
        return None;
    }
    let fix = match origin {
        Origin::Code { .. } => {
            format!("deploy a worker that registers it and declares the schedule, or: workflow schedules delete {name}")
        }
        _ => format!(
            "deploy a worker that registers this version and serves the queue, or: workflow schedules delete {name}"
        ),
    };
    let (workflow, version, queue) = (&lane.workflow, &lane.version, &lane.queue);
    Some(Finding::warn(
        format!(
            "schedule {name} starts runs of {workflow} version {version} in queue {queue}, which no live worker serves"
        ),
        fix,
    ))
}

/// Finds a schedule for which an operator's change holds in place of what the code declares.
fn drifted(ScheduleView { name, declaration, drifted_from, .. }: &ScheduleView) -> Option<Finding> {
    let parts = differences(declaration, drifted_from.as_ref()?).join(", ");
    Some(Finding::warn(
        format!("schedule {name} is in drift: an operator has changed what code declares: {parts}"),
        format!("change the code, then take the change back: workflow schedules revert {name}"),
    ))
}

fn differences(holds: &Declaration, declared: &Declaration) -> Vec<&'static str> {
    let policies = |it: &Declaration| (it.overlap, it.catch_up, it.limit, it.pause_on_failure);
    [
        (holds.timing != declared.timing, "times"),
        (holds.lane != declared.lane, "queue or version"),
        (holds.gate != declared.gate, "gate"),
        (holds.tags != declared.tags, "tags"),
        (holds.priority != declared.priority, "priority"),
        (holds.deadline != declared.deadline, "deadline"),
        (policies(holds) != policies(declared), "policies"),
    ]
    .into_iter()
    .filter_map(|(differs, part)| differs.then_some(part))
    .collect()
}
