use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::Location;

use crate::model::{RunId, StepAttempt, StepKind, Timestamp};

use super::call::{Call, Phase, Work};
use super::delivery::Undelivered;
use super::external_events::ExternalEvents;
use super::history::History;
use super::names::Names;
use super::patch::Patch;
use super::records::{Receiver, Sent};
use super::replay_position::ReplayPosition;
use super::{
    CallId, CallPoll, CommitRow, Delivered, Divergence, HistorySize, Interrupted, OutboxRow, StepOptions, Wait,
    interruption,
};

/// The number of calls for which space is reserved at the first call. They fit into the largest
/// block that an allocator keeps ready (a kilobyte in glibc). Growing to this size in steps would
/// move each call.
pub const INITIAL_CALLS: usize = 5;

/// A run as a state machine.
#[derive(Debug)]
pub struct Machine {
    pub(super) run_id: RunId,
    pub(super) epoch: i64,
    /// Whether the run was retried, so that its failed steps are attempted again.
    pub(super) is_retry: bool,
    /// Boxed, because with it a run would be larger than the blocks that an allocator keeps ready
    /// (a kilobyte in glibc).
    pub(super) history: Box<History>,
    pub(super) calls: Vec<Call>,
    pub(super) keys: Names,
    pub(super) scopes: Names,
    /// The recorded outcomes whose calls are active, and a recorded interruption, by position.
    pub(super) deliverable: BTreeMap<i64, Receiver>,
    /// The new outcomes in the order of their positions. An outcome is delivered only after every
    /// outcome with a lower position, whichever of them is committed first.
    pub(super) undelivered: VecDeque<Undelivered>,
    /// The records that were handed out and are not committed.
    pub(super) in_flight: VecDeque<Sent>,
    pub(super) outbox: Vec<OutboxRow>,
    /// The outcomes of transactions, each to be committed by its transaction.
    pub(super) commits: Vec<CommitRow>,
    /// The patches that the code has asked for, by key.
    pub(super) patches: HashMap<String, Patch>,
    /// How often the code has published or emitted, by key.
    pub(super) counts: HashMap<String, i64>,
    /// The number of records, counted from the oldest that is not committed, that must be committed
    /// before an outcome is delivered or a body begins.
    pub(super) unconfirmed: usize,
    pub(super) size: HistorySize,
    pub(super) idle: BTreeSet<CallId>,
    pub(super) timers: BTreeSet<(Timestamp, CallId)>,
    pub(super) waits: BTreeSet<(Timestamp, CallId)>,
    /// The number of bodies that run or may begin.
    pub(super) bodies: usize,
    /// The number of bodies that run.
    pub(super) running: usize,
    /// The interruption, if the run was told to end.
    pub(super) interrupted: Option<Interrupted>,
    /// Whether the workflow is being polled with the end of several calls at once. A call that one
    /// branch begins then may be dropped by the next branch.
    pub(super) interrupting: bool,
    /// Whether calls that become active are shielded from an interruption.
    pub(super) shielding: bool,
    /// Whether no body may begin for now.
    pub(super) held: bool,
    pub(super) now: Timestamp,
    pub(super) latest: Timestamp,
    pub(super) divergence: Option<Divergence>,
    pub(super) position: ReplayPosition,
    pub(super) external: ExternalEvents,
    /// How often the run has continued as new.
    pub(super) generation: i64,
    pub(super) has_children: bool,
}

impl Machine {
    /// Creates the machine of a run with this history that was first claimed at `started_at`.
    #[must_use]
    pub fn new(run_id: RunId, epoch: i64, generation: i64, started_at: Timestamp, rows: Vec<StepAttempt>) -> Self {
        // The history does not show whether an earlier generation had children.
        let has_children = generation > 0 || rows.iter().any(|row| row.kind == StepKind::Child);
        let history = Box::new(History::new(rows, generation));
        let interrupted = history.interrupted;
        Self {
            run_id,
            epoch,
            is_retry: false,
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
            position: ReplayPosition::default(),
            external: ExternalEvents::default(),
            generation,
            has_children,
        }
    }

