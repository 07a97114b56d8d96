use std::collections::{HashMap, HashSet};
use std::panic::Location;

/// The patches that a run has taken, and those that its code has asked for, by key.
#[derive(Debug, Default)]
pub(super) struct Patches {
    recorded: HashSet<String>,
    asked: HashMap<String, Patch>,
}

/// A patch that the code has asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patch {
    /// The place at which the code first asked for the patch.
    pub(super) location: &'static Location<'static>,
    /// Whether the run takes the patch.
    pub(super) taken: bool,
}

impl Patches {
    /// Adds the row of a patch that the run has taken.
    pub(super) fn add_recorded(&mut self, key: String) {
        self.recorded.insert(key);
    }

    /// Returns whether the run has taken the patch according to its history.
    pub(super) fn are_recorded(&self, key: &str) -> bool {
        self.recorded.contains(key)
    }

    /// Returns the patch if the code has asked for it before.
    pub(super) fn asked(&self, key: &str) -> Option<Patch> {
        self.asked.get(key).copied()
    }

    /// Notes that the code has asked for a patch.
    pub(super) fn ask(&mut self, key: String, patch: Patch) {
        self.asked.insert(key, patch);
    }
}
