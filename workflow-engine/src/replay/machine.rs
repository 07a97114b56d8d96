use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::Location;

use crate::model::{RunId, StepAttempt, StepKind, Timestamp};

use super::call::{Call, Phase, Work};
use super::delivery::Undelivered;
use super::history::History;
use super::names::Names;
use super::outside::Outside;
use super::patch::Patch;
use super::records::{Receiver, Sent};
use super::trail::Trail;
use super::{
    CallId, CallPoll, CommitRow, Delivered, Divergence, HistorySize, Interrupted, OutboxRow, StepOptions, Wait,
    interruption,
};

/// Room for so many calls from the first one on: as many as fit into what an allocator has at hand (a kilobyte in glibc). To grow
/// to that by steps moves each of them.
pub const FEW_CALLS: usize = 5;

/// A run as a state machine.
#[derive(Debug)]
pub struct Machine {
    pub(super) run_id: RunId,
    pub(super) epoch: i64,
    /// The run was tried again, and so are the steps that failed in it.
    pub(super) tried_again: bool,
    /// Boxed: with it, a run would be larger than what an allocator has at hand (a kilobyte in glibc).
    pub(super) history: Box<History>,
    pub(super) calls: Vec<Call>,
    pub(super) keys: Names,
    pub(super) scopes: Names,
    /// Recorded outcomes whose calls are active, and a recorded interruption, by position.
    pub(super) deliverable: BTreeMap<i64, Receiver>,
    /// New outcomes, in the order of their positions. One is delivered only after all before it, whichever of them is committed first.
    pub(super) undelivered: VecDeque<Undelivered>,
    /// Records that were handed out and are not committed.
    pub(super) in_flight: VecDeque<Sent>,
    pub(super) outbox: Vec<OutboxRow>,
    /// Outcomes of transactions, each to be committed by its transaction.
    pub(super) commits: Vec<CommitRow>,
    /// The patches that the code has asked for, by key.
    pub(super) patches: HashMap<String, Patch>,
    /// How often the code has published or emitted, by key.
    pub(super) counts: HashMap<String, i64>,
    /// So many records, from the oldest that is not committed, must be committed before anything is delivered or begins.
    pub(super) unconfirmed: usize,
    pub(super) size: HistorySize,
    pub(super) idle: BTreeSet<CallId>,
    pub(super) timers: BTreeSet<(Timestamp, CallId)>,
    pub(super) waits: BTreeSet<(Timestamp, CallId)>,
    /// Bodies that run or may begin.
    pub(super) bodies: usize,
    /// Bodies that run.
    pub(super) running: usize,
    /// That the run was told to end.
    pub(super) interrupted: Option<Interrupted>,
    /// The workflow is polled with the end of several calls at once: what one branch begins after that, the next may drop.
    pub(super) interrupting: bool,
    /// Calls that become active are shielded from that.
    pub(super) shielding: bool,
    /// No body may begin for now.
    pub(super) held: bool,
    pub(super) now: Timestamp,
    pub(super) latest: Timestamp,
    pub(super) divergence: Option<Divergence>,
    pub(super) trail: Trail,
    pub(super) outside: Outside,
    /// How often the run continued as new.
    pub(super) generation: i64,
    pub(super) has_children: bool,
}

impl Machine {
    /// A run with this history, whose first claim was at `started_at`.
    #[must_use]
    pub fn new(run_id: RunId, epoch: i64, generation: i64, started_at: Timestamp, rows: Vec<StepAttempt>) -> Self {
        // Of an earlier generation nobody knows any more whether it had children.
        let has_children = generation > 0 || rows.iter().any(|row| row.kind == StepKind::Child);
        let history = Box::new(History::new(rows, generation));
        let interrupted = history.interrupted;
        Self {
            run_id,
            epoch,
            tried_again: false,
            size: history.size,
            unconfirmed: 0,
            patches: HashMap::new(),
            counts: HashMap::new(),
            latest: history.latest.unwrap_or(started_at).max(started_at),
            history,
            calls: Vec::new(),
            keys: Names::without(interruption::KEY),
            scopes: Names::default(),
            deliverable: interrupted.iter().map(|it| (it.position, Receiver::Run)).collect(),
            undelivered: VecDeque::new(),
            in_flight: VecDeque::new(),
            outbox: Vec::new(),
            commits: Vec::new(),
            idle: BTreeSet::new(),
            timers: BTreeSet::new(),
            waits: BTreeSet::new(),
            bodies: 0,
            running: 0,
            interrupted,
            interrupting: false,
            shielding: false,
            held: false,
            now: started_at,
            divergence: None,
            trail: Trail::default(),
            outside: Outside::default(),
            generation,
            has_children,
        }
    }

