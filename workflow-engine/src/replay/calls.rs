use std::collections::BTreeSet;
use std::panic::Location;

use super::call::{Attempt, CallId, Delivered, Phase, Work};
use super::names::Names;

/// The number of calls for which space is reserved at the first call. They fit into the largest
/// block that an allocator keeps ready (a kilobyte in glibc). Growing to this size in steps would
/// move each call.
pub const INITIAL_CALLS: usize = 5;

/// The calls of a run in the order in which they were made, with their keys and phases.
#[derive(Debug)]
pub(super) struct Calls {
    calls: Vec<Call>,
    keys: Names,
    scopes: Names,
    /// The active calls that wait for permission to begin.
    idle: BTreeSet<CallId>,
}

#[derive(Debug)]
struct Call {
    key: String,
    location: &'static Location<'static>,
    phase: Phase,
    /// Whether the call was first polled inside of a shield. An interruption does not end it.
    shielded: bool,
    /// Whether a value was delivered to the call.
    succeeded: bool,
}

impl Calls {
    /// Creates an empty list of calls, none of which will have the key `reserved`.
    pub(super) fn without_key(reserved: &str) -> Self {
        let (keys, scopes) = (Names::without(reserved), Names::default());
        Self { calls: Vec::new(), keys, scopes, idle: BTreeSet::new() }
    }

    /// Adds a call. The call takes its key now, so that keys follow the order of calls and not the
    /// order of polls.
    pub(super) fn add(&mut self, name: &str, location: &'static Location<'static>) -> CallId {
        let id = CallId::new(self.calls.len());
        let key = self.keys.take(name);
        if self.calls.is_empty() {
            self.calls.reserve_exact(INITIAL_CALLS);
        }
        self.calls.push(Call { key, location, phase: Phase::Called, shielded: false, succeeded: false });
        id
    }

    /// Gives a call the key of another name, and the key that it took for the name `asked` back.
    /// Returns `false`, and changes nothing, if the call was polled before.
    pub(super) fn rename(&mut self, id: CallId, asked: &str, name: &str) -> bool {
        let call = &mut self.calls[id.index()];
        if !matches!(call.phase, Phase::Called) {
            return false;
        }
        self.keys.give_back(asked, &call.key);
        call.key = self.keys.take(name);
        true
    }

    /// Keeps a key from being given to a call that is added later.
    pub(super) fn reserve_key(&mut self, key: &str) {
        self.keys.reserve(key);
    }

    /// Opens a scope. It takes its path now, as a call takes its key.
    pub(super) fn open_scope(&mut self, path: &str) -> String {
        self.scopes.take(path)
    }

    /// Gives back the path of a scope before any call in it.
    pub(super) fn close_scope(&mut self, path: &str, given: &str) {
        self.scopes.give_back(path, given);
    }

    /// Returns the key of a call.
    pub(super) fn key(&self, id: CallId) -> &str {
        &self.calls[id.index()].key
    }

    /// Returns the source location of a call.
    pub(super) fn location(&self, id: CallId) -> &'static Location<'static> {
        self.calls[id.index()].location
    }

    /// Returns the source location of the call with this key.
    pub(super) fn location_of_key(&self, key: &str) -> Option<&'static Location<'static>> {
        self.calls.iter().find(|call| call.key == key).map(|call| call.location)
    }

    /// Returns the phase of a call.
    pub(super) fn phase(&self, id: CallId) -> &Phase {
        &self.calls[id.index()].phase
    }

    /// Moves a call to another phase.
    pub(super) fn set_phase(&mut self, id: CallId, next: Phase) {
        self.calls[id.index()].phase = next;
    }

    /// Moves a call to another phase. Returns the phase that it leaves.
    pub(super) fn replace_phase(&mut self, id: CallId, next: Phase) -> Phase {
        std::mem::replace(&mut self.calls[id.index()].phase, next)
    }

    /// Returns the attempt of a call that runs.
    pub(super) fn running_attempt(&mut self, id: CallId) -> Option<&mut Attempt> {
        match &mut self.calls[id.index()].phase {
            Phase::Running(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// Returns the number of the attempt of a call whose body runs or may begin.
    pub(super) fn attempt(&self, id: CallId) -> Option<u32> {
        match self.phase(id) {
            Phase::Granted { attempt, .. } => Some(*attempt),
            Phase::Running(attempt) => Some(attempt.number),
            _ => None,
        }
    }

    /// Returns whether the next poll of this call may begin something.
    pub(super) fn is_to_begin(&self, id: CallId) -> bool {
        matches!(self.phase(id), Phase::Called | Phase::Granted { .. })
    }

    /// Returns the calls whose bodies may begin at their next polls.
    pub(super) fn granted(&self) -> Vec<CallId> {
        self.select(|call| matches!(call.phase, Phase::Granted { .. }))
    }

    /// Returns the active calls that an interruption ends, in the order of calls.
    pub(super) fn interruptible(&self) -> Vec<CallId> {
        self.select(|call| !call.shielded && !matches!(call.phase, Phase::Called | Phase::Ready(_) | Phase::Over))
    }

    fn select(&self, wanted: impl Fn(&Call) -> bool) -> Vec<CallId> {
        let wanted = self.calls.iter().enumerate().filter(|(_, call)| wanted(call));
        wanted.map(|(index, _)| CallId::new(index)).collect()
    }

    /// Sets whether a call is shielded from an interruption.
    pub(super) fn set_shielded(&mut self, id: CallId, shielded: bool) {
        self.calls[id.index()].shielded = shielded;
    }

    /// Returns whether a call is shielded from an interruption.
    pub(super) fn is_shielded(&self, id: CallId) -> bool {
        self.calls[id.index()].shielded
    }

    /// Lets a call wait for permission to begin.
    pub(super) fn add_idle(&mut self, id: CallId) {
        self.idle.insert(id);
    }

    /// Ends a call's wait for permission to begin.
    pub(super) fn remove_idle(&mut self, id: CallId) {
        self.idle.remove(&id);
    }

    /// Returns whether any call waits for permission to begin.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Takes the calls that wait for permission to begin.
    pub(super) fn take_idle(&mut self) -> Vec<CallId> {
        std::mem::take(&mut self.idle).into_iter().collect()
    }

    /// Takes the sleeps that wait for permission to begin.
    pub(super) fn take_idle_sleeps(&mut self) -> Vec<CallId> {
        let is_sleep = |id: &CallId| matches!(self.calls[id.index()].phase, Phase::Idle(Work::Sleep(_)));
        let sleeps: Vec<CallId> = self.idle.iter().copied().filter(is_sleep).collect();
        self.idle.retain(|id| !sleeps.contains(id));
        sleeps
    }

    /// Delivers an outcome to a call, which takes it at its next poll.
    pub(super) fn deliver(&mut self, id: CallId, outcome: Delivered) {
        let call = &mut self.calls[id.index()];
        call.succeeded = !matches!(outcome, Delivered::Failed(_));
        call.phase = Phase::Ready(outcome);
    }

    /// Takes the outcome that was delivered to a call.
    pub(super) fn take_delivered(&mut self, id: CallId) -> Option<Delivered> {
        let call = &mut self.calls[id.index()];
        match std::mem::replace(&mut call.phase, Phase::Over) {
            Phase::Ready(outcome) => Some(outcome),
            other => {
                call.phase = other;
                None
            }
        }
    }

    /// Returns the keys of the calls to which a value was delivered, in the order of calls.
    pub(super) fn succeeded(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter(|call| call.succeeded).map(|call| call.key.as_str())
    }
}
