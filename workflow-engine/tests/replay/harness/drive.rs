//! A drive without a worker. The test decides when a body continues, when a record is committed,
//! and what time it is.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use workflow_engine::model::{Effect, Lane};
use workflow_engine::observe::OpenSpan;
use workflow_engine::replay::{Interruption, Next, OutboxRow};
use workflow_engine::runtime::{Polled, Poller, RunCell, RunSettings, TransactionCommit, WorkflowFuture};
use workflow_sdk::internal::run_compensations;
use workflow_sdk::{Ctx, ErrorKind, Result, StepAttempt, StoredError, Timestamp};

use super::flow::Flow;
use super::port::ManualPort;
use super::stop::Stop;
use super::{PAYLOAD_LIMIT, START, run_id};
use crate::attempt_table::Table;
use crate::external_events::ExternalEvents;
use crate::world::World;

/// How outcomes reach the workflow. All but the first variant break the rules of replay, to show
/// that the checks can fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Delivery {
    /// One outcome per poll, as the engine does.
    OneByOne,
    /// Every recorded outcome at once, as a memo table would do.
    AllAtOnce,
    /// As `AllAtOnce`, and new bodies begin in the same poll.
    AllAtOnceWithBodies,
}

/// An outcome that was delivered before its commit.
#[derive(Debug)]
struct Early {
    /// The number of values that the workflow had seen before.
    seen: usize,
    /// The number of bodies that had begun before.
    begun: usize,
}

/// One drive of a run, beginning with its history. Dropping it is a crash or a park.
pub(crate) struct Drive {
    pub(crate) world: Arc<World>,
    pub(crate) cell: Arc<RunCell>,
    pub(crate) port: Arc<ManualPort>,
    poller: Option<Poller>,
    stale: bool,
    pub(crate) delivery: Delivery,
    pub(crate) in_flight: VecDeque<StepAttempt>,
    /// Transactions whose outcomes are not committed yet.
    pub(crate) commits: Vec<TransactionCommit>,
    /// The effects of the records in `in_flight`.
    effects: VecDeque<Effect>,
    /// Whether outcomes are delivered before their commits, where the machine allows it.
    pub(crate) delivers_early: bool,
    /// The outcome that was delivered before its commit, until that commit.
    early: Option<Early>,
    /// The events of the drive, in order: deliveries and starts by the number of the call, writes
    /// by key and attempt.
    pub(crate) events: Vec<String>,
    pub(crate) polls: usize,
    pub(crate) foreign_wakes: usize,
}

impl Drive {
    pub(crate) fn begin(table: &Table, flow: &Flow) -> Self {
        Self::begin_at(table, flow, START, World::default())
    }

