mod draws;
mod driving;
mod guarded;
mod transaction;

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use crate::model::{ErrorKind, RunId, StepAttempt, StoredError, Timestamp};
use crate::replay::{CallId, CallPoll, ChildCall, Delivered, FEW_CALLS, Machine, SignalWait, StepOptions, Wait};
use crate::store::OpenTransaction;

use guarded::Guarded;

use super::Port;
use super::armed::Armed;
use super::poller::{ActivityGuard, in_body};
use super::port::{BodyAtHand, PortFuture};

pub use transaction::TransactionCommit;

/// What a run is, for its context.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The run.
    pub run_id: RunId,
    /// The epoch of the claim under which it is driven.
    pub epoch: i64,
    /// How often it continued as new.
    pub generation: i64,
    /// How many parents it has above it.
    pub depth: i64,
    /// Its queue.
    pub queue: String,
    /// The attempt of the run, from 1.
    pub attempt: u32,
    /// When it, or its present generation, was first claimed.
    pub started_at: Timestamp,
    /// Largest payload, in bytes of JSON text.
    pub payload_limit: usize,
}

/// The place where the calls of a workflow and its drive meet. The calls hold it while they are polled, the drive between
/// polls: so nobody ever waits for the lock, and it is never held over an await or a body.
pub struct RunCell {
    settings: RunSettings,
    port: Arc<dyn Port>,
    woken: Arc<Woken>,
    inner: Mutex<Inner>,
    /// Compensations, in the order in which they were armed. Apart from the rest, for they hold authors' values, whose
    /// destructors may come back to the run.
    armed: Mutex<Vec<Armed>>,
}

struct Inner {
    machine: Machine,
    slots: Vec<Slot>,
    /// The call whose body is being called, polled or dropped.
    current: Option<CallId>,
    draws: u64,
    /// Transactions whose bodies have ended, to be committed.
    commits: Vec<TransactionCommit>,
}

/// What the cell keeps for a call beside the machine's own record.
#[derive(Default)]
struct Slot {
    /// Wakes the future of the call inside whatever combinator holds it.
    waker: Option<Waker>,
    body_waker: Option<Arc<BodyWaker>>,
    draws: u64,
    /// The attempt that a breaker has admitted.
    guarded: Option<Box<Guarded>>,
    /// The transaction in which its body did its work.
    transaction: Option<OpenTransaction>,
}

/// Calls whose bodies were woken since the drive last looked.
#[derive(Default)]
struct Woken(Mutex<Vec<CallId>>);

/// The waker that a body gets. It is not the workflow's own, so that a wake of the workflow by anything but its calls
/// can be told apart.
struct BodyWaker {
    call: CallId,
    ready: AtomicBool,
    woken: Arc<Woken>,
    port: Arc<dyn Port>,
}

impl Wake for BodyWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.ready.swap(true, Ordering::AcqRel) {
            lock(&self.woken.0).push(self.call);
            self.port.wake();
        }
    }
}

/// A poisoned lock is taken all the same: panics of authors' code are caught outside of it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunCell {
    /// A run with this history.
    #[must_use]
    pub fn new(settings: RunSettings, history: Vec<StepAttempt>, port: Arc<dyn Port>) -> Arc<Self> {
        let machine = Machine::new(settings.run_id, settings.epoch, settings.generation, settings.started_at, history);
        let machine = machine.of_attempt(settings.attempt);
        let inner = Mutex::new(Inner { machine, slots: Vec::new(), current: None, draws: 0, commits: Vec::new() });
        Arc::new(Self { settings, port, woken: Arc::default(), inner, armed: Mutex::default() })
    }
}

/// The calls' side.
impl RunCell {
    /// A call is made under this name.
    pub fn call(&self, name: &str, location: &'static Location<'static>) -> Result<CallId, StoredError> {
        let mut inner = lock(&self.inner);
        if let Some(outer) = inner.current {
            return Err(inner.refusal(&format!("{name:?} was called at {location}"), outer));
        }
        if inner.slots.is_empty() {
            inner.slots.reserve_exact(FEW_CALLS);
        }
        inner.slots.push(Slot::default());
        Ok(inner.machine.call(name, location))
    }

    /// A scope is opened under this path: gives the path that it has got.
    pub fn open_scope(&self, path: &str, location: &'static Location<'static>) -> Result<String, StoredError> {
        let mut inner = lock(&self.inner);
        match inner.current {
            Some(outer) => Err(inner.refusal(&format!("the scope {path:?} was opened at {location}"), outer)),
            None => Ok(inner.machine.open_scope(path)),
        }
    }

