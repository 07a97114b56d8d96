//! A drive without a worker: the test decides when a body goes on, when a record is committed, and what time it is.

use futures::future::BoxFuture;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use workflow_sdk::engine::{
    Admission, AttemptWrite, Backend, Circuit, Divergence, Effect, Interruption, NewSignal, Next, Polled, Poller, Port,
    PortFuture, RunCell, RunSettings, ServiceReport, StepCommit, StepTransaction, TransactionCommit, WorkflowFuture,
    settle,
};
use workflow_sdk::{Breaker, Ctx, ErrorKind, Result, RunId, SignalOutcome, StepAttempt, StoredError, Timestamp};

use crate::outside::Outside;
pub(crate) use crate::rows::{Table, row};
pub(crate) use crate::world::{Seen, World};

/// The instant at which every run begins.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

pub(crate) const PAYLOAD_LIMIT: usize = 1000;

pub(crate) fn run_id() -> RunId {
    "018f0000-0000-7000-8000-000000000001".parse().unwrap()
}

/// A workflow whose output is a text that says what it saw.
pub(crate) type Flow = Arc<dyn for<'a> Fn(&'a Ctx<World>) -> BoxFuture<'a, Result<String>> + Send + Sync>;

pub(crate) fn flow_of<F>(function: F) -> Flow
where
    F: for<'a> Fn(&'a Ctx<World>) -> BoxFuture<'a, Result<String>> + Send + Sync + 'static,
{
    Arc::new(function)
}

macro_rules! flow {
    (|$ctx:ident| $body:block) => {
        $crate::harness::flow_of(|$ctx: &Ctx<World>| -> ::futures::future::BoxFuture<'_, Result<String>> {
            Box::pin(async move $body)
        })
    };
}
pub(crate) use flow;

#[derive(Debug)]
pub(crate) struct ManualPort {
    now: AtomicI64,
    wakes: AtomicUsize,
    /// Transactions never open.
    pub(crate) database_is_busy: AtomicBool,
    pub(crate) circuits: Mutex<HashMap<String, Circuit>>,
}

impl ManualPort {
    fn at(now: Timestamp) -> Self {
        Self {
            now: AtomicI64::new(now.as_micros()),
            wakes: AtomicUsize::new(0),
            circuits: Mutex::default(),
            database_is_busy: AtomicBool::new(false),
        }
    }
}

impl Port for ManualPort {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst))
    }

    fn signal(&self, signal: NewSignal) -> PortFuture<workflow_sdk::Result<SignalOutcome>> {
        Box::pin(async move { Err(workflow_sdk::Error::fatal(format!("nobody takes {signal:?}"))) })
    }

    fn breaker_admits(&self, breaker: &Breaker) -> std::result::Result<Admission, Timestamp> {
        let mut circuits = self.circuits.lock().unwrap();
        circuits.entry(breaker.name().to_owned()).or_default().admit(breaker, self.now())
    }

    fn breaker_report(&self, breaker: &Breaker, admission: Admission, report: ServiceReport<'_>) {
        let mut circuits = self.circuits.lock().unwrap();
        circuits.get_mut(breaker.name()).unwrap().report(breaker, admission, report, self.now());
    }

    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }

    fn begin_transaction(&self) -> BoxFuture<'_, Result<Box<dyn StepTransaction>, StoredError>> {
        Box::pin(async {
            if self.database_is_busy.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            Ok(Box::new(NoTransaction) as Box<dyn StepTransaction>)
        })
    }
}

/// How outcomes reach the workflow. All but the first break the rule, to show that the checks can fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Delivery {
    OneByOne,
    /// As a plain memo table answers.
    AllAtOnce,
    /// The same, and new bodies begin in the same poll.
    AllAtOnceWithBodies,
}

/// Why a life cannot go on by itself.
#[derive(Debug)]
pub(crate) enum Stop {
    Ended(Result<String, StoredError>),
    Continued(String),
    Diverged(Divergence),
    Waits { timer: Option<Timestamp>, park_until: Option<Timestamp> },
}

impl Stop {
    pub(crate) fn value(self) -> String {
        match self {
            Self::Ended(result) => result.unwrap(),
            other => panic!("no result: {other:?}"),
        }
    }

    pub(crate) fn error(self) -> StoredError {
        match self {
            Self::Ended(result) => result.unwrap_err(),
            other => panic!("no error: {other:?}"),
        }
    }

    pub(crate) fn divergence(self) -> Divergence {
        match self {
            Self::Diverged(divergence) => divergence,
            other => panic!("no divergence: {other:?}"),
        }
    }

    pub(crate) fn park_until(&self) -> Option<Timestamp> {
        match self {
            Self::Waits { park_until, .. } => *park_until,
            other => panic!("does not wait: {other:?}"),
        }
    }

    pub(crate) fn timer(&self) -> Option<Timestamp> {
        match self {
            Self::Waits { timer, .. } => *timer,
            other => panic!("does not wait: {other:?}"),
        }
    }
}

