mod breaker;
mod drive;
mod keys;
mod names;
mod random;
mod seat;
mod span;
mod transaction;

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use crate::model::{ErrorKind, Lane, RunId, StepAttempt, StoredError, Timestamp};
use crate::observe::{EnteredSpan, Event, OpenSpan, StepName};
use crate::replay::{CallId, CallPoll, ChildCall, Delivered, INITIAL_CALLS, Machine, SignalWait, StepOptions, Wait};
use crate::schedule::Occurrence;
use crate::store::OpenTransaction;

use breaker::AdmittedAttempt;
use keys::Keys;

use super::Port;
use super::compensation::ArmedCompensation;
use super::poller::{ActivityGuard, in_body};
use super::port::{BodyAttempt, PortFuture};

pub use transaction::TransactionCommit;

/// The facts about a run that its context needs.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The run's id.
    pub run_id: RunId,
    /// The epoch of the claim under which the run is driven.
    pub epoch: i64,
    /// How often the run has continued as new.
    pub generation: i64,
    /// The number of ancestors: 0 for a run without a parent.
    pub depth: i64,
    /// The run's queue, workflow and version.
    pub lane: Lane,
    /// The number of the run's attempt, from 1.
    pub attempt: u32,
    /// The occurrence for which a schedule has started the run.
    pub occurrence: Option<Box<Occurrence>>,
    /// The time at which the run was created.
    pub created_at: Timestamp,
    /// The time at which the run, or its present generation, was first claimed.
    pub started_at: Timestamp,
    /// The largest payload, in bytes of JSON text.
    pub payload_limit: usize,
    /// The span of the drive.
    pub span: OpenSpan,
}

/// The state that the calls of a workflow and its drive share. Calls lock it while they are polled
/// and the drive locks it between polls, so the lock is never contended. It is never held over an
/// await or a body.
pub struct RunCell {
    settings: RunSettings,
    port: Arc<dyn Port>,
    woken: Arc<Woken>,
    inner: Mutex<Inner>,
    /// The armed compensations, in the order in which they were armed. They have a lock of their
    /// own, because they hold authors' values, whose destructors may call the run.
    armed: Mutex<Vec<ArmedCompensation>>,
    keys: Keys,
}

struct Inner {
    machine: Machine,
    slots: Vec<Slot>,
    /// The call whose body is being called, polled or dropped.
    current: Option<CallId>,
    drawn: u64,
    /// The transactions whose bodies have ended and that are to be committed.
    commits: Vec<TransactionCommit>,
    /// The wakers of maps that hold items back although recorded outcomes are left, by scope.
    maps: HashMap<String, Waker>,
}

/// The state of a call that the machine does not need.
#[derive(Default)]
struct Slot {
    /// Wakes the call's future inside of the combinator that holds it.
    waker: Option<Waker>,
    body_waker: Option<Arc<BodyWaker>>,
    drawn: u64,
    /// The attempt that a breaker has admitted.
    admitted: Option<Box<AdmittedAttempt>>,
    /// The transaction in which the body has done its work.
    transaction: Option<OpenTransaction>,
    /// The span of the body.
    span: Option<Box<OpenSpan>>,
}

/// The calls whose bodies were woken since the drive last looked.
#[derive(Default)]
struct Woken(Mutex<Vec<CallId>>);

/// The waker of a body. It differs from the workflow's own waker, so that foreign wakes of the
/// workflow can be recognized.
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

/// Locks the mutex even if it is poisoned. Panics of authors' code are caught outside of the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunCell {
    /// Creates the cell of a run with this history.
    #[must_use]
    pub fn new(settings: RunSettings, history: Vec<StepAttempt>, port: Arc<dyn Port>) -> Arc<Self> {
        let machine = Machine::new(settings.run_id, settings.epoch, settings.generation, settings.started_at, history);
        let machine = machine.with_attempt(settings.attempt);
        let inner = Mutex::new(Inner {
            machine,
            slots: Vec::new(),
            current: None,
            drawn: 0,
            commits: Vec::new(),
            maps: HashMap::new(),
        });
        Arc::new(Self { settings, port, woken: Arc::default(), inner, armed: Mutex::default(), keys: Keys::default() })
    }
}

/// The methods that calls of the workflow use.
impl RunCell {
    /// Registers a call with this name.
    pub fn call(&self, name: &str, location: &'static Location<'static>) -> Result<CallId, StoredError> {
        let mut inner = lock(&self.inner);
        if let Some(outer) = inner.current {
            return Err(inner.refusal(&format!("{name:?} was called at {location}"), outer));
        }
        if inner.slots.is_empty() {
            inner.slots.reserve_exact(INITIAL_CALLS);
        }
        inner.slots.push(Slot::default());
        Ok(inner.machine.call(name, location))
    }

    /// Opens a scope under this path. Returns the path that it was given.
    pub fn open_scope(&self, path: &str, location: &'static Location<'static>) -> Result<String, StoredError> {
        let mut inner = lock(&self.inner);
        match inner.current {
            Some(outer) => Err(inner.refusal(&format!("the scope {path:?} was opened at {location}"), outer)),
            None => Ok(inner.machine.open_scope(path)),
        }
    }

    /// Notes that the map of this scope holds its item `next` back because of its limit. Returns
    /// whether the item may begin nevertheless.
    pub fn hold_back(&self, scope: &str, next: usize, waker: &Waker) -> bool {
        let mut inner = lock(&self.inner);
        if !inner.machine.has_unasked() {
            return false;
        }
        let may_begin = inner.machine.hold_back(scope, next);
        if !may_begin {
            inner.maps.insert(scope.to_owned(), waker.clone());
        }
        may_begin
    }

