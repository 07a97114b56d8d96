//! Waits for external events: signals, decisions, and the ends of children.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{
    Effect, ErrorKind, InboxSignal, NewRun, OnParentEnd, Parent, RunId, StepKind, StoredError, Timestamp, WaitNote,
    approval_signal, derived_run_id,
};

use super::call::{Phase, Work};
use super::records::{Receiver, Record, Sent};
use super::{CallId, CallPoll, Delivered, Machine};

/// A wait for a signal or a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalWait {
    /// [`StepKind::Signal`] or [`StepKind::Approval`].
    pub kind: StepKind,
    /// The signal's name. `None`: a name derived from the call's key.
    pub name: Option<String>,
    /// The longest time of the wait, from its beginning.
    pub timeout: Option<Duration>,
    /// The person or group that is asked for a decision.
    pub to: Option<String>,
}

/// A child that is to be started.
#[derive(Clone, Debug)]
pub struct ChildCall {
    /// The run to start. Its id and its parent are set later.
    pub run: Box<NewRun>,
    /// The fate of the child when this run ends first.
    pub on_parent_end: OnParentEnd,
    /// Whether the call does not wait for the child's end.
    pub detached: bool,
}

/// The end of a child.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildEnd {
    /// The child's id.
    pub run_id: RunId,
    /// The child's output as JSON text, or its error.
    pub result: Result<String, StoredError>,
}

/// The external events that a run waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AwaitedEvents {
    /// The names of signals.
    pub signals: Vec<String>,
    /// The ids of children.
    pub children: Vec<RunId>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ChildNote {
    run_id: RunId,
}

/// A wait for a signal or a decision that has begun.
#[derive(Clone, Debug)]
pub(super) struct Receiving {
    kind: StepKind,
    name: String,
    pub(super) until: Option<Timestamp>,
    started_at: Timestamp,
    to: Option<String>,
    /// Whether the row of the wait was written.
    shown: bool,
}

/// The known external events, and the calls that wait for one.
#[derive(Debug, Default)]
pub(super) struct ExternalEvents {
    /// The signals that were read and not consumed, by name.
    inbox: BTreeMap<String, VecDeque<InboxSignal>>,
    /// The number of the last signal of each name that was consumed. It is read again until its
    /// consumption is committed.
    taken: HashMap<String, i64>,
    receiving: BTreeSet<CallId>,
    children: BTreeMap<RunId, CallId>,
    /// Whether the drive has to look: a wait has begun, or an event may have occurred, since the
    /// last look.
    unlooked: bool,
    /// Whether the database may hold more signals than the last look has read.
    more: bool,
}

impl Machine {
    /// Polls a wait for a signal.
    pub fn poll_signal(&mut self, id: CallId, wait: impl FnOnce() -> SignalWait, now: Timestamp) -> CallPoll {
        self.poll(id, || Work::Signal(wait()), now)
    }

    /// Polls a child.
    pub fn poll_child(&mut self, id: CallId, child: impl FnOnce() -> ChildCall, now: Timestamp) -> CallPoll {
        self.poll(id, || Work::Child(child()), now)
    }

    /// Returns the external events that the run waits for, if the drive has to look for them now.
    /// Answered by [`Machine::looked`].
    pub fn begin_look(&mut self) -> Option<AwaitedEvents> {
        if !std::mem::take(&mut self.external.unlooked) || !self.awaits_external_events() {
            return None;
        }
        let names: BTreeSet<&str> = self.receiving().map(|(_, wait)| wait.name.as_str()).collect();
        let signals = names.into_iter().map(str::to_owned).collect();
        Some(AwaitedEvents { signals, children: self.external.children.keys().copied().collect() })
    }

    /// Notes that an external event may have occurred, so the drive has to look again.
    pub fn look_again(&mut self) {
        self.external.unlooked |= self.awaits_external_events();
    }

    /// Returns whether the run waits for an external event.
    #[must_use]
    pub fn awaits_external_events(&self) -> bool {
        !self.external.receiving.is_empty() || !self.external.children.is_empty()
    }

    /// Takes the results of a look: the first signals, whether there are more, and the children
    /// that have ended. Records the waits for which nothing was found.
    pub fn looked(&mut self, signals: Vec<InboxSignal>, more: bool, ended: Vec<ChildEnd>, now: Timestamp) {
        self.external.more = more;
        for signal in signals {
            self.keep_signal(signal);
        }
        for end in ended {
            self.child_ended(end, now);
        }
        let unmet = |(_, wait): &(CallId, &Receiving)| !wait.shown && !self.has_signal(&wait.name);
        let unmet: Vec<CallId> = self.receiving().filter(unmet).map(|(id, _)| id).collect();
        for id in unmet {
            self.show_wait(id);
        }
    }

