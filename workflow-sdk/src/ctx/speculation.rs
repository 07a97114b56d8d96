//! Looks past a new call that stands before recorded ones. Nobody knows what its body would give, so values are made up, until
//! one is of its type: does the code then come to what is recorded? If no value leads there, the call has taken the place of a
//! recorded one (a rename, say), and the run would diverge after its body had run.

use workflow_engine::model::{AttemptStatus, StepAttempt, StepKind};
use workflow_engine::replay::{CurrentCall, Divergence, RecordedCall, Snapshot};

use super::replayed::{Added, Halt, Misfit, Replayed};

/// Values that most types accept one of; tried after those that are recorded and not asked for.
const GUESSES: [&str; 10] = ["null", "true", "false", "0", "1", "\"\"", "\"0\"", "[]", "{}", "0.5"];

/// So many of the recorded values are tried.
const MAX_RECORDED: usize = 4;

/// More replays than these are not worth an answer,
const MAX_REPLAYS: usize = 200;

/// nor, where histories are long, more rows in all.
const MAX_ROWS: usize = 1_000_000;

/// The verdict on a replay that came to new calls before it had come to all that is recorded.
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
    /// What is recorded, and what is made up so far.
    steps: Vec<StepAttempt>,
}

enum Answer {
    /// With some value the code comes to all that is recorded.
    Fits,
    /// With no value that was tried it does, and with some that are of the right type it diverges; so with the first of them.
    Misses(Divergence),
    /// No value that was tried says anything.
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
            self.steps.push(made_up(call, value, &self.steps));
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

    /// The answer if the call gives the value that was made up last. A value that is none of its type, or one on which the code
    /// ends with an error, says nothing.
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

/// The outcome that a run would record for the call next.
fn made_up(call: &CurrentCall, value: String, steps: &[StepAttempt]) -> StepAttempt {
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
