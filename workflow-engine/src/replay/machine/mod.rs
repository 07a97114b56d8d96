//! The machine: coordinates the owners of a run's replay state.

mod attempts;
mod child_waits;
mod delivery;
mod early;
mod event_waits;
mod notes;
mod seats;
mod waits;

use std::panic::Location;

use crate::model::{RunId, StepAttempt, StepKind, Timestamp};

use super::bodies::Bodies;
use super::call::{CallId, CallPoll, Delivered, Phase, StepOptions, Wait, Work};
use super::calls::Calls;
use super::deliveries::Deliveries;
use super::divergence::Divergence;
use super::external_events::ExternalEvents;
use super::history::{History, RecordedRows};
use super::interruption::{self, InterruptionState};
use super::patches::Patches;
use super::publish::Publications;
use super::records::Records;
use super::replay_position::{Comparison, ReplayPosition, Snapshot};
use super::size::HistorySize;
use super::time::RunTime;
use super::timers::Timers;
use super::withheld::Withheld;

use child_waits::EarlierChildren;
use event_waits::EventWaits;
use seats::Seats;

pub use delivery::Next;

/// A run as a state machine.
#[derive(Debug)]
pub struct Machine {
    run_id: RunId,
    /// How often the run has continued as new.
    generation: i64,
    /// The number of the run's attempt, from 1.
    attempt: u32,
    has_children: bool,
    event_waits: EventWaits,
    calls: Calls,
    recorded: Box<Recorded>,
    deliveries: Deliveries,
    /// The position of an outcome that was delivered before its commit, until that commit.
    early: Option<i64>,
    records: Records,
    bodies: Bodies,
    timers: Timers,
    external: ExternalEvents,
    interruption: InterruptionState,
    /// Whether the compensations of the run have begun in this drive.
    undoes: bool,
    /// Whether the history has a compensation, and the replay may still come to it.
    undo_is_recorded: bool,
    time: RunTime,
    position: ReplayPosition,
    divergence: Option<Divergence>,
}

/// The parts of a run that are compared with its history. Boxed, because with them a run would be
/// larger than the blocks that an allocator keeps ready (a kilobyte in glibc).
#[derive(Debug)]
struct Recorded {
    history: History,
    patches: Patches,
    publications: Publications,
    withheld: Withheld,
    seats: Seats,
    earlier_children: EarlierChildren,
}

impl Machine {
    /// Creates the machine of a run with this history that was first claimed at `started_at`.
    #[must_use]
    pub fn new(run_id: RunId, epoch: i64, generation: i64, started_at: Timestamp, rows: Vec<StepAttempt>) -> Self {
        // The history does not show whether an earlier generation had children.
        let has_children = generation > 0 || rows.iter().any(|row| row.kind == StepKind::Child);
        // A compensation is polled only after the function has failed.
        let undo_is_recorded = rows.iter().any(|row| row.kind == StepKind::Compensation);
        let (event_waits, seats) = (EventWaits::of(&rows), Seats::of(&rows));
        let RecordedRows { history, patches, publications, interrupted, size, latest, next_position } =
            RecordedRows::new(rows, generation);
        Self {
            run_id,
            generation,
            attempt: 1,
            has_children,
            event_waits,
            calls: Calls::without_key(interruption::KEY),
            recorded: Box::new(Recorded {
                history,
                patches,
                publications,
                withheld: Withheld::default(),
                seats,
                earlier_children: EarlierChildren::default(),
            }),
            deliveries: Deliveries::new(next_position, interrupted.map(|interrupted| interrupted.position())),
            early: None,
            records: Records::new(epoch, size),
            bodies: Bodies::default(),
            timers: Timers::default(),
            external: ExternalEvents::default(),
            interruption: InterruptionState::new(interrupted),
            undoes: false,
            undo_is_recorded,
            time: RunTime::new(started_at, latest),
            position: ReplayPosition::default(),
            divergence: None,
        }
    }

