//! Concludes from the times of steps when which claim drove the run, and what lies between.

use std::time::Duration;

use workflow_engine::model::{AttemptStatus, Run, RunStatus, StepAttempt, StepKind, Timestamp};

use super::{Mark, MarkKind, RunSpan, SpanState};

/// The time during which a claim shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimSpan {
    pub(super) epoch: i64,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

pub(super) fn has_body(kind: StepKind) -> bool {
    matches!(kind, StepKind::Step | StepKind::Transaction | StepKind::Compensation)
}

/// How soon a drive goes on after a step has ended or begun, if nothing holds it back. It takes
/// milliseconds; a claim after a lost lease, or one after a park, mostly takes longer.
const SOON: Duration = Duration::from_secs(1);

/// Returns the claims that show in these rows, in their order.
///
/// The time at which a row ended belongs to the claim that wrote it, and so does the beginning of a
/// wait without an end. The beginning of another row may belong to an earlier claim, because a body
/// that is repeated keeps its first beginning. It counts to the claim that showed right before it.
pub(super) fn claims(run: &Run, attempts: &[StepAttempt], is_window: bool) -> Vec<ClaimSpan> {
    let mut claims = sure_claims(attempts);
    // The first claim began the run, whatever is left of it.
    if let (Some(at), false, 0, 1) = (run.started_at, is_window, run.generation, run.attempt)
        && claims.first().is_none_or(|first| first.epoch > 1)
        && run.epoch > 0
    {
        claims.insert(0, ClaimSpan { epoch: 1, from: at, to: at });
    }
    let mut begun: Vec<&StepAttempt> = attempts.iter().collect();
    begun.sort_by_key(|row| row.started_at);
    for row in begun {
        add_beginning(&mut claims, row, follows_an_end(attempts, row));
    }
    claims
}

fn sure_claims(attempts: &[StepAttempt]) -> Vec<ClaimSpan> {
    let sure = attempts.iter().filter_map(|row| match row.completed_at {
        Some(at) => Some((row.epoch, at)),
        None => (!has_body(row.kind)).then_some((row.epoch, row.started_at)),
    });
    let mut sure: Vec<(i64, Timestamp)> = sure.collect();
    sure.sort_unstable();
    let mut claims: Vec<ClaimSpan> = Vec::new();
    for (epoch, at) in sure {
        let at = claims.last().map_or(at, |claim| at.max(claim.to));
        match claims.last_mut() {
            Some(claim) if claim.epoch == epoch => claim.to = at,
            _ => claims.push(ClaimSpan { epoch, from: at, to: at }),
        }
    }
    claims
}

/// Returns whether the attempt before this one was the last of its run, so that only a retry of the
/// run, and thus another claim, can have begun this one.
fn follows_an_end(attempts: &[StepAttempt], row: &StepAttempt) -> bool {
    let is_before = |other: &&StepAttempt| other.step_key == row.step_key && other.attempt + 1 == row.attempt;
    let ended_its_run = |other: &StepAttempt| {
        other.status == AttemptStatus::Failed
            && other.error.as_ref().is_some_and(|error| error.next_attempt_at.is_none())
    };
    has_body(row.kind) && attempts.iter().find(is_before).is_some_and(ended_its_run)
}

fn add_beginning(claims: &mut Vec<ClaimSpan>, row: &StepAttempt, is_of_another_claim: bool) {
    let at = row.started_at;
    let behind = claims.partition_point(|claim| claim.from <= at);
    let Some(before) = behind.checked_sub(1).and_then(|place| claims.get_mut(place)) else {
        match claims.first_mut() {
            Some(first) => first.from = at,
            None => claims.push(ClaimSpan { epoch: row.epoch, from: at, to: at }),
        }
        return;
    };
    if row.epoch <= before.epoch || at <= before.to + SOON && !is_of_another_claim {
        before.to = before.to.max(at);
        return;
    }
    // A wait shows the claim that ended it, which is mostly not the one that began it.
    let epoch = if has_body(row.kind) { row.epoch } else { before.epoch + 1 };
    match claims.get_mut(behind).filter(|next| next.epoch <= epoch) {
        Some(next) => next.from = at,
        None => claims.insert(behind, ClaimSpan { epoch, from: at, to: at }),
    }
}

