//! External events: an inbox and children that end, with the rules that the stores keep.

use std::collections::BTreeMap;

use fastrand::Rng;
use workflow_engine::model::{Effect, InboxSignal};
use workflow_engine::replay::{AwaitedEvents, ChildEnd};
use workflow_sdk::prelude::*;
use workflow_sdk::{StepAttempt, StepKind, StoredError};

use crate::harness::Seen;
use crate::program::SIGNALS;

/// A key that belongs to an unrelated run.
pub(crate) const TAKEN_KEY: &str = "taken";

/// The number of signals on a page. It is small, so that there are several pages.
const PAGE: usize = 2;

/// The workflow that programs start as a child. It never runs: the test decides how it ends.
#[workflow]
pub(crate) async fn kid(ctx: &Ctx) -> Result<u64> {
    ctx.step("kid", async || Ok::<_, Error>(1)).await
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ExternalEvents {
    pub(crate) inbox: Vec<Sent>,
    /// The last child of each step, by the key of the step.
    pub(crate) children: BTreeMap<String, Started>,
    /// The children that were followed by others, because they have not succeeded.
    followed: Vec<Started>,
    /// Whether [`TAKEN_KEY`] belongs to no run any more.
    pub(crate) is_key_free: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) signal: InboxSignal,
    pub(crate) consumed_by: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) run_id: RunId,
    pub(crate) end: Option<Result<String, StoredError>>,
}

impl ExternalEvents {
    pub(crate) fn send(&mut self, name: &str, payload: u64) {
        let seq = self.inbox.len() as i64 + 1;
        let signal = InboxSignal { seq, name: name.into(), payload: payload.to_string() };
        self.inbox.push(Sent { signal, consumed_by: None });
    }

    pub(crate) fn end_child(&mut self, step_key: &str, end: Result<String, StoredError>) {
        let child = self.children.get_mut(step_key).expect("the child was started");
        assert!(child.end.is_none(), "a child ends once");
        child.end = Some(end);
    }

    /// Makes a random event happen: a signal is sent, or a child ends. Returns whether an event
    /// happened.
    pub(crate) fn happen(&mut self, rng: &mut Rng) -> bool {
        let running: Vec<String> =
            self.children.iter().filter(|(_, child)| child.end.is_none()).map(|(key, _)| key.clone()).collect();
        if !running.is_empty() && rng.bool() {
            let key = &running[rng.usize(..running.len())];
            let end = match rng.u8(..3) {
                0 => Err(StoredError::new(ErrorKind::Application, "no luck")),
                _ => Ok(rng.u32(..).to_string()),
            };
            self.end_child(key, end);
            return true;
        }
        let name = SIGNALS[rng.usize(..SIGNALS.len())];
        let waiting = self.inbox.iter().filter(|sent| sent.signal.name == name && sent.consumed_by.is_none()).count();
        if waiting < 3 {
            // Each signal has another payload.
            self.send(name, rng.u64(1 << 32..));
        }
        waiting < 3
    }

    pub(crate) fn inbox(&self, names: &[String]) -> (Vec<InboxSignal>, bool) {
        let waits = |sent: &&Sent| sent.consumed_by.is_none() && names.contains(&sent.signal.name);
        let page: Vec<_> = self.inbox.iter().filter(waits).map(|sent| sent.signal.clone()).take(PAGE).collect();
        let more = page.len() == PAGE;
        (page, more)
    }

    /// Returns the ends of the awaited children, and those that are missing.
    pub(crate) fn ended(&self, awaited: &AwaitedEvents) -> Vec<ChildEnd> {
        let all = || self.children.values().chain(&self.followed);
        let ended = all().filter(|child| awaited.children.contains(&child.run_id));
        let ended = ended.filter_map(|child| Some(ChildEnd { run_id: child.run_id, result: child.end.clone()? }));
        let is_missing = |id: &&RunId| all().all(|child| child.run_id != **id);
        let missing = awaited.recorded_children.iter().filter(is_missing).map(|id| ChildEnd {
            run_id: *id,
            result: Err(StoredError::new(ErrorKind::ChildMissing, "it was deleted")),
        });
        ended.chain(missing).collect()
    }