    /// Notes that a scope that was opened under this path is not used.
    pub fn close_scope(&self, path: &str, given: &str) {
        lock(&self.inner).machine.close_scope(path, given);
    }

    /// Runs `use_it` on the replay machine, under the lock of the cell.
    pub fn with_machine<R>(&self, use_it: impl FnOnce(&mut Machine) -> R) -> R {
        use_it(&mut lock(&self.inner).machine)
    }

    /// Runs `use_it` on the armed compensations, in the order in which they were armed.
    pub fn with_compensations<R>(&self, use_it: impl FnOnce(&mut Vec<ArmedCompensation>) -> R) -> R {
        use_it(&mut lock(&self.armed))
    }

    /// Arms a compensation, which runs if the run fails or is canceled.
    pub fn arm(&self, compensation: ArmedCompensation) {
        self.with_compensations(|armed| armed.push(compensation));
    }

    /// Polls a step. Returns whether its body begins, continues or has ended.
    pub fn poll_step(&self, call: CallId, options: StepOptions, waker: &Waker) -> CallPoll {
        let mut inner = lock(&self.inner);
        if let Some(refused) = inner.refuse_in_body(call) {
            return refused;
        }
        self.keep_waker(&mut inner, call, waker);
        // Reading the clock is expensive, and a call that runs or takes its outcome does not need
        // it.
        let is_to_begin = inner.machine.is_to_begin(call);
        if is_to_begin && !self.port.may_begin() {
            inner.machine.hold(true);
        }
        let now = if is_to_begin { self.port.now() } else { inner.machine.now() };
        let poll = inner.machine.poll_step(call, options, now);
        let slot = &mut inner.slots[call.index()];
        match poll {
            CallPoll::Start { .. } => {
                slot.drawn = 0;
                slot.body_waker = Some(self.body_waker(call));
                let key = inner.machine.key(call);
                let attempt = inner.machine.attempt(call).map_or(0, i64::from);
                let step = StepName { run_id: self.settings.run_id, key, kind: options.kind, attempt };
                let span = self.port.observers().and_then(|observers| {
                    observers.event(&Event::StepBegun { step });
                    self.settings.span.of_body(step, self.settings.epoch, observers)
                });
                inner.slots[call.index()].span = span.map(Box::new);
                poll
            }
            // Another branch of the workflow was woken, not this body.
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

    /// Polls a call without a body.
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
        self.keep_waker(&mut inner, call, waker);
        poll(&mut inner.machine, self.port.now())
    }

    fn body_waker(&self, call: CallId) -> Arc<BodyWaker> {
        let (woken, port) = (Arc::clone(&self.woken), Arc::clone(&self.port));
        Arc::new(BodyWaker { call, ready: AtomicBool::new(true), woken, port })
    }

    /// Returns whether `attempt` is the attempt of this call that runs now.
    pub fn runs_attempt(&self, call: CallId, attempt: u32) -> bool {
        lock(&self.inner).machine.attempt(call) == Some(attempt)
    }

    /// Enters the body of a call. Until the returned guard is dropped, `ctx` belongs to that body.
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
        if let Some(hooks) = self.port.body_hooks() {
            hooks.enters(inner.body_attempt(self.settings.run_id, call));
        }
        (InBody { cell: self, outer, _activity: in_body(), _span: inner.enter_span(call) }, waker)
    }

    /// Notes that the body of a call begins. Returns the future to be awaited before it.
    pub fn body_begins(&self, call: CallId) -> Option<PortFuture<()>> {
        let hooks = self.port.body_hooks()?;
        let inner = lock(&self.inner);
        hooks.begins(inner.body_attempt(self.settings.run_id, call))
    }

    /// Takes the result of a body that has ended by itself.
    pub fn attempt_ended(&self, call: CallId, result: Result<String, StoredError>) {
        self.report_attempt(call, &result);
        self.close_body(call, result.as_ref().err().map(|error| error.kind));
        let mut inner = lock(&self.inner);
        inner.machine.attempt_ended(call, result, self.port.now());
        let unused = inner.pair_commit(call);
        drop(inner);
        // Dropped outside of the lock, because it rolls back in the driver's code.
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
        self.report_drop(slot.admitted);
        drop(slot.body_waker);
        drop(slot.transaction);
    }

    /// Runs `ask` on the machine for an operation that is not a call. Refuses it inside of a body.
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

    /// Returns how often the run has continued as new.
    pub fn generation(&self) -> i64 {
        self.settings.generation
    }

    /// Returns the largest payload, in bytes of JSON text.
    pub fn payload_limit(&self) -> usize {
        self.settings.payload_limit
    }

    /// Returns the key of a call as the history has it.
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
    fn body_attempt(&self, run_id: RunId, call: CallId) -> BodyAttempt<'_> {
        BodyAttempt { run_id, step_key: self.machine.key(call), attempt: self.machine.attempt(call).unwrap_or(0) }
    }

    /// Refuses a call that was made outside of a body and is awaited inside of one, because a
    /// replay would never await it.
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
}

/// Exists while a body is called, polled or dropped.
pub struct InBody<'a> {
    cell: &'a RunCell,
    /// The body inside of which this one is dropped.
    outer: Option<CallId>,
    _activity: ActivityGuard,
    _span: Option<EnteredSpan>,
}

impl Drop for InBody<'_> {
    fn drop(&mut self) {
        lock(&self.cell.inner).current = self.outer;
        if let Some(hooks) = self.cell.port.body_hooks() {
            hooks.leaves();
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
