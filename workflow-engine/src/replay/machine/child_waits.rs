//! Starts children, and waits for their ends.
//!
//! A run that is tried again may have a child of an earlier attempt. It waits for the end of that
//! child, and takes the output if the child has succeeded: an operator may have retried the child
//! too. Otherwise it starts the child anew, as the next attempt of the step.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{
    Effect, ErrorKind, KeyReuse, NewRun, Parent, RunId, StepKind, StoredError, Timestamp, derived_run_id,
};

use super::Machine;
use super::waits::json;
use crate::replay::call::{CallId, CallPoll, Delivered, Phase, Work};
use crate::replay::deliveries::Receiver;
use crate::replay::external::{ChildCall, ChildEnd, ChildNote};
use crate::replay::history::LastAttempt;
use crate::replay::records::{Record, Sent};

/// The children that earlier attempts of the run have started, by the calls of this one.
#[derive(Debug, Default)]
pub(super) struct EarlierChildren {
    awaited: BTreeMap<CallId, EarlierChild>,
    /// The attempts in which calls start their children anew, because the earlier ones have not
    /// succeeded.
    followed: BTreeMap<CallId, u32>,
}

/// A child of an earlier attempt of the run whose end is awaited.
#[derive(Debug)]
struct EarlierChild {
    /// Starts the child anew.
    call: ChildCall,
    /// Whether the row of the step says that the run waits for this child.
    is_recorded: bool,
}

impl Machine {
    /// Polls a child.
    pub fn poll_child(&mut self, id: CallId, child: impl FnOnce() -> ChildCall, now: Timestamp) -> CallPoll {
        self.poll(id, || Work::Child(child()), now)
    }

    /// Returns whether the run waits for the end of a child.
    #[must_use]
    pub fn awaits_children(&self) -> bool {
        self.external.are_children_awaited()
    }

    /// Returns whether the run may have children.
    #[must_use]
    pub fn has_children(&self) -> bool {
        self.has_children
    }

    /// Starts a child, or waits for the one that the step has started before.
    pub(super) fn begin_child(&mut self, id: CallId, child: ChildCall, now: Timestamp) {
        if let Some(attempt) = self.recorded.earlier_children.followed.remove(&id) {
            return self.start_child(id, child, attempt, now);
        }
        let key = self.calls.key(id);
        let Some(last) = self.recorded.history.step(key).map(|step| &step.last) else {
            return self.start_child(id, child, 1, now);
        };
        let (attempt, started_at) = (last.next(), last.started_at);
        // A failed attempt without an outcome was the outcome until the run was tried again. A
        // child that is not awaited has failed only if it was not started.
        if last.has_ended && !child.detached {
            let run_id = self.child_id(key, started_at);
            self.await_earlier_child(id, child, false);
            return self.wait_for_recorded_child(id, run_id, attempt, started_at);
        }
        let note = last.output.as_deref().filter(|_| !last.has_ended);
        let Some(note) = note.and_then(|note| serde_json::from_str::<ChildNote>(note).ok()) else {
            return self.start_child(id, child, attempt, now);
        };
        if note.run_attempt < self.attempt {
            self.await_earlier_child(id, child, true);
        }
        self.wait_for_recorded_child(id, note.run_id, attempt, started_at);
    }

    fn await_earlier_child(&mut self, id: CallId, call: ChildCall, is_recorded: bool) {
        self.recorded.earlier_children.awaited.insert(id, EarlierChild { call, is_recorded });
    }

    /// Returns the id of the child that a step starts at this time. No two attempts of a step begin
    /// in the same millisecond, so they start different children.
    fn child_id(&self, key: &str, started_at: Timestamp) -> RunId {
        derived_run_id(self.run_id, &format!("child {key} of generation {}", self.generation), started_at)
    }

    fn start_child(&mut self, id: CallId, child: ChildCall, attempt: u32, now: Timestamp) {
        let key = self.calls.key(id).to_owned();
        let last = self.recorded.history.step(&key).map(|step| step.last.started_at + Duration::from_millis(1));
        let now = self.time.tick(last.map_or(now, |after_last| now.max(after_last)));
        let run_id = self.child_id(&key, now);
        let parent = Parent { run_id: self.run_id, step_key: key, on_end: child.on_parent_end };
        // The child of an earlier attempt of the step has failed, and may have the key.
        let key_reuse = if attempt > 1 { KeyReuse::AfterFailure } else { child.run.key_reuse };
        let run = NewRun { id: run_id, parent: Some(parent), key_reuse, ..*child.run };
        let begun = Record { effect: Effect::Start(Box::new(run)), ..Record::begun(attempt, StepKind::Child, now) };
        self.has_children = true;
        if child.detached {
            let output = format!("\"{run_id}\"");
            let outcome = Delivered::Recorded(output.clone());
            return self.decide_as(id, now, Record { output: Some(output), ..begun }, outcome);
        }
        self.record(id, Record { output: json(&ChildNote { run_id, run_attempt: self.attempt }), ..begun });
        self.external.await_child(id, run_id);
        self.wait_for_child(id, run_id, attempt, now);
    }