/// One drive of a run, from its history on. Dropping it is a crash, or a park.
pub(crate) struct Life {
    pub(crate) world: Arc<World>,
    pub(crate) cell: Arc<RunCell>,
    pub(crate) port: Arc<ManualPort>,
    poller: Option<Poller>,
    stale: bool,
    pub(crate) delivery: Delivery,
    pub(crate) in_flight: VecDeque<StepAttempt>,
    /// Transactions that are to commit their outcomes.
    pub(crate) commits: Vec<TransactionCommit>,
    /// Of each record that is on its way.
    effects: VecDeque<Effect>,
    /// What the drive did, in order: deliveries and starts by the number of the call, writes by key and attempt.
    pub(crate) events: Vec<String>,
    pub(crate) polls: usize,
    pub(crate) foreign_wakes: usize,
}

impl Life {
    pub(crate) fn begin(table: &Table, flow: &Flow) -> Self {
        Self::begin_at(table, flow, START, World::default())
    }

    pub(crate) fn begin_at(table: &Table, flow: &Flow, now: Timestamp, world: World) -> Self {
        let world = Arc::new(world);
        let port = Arc::new(ManualPort::at(now));
        let settings = RunSettings {
            run_id: run_id(),
            epoch: 1,
            attempt: 1,
            generation: table.generation,
            depth: 0,
            queue: "default".into(),
            started_at: START,
            payload_limit: PAYLOAD_LIMIT,
        };
        let cell = RunCell::new(settings, table.history(), port.clone());
        let ctx = Ctx::new(world.clone(), cell.clone());
        let flow = flow.clone();
        let its_cell = cell.clone();
        let future: WorkflowFuture = Box::pin(async move { settle(&its_cell, None, async { flow(&ctx).await }).await });
        Self {
            poller: Some(Poller::new(future, port.clone())),
            delivery: Delivery::OneByOne,
            in_flight: VecDeque::new(),
            commits: Vec::new(),
            effects: VecDeque::new(),
            events: Vec::new(),
            stale: true,
            polls: 0,
            foreign_wakes: 0,
            world,
            cell,
            port,
        }
    }

    pub(crate) fn set_now(&self, now: Timestamp) {
        self.port.now.store(now.as_micros(), Ordering::SeqCst);
    }

    pub(crate) fn poller(&self) -> &Poller {
        self.poller.as_ref().unwrap()
    }

    pub(crate) fn waking<R>(&self, wake: impl FnOnce(&RunCell) -> R) -> R {
        self.poller().waking(|| wake(&self.cell))
    }

    /// Drops the workflow's future, as a park does.
    pub(crate) fn drop_future(&mut self) {
        self.poller = None;
    }

    /// Goes on until something outside must move: as a worker's drive does between two waits.
    pub(crate) fn settle(&mut self) -> Stop {
        loop {
            if std::mem::take(&mut self.stale) {
                self.polls += 1;
                let end = match self.poller.as_mut().unwrap().poll() {
                    Polled::Pending => None,
                    Polled::Ended(result) => Some(Stop::Ended(result)),
                    Polled::Continued(input) => Some(Stop::Continued(input)),
                };
                if let Some(end) = end {
                    let diverged = self.cell.ended().map(Stop::Diverged);
                    if diverged.is_none() {
                        self.take_outbox();
                    }
                    return diverged.unwrap_or(end);
                }
            }
            if let Some(divergence) = self.cell.divergence() {
                return Stop::Diverged(divergence);
            }
            self.take_outbox();
            self.commits.extend(self.cell.take_commits());
            if let Some(stop) = self.advance() {
                return stop;
            }
        }
    }

    fn take_outbox(&mut self) {
        for record in self.cell.take_outbox() {
            self.in_flight.push_back(record.row);
            self.effects.push_back(record.effect);
        }
    }

    fn advance(&mut self) -> Option<Stop> {
        loop {
            let may_go_on = match self.waking(RunCell::next) {
                Next::Deliver(call) => {
                    self.events.push(format!("deliver {}", call.index()));
                    self.delivery != Delivery::OneByOne
                }
                Next::Interrupt(calls) => {
                    self.events
                        .push(format!("interrupt {:?}", calls.iter().map(|call| call.index()).collect::<Vec<_>>()));
                    self.delivery != Delivery::OneByOne
                }
                Next::Start(calls) => {
                    self.events.extend(calls.iter().map(|call| format!("start {}", call.index())));
                    self.delivery == Delivery::AllAtOnceWithBodies
                }
                Next::Send => return None,
                Next::Wait { .. } if self.stale => return None,
                Next::Wait { timer, park_until } => return Some(Stop::Waits { timer, park_until }),
            };
            self.stale = true;
            if !may_go_on {
                return None;
            }
        }
    }

    /// Tells the run to end.
    pub(crate) fn interrupt(&mut self, by: Interruption) {
        self.cell.interrupt(by);
    }