    /// The same in this attempt of the run, from 1. After the first, a step whose attempts were used up has its policy's
    /// number of attempts once more.
    #[must_use]
    pub fn of_attempt(self, attempt: u32) -> Self {
        Self { tried_again: attempt > 1, ..self }
    }

    /// The time of the last outcome that was delivered.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Why the run cannot go on with this code.
    #[must_use]
    pub fn divergence(&self) -> Option<&Divergence> {
        self.divergence.as_ref()
    }

    /// The key of a call.
    #[must_use]
    pub fn key(&self, id: CallId) -> &str {
        &self.calls[id.0].key
    }

    /// The attempt of a call whose body runs.
    #[must_use]
    pub fn attempt(&self, id: CallId) -> Option<u32> {
        match &self.calls[id.0].phase {
            Phase::Granted { attempt, .. } => Some(*attempt),
            Phase::Running(attempt) => Some(attempt.number),
            _ => None,
        }
    }

    /// A call is made: it takes its key now, so that keys follow the order of calls and not that of polls.
    pub fn call(&mut self, name: &str, location: &'static Location<'static>) -> CallId {
        let id = CallId(self.calls.len());
        let key = self.keys.take(name);
        if self.calls.is_empty() {
            self.calls.reserve_exact(FEW_CALLS);
        }
        self.calls.push(Call { key, location, phase: Phase::Called, shielded: false, succeeded: false });
        id
    }

    /// A scope is opened: it takes its path now, as a call takes its key.
    pub fn open_scope(&mut self, path: &str) -> String {
        self.scopes.take(path)
    }

    /// A scope that was opened under this path gets another, before any call in it.
    pub fn close_scope(&mut self, path: &str, given: &str) {
        self.scopes.give_back(path, given);
    }

    /// Whether the next poll of this call may begin something, which takes leave and the time.
    #[must_use]
    pub fn is_to_begin(&self, id: CallId) -> bool {
        matches!(self.calls[id.0].phase, Phase::Called | Phase::Granted { .. })
    }

    /// Polls a step.
    pub fn poll_step(&mut self, id: CallId, options: StepOptions, now: Timestamp) -> CallPoll {
        self.poll(id, || Work::Body(options), now)
    }

    /// Polls a sleep.
    pub fn poll_sleep(&mut self, id: CallId, wait: Wait, now: Timestamp) -> CallPoll {
        self.poll(id, || Work::Sleep(wait), now)
    }

    pub(super) fn poll(&mut self, id: CallId, work: impl FnOnce() -> Work, now: Timestamp) -> CallPoll {
        if self.divergence.is_some() {
            return CallPoll::Pending;
        }
        if matches!(self.calls[id.0].phase, Phase::Called) {
            self.activate(id, work(), now);
        }
        let waits = self.held || self.awaits_interruption(id);
        let call = &mut self.calls[id.0];
        match &call.phase {
            Phase::Granted { attempt, options } if !waits => {
                let (attempt, options) = (*attempt, *options);
                self.begin(id, attempt, options, now);
                CallPoll::Start { attempt }
            }
            Phase::Running(_) => CallPoll::Run,
            Phase::Ready(_) => match std::mem::replace(&mut call.phase, Phase::Over) {
                Phase::Ready(delivered) => CallPoll::Ended(delivered),
                _ => CallPoll::Pending,
            },
            Phase::Granted { .. }
            | Phase::Called
            | Phase::Replaying(_)
            | Phase::Idle(_)
            | Phase::BackingOff { .. }
            | Phase::Sleeping { .. }
            | Phase::Receiving(_)
            | Phase::AwaitingChild { .. }
            | Phase::Committing { .. }
            | Phase::Decided { .. }
            | Phase::Over => CallPoll::Pending,
        }
    }

