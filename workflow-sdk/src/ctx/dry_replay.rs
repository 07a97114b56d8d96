//! Replays a history on the code of this program. No body begins and nothing is written.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use workflow_engine::model::{
    ErrorKind, Lane, NewSignal, RunHistory, RunStatus, SignalOutcome, StepKind, StoredError, Timestamp,
};
use workflow_engine::observe::OpenSpan;
use workflow_engine::replay::{Divergence, Next, OutboxRow, RecordedCall, bytes};

use super::replayed::{Halt, Misfit, Replayed};
use super::{Entry, Occurrence, Polled, Poller, Port, PortFuture, RunCell, RunSettings};

/// Replays a history on this workflow. Nothing is written, no body begins, and no time passes. The
/// workflow's code outside of bodies does run, so it must be as free of effects as in every replay.
///
/// # Errors
/// [`Misfit`] if the history does not fit the code.
pub fn dry_replay(entry: &Entry, history: &RunHistory, payload_limit: usize) -> Result<Replayed, Misfit> {
    match replay_once(entry, history, payload_limit) {
        Halt::Ended { result, before } => judge_end(history, result, before),
        Halt::Diverged(divergence) => Err(Misfit::Diverged(divergence)),
        Halt::Waiting(snapshot) if snapshot.waiting.is_empty() => Ok(Replayed::Blocked { unasked: snapshot.unasked }),
        Halt::Waiting(snapshot) => Ok(Replayed::Waits(snapshot.waiting)),
    }
}

/// The port of a dry replay. Its clock stands still.
#[derive(Debug)]
struct StillPort {
    now: Timestamp,
}

impl Port for StillPort {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn may_begin(&self) -> bool {
        false
    }

    /// Only bodies send signals, and no body begins in a dry replay.
    fn signal(&self, _: NewSignal) -> PortFuture<crate::Result<SignalOutcome>> {
        Box::pin(std::future::pending())
    }

    fn wake(&self) {}
}

/// The number of polls after wakes that no call of the context caused. The poller limits the time
/// of each poll.
const MAX_FOREIGN_WAKES: usize = 10;

fn replay_once(entry: &Entry, history: &RunHistory, payload_limit: usize) -> Halt {
    let RunHistory { run, steps, .. } = history;
    let times = steps.iter().flat_map(|step| [Some(step.started_at), step.completed_at]).flatten();
    let port: Arc<dyn Port> = Arc::new(StillPort { now: times.fold(run.started_at, Timestamp::max) });
    let settings = RunSettings {
        run_id: run.id,
        epoch: 0,
        generation: run.generation,
        depth: run.depth,
        lane: Lane { queue: run.queue.clone(), workflow: run.workflow.clone(), version: run.version.clone() },
        attempt: u32::try_from(run.attempt).unwrap_or(u32::MAX),
        occurrence: Occurrence::of_tags(&run.tags).map(Box::new),
        created_at: run.created_at.unwrap_or(run.started_at),
        started_at: run.started_at,
        payload_limit,
        span: OpenSpan::none(),
    };
    let cell = RunCell::new(settings, steps.clone(), Arc::clone(&port));
    // While the run is on hold, no body and no sleep begins that is not recorded. So a dry replay
    // adds no outcome.
    cell.hold(true);
    let mut poller = Poller::new(entry.call(Arc::clone(&cell), run.input.clone()), port);
    let halt = drive(&cell, &mut poller);
    // A panic in a destructor of the author's code says nothing about the history.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(poller)));
    halt
}

fn drive(cell: &RunCell, poller: &mut Poller) -> Halt {
    let mut foreign_wakes = 0;
    loop {
        let polled = poller.poll();
        if let Some(result) = ended(polled) {
            let before = cell.snapshot().before;
            return match (cell.ended(), result) {
                (Some(divergence), Err(error)) => Halt::Diverged(divergence.with_error(&error)),
                (Some(divergence), Ok(_)) => Halt::Diverged(divergence),
                (None, result) => Halt::Ended { result, before },
            };
        }
        acknowledge(cell);
        let halt = match poller.waking(|| cell.next()) {
            Next::Deliver(_) | Next::Interrupt(_) | Next::Admit(_) | Next::Start(_) | Next::Send => continue,
            Next::Diverged(divergence) => return Halt::Diverged(divergence),
            Next::Passed(divergence) => Halt::Diverged(divergence),
            Next::Wait { .. } => Halt::Waiting(cell.snapshot()),
        };
        foreign_wakes += 1;
        if !poller.take_foreign_wake() || foreign_wakes > MAX_FOREIGN_WAKES {
            return halt;
        }
    }
}