    /// Sets the number of the run's attempt, from 1. From the second attempt on, a step that has
    /// used up its attempts has its policy's number of attempts again.
    #[must_use]
    pub fn with_attempt(self, attempt: u32) -> Self {
        Self { is_retry: attempt > 1, ..self }
    }

    /// Returns the time of the last delivered outcome.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns why the run cannot continue with this code.
    #[must_use]
    pub fn divergence(&self) -> Option<&Divergence> {
        self.divergence.as_ref()
    }

    /// Returns the key of a call.
    #[must_use]
    pub fn key(&self, id: CallId) -> &str {
        &self.calls[id.0].key
    }

    /// Returns the number of the attempt of a call whose body runs or may begin.
    #[must_use]
    pub fn attempt(&self, id: CallId) -> Option<u32> {
        match &self.calls[id.0].phase {
            Phase::Granted { attempt, .. } => Some(*attempt),
            Phase::Running(attempt) => Some(attempt.number),
            _ => None,
        }
    }

    /// Registers a call. The call takes its key now, so that keys follow the order of calls and not
    /// the order of polls.
    pub fn call(&mut self, name: &str, location: &'static Location<'static>) -> CallId {
        let id = CallId(self.calls.len());
        let key = self.keys.take(name);
        if self.calls.is_empty() {
            self.calls.reserve_exact(INITIAL_CALLS);
        }
        self.calls.push(Call { key, location, phase: Phase::Called, shielded: false, succeeded: false });
        id
    }

    /// Opens a scope. It takes its path now, as a call takes its key.
    pub fn open_scope(&mut self, path: &str) -> String {
        self.scopes.take(path)
    }

    /// Gives back the path of a scope before any call in it, so that the scope can take another
    /// path.
    pub fn close_scope(&mut self, path: &str, given: &str) {
        self.scopes.give_back(path, given);
    }

    /// Returns whether the next poll of this call may begin something. That needs permission and
    /// the time.
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

    /// Handles the first poll of a call. From now on the call can receive its recorded outcome or
    /// begin.
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
        self.position.live(id, work.kind());
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

    /// Returns the keys of the calls to which a value was delivered, in the order of calls.
    pub fn succeeded(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter(|call| call.succeeded).map(|call| call.key.as_str())
    }

    /// Returns the size of the history, including records that are not committed yet.
    #[must_use]
    pub fn size(&self) -> HistorySize {
        self.size
    }

    /// Returns whether a body runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Forbids bodies to begin (`true`), or allows it again. Returns the calls to poll when bodies
    /// may begin again.
    pub fn hold(&mut self, held: bool) -> Vec<CallId> {
        if std::mem::replace(&mut self.held, held) == held || held {
            return Vec::new();
        }
        let granted = |(_, call): &(usize, &Call)| matches!(call.phase, Phase::Granted { .. });
        self.calls.iter().enumerate().filter(granted).map(|(index, _)| CallId(index)).collect()
    }

    /// Notes that the future of a call was dropped.
    pub fn dropped(&mut self, id: CallId) {
        self.leave_phase(id, Phase::Over);
    }

    /// Moves a call to its next phase, and undoes the timers and counts of its present phase.
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
            // A commit that has been sent cannot be recalled.
            Phase::Called | Phase::Committing { .. } | Phase::Decided { .. } | Phase::Ready(_) | Phase::Over => {}
        }
    }

    /// Reports a recorded output that could not be decoded.
    pub fn undecodable(&mut self, id: CallId, type_name: &str, reason: &str) {
        let recorded = self.given(id);
        let before = self.delivered_before(recorded.position);
        let current = self.current_call(id, recorded.kind);
        self.divergence = Some(Divergence::output(recorded, current, type_name, reason, before));
    }

    /// Notes that the workflow function has ended. A recorded outcome that it never asked for is a
    /// divergence.
    pub fn ended(&mut self) -> Option<&Divergence> {
        if self.divergence.is_none() {
            self.divergence = self.passed_over();
        }
        self.divergence.as_ref()
    }
}