    fn wait_for_recorded_child(&mut self, id: CallId, run_id: RunId, attempt: u32, started_at: Timestamp) {
        self.external.await_recorded_child(id, run_id);
        self.wait_for_child(id, run_id, attempt, started_at);
    }

    fn wait_for_child(&mut self, id: CallId, run_id: RunId, attempt: u32, started_at: Timestamp) {
        self.timers.begin_external_wait(None, id);
        self.calls.set_phase(id, Phase::AwaitingChild { run_id, attempt, started_at });
    }

    pub(super) fn child_ended(&mut self, end: ChildEnd, now: Timestamp) {
        let Some(id) = self.external.remove_child(end.run_id) else { return };
        let Phase::AwaitingChild { attempt, started_at, .. } = *self.calls.phase(id) else { return };
        self.timers.end_external_wait(None, id);
        let completed_at = self.time.tick(now);
        let begun = Record::begun(attempt, StepKind::Child, started_at);
        let earlier = self.recorded.earlier_children.awaited.remove(&id);
        match (end.result, earlier) {
            (Ok(output), _) => {
                let outcome = Delivered::Recorded(output.clone());
                self.decide_as(id, completed_at, Record { output: Some(output), ..begun }, outcome);
            }
            // The run may not have seen this error. A child that is missing may have succeeded.
            (Err(error), Some(earlier)) if !earlier.is_recorded || may_follow(&error) => {
                let mut next = attempt;
                if earlier.is_recorded {
                    let error = error.of_step(self.calls.key(id));
                    self.record(id, Record { error: Some(error), completed_at: Some(completed_at), ..begun });
                    next = attempt.saturating_add(1);
                }
                self.recorded.earlier_children.followed.insert(id, next);
                self.calls.set_phase(id, Phase::Idle(Work::Child(earlier.call)));
                self.calls.add_idle(id);
            }
            (Err(error), _) => {
                let error = error.of_step(self.calls.key(id));
                self.decide(id, completed_at, Record { error: Some(error), ..begun });
            }
        }
    }

    /// Records the waits for children of failed attempts that have not ended: an operator has
    /// retried them. The row keeps the start of the child, from which the child's id follows.
    pub(super) fn record_earlier_children(&mut self) {
        for (id, earlier) in &mut self.recorded.earlier_children.awaited {
            if let Phase::AwaitingChild { run_id, attempt, started_at } = *self.calls.phase(*id)
                && !std::mem::replace(&mut earlier.is_recorded, true)
            {
                let note = ChildNote { run_id, run_attempt: 0 };
                let record = Record { output: json(&note), ..Record::begun(attempt, StepKind::Child, started_at) };
                self.records.post_progress(*id, self.calls.key(*id), record);
            }
        }
    }

    /// Stops waiting for the end of a child.
    pub(super) fn drop_child(&mut self, id: CallId, run_id: RunId) {
        self.recorded.earlier_children.awaited.remove(&id);
        self.external.remove_child(run_id);
        self.timers.end_external_wait(None, id);
    }

    /// Notes that the oldest record that was handed out started a child whose key belongs to
    /// another run. Neither the record nor the child was written.
    pub fn key_taken(&mut self, by: RunId, now: Timestamp) {
        let id = match self.records.answered() {
            Some(Sent::Progress(id)) => id,
            Some(Sent::Outcome(position, Receiver::Call(id))) => {
                self.deliveries.give_up(position);
                id
            }
            Some(Sent::Note | Sent::Seat(_) | Sent::Outcome(_, Receiver::Run)) | None => return,
        };
        let (attempt, started_at) = match *self.calls.phase(id) {
            Phase::AwaitingChild { run_id, attempt, started_at } => {
                self.drop_child(id, run_id);
                (attempt, started_at)
            }
            // A child that is not awaited.
            Phase::Decided { completed_at, .. } => {
                let step = self.recorded.history.step(self.calls.key(id));
                (step.map_or(1, |step| LastAttempt::next(&step.last)), completed_at)
            }
            _ => return,
        };
        let message = format!(
            "the key of this child belongs to run {by}, which this attempt of the step did not start; \
             use a key of its own, or none: a child is started once for each step anyway"
        );
        let error = StoredError::new(ErrorKind::Refused, message).fatal().of_step(self.calls.key(id));
        let completed_at = self.time.tick(now);
        let begun = Record::begun(attempt, StepKind::Child, started_at);
        self.decide(id, completed_at, Record { error: Some(error), ..begun });
    }
}

/// Returns whether another child may follow one that has ended with this error, before the run has
/// seen the error.
fn may_follow(error: &StoredError) -> bool {
    !error.fatal && error.kind != ErrorKind::ChildMissing
}