    fn receiving(&self) -> impl Iterator<Item = (CallId, &Receiving)> {
        self.external.receiving.iter().filter_map(|id| match &self.calls[id.0].phase {
            Phase::Receiving(wait) => Some((*id, wait.as_ref())),
            _ => None,
        })
    }

    fn has_signal(&self, name: &str) -> bool {
        self.external.inbox.get(name).is_some_and(|signals| !signals.is_empty())
    }

    fn keep_signal(&mut self, signal: InboxSignal) {
        let kept = self.external.inbox.entry(signal.name.clone()).or_default();
        let last = kept.back().map(|last| last.seq).max(self.external.taken.get(&signal.name).copied());
        if last.is_none_or(|last| signal.seq > last) {
            kept.push_back(signal);
        }
    }

    fn show_wait(&mut self, id: CallId) {
        let Phase::Receiving(wait) = &mut self.calls[id.0].phase else { return };
        wait.shown = true;
        let note = WaitNote { until: wait.until, to: wait.to.clone() };
        let record = Record { output: json(&note), ..Record::begun(1, wait.kind, wait.started_at) };
        self.record(id, record);
    }

    /// Gives the oldest wait that has a signal its signal. Returns whether it did.
    ///
    /// It does so only if no other outcome is undelivered. Such an outcome could drop the wait, as
    /// in a race, and the consumed signal would be lost.
    pub(super) fn take_signal(&mut self, now: &impl Fn() -> Timestamp) -> bool {
        if self.external.receiving.is_empty() || !self.nothing_undelivered() {
            return false;
        }
        let met = self.receiving().find(|(_, wait)| self.has_signal(&wait.name)).map(|(id, wait)| (id, wait.clone()));
        let Some((id, wait)) = met else { return false };
        let Some(signal) = self.external.inbox.get_mut(&wait.name).and_then(VecDeque::pop_front) else { return false };
        self.external.taken.insert(wait.name.clone(), signal.seq);
        // The signal may have kept the timers of other waits for this name from firing, so set them
        // again.
        let left = self.receiving().filter(|(other, left)| *other != id && left.name == wait.name);
        let left: Vec<_> = left.filter_map(|(other, left)| Some((left.until?, other))).collect();
        self.timers.extend(left);
        let effect = Effect::Consume { seq: signal.seq };
        self.end_receiving(id, &wait, format!("[{}]", signal.payload), effect, now());
        true
    }

    /// Returns whether any wait has its signal.
    pub(super) fn waits_with_a_signal(&self) -> bool {
        self.receiving().any(|(_, wait)| self.has_signal(&wait.name))
    }

    /// Returns whether this wait has its signal and only waits for its turn. Its timeout can no
    /// longer end it.
    pub(super) fn is_met(&self, id: CallId) -> bool {
        matches!(&self.calls[id.0].phase, Phase::Receiving(wait) if self.has_signal(&wait.name))
    }

    /// Ends a wait whose timeout has passed.
    pub(super) fn receive_nothing(&mut self, id: CallId, now: Timestamp) {
        let Phase::Receiving(wait) = &self.calls[id.0].phase else { return };
        let wait = wait.as_ref().clone();
        self.end_receiving(id, &wait, "[]".into(), Effect::None, now);
    }

    fn end_receiving(&mut self, id: CallId, wait: &Receiving, output: String, effect: Effect, now: Timestamp) {
        self.forget_receiving(id, wait.until);
        let completed_at = self.tick(now);
        let outcome = Delivered::Recorded(output.clone());
        let record = Record { output: Some(output), effect, ..Record::begun(1, wait.kind, wait.started_at) };
        self.decide_as(id, completed_at, record, outcome);
    }

    fn forget_receiving(&mut self, id: CallId, until: Option<Timestamp>) {
        // The page of signals may have been full of signals for this wait alone.
        self.external.unlooked |= self.external.more;
        self.external.receiving.remove(&id);
        self.waits.remove(&(until.unwrap_or(Timestamp::FAR_FUTURE), id));
        if let Some(until) = until {
            self.timers.remove(&(until, id));
        }
    }

    pub(super) fn begin_receiving(&mut self, id: CallId, wait: SignalWait, now: Timestamp) {
        let key = self.calls[id.0].key.clone();
        let begun = self.history.step(&key).map(|step| {
            let note = step.last.output.as_deref().and_then(|text| serde_json::from_str::<WaitNote>(text).ok());
            (step.last.started_at, note.unwrap_or_default())
        });
        let shown = begun.is_some();
        let (started_at, WaitNote { until, to }) = begun.unwrap_or_else(|| {
            let now = self.tick(now);
            (now, WaitNote { until: wait.timeout.map(|timeout| now + timeout), to: wait.to })
        });
        let name = wait.name.unwrap_or_else(|| approval_signal(&key, started_at));
        let receiving = Receiving { kind: wait.kind, name, until, started_at, to, shown };
        self.waits.insert((receiving.until.unwrap_or(Timestamp::FAR_FUTURE), id));
        self.timers.extend(receiving.until.map(|until| (until, id)));
        self.external.receiving.insert(id);
        self.external.unlooked = true;
        self.calls[id.0].phase = Phase::Receiving(Box::new(receiving));
    }

