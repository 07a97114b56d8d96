//! The clock of an env. It is the clock of the paused runtime, and goes on after a crash ends that
//! runtime.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::time::Instant;
use workflow_sdk::Timestamp;

/// The virtual time of an env. It is equal on every thread.
pub(super) struct VirtualTime(Mutex<Origin>);

struct Origin {
    /// The virtual time at which the present runtime began.
    at: Timestamp,
    /// The present runtime, and the reading of its clock at that time.
    runtime: Option<(Handle, Instant)>,
}

impl VirtualTime {
    pub(super) fn new(start: Timestamp) -> Self {
        Self(Mutex::new(Origin { at: start, runtime: None }))
    }

    /// Follows the clock of the current runtime from now on. The time does not jump.
    pub(super) fn follow_runtime(&self) {
        let mut origin = self.origin();
        origin.at = origin.now();
        origin.runtime = Some((Handle::current(), Instant::now()));
    }

    pub(super) fn now(&self) -> Timestamp {
        self.origin().now()
    }

    fn origin(&self) -> MutexGuard<'_, Origin> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Origin {
    fn now(&self) -> Timestamp {
        let Some((runtime, since)) = &self.runtime else { return self.at };
        // A paused clock belongs to its runtime, and the caller may be on another one.
        let _entered = runtime.enter();
        self.at + since.elapsed()
    }
}

impl fmt::Debug for VirtualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VirtualTime").field(&self.now()).finish()
    }
}
