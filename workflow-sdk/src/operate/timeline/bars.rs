//! The row of one step.

use serde::Deserialize;

use workflow_engine::model::{
    AttemptStatus, ErrorSummary, Run, RunId, RunStatus, StepAttempt, StepKind, Timestamp, WaitNote, derived_run_id,
};

use crate::FORKED_FROM;

use super::spans::{ClaimSpan, has_body, is_dropped};
use super::{Bar, BarState, TimelineRow};

/// The note of a child step that waits.
#[derive(Deserialize)]
struct ChildNote {
    run_id: RunId,
}

/// Returns the row of a step with these attempts; `None` for one that is only a mark.
pub(super) fn row(run: &Run, attempts: &[StepAttempt], claims: &[ClaimSpan]) -> Option<TimelineRow> {
    let last = attempts.last().filter(|row| row.kind != StepKind::Interruption)?;
    let mut bars = Vec::new();
    for (place, attempt) in attempts.iter().enumerate() {
        bars.push(bar(run, attempt, claims));
        let next = attempts.get(place + 1);
        bars.extend(back_off(run, attempt, next));
    }
    let is_open = last.completed_at.is_none();
    let note = last.output.as_deref().filter(|_| is_open).unwrap_or_default();
    let wait = serde_json::from_str::<WaitNote>(note).unwrap_or_default();
    let error = attempts.iter().rev().find_map(|row| row.error.as_ref());
    Some(TimelineRow {
        step: last.step_key.clone(),
        kind: last.kind,
        bars,
        child: if last.kind == StepKind::Child { child_of(run, last, note) } else { None },
        event: wait.event,
        asks: wait.to,
        error: error.map(|error| error.message.chars().take(ErrorSummary::MAX_CHARS).collect()),
        source_line: None,
    })
}

fn bar(run: &Run, row: &StepAttempt, claims: &[ClaimSpan]) -> Bar {
    let bar = |state, to| Bar { state, attempt: row.attempt, from: row.started_at, to, repeated: false };
    if !has_body(row.kind) {
        let state = match (row.status, row.completed_at) {
            (_, None) => BarState::Waiting,
            (AttemptStatus::Failed, Some(_)) => BarState::Failed,
            (_, Some(_)) => BarState::Waited,
        };
        return bar(state, row.completed_at.or_else(|| wakes_at(row)));
    }
    let claim_at = claims.iter().rev().find(|claim| claim.from <= row.started_at);
    let repeated = claim_at.is_some_and(|claim| claim.epoch < row.epoch);
    match (row.status, row.completed_at) {
        (AttemptStatus::Running, _) if run.status == RunStatus::Running && row.epoch == run.epoch => {
            Bar { repeated, ..bar(BarState::Running, None) }
        }
        (AttemptStatus::Running, _) => {
            let last = claims.iter().rev().find(|claim| claim.epoch <= row.epoch).map(|claim| claim.to);
            let to = last.into_iter().chain(run.completed_at.filter(|_| last.is_none())).chain([row.started_at]).max();
            bar(if is_dropped(run, row) { BarState::Dropped } else { BarState::CutOff }, to)
        }
        (AttemptStatus::Failed, to) => Bar { repeated, ..bar(BarState::Failed, to) },
        (_, to) => Bar { repeated, ..bar(BarState::Succeeded, to) },
    }
}

/// Returns the bar between a failed attempt and the next one.
fn back_off(run: &Run, row: &StepAttempt, next: Option<&StepAttempt>) -> Option<Bar> {
    let (from, planned) = (row.completed_at?, row.error.as_ref()?.next_attempt_at);
    let to = match next {
        Some(next) => next.started_at,
        None if run.status.is_terminal() || row.position.is_some() => return None,
        None => planned?,
    };
    let bar = Bar { state: BarState::BackOff, attempt: row.attempt + 1, from, to: Some(to), repeated: false };
    (to > from).then_some(bar)
}

/// Returns when a sleep, or a wait with a timeout, ends.
fn wakes_at(row: &StepAttempt) -> Option<Timestamp> {
    let note = row.output.as_deref()?;
    match row.kind {
        StepKind::Sleep => serde_json::from_str(note).ok(),
        _ => serde_json::from_str::<WaitNote>(note).ok()?.until,
    }
}

/// Returns the run that a child step started. Its id follows from the parent, the step and the time
/// at which it began; a fork keeps the steps of another parent.
fn child_of(run: &Run, row: &StepAttempt, note: &str) -> Option<RunId> {
    if let Ok(ChildNote { run_id }) = serde_json::from_str(note) {
        return Some(run_id);
    }
    let purpose = format!("child {} of generation {}", row.step_key, run.generation);
    (!run.tags.contains_key(FORKED_FROM)).then(|| derived_run_id(run.id, &purpose, row.started_at))
}