    /// Ends a wait whose call was dropped. Its row must not look as if the run still waited.
    pub(super) fn drop_receiving(&mut self, id: CallId, wait: &Receiving) {
        self.forget_receiving(id, wait.until);
        if wait.shown {
            let ended = Record {
                completed_at: Some(self.latest),
                output: Some("[]".into()),
                ..Record::begun(1, wait.kind, wait.started_at)
            };
            self.record(id, ended);
        }
    }

    pub(super) fn begin_child(&mut self, id: CallId, child: ChildCall, now: Timestamp) {
        let key = self.calls[id.0].key.clone();
        let begun = self.history.step(&key).and_then(|step| {
            let note = serde_json::from_str::<ChildNote>(step.last.output.as_deref()?).ok()?;
            Some((note.run_id, step.last.started_at))
        });
        if let Some((run_id, started_at)) = begun {
            self.external.unlooked = true;
            return self.await_child(id, run_id, started_at);
        }
        let now = self.tick(now);
        let run_id = derived_run_id(self.run_id, &format!("child {} of generation {}", key, self.generation), now);
        let parent = Parent { run_id: self.run_id, step_key: key, on_end: child.on_parent_end };
        let run = NewRun { id: run_id, parent: Some(parent), ..*child.run };
        let begun = Record { effect: Effect::Start(Box::new(run)), ..Record::begun(1, StepKind::Child, now) };
        self.has_children = true;
        if child.detached {
            let output = format!("\"{run_id}\"");
            let outcome = Delivered::Recorded(output.clone());
            return self.decide_as(id, now, Record { output: Some(output), ..begun }, outcome);
        }
        self.record(id, Record { output: json(&ChildNote { run_id }), ..begun });
        self.await_child(id, run_id, now);
    }

    fn await_child(&mut self, id: CallId, run_id: RunId, started_at: Timestamp) {
        self.external.children.insert(run_id, id);
        self.waits.insert((Timestamp::FAR_FUTURE, id));
        self.calls[id.0].phase = Phase::AwaitingChild { run_id, started_at };
    }

    fn child_ended(&mut self, end: ChildEnd, now: Timestamp) {
        let Some(id) = self.external.children.remove(&end.run_id) else { return };
        let Phase::AwaitingChild { started_at, .. } = self.calls[id.0].phase else { return };
        self.waits.remove(&(Timestamp::FAR_FUTURE, id));
        let completed_at = self.tick(now);
        let begun = Record::begun(1, StepKind::Child, started_at);
        match end.result {
            Ok(output) => {
                let outcome = Delivered::Recorded(output.clone());
                self.decide_as(id, completed_at, Record { output: Some(output), ..begun }, outcome);
            }
            Err(error) => {
                let error = error.of_step(&self.calls[id.0].key);
                self.decide(id, completed_at, Record { error: Some(error), ..begun });
            }
        }
    }

    pub(super) fn drop_child(&mut self, id: CallId, run_id: RunId) {
        self.external.children.remove(&run_id);
        self.waits.remove(&(Timestamp::FAR_FUTURE, id));
    }

    /// Notes that the oldest record that was handed out started a child whose key belongs to
    /// another run. Neither the record nor the child was written.
    pub fn key_taken(&mut self, by: RunId, now: Timestamp) {
        self.unconfirmed = self.unconfirmed.saturating_sub(1);
        let id = match self.in_flight.pop_front() {
            Some(Sent::Note(id)) => id,
            Some(Sent::Outcome(position, Receiver::Call(id))) => {
                self.give_position_up(position);
                id
            }
            Some(Sent::Free | Sent::Outcome(_, Receiver::Run)) | None => return,
        };
        let started_at = match self.calls[id.0].phase {
            Phase::AwaitingChild { run_id, started_at } => {
                self.drop_child(id, run_id);
                started_at
            }
            Phase::Decided { completed_at, .. } => completed_at,
            _ => return,
        };
        let message = format!(
            "the key of this child belongs to run {by}, which this step did not start; \
             use a key of its own, or none: a child is started once for each step anyway"
        );
        let error = StoredError::new(ErrorKind::Refused, message).fatal().of_step(&self.calls[id.0].key);
        let completed_at = self.tick(now);
        self.decide(id, completed_at, Record { error: Some(error), ..Record::begun(1, StepKind::Child, started_at) });
    }

    /// Returns whether the run may have children.
    #[must_use]
    pub fn has_children(&self) -> bool {
        self.has_children
    }
}

/// The engine's own notes are plain data and always serialize.
fn json(note: &impl Serialize) -> Option<String> {
    serde_json::to_string(note).ok()
}