    /// Commits the oldest record that is on its way. Says whether there was one.
    pub(crate) fn commit(&mut self, table: &mut Table) -> Result<bool, String> {
        let Some(row) = self.in_flight.pop_front() else { return Ok(false) };
        let effect = self.effects.pop_front().unwrap_or_default();
        if let Some(owner) = table.outside.owner_of_key(&effect) {
            self.events.push(format!("key taken {}", row.step_key));
            self.cell.key_taken(owner);
            return Ok(true);
        }
        let position = row.position.map(|position| format!(" at {position}")).unwrap_or_default();
        self.events.push(format!("write {}#{} {}{position}", row.step_key, row.attempt, row.status));
        table.commit_with(row, effect)?;
        self.cell.committed();
        Ok(true)
    }

    /// Ends one of the transactions that are on their way: commits it, or says that the database did not.
    pub(crate) fn end_transaction(&mut self, index: usize, commits: bool, table: &mut Table) -> Result<(), String> {
        let TransactionCommit { call, position, row, .. } = self.commits.remove(index);
        let what = if commits { "commit" } else { "do not commit" };
        self.events.push(format!("{what} {}#{} at {position}", row.step_key, row.attempt));
        let failure = StoredError::new(ErrorKind::Application, "the commit failed");
        if commits {
            table.commit(row)?;
        }
        self.cell.transaction_ended(call, position, if commits { Ok(()) } else { Err(failure) });
        Ok(())
    }

    /// Looks for what the run waits for outside, if nobody has. Says whether it looked.
    pub(crate) fn look_outside(&mut self, table: &Table) -> bool {
        let Some(awaited) = self.cell.begin_look() else { return false };
        let (signals, more) = table.outside.inbox(&awaited.signals);
        self.cell.looked(signals, more, table.outside.ended(&awaited.children));
        true
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.port.wakes.load(Ordering::SeqCst) > 0
    }

    /// Looks at what was woken. Says whether anything was.
    pub(crate) fn look(&mut self) -> bool {
        if self.port.wakes.swap(0, Ordering::SeqCst) == 0 {
            return false;
        }
        let foreign = self.poller().take_foreign_wake();
        self.foreign_wakes += usize::from(foreign);
        self.stale |= self.waking(RunCell::wake_bodies) || foreign;
        true
    }

    pub(crate) fn fire_timers(&mut self) -> bool {
        let fired = self.waking(RunCell::fire_timers);
        self.stale |= fired;
        fired
    }

    pub(crate) fn hold(&mut self, held: bool) {
        self.stale |= self.waking(|cell| cell.hold(held));
    }

    /// Goes on, with commits and bodies, as far as it can without opening a gate and without time.
    pub(crate) fn quiesce(&mut self, table: &mut Table) -> Stop {
        loop {
            let stop = self.settle();
            let Stop::Waits { .. } = stop else {
                while self.commit(table).unwrap() {}
                return stop;
            };
            if !(self.look_outside(table) || self.commit(table).unwrap() || self.look() || self.fire_timers()) {
                if self.commits.is_empty() {
                    return stop;
                }
                self.end_transaction(0, true, table).unwrap();
            }
        }
    }

    /// Lets something happen outside, tells the run of it and goes on.
    pub(crate) fn hear(&mut self, table: &mut Table, happens: impl FnOnce(&mut Outside)) -> Stop {
        happens(&mut table.outside);
        self.cell.look_again();
        self.quiesce(table)
    }

    /// Opens a gate and goes on.
    pub(crate) fn open(&mut self, label: &str, table: &mut Table) -> Stop {
        self.world.open(label, 0);
        self.quiesce(table)
    }

    /// Goes on to the end, with time that passes as it is needed.
    pub(crate) fn run(&mut self, table: &mut Table) -> Stop {
        loop {
            match self.quiesce(table) {
                Stop::Waits { timer: Some(at), .. } => self.set_now(at),
                stop => return stop,
            }
        }
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life").field("events", &self.events).finish_non_exhaustive()
    }
}

/// Runs to the end on this history, then replays all of it: the replay must give the same, begin no body and write
/// nothing. Gives the result and the notes of the first of the two lives.
pub(crate) fn run_and_replay(table: &mut Table, flow: &Flow) -> (Result<String, StoredError>, Vec<String>) {
    let mut life = Life::begin(table, flow);
    let Stop::Ended(first) = life.run(table) else { panic!("does not end") };
    let mut replay = Life::begin(table, flow);
    let Stop::Ended(again) = replay.settle() else { panic!("the replay does not end: {:?}", replay.events) };
    assert_eq!(first, again, "the replay gives another result");
    assert_eq!(replay.world.notes(), [""; 0], "the replay began bodies");
    assert!(replay.in_flight.is_empty(), "the replay writes");
    (first, life.world.notes())
}

/// Stands for a transaction of a database: the test commits by itself.
#[derive(Debug)]
struct NoTransaction;

#[async_trait::async_trait]
impl StepTransaction for NoTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        self
    }

    fn database(&self) -> &'static str {
        "none"
    }

    fn belongs_to(&self, _backend: &dyn Backend) -> bool {
        false
    }

    async fn commit(self: Box<Self>, _outcome: AttemptWrite) -> StepCommit {
        StepCommit::Committed
    }

    async fn roll_back(self: Box<Self>) {}
}