    /// A scope that was opened under this path is not used.
    pub fn close_scope(&self, path: &str, given: &str) {
        lock(&self.inner).machine.close_scope(path, given);
    }

    /// Runs `use_it` on the replay machine, under the lock of the cell.
    pub fn with_machine<R>(&self, use_it: impl FnOnce(&mut Machine) -> R) -> R {
        use_it(&mut lock(&self.inner).machine)
    }

    /// Runs `use_it` on the armed compensations, in the order in which they were armed.
    pub fn with_armed<R>(&self, use_it: impl FnOnce(&mut Vec<Armed>) -> R) -> R {
        use_it(&mut lock(&self.armed))
    }

    /// Arms a compensation: it runs if the run fails or is canceled.
    pub fn arm(&self, compensation: Armed) {
        self.with_armed(|armed| armed.push(compensation));
    }

    /// Polls a step: says whether its body begins, goes on, or has ended.
    pub fn poll_step(&self, call: CallId, options: StepOptions, waker: &Waker) -> CallPoll {
        let mut inner = lock(&self.inner);
        if let Some(refused) = inner.refuse_in_body(call) {
            return refused;
        }
        inner.keep_waker(call, waker);
        // To read the clock is dear, and a call that runs or takes its outcome has no use for it.
        let is_to_begin = inner.machine.is_to_begin(call);
        if is_to_begin && !self.port.may_begin() {
            inner.machine.hold(true);
        }
        let now = if is_to_begin { self.port.now() } else { inner.machine.now() };
        let poll = inner.machine.poll_step(call, options, now);
        let slot = &mut inner.slots[call.index()];
        match poll {
            CallPoll::Start { .. } => {
                slot.draws = 0;
                slot.body_waker = Some(self.body_waker(call));
                poll
            }
            // Another branch of the workflow moved, not this body.
            CallPoll::Run if !slot.body_waker.as_ref().is_some_and(|waker| waker.ready.load(Ordering::Acquire)) => {
                CallPoll::Pending
            }
            CallPoll::Run | CallPoll::Pending | CallPoll::Ended(_) => poll,
        }
    }

    /// Polls a durable sleep.
    pub fn poll_sleep(&self, call: CallId, wait: Wait, waker: &Waker) -> CallPoll {
        self.poll_wait(call, waker, |machine, now| machine.poll_sleep(call, wait, now))
    }

    /// Polls a wait for a signal.
    pub fn poll_signal(&self, call: CallId, wait: impl FnOnce() -> SignalWait, waker: &Waker) -> CallPoll {
        self.poll_wait(call, waker, |machine, now| machine.poll_signal(call, wait, now))
    }

    /// Polls a wait for the end of a child run.
    pub fn poll_child(&self, call: CallId, child: impl FnOnce() -> ChildCall, waker: &Waker) -> CallPoll {
        self.poll_wait(call, waker, |machine, now| machine.poll_child(call, child, now))
    }

    /// Polls a call that has no body.
    fn poll_wait(
        &self,
        call: CallId,
        waker: &Waker,
        poll: impl FnOnce(&mut Machine, Timestamp) -> CallPoll,
    ) -> CallPoll {
        let mut inner = lock(&self.inner);
        if let Some(refused) = inner.refuse_in_body(call) {
            return refused;
        }
        inner.keep_waker(call, waker);
        poll(&mut inner.machine, self.port.now())
    }

    fn body_waker(&self, call: CallId) -> Arc<BodyWaker> {
        let (woken, port) = (Arc::clone(&self.woken), Arc::clone(&self.port));
        Arc::new(BodyWaker { call, ready: AtomicBool::new(true), woken, port })
    }

    /// Whether the attempt that a call has at hand is still the one that runs.
    pub fn runs_attempt(&self, call: CallId, attempt: u32) -> bool {
        lock(&self.inner).machine.attempt(call) == Some(attempt)
    }

    /// Enters the body of a call: from here to the end of the returned guard, `ctx` belongs to that body.
    pub fn enter(&self, call: CallId) -> (InBody<'_>, Waker) {
        let mut inner = lock(&self.inner);
        let outer = inner.current.replace(call);
        let waker = match &inner.slots[call.index()].body_waker {
            Some(body_waker) => {
                body_waker.ready.store(false, Ordering::Release);
                Waker::from(Arc::clone(body_waker))
            }
            None => Waker::noop().clone(),
        };
        if let Some(watch) = self.port.watch() {
            watch.enters(inner.at_hand(self.settings.run_id, call));
        }
        (InBody { cell: self, outer, _activity: in_body() }, waker)
    }