/// Returns the spans of the run.
pub(super) fn spans(run: &Run, attempts: &[StepAttempt], claims: &[ClaimSpan]) -> Vec<RunSpan> {
    let span = |state, from, to| RunSpan { state, from, to };
    let end = run.completed_at;
    let Some(started_at) = run.started_at.filter(|_| run.epoch > 0) else {
        return vec![span(SpanState::Queued, run.created_at, end)];
    };
    let mut spans = vec![span(SpanState::Queued, run.created_at, Some(started_at.max(run.created_at)))];
    let mut at = started_at.max(run.created_at);
    for (place, claim) in claims.iter().enumerate() {
        if place > 0 && claim.from > at {
            spans.push(span(between(run, attempts, at, claim.from), at, Some(claim.from)));
            at = claim.from;
        } else if place > 0 && has_lost_body(run, attempts, at) {
            spans.push(span(SpanState::Lost, at, Some(at)));
        }
        let to = claim.to.max(at);
        spans.push(span(SpanState::Ran, at, Some(to)));
        at = to;
    }
    match (run.status, spans.last_mut()) {
        (RunStatus::Running, Some(last)) if last.state == SpanState::Ran => last.to = None,
        (RunStatus::Running, _) => spans.push(span(SpanState::Ran, at, None)),
        (RunStatus::Pending | RunStatus::Parked, _) => spans.push(span(SpanState::Parked, at, None)),
        (_, Some(last)) if last.state == SpanState::Ran => last.to = end.max(last.to),
        (..) => spans.push(span(SpanState::Ran, at, end)),
    }
    spans
}

/// Returns why no claim shows between two times. A body is never under way while a run is parked.
fn between(run: &Run, attempts: &[StepAttempt], from: Timestamp, to: Timestamp) -> SpanState {
    if has_lost_body(run, attempts, from) {
        return SpanState::Lost;
    }
    let waits = |row: &StepAttempt| {
        let is_wait = !has_body(row.kind) && row.started_at <= from;
        let next = row.error.as_ref().and_then(|error| error.next_attempt_at);
        let backs_off = row.completed_at.is_some_and(|at| at <= from) && next.is_some_and(|next| next > from);
        is_wait && row.completed_at.is_none_or(|at| at >= to) || backs_off
    };
    if attempts.iter().any(waits) {
        return SpanState::Parked;
    }
    // The step whose failure ended the run is the last thing before the gap.
    let before = attempts.iter().filter(|row| row.completed_at.is_some_and(|at| at <= from));
    let failed = before.max_by_key(|row| row.completed_at).is_some_and(|row| row.status == AttemptStatus::Failed);
    if run.attempt > 1 && failed { SpanState::Failed } else { SpanState::Lost }
}

/// Returns whether a body was under way when a claim shows for the last time.
fn has_lost_body(run: &Run, attempts: &[StepAttempt], last: Timestamp) -> bool {
    let is_lost = |row: &StepAttempt| {
        let is_open = row.completed_at.is_none_or(|at| at > last);
        has_body(row.kind) && row.started_at <= last && is_open && !is_dropped(run, row)
    };
    attempts.iter().any(is_lost)
}

/// Returns whether the call of a body was dropped. A body that a crash cut off runs again before
/// its run ends or is parked, unless the run ends or diverges before it calls the body: such a run
/// still has its count of crashes.
pub(super) fn is_dropped(run: &Run, row: &StepAttempt) -> bool {
    row.completed_at.is_none() && run.crashes == 0 && !matches!(run.status, RunStatus::Pending | RunStatus::Running)
}

/// Returns the marks of these spans and rows.
pub(super) fn marks(spans: &[RunSpan], attempts: &[StepAttempt]) -> Vec<Mark> {
    let mut marks = Vec::new();
    for span in spans {
        if span.state == SpanState::Lost {
            marks.push(Mark { at: span.from, kind: MarkKind::Crashed });
        }
        if let (SpanState::Lost | SpanState::Parked | SpanState::Failed, Some(at)) = (span.state, span.to) {
            marks.push(Mark { at, kind: MarkKind::Resumed });
        }
    }
    let told = attempts.iter().filter(|row| row.kind == StepKind::Interruption);
    marks.extend(told.map(|row| Mark { at: row.started_at, kind: MarkKind::Interrupted }));
    marks.sort_by_key(|mark| mark.at);
    marks
}
