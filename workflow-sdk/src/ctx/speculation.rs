//! Looks past a new call that precedes recorded ones. The value of the new call is unknown, so
//! guesses are tried until one has its type. If the code then asks for the recorded outcomes, the
//! call is an addition. If no guess leads there, the call has replaced a recorded one (a rename,
//! say), and the run would diverge after the call's body had run.

use workflow_engine::model::{AttemptStatus, StepAttempt, StepKind};
use workflow_engine::replay::{CurrentCall, Divergence, RecordedCall, Snapshot};

use super::replayed::{Added, Halt, Misfit, Replayed};

/// JSON texts of which most types accept one. They are tried after the recorded values that the
/// code has not asked for.
const GUESSES: [&str; 10] = ["null", "true", "false", "0", "1", "\"\"", "\"0\"", "[]", "{}", "0.5"];

/// The number of recorded values that are tried.
const MAX_RECORDED: usize = 4;

/// The number of replays after which the search gives up.
const MAX_REPLAYS: usize = 200;

/// The number of rows that all replays of a search may read together. It limits the search on long
/// histories.
const MAX_ROWS: usize = 1_000_000;

/// Judges a replay that reached new calls before it had asked for every recorded outcome.
pub(super) fn speculate(
    snapshot: Snapshot,
    steps: &[StepAttempt],
    replay: &dyn Fn(&[StepAttempt]) -> Halt,
) -> Result<Replayed, Misfit> {
    let replays_left = MAX_REPLAYS.min(MAX_ROWS / steps.len().max(1));
    let mut search = Search { replay, replays_left, steps: steps.to_vec() };
    let added = |confirmed| Added { calls: snapshot.waiting.clone(), before: snapshot.unasked.clone(), confirmed };
    match search.past(&snapshot) {
        Answer::Fits => Ok(Replayed::Added(added(true))),
        Answer::Unknown => Ok(Replayed::Added(added(false))),
        Answer::Misses(divergence) => Err(Misfit::Diverged(divergence.past(snapshot.waiting, snapshot.before))),
    }
}

struct Search<'a> {
    replay: &'a dyn Fn(&[StepAttempt]) -> Halt,
    replays_left: usize,
    /// The recorded rows, followed by the guessed ones.
    steps: Vec<StepAttempt>,
}

enum Answer {
    /// With some guess, the code asks for every recorded outcome.
    Fits,
    /// No guess leads to the recorded outcomes, and some guess of the right type makes the code
    /// diverge. Holds the first such divergence.
    Misses(Divergence),
    /// No guess was conclusive.
    Unknown,
}

impl Search<'_> {
    fn past(&mut self, snapshot: &Snapshot) -> Answer {
        let Some(call) = snapshot.waiting.iter().find(|call| matches!(call.kind, StepKind::Step | StepKind::Sleep))
        else {
            return Answer::Unknown;
        };
        let mut misses = None;
        for value in values(call, &snapshot.unasked, &self.steps) {
            let Some(left) = self.replays_left.checked_sub(1) else { break };
            self.replays_left = left;
            self.steps.push(guessed_row(call, value, &self.steps));
            let answer = self.with(call);
            self.steps.pop();
            match answer {
                Answer::Fits => return answer,
                Answer::Misses(divergence) => misses = misses.or(Some(divergence)),
                Answer::Unknown => {}
            }
        }
        misses.map_or(Answer::Unknown, Answer::Misses)
    }

    /// Returns the answer for the guess that was added last. A guess says nothing if it does not
    /// have the call's type, or if the code ends with an error on it.
    fn with(&mut self, call: &CurrentCall) -> Answer {
        match (self.replay)(&self.steps) {
            Halt::Ended { .. } => Answer::Fits,
            Halt::Waiting(snapshot) if snapshot.waiting.is_empty() => Answer::Unknown,
            Halt::Waiting(snapshot) if snapshot.unasked.is_empty() => Answer::Fits,
            Halt::Waiting(snapshot) => self.past(&snapshot),
            Halt::Diverged(divergence) if divergence.recorded().iter().any(|recorded| recorded.key == call.key) => {
                Answer::Unknown
            }
            Halt::Diverged(divergence) if divergence.has_error() => Answer::Unknown,
            Halt::Diverged(divergence) => Answer::Misses(divergence),
        }
    }
}

fn values(call: &CurrentCall, unasked: &[RecordedCall], steps: &[StepAttempt]) -> Vec<String> {
    if call.kind == StepKind::Sleep {
        return vec!["0".into()];
    }
    let recorded = unasked.iter().filter_map(|unasked| {
        let row = steps.iter().find(|row| row.position == unasked.position)?;
        row.output.clone().filter(|_| row.kind == call.kind)
    });
    let mut values: Vec<String> = Vec::new();
    for value in recorded.take(MAX_RECORDED).chain(GUESSES.map(str::to_owned)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// Returns the row that a run would record next for the call, if its body returned this value.
fn guessed_row(call: &CurrentCall, value: String, steps: &[StepAttempt]) -> StepAttempt {
    let last = steps.iter().filter_map(|row| row.position).max().unwrap_or_default();
    let times = steps.iter().map(|row| row.completed_at.unwrap_or(row.started_at));
    let now = times.max().unwrap_or(workflow_engine::model::Timestamp::from_micros(0));
    StepAttempt {
        step_key: call.key.clone(),
        attempt: 1,
        kind: call.kind,
        status: AttemptStatus::Succeeded,
        position: Some(last + 1),
        output: Some(value),
        error: None,
        epoch: 0,
        started_at: now,
        completed_at: Some(now),
    }
}