    /// The first poll of a call: from here on it can get its recorded outcome, or leave to start.
    pub(super) fn activate(&mut self, id: CallId, work: Work, now: Timestamp) {
        let call = &mut self.calls[id.0];
        if let Some(recorded) = self.history.step(&call.key)
            && recorded.kind != work.kind()
        {
            let recorded = self.recorded_call(&self.calls[id.0].key);
            let before = self.delivered_before(recorded.position);
            self.divergence = Some(Divergence::kind(recorded, self.current_call(id, work.kind()), before));
            return;
        }
        call.shielded = self.shielding;
        if let Some(position) = self.history.ask(&call.key) {
            call.phase = Phase::Replaying(position);
            self.deliverable.insert(position, Receiver::Call(id));
            return;
        }
        self.trail.live(id, work.kind());
        call.phase = Phase::Idle(work);
        if let Some(error) = self.take_owed(id) {
            self.calls[id.0].phase = Phase::Ready(Delivered::Failed(error));
            return;
        }
        if !self.held
            && !self.interrupting
            && self.unconfirmed == 0
            && self.nothing_to_deliver()
            && self.history.all_asked()
        {
            self.grant(id, now);
        } else {
            self.idle.insert(id);
        }
    }

    /// The keys of the calls to which a value was delivered, in the order of calls.
    pub fn succeeded(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter(|call| call.succeeded).map(|call| call.key.as_str())
    }

    /// How large the history is, what is on its way included.
    #[must_use]
    pub fn size(&self) -> HistorySize {
        self.size
    }

    /// Whether a body runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Lets no body begin, or lets them begin again; in that case says which calls to poll.
    pub fn hold(&mut self, held: bool) -> Vec<CallId> {
        if std::mem::replace(&mut self.held, held) == held || held {
            return Vec::new();
        }
        let granted = |(_, call): &(usize, &Call)| matches!(call.phase, Phase::Granted { .. });
        self.calls.iter().enumerate().filter(granted).map(|(index, _)| CallId(index)).collect()
    }

    /// The future of a call was dropped.
    pub fn dropped(&mut self, id: CallId) {
        self.leave_phase(id, Phase::Over);
    }

    /// Ends what a call was at.
    pub(super) fn leave_phase(&mut self, id: CallId, next: Phase) {
        match std::mem::replace(&mut self.calls[id.0].phase, next) {
            Phase::Running(attempt) => self.stop_body(id, attempt),
            Phase::Granted { .. } => self.bodies -= 1,
            Phase::BackingOff { until, .. } | Phase::Sleeping { until, .. } => {
                self.timers.remove(&(until, id));
                self.waits.remove(&(until, id));
            }
            Phase::Receiving(wait) => self.drop_receiving(id, &wait),
            Phase::AwaitingChild { run_id, .. } => self.drop_child(id, run_id),
            Phase::Idle(_) => {
                self.idle.remove(&id);
            }
            Phase::Replaying(position) => {
                self.deliverable.remove(&position);
            }
            // A commit that is on its way is not called back.
            Phase::Called | Phase::Committing { .. } | Phase::Decided { .. } | Phase::Ready(_) | Phase::Over => {}
        }
    }

    /// A recorded output could not be decoded.
    pub fn undecodable(&mut self, id: CallId, type_name: &str, reason: &str) {
        let recorded = self.given(id);
        let before = self.delivered_before(recorded.position);
        let current = self.current_call(id, recorded.kind);
        self.divergence = Some(Divergence::output(recorded, current, type_name, reason, before));
    }

    /// The workflow function has ended. A recorded outcome that it never asked for is a divergence.
    pub fn ended(&mut self) -> Option<&Divergence> {
        if self.divergence.is_none() {
            self.divergence = self.passed_over();
        }
        self.divergence.as_ref()
    }
}
