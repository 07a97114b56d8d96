//! The schedules of a case: their declarations, and the check of their runs.

use std::collections::BTreeMap;
use std::time::Duration;

use workflow_sdk::{CatchUp, Occurrence, Overlap, Run, Schedule, Timestamp};

use super::case::{Case, SchedulePlan};
use super::program::{Op, Program, simulated};
use workflow_tests::builders::CLOCK_START;

/// The runs that the schedules of a case have started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scheduled {
    pub(super) runs: u64,
    /// The longest time from an occurrence to the start of its run.
    pub(super) latest: Duration,
}

/// Returns the schedules that each worker declares.
pub(super) fn declared(case: &Case) -> Vec<Schedule> {
    let Some(plan) = &case.schedules else { return Vec::new() };
    let declare = |every: &u64| {
        // Each occurrence starts its run, also if it is late: then each one can be looked for.
        let catch_up = CatchUp::All { window: CatchUp::DEFAULT_WINDOW, max: CatchUp::MOST };
        Schedule::every(name(*every), Duration::from_secs(*every))
            .start(simulated, program())
            .overlap(Overlap::Allow)
            .catch_up(catch_up)
            .until(last(plan))
    };
    plan.every_seconds.iter().map(declare).collect()
}

/// Checks that each occurrence has started one run, which has succeeded.
pub(super) fn check(case: &Case, runs: &[Run]) -> Result<Scheduled, String> {
    let Some(plan) = &case.schedules else { return Ok(Scheduled::default()) };
    let mut started: BTreeMap<(String, Timestamp), u64> = BTreeMap::new();
    let (mut scheduled, answer) = (Scheduled::default(), program().answer().to_string());
    for run in runs {
        let Some(occurrence) = Occurrence::of_tags(&run.tags) else { continue };
        if run.output.as_ref() != Some(&answer) {
            return Err(format!("run {} of {} is {} with {:?}", run.id, occurrence.schedule, run.status, run.output));
        }
        scheduled.runs += 1;
        scheduled.latest = scheduled.latest.max(run.created_at.since(occurrence.at));
        *started.entry((occurrence.schedule, occurrence.at)).or_default() += 1;
    }
    let expected = plan.every_seconds.iter().flat_map(|every| occurrences(plan, *every));
    for occurrence in expected {
        let runs = started.remove(&occurrence).unwrap_or(0);
        if runs != 1 {
            return Err(format!("{runs} runs of the occurrence {occurrence:?}"));
        }
    }
    match started.keys().next() {
        Some(other) => Err(format!("a run of {other:?}, which is no occurrence")),
        None => Ok(scheduled),
    }
}

fn name(every: u64) -> String {
    format!("every-{every}-seconds")
}

fn program() -> Program {
    Program { ops: vec![Op::Step { fails: 0, panics: false, millis: 3 }], sum: 1 }
}

fn last(plan: &SchedulePlan) -> Timestamp {
    CLOCK_START + Duration::from_millis(plan.until_millis)
}

/// Returns the occurrences of the schedule with this interval, whose workers start within the first
/// second.
fn occurrences(plan: &SchedulePlan, every: u64) -> impl Iterator<Item = (String, Timestamp)> {
    let (until, every_micros) = (last(plan), i64::try_from(every * 1_000_000).unwrap_or(i64::MAX));
    let first = CLOCK_START.as_micros() / every_micros + 1;
    (first..)
        .map(move |number| Timestamp::from_micros(number * every_micros))
        .take_while(move |at| *at <= until)
        .map(move |at| (name(every), at))
}