    pub(crate) fn begin_at(table: &Table, flow: &Flow, now: Timestamp, world: World) -> Self {
        let world = Arc::new(world);
        let port = Arc::new(ManualPort::at(now));
        let settings = RunSettings {
            run_id: run_id(),
            epoch: 1,
            attempt: 1 + table.retries,
            generation: table.generation,
            depth: 0,
            lane: Lane { queue: "default".into(), workflow: "flow".into(), version: "1".into() },
            occurrence: None,
            created_at: START,
            started_at: START,
            payload_limit: PAYLOAD_LIMIT,
            span: OpenSpan::none(),
        };
        let cell = RunCell::new(settings, table.history(), port.clone());
        let ctx = Ctx::new(world.clone(), cell.clone());
        let flow = flow.clone();
        let its_cell = cell.clone();
        let future: WorkflowFuture =
            Box::pin(async move { run_compensations(&its_cell, None, async { flow(&ctx).await }).await });
        Self {
            poller: Some(Poller::new(future, port.clone())),
            delivery: Delivery::OneByOne,
            in_flight: VecDeque::new(),
            commits: Vec::new(),
            effects: VecDeque::new(),
            delivers_early: false,
            early: None,
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

    /// Drops the future of the workflow, as a park does.
    pub(crate) fn drop_future(&mut self) {
        self.poller = None;
    }

    /// Polls the workflow until the drive must wait for a commit, a body, a timer or an external
    /// event.
    pub(crate) fn advance(&mut self) -> Stop {
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
                        let records = self.cell.take_last_outbox();
                        self.hand_out(records);
                    }
                    self.check_early();
                    return diverged.unwrap_or(end);
                }
            }
            let stop = self.follow_decisions();
            if matches!(stop, Some(Stop::Waits { .. })) && self.deliver_early() {
                continue;
            }
            let keeps = matches!(stop, Some(Stop::Diverged(_))) || stop.is_none() && self.cell.is_ahead();
            if !keeps {
                self.take_outbox();
                self.commits.extend(self.cell.take_commits());
            }
            self.check_early();
            match stop {
                // It may be parked only together with its records, which are handed out now.
                Some(Stop::Waits { timer, .. }) if self.early.is_some() => {
                    return Stop::Waits { timer, park_until: None };
                }
                Some(stop) => return stop,
                None => {}
            }
        }
    }

    fn deliver_early(&mut self) -> bool {
        if !self.delivers_early {
            return false;
        }
        let Some(call) = self.waking(RunCell::deliver_early) else { return false };
        self.events.push(format!("deliver {} early", call.index()));
        self.early = Some(Early { seen: self.seen(), begun: self.world.notes().len() });
        self.stale = true;
        true
    }

    /// Checks that no body has begun that may depend on an outcome without a commit.
    fn check_early(&self) {
        let begun = self.world.notes();
        if let Some(early) = &self.early {
            assert_eq!(begun.len(), early.begun, "a body began before a commit: {begun:?} {:?}", self.events);
        }
    }

    fn seen(&self) -> usize {
        self.world.seen.lock().unwrap().len()
    }

    /// Returns the number of values that the workflow has seen and that a crash now cannot undo.
    pub(crate) fn seen_for_good(&self) -> usize {
        self.early.as_ref().map_or_else(|| self.seen(), |early| early.seen)
    }

    fn take_outbox(&mut self) {
        let records = self.cell.take_outbox();
        self.hand_out(records);
    }

    fn hand_out(&mut self, records: Vec<OutboxRow>) {
        for record in records {
            self.in_flight.push_back(record.row);
            self.effects.push_back(record.effect);
        }
    }

    fn follow_decisions(&mut self) -> Option<Stop> {
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
                Next::Admit(_) => self.delivery != Delivery::OneByOne,
                Next::Send => return None,
                Next::Passed(_) if self.take_wakes() && self.stale => return None,
                Next::Diverged(divergence) | Next::Passed(divergence) => return Some(Stop::Diverged(divergence)),
                Next::Wait { .. } if self.stale => return None,
                Next::Wait { timer, park_until } => return Some(Stop::Waits { timer, park_until }),
            };
            self.stale = true;
            if !may_go_on {
                return None;
            }
        }
    }

    /// Interrupts the run.
    pub(crate) fn interrupt(&mut self, by: Interruption) {
        self.cell.interrupt(by);
    }

    /// Commits the oldest record in flight. Returns whether there was one.
    pub(crate) fn commit(&mut self, table: &mut Table) -> Result<bool, String> {
        let Some(row) = self.in_flight.pop_front() else { return Ok(false) };
        let effect = self.effects.pop_front().unwrap_or_default();
        if let Some(owner) = table.external.owner_of_key(&effect) {
            self.events.push(format!("key taken {}", row.step_key));
            self.cell.key_taken(owner);
            return Ok(true);
        }
        let position = row.position.map(|position| format!(" at {position}")).unwrap_or_default();
        self.events.push(format!("write {}#{} {}{position}", row.step_key, row.attempt, row.status));
        let is_outcome = row.position.is_some();
        table.commit_with(row, effect)?;
        self.cell.committed();
        self.early.take_if(|_| is_outcome);
        Ok(true)
    }

    /// Ends one of the open transactions: commits it, or reports that the commit failed.
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

    /// Reads the signals and the ends of children that the run waits for, if the run asks for them.
    /// Returns whether it did.
    pub(crate) fn read_external_events(&mut self, table: &Table) -> bool {
        let Some(awaited) = self.cell.begin_look() else { return false };
        let (signals, more) = table.external.inbox(&awaited.signals);
        self.cell.looked(signals, more, table.external.ended(&awaited));
        true
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.port.wakes.load(Ordering::SeqCst) > 0
    }

    /// Takes the wakes of the workflow and its bodies. Returns whether there were any.
    pub(crate) fn take_wakes(&mut self) -> bool {
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

    /// Continues with commits and bodies, as far as possible without an open gate and without time
    /// that passes.
    pub(crate) fn quiesce(&mut self, table: &mut Table) -> Stop {
        loop {
            let stop = self.advance();
            let Stop::Waits { .. } = stop else {
                while self.commit(table).unwrap() {}
                return stop;
            };
            if !(self.read_external_events(table)
                || self.commit(table).unwrap()
                || self.take_wakes()
                || self.fire_timers())
            {
                if self.commits.is_empty() {
                    return stop;
                }
                self.end_transaction(0, true, table).unwrap();
            }
        }
    }

    /// Lets an external event happen, notifies the run and continues.
    pub(crate) fn notify(&mut self, table: &mut Table, happens: impl FnOnce(&mut ExternalEvents)) -> Stop {
        happens(&mut table.external);
        self.cell.look_again();
        self.quiesce(table)
    }

    /// Opens a gate and continues.
    pub(crate) fn open(&mut self, label: &str, table: &mut Table) -> Stop {
        self.world.open(label, 0);
        self.quiesce(table)
    }

    /// Runs to the end. The time advances to each timer.
    pub(crate) fn run(&mut self, table: &mut Table) -> Stop {
        loop {
            match self.quiesce(table) {
                Stop::Waits { timer: Some(at), .. } => self.set_now(at),
                stop => return stop,
            }
        }
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive").field("events", &self.events).finish_non_exhaustive()
    }
}