/// Returns the result of the function, if it has ended.
fn ended(polled: Polled) -> Option<Result<String, StoredError>> {
    match polled {
        Polled::Pending => None,
        Polled::Ended(result) => Some(result),
        Polled::Continued(_) => Some(Err(StoredError::new(ErrorKind::Application, "the function continues as new"))),
    }
}

/// Discards the rows that a replay writes beside outcomes, and confirms each as committed so that
/// the function continues. Some of them end waits that an outcome has dropped.
fn acknowledge(cell: &RunCell) {
    for OutboxRow { row, .. } in cell.take_outbox() {
        let is_note = matches!(row.kind, StepKind::Patch | StepKind::Published | StepKind::Emitted);
        let is_wait = matches!(row.kind, StepKind::Signal | StepKind::Approval | StepKind::Event);
        debug_assert!(is_note || is_wait && row.completed_at.is_some(), "a dry replay has begun {:?}", row.step_key);
        cell.committed();
    }
}

/// Compares the end of the function with the recorded end of the run, if there is one.
fn judge_end(
    history: &RunHistory,
    result: Result<String, StoredError>,
    before: Option<RecordedCall>,
) -> Result<Replayed, Misfit> {
    let run = &history.run;
    let of_function =
        |error: &&StoredError| matches!(error.kind, ErrorKind::Application | ErrorKind::Timeout | ErrorKind::Panic);
    let recorded = match (run.status, &run.output, &run.error) {
        (RunStatus::Succeeded, Some(output), _) => Some(Ok(output)),
        (RunStatus::Failed, _, Some(error)) if of_function(&error) => Some(Err(error)),
        _ => None,
    };
    let differs = match (&recorded, &result) {
        (Some(Ok(recorded)), Ok(current)) => first_difference_of(recorded, current),
        (Some(Err(recorded)), Err(current)) if recorded.kind != current.kind => Some("the kind of the error".into()),
        (Some(Err(recorded)), Err(current)) if recorded.message != current.message => {
            Some("the text of the error".into())
        }
        (Some(Ok(_)), Err(_)) | (Some(Err(_)), Ok(_)) => Some("how the run ends".into()),
        (Some(Err(_)), Err(_)) | (None, _) => None,
    };
    if let (Some(what), Some(recorded)) = (differs, recorded) {
        let (recorded, current) = (ending("run ended", recorded), ending("workflow ends", result.as_ref()));
        return Err(Misfit::Diverged(Divergence::end(recorded, current, what, before)));
    }
    match result {
        Err(error) if recorded.is_none() && matches!(error.kind, ErrorKind::Panic | ErrorKind::Refused) => {
            Err(Misfit::Fails(error))
        }
        result => Ok(Replayed::Ended(result)),
    }
}

fn ending(subject: &str, result: Result<&String, &StoredError>) -> String {
    match result {
        Ok(output) => format!("the {subject} with an output ({})", bytes(output)),
        Err(error) => format!("the {subject} with an error ({})", error.kind),
    }
}

/// Says where two outputs differ. The order of the fields of an object does not count.
fn first_difference_of(recorded: &str, current: &str) -> Option<String> {
    if recorded == current {
        return None;
    }
    let (Ok(one), Ok(other)) = (serde_json::from_str(recorded), serde_json::from_str(current)) else {
        return Some("the output".into());
    };
    let place = first_difference(&one, &other)?;
    Some(if place.is_empty() { "the output".into() } else { format!("the output, first at {place}") })
}

/// Returns the JSON pointer of the first difference between two values.
fn first_difference(one: &Value, other: &Value) -> Option<String> {
    let below = |name: &dyn fmt::Display, one, other| first_difference(one, other).map(|rest| format!("/{name}{rest}"));
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => one
            .iter()
            .find_map(|(name, value)| other.get(name).map_or(Some(format!("/{name}")), |it| below(name, value, it)))
            .or_else(|| other.keys().find(|name| !one.contains_key(*name)).map(|name| format!("/{name}"))),
        (Value::Array(one), Value::Array(other)) => one
            .iter()
            .zip(other)
            .enumerate()
            .find_map(|(index, (one, other))| below(&index, one, other))
            .or_else(|| (one.len() != other.len()).then(|| format!("/{}", one.len().min(other.len())))),
        (one, other) => (one != other).then(String::new),
    }
}