    /// The body of a call begins: what is to be awaited before it.
    pub fn body_begins(&self, call: CallId) -> Option<PortFuture<()>> {
        let watch = self.port.watch()?;
        let inner = lock(&self.inner);
        watch.begins(inner.at_hand(self.settings.run_id, call))
    }

    /// Takes the result of a body that has ended by itself.
    pub fn attempt_ended(&self, call: CallId, result: Result<String, StoredError>) {
        self.report_attempt(call, &result);
        let mut inner = lock(&self.inner);
        inner.machine.attempt_ended(call, result, self.port.now());
        let unused = inner.keep_commit(call);
        drop(inner);
        // Outside of the lock: it rolls back, in the driver's code.
        drop(unused);
    }

    /// Reports a recorded outcome that does not decode as the type that the code expects.
    pub fn undecodable(&self, call: CallId, type_name: &str, reason: &str) {
        lock(&self.inner).machine.undecodable(call, type_name, reason);
    }

    /// Forgets a call whose future was dropped.
    pub fn dropped(&self, call: CallId) {
        let mut inner = lock(&self.inner);
        inner.machine.dropped(call);
        let slot = std::mem::take(&mut inner.slots[call.index()]);
        drop(inner);
        self.report_drop(slot.guarded);
        drop(slot.body_waker);
        drop(slot.transaction);
    }

    /// Asks the machine for something that is no call, and that a body may not ask for.
    pub fn ask<R>(
        &self,
        what: impl FnOnce() -> String,
        ask: impl FnOnce(&mut Machine, Timestamp) -> Result<R, StoredError>,
    ) -> Result<R, StoredError> {
        let mut inner = lock(&self.inner);
        match inner.current {
            Some(outer) => Err(inner.refusal(&what(), outer)),
            None => ask(&mut inner.machine, self.port.now()),
        }
    }

    /// Publishes a value under a name.
    pub fn publish(&self, name: &str, value: Result<String, StoredError>) -> Result<(), StoredError> {
        let mut inner = lock(&self.inner);
        let in_body = inner.current.is_some();
        inner.machine.publish(name, value, in_body, self.port.now())
    }

    /// Returns how often the run continued as new.
    pub fn generation(&self) -> i64 {
        self.settings.generation
    }

    /// Returns the largest payload, in bytes of JSON text.
    pub fn payload_limit(&self) -> usize {
        self.settings.payload_limit
    }

    /// Returns the key of a call, as it stands in the history.
    pub fn step_key(&self, call: CallId) -> String {
        lock(&self.inner).machine.key(call).to_owned()
    }

    /// Returns the settings of the run.
    pub fn settings(&self) -> &RunSettings {
        &self.settings
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> RunId {
        self.settings.run_id
    }

    /// Returns the time of the last delivered outcome, or of the first claim.
    pub fn now(&self) -> Timestamp {
        lock(&self.inner).machine.now()
    }
}

impl Inner {
    fn at_hand(&self, run_id: RunId, call: CallId) -> BodyAtHand<'_> {
        BodyAtHand { run_id, step_key: self.machine.key(call), attempt: self.machine.attempt(call).unwrap_or(0) }
    }

    /// A call that was made outside of a body and is awaited inside of one: no replay would await it.
    fn refuse_in_body(&self, call: CallId) -> Option<CallPoll> {
        let outer = self.current?;
        let refusal = self.refusal(&format!("{:?} is awaited", self.machine.key(call)), outer);
        Some(CallPoll::Ended(Delivered::Failed(refusal)))
    }

    fn refusal(&self, what: &str, outer: CallId) -> StoredError {
        let message = format!(
            "{what} inside the body of step {:?}; \
             a body is one effect: call it from the workflow, before or after that step",
            self.machine.key(outer)
        );
        StoredError::new(ErrorKind::Refused, message).fatal()
    }

    fn keep_waker(&mut self, call: CallId, waker: &Waker) {
        let kept = &mut self.slots[call.index()].waker;
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
}

/// While it lives, a body is called, polled or dropped.
pub struct InBody<'a> {
    cell: &'a RunCell,
    /// The body in which this one is dropped.
    outer: Option<CallId>,
    _activity: ActivityGuard,
}

impl Drop for InBody<'_> {
    fn drop(&mut self) {
        lock(&self.cell.inner).current = self.outer;
        if let Some(watch) = self.cell.port.watch() {
            watch.leaves();
        }
    }
}

impl fmt::Debug for RunCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunCell").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for InBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InBody").field("outer", &self.outer).finish_non_exhaustive()
    }
}