    /// Sets the number of the run's attempt, from 1. From the second attempt on, a step that has
    /// used up its attempts has its policy's number of attempts again, and a child that an earlier
    /// attempt has started is started anew if it does not succeed.
    #[must_use]
    pub fn with_attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// Returns whether the run was retried, so that its failed steps are attempted again.
    fn is_retry(&self) -> bool {
        self.attempt > 1
    }

    /// Returns the time of the last delivered outcome.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.time.now()
    }

    /// Returns the key of a call.
    #[must_use]
    pub fn key(&self, id: CallId) -> &str {
        self.calls.key(id)
    }

    /// Returns the place of a call in the author's source.
    #[must_use]
    pub fn location(&self, id: CallId) -> &'static Location<'static> {
        self.calls.location(id)
    }

    /// Returns the number of the attempt of a call whose body runs or may begin.
    #[must_use]
    pub fn attempt(&self, id: CallId) -> Option<u32> {
        self.calls.attempt(id)
    }

    /// Registers a call. The call takes its key now, so that keys follow the order of calls and not
    /// the order of polls.
    pub fn call(&mut self, name: &str, location: &'static Location<'static>) -> CallId {
        self.calls.add(name, location)
    }

    /// Gives a call that was registered with the name `asked` another name. The call takes its key
    /// anew, now. The key that it had is free for a later call, unless the key of one in between is
    /// built on it. Returns `false`, and changes nothing, if the call was polled before.
    pub fn rename(&mut self, id: CallId, asked: &str, name: &str) -> bool {
        self.calls.rename(id, asked, name)
    }

    /// Opens a scope. It takes its path now, as a call takes its key.
    pub fn open_scope(&mut self, path: &str) -> String {
        self.calls.open_scope(path)
    }

    /// Gives back the path of a scope before any call in it, so that the scope can take another
    /// path.
    pub fn close_scope(&mut self, path: &str, given: &str) {
        self.calls.close_scope(path, given);
    }

    /// Notes that the map of this scope holds its item `next` back because of its limit. Returns
    /// whether the item may begin nevertheless: a recorded outcome belongs to it or to a later one.
    pub fn hold_back(&mut self, scope: &str, next: usize) -> bool {
        self.recorded.withheld.hold(scope, next)
    }

    /// Returns whether recorded outcomes are left that no call has asked for.
    #[must_use]
    pub fn has_unasked(&self) -> bool {
        !self.recorded.history.all_asked()
    }

    /// Returns whether the next poll of this call may begin something. That needs permission and
    /// the time.
    #[must_use]
    pub fn is_to_begin(&self, id: CallId) -> bool {
        self.calls.is_to_begin(id)
    }

    /// Polls a step.
    pub fn poll_step(&mut self, id: CallId, options: StepOptions, now: Timestamp) -> CallPoll {
        self.poll(id, || Work::Body(options), now)
    }

    /// Polls a sleep.
    pub fn poll_sleep(&mut self, id: CallId, wait: Wait, now: Timestamp) -> CallPoll {
        self.poll(id, || Work::Sleep(wait), now)
    }

    fn poll(&mut self, id: CallId, work: impl FnOnce() -> Work, now: Timestamp) -> CallPoll {
        if self.divergence.is_some() {
            return CallPoll::Pending;
        }
        if matches!(self.calls.phase(id), Phase::Called) {
            self.activate(id, work(), now);
        }
        match *self.calls.phase(id) {
            Phase::Granted { attempt, options } if !self.bodies.are_held() && !self.awaits_interruption(id) => {
                self.begin(id, attempt, options, now);
                CallPoll::Start { attempt }
            }
            Phase::Running(_) => CallPoll::Run,
            Phase::Ready(_) => self.calls.take_delivered(id).map_or(CallPoll::Pending, CallPoll::Ended),
            Phase::Granted { .. }
            | Phase::AwaitingSeat { .. }
            | Phase::Called
            | Phase::Replaying(_)
            | Phase::Idle(_)
            | Phase::BackingOff { .. }
            | Phase::Sleeping { .. }
            | Phase::AwaitingSignal
            | Phase::AwaitingChild { .. }
            | Phase::Committing { .. }
            | Phase::Decided { .. }
            | Phase::Over => CallPoll::Pending,
        }
    }

    /// Handles the first poll of a call. From now on the call can receive its recorded outcome or
    /// begin.
    fn activate(&mut self, id: CallId, work: Work, now: Timestamp) {
        let (kind, history) = (work.kind(), &mut self.recorded.history);
        let key = self.calls.key(id);
        if history.step(key).is_some_and(|recorded| recorded.kind != kind) {
            self.divergence = Some(self.comparison().changed_kind(id, kind));
            return;
        }
        let position = history.ask(key);
        self.calls.set_shielded(id, self.interruption.is_shielding());
        if let Some(position) = position {
            self.calls.set_phase(id, Phase::Replaying(position));
            self.deliveries.expect(position, id);
            return;
        }
        self.position.add_unrecorded(id, kind);
        self.calls.set_phase(id, Phase::Idle(work));
        if let Some(error) = self.take_owed(id) {
            self.calls.set_phase(id, Phase::Ready(Delivered::Failed(error)));
            return;
        }
        if !self.bodies.are_held()
            && !self.interruption.is_delivering()
            && !self.awaits_confirmation()
            && self.early.is_none()
            && self.deliveries.none_is_ready()
            && self.recorded.history.all_asked()
        {
            self.grant(id, now);
        } else {
            self.calls.add_idle(id);
        }
    }

    /// Returns the keys of the calls to which a value was delivered, in the order of calls.
    pub fn succeeded(&self) -> impl Iterator<Item = &str> {
        self.calls.succeeded()
    }

    /// Returns the size of the history, including records that are not committed yet.
    #[must_use]
    pub fn size(&self) -> HistorySize {
        self.records.size()
    }

    /// Returns whether a body runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.bodies.are_running()
    }

    /// Forbids bodies to begin (`true`), or allows it again. Returns the calls to poll when bodies
    /// may begin again.
    pub fn hold(&mut self, held: bool) -> Vec<CallId> {
        if self.bodies.hold(held) { self.calls.granted() } else { Vec::new() }
    }

    /// Notes that the future of a call was dropped.
    pub fn dropped(&mut self, id: CallId) {
        self.leave_phase(id, Phase::Over);
    }

    /// Moves a call to its next phase, and undoes the timers and counts of its present phase.
    fn leave_phase(&mut self, id: CallId, next: Phase) {
        match self.calls.replace_phase(id, next) {
            Phase::Running(attempt) => self.stop_body(id, attempt),
            Phase::Granted { .. } => self.bodies.withdraw(),
            Phase::AwaitingSeat { .. } => self.end_seat_wait(id),
            Phase::BackingOff { until, .. } | Phase::Sleeping { until, .. } => self.timers.end_wait(until, id),
            Phase::AwaitingSignal => self.drop_signal_wait(id),
            Phase::AwaitingChild { run_id, .. } => self.drop_child(id, run_id),
            Phase::Idle(work) => {
                self.calls.remove_idle(id);
                if let Work::Signal(wait) = work {
                    self.drop_recorded_wait(id, wait);
                }
            }
            Phase::Replaying(position) => self.deliveries.skip(position),
            // A commit that has been sent cannot be recalled.
            Phase::Called | Phase::Committing { .. } | Phase::Decided { .. } | Phase::Ready(_) | Phase::Over => {}
        }
        self.leave_seat(id);
    }

    /// Reports a recorded output that could not be decoded.
    pub fn undecodable(&mut self, id: CallId, type_name: &str, reason: &str) {
        self.divergence = Some(self.comparison().undecodable(id, type_name, reason));
    }

    /// Notes that the workflow function has ended. A recorded outcome that it never asked for is a
    /// divergence.
    pub fn ended(&mut self) -> Option<&Divergence> {
        if self.divergence.is_none() {
            self.divergence = self.comparison().unasked();
        }
        self.divergence.as_ref()
    }

    /// Returns how far the replay has come.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.comparison().snapshot()
    }

    fn comparison(&self) -> Comparison<'_> {
        Comparison { calls: &self.calls, history: &self.recorded.history, position: &self.position }
    }
}