    /// Ends some children that the failure of the run has canceled. Others have succeeded
    /// meanwhile, were retried, or go on.
    pub(crate) fn end_with_parent(&mut self, rng: &mut Rng) {
        for child in self.children.values_mut() {
            match (&child.end, rng.u8(..4)) {
                (None, 0 | 1) => child.end = Some(Err(StoredError::new(ErrorKind::ChildCanceled, "canceled"))),
                (None, 2) => child.end = Some(Ok(rng.u32(..).to_string())),
                (Some(Err(_)), 0) => child.end = None,
                _ => {}
            }
        }
    }

    /// Returns the run that already has the key of the child that `effect` starts.
    pub(crate) fn owner_of_key(&self, effect: &Effect) -> Option<RunId> {
        match effect {
            Effect::Start(child) if child.key.as_deref() == Some(TAKEN_KEY) && !self.is_key_free => {
                Some(RunId::generate())
            }
            _ => None,
        }
    }

    /// Applies the effect that is committed with a row.
    pub(crate) fn apply(&mut self, row: &StepAttempt, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::None | Effect::AwaitEvent(_) | Effect::LeaveEvent(_) => {}
            Effect::TakeSeat(_) | Effect::LeaveSeat(_) => {}
            Effect::Consume { seq } => {
                let sent = self.inbox.iter_mut().find(|sent| sent.signal.seq == seq).ok_or("no such signal")?;
                if let Some(step_key) = sent.consumed_by.replace(row.step_key.clone()) {
                    return Err(format!("{sent:?} was already taken by {step_key:?}"));
                }
            }
            Effect::Start(child) => {
                let parent = child.parent.as_ref().ok_or("a child without a parent")?;
                if parent.step_key != row.step_key {
                    return Err(format!("the child of {:?} is started with {row:?}", parent.step_key));
                }
                let started = Started { run_id: child.id, end: None };
                if let Some(before) = self.children.insert(row.step_key.clone(), started) {
                    let has_failed = before.end.as_ref().is_some_and(Result::is_err);
                    if !has_failed || before.run_id == child.id {
                        return Err(format!("{:?} has already started {before:?}", row.step_key));
                    }
                    self.followed.push(before);
                }
            }
        }
        Ok(())
    }

    /// Checks the signals at the end of a run that saw these values. Each taken signal reached the
    /// run once, in the order of its name, and no earlier signal was skipped.
    pub(crate) fn check(&self, rows: &[StepAttempt], seen: &[Seen]) -> Result<(), String> {
        for name in SIGNALS {
            let sent: Vec<&Sent> = self.inbox.iter().filter(|sent| sent.signal.name == name).collect();
            if !sent.is_sorted_by_key(|sent| sent.consumed_by.is_none()) {
                return Err(format!("a signal {name:?} was skipped: {sent:?}"));
            }
            let taken: Vec<u64> =
                sent.iter().filter(|sent| sent.consumed_by.is_some()).map(|sent| payload(&sent.signal)).collect();
            let reached: Vec<u64> = seen.iter().map(|seen| seen.1).filter(|value| taken.contains(value)).collect();
            if reached != taken {
                return Err(format!("signals {name:?}: {taken:?} were taken, and {reached:?} reached the workflow"));
            }
        }
        let waits = |row: &&StepAttempt| row.kind == StepKind::Signal && row.position.is_some();
        let received = rows.iter().filter(waits).filter(|row| row.output.as_deref() != Some("[]")).count();
        let taken = self.inbox.iter().filter(|sent| sent.consumed_by.is_some()).count();
        if received != taken {
            return Err(format!("{received} waits got a signal, and {taken} signals were taken"));
        }
        Ok(())
    }
}

fn payload(signal: &InboxSignal) -> u64 {
    signal.payload.parse().expect("a number")
}
