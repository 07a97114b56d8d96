//! Checks what must hold at the end of a simulation.

use futures::FutureExt;
use workflow_sdk::{Run, RunFilter, RunStatus, StepAttempt, StepKind};

use super::application::id_of;
use super::program::{ATTEMPTS, SIGNAL};
use super::world::World;

/// Returns `true` if the application has finished and every run has ended.
pub(super) fn is_reached(world: &World) -> bool {
    world.has_application_ended() && all(world).iter().all(|run| run.status.is_terminal())
}

/// Returns the reply of the auditor's database, which never waits.
fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("the store in memory does not wait")
}

/// Returns every run.
pub(super) fn all(world: &World) -> Vec<Run> {
    let read = |id| at_once(world.auditor.run(id)).expect("the auditor reads").expect("a run stays");
    let mut filter = RunFilter::new().page_size(RunFilter::MAX_PAGE_SIZE);
    let mut runs = Vec::new();
    loop {
        let page = at_once(world.auditor.list(&filter)).expect("the auditor lists");
        let is_last = page.len() < RunFilter::MAX_PAGE_SIZE as usize;
        runs.extend(page.iter().map(|run| read(run.id)));
        match page.last() {
            Some(last) if !is_last => filter = filter.after(last.id),
            _ => return runs,
        }
    }
}

/// Checks the final rows and returns the number of runs.
pub(super) fn check(world: &World) -> Result<u64, String> {
    let runs = all(world);
    for id in world.acknowledged() {
        if !runs.iter().any(|run| run.id == id) {
            return Err(format!("the start of run {id} was acknowledged, but there is no such run"));
        }
    }
    if let Some(run) = runs.iter().find(|run| !run.status.is_terminal()) {
        let explained =
            format!("{} (due at {}, wakes {}, epoch {})", run.status, run.available_at, run.wakes, run.epoch);
        return Err(format!("run {} does not end: it is {explained}", run.id));
    }
    if !world.has_application_ended() {
        return Err("the application does not finish".into());
    }
    for run in &runs {
        check_run(world, run)?;
    }
    for number in 0..world.case.runs.len() {
        check_answer(world, number, &runs)?;
    }
    Ok(runs.len() as u64)
}

fn check_run(world: &World, run: &Run) -> Result<(), String> {
    let rows = at_once(world.auditor.history(run.id)).expect("the auditor reads");
    if let Some(row) = rows.iter().find(|row| row.kind == StepKind::Step && row.attempt > i64::from(ATTEMPTS)) {
        return Err(format!("run {}: more attempts than the policy allows: {row:?}", run.id));
    }
    check_positions(world, run, &rows)?;
    for (label, times) in world.begun(run.id) {
        if i64::from(times) > run.epoch {
            let epochs = run.epoch;
            return Err(format!(
                "run {}: {label} began {times} times, though the run was claimed {epochs} times",
                run.id
            ));
        }
    }
    if let Some(parent) = &run.parent
        && at_once(world.auditor.run(parent.run_id)).expect("the auditor reads").is_none()
    {
        return Err(format!("run {} has no parent", run.id));
    }
    Ok(())
}

/// Checks that positions have no gap. Runs with transactions are excluded, because a transaction
/// that is given up leaves its position unused. If its run was canceled, it leaves no row either.
fn check_positions(world: &World, run: &Run, rows: &[StepAttempt]) -> Result<(), String> {
    if world.begun(run.id).into_iter().any(|(label, _)| label.contains("/debit")) {
        return Ok(());
    }
    let positions: Vec<i64> = rows.iter().filter_map(|row| row.position).collect();
    let dense = positions.iter().zip(1..).all(|(position, expected)| *position == expected);
    if dense { Ok(()) } else { Err(format!("run {}: positions with a gap: {positions:?}", run.id)) }
}

fn check_answer(world: &World, number: usize, runs: &[Run]) -> Result<(), String> {
    let (id, plan) = (id_of(world, number), &world.case.runs[number]);
    let run = runs.iter().find(|run| run.id == id).ok_or("checked before")?;
    let expected = plan.program.answer().to_string();
    match run.status {
        RunStatus::Succeeded if run.output.as_ref() == Some(&expected) => {}
        RunStatus::Canceled if plan.cancel_millis.is_some() => return Ok(()),
        status => {
            let got = run.output.clone().unwrap_or_else(|| format!("{:?}", run.error));
            return Err(format!("run {id} is {status} with {got}, not with {expected}"));
        }
    }
    let inbox = at_once(world.auditor.inbox(id, &[SIGNAL.into()])).expect("the auditor reads");
    match inbox.map(|inbox| inbox.signals.len()) {
        Some(0) => Ok(()),
        left => Err(format!("run {id} got as many signals as it consumes, and {left:?} are left")),
    }
}
