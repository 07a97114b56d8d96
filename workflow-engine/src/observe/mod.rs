//! Typed events of the engine, for observers: logs, metrics, tests.

mod event;
mod log;

use std::fmt;
use std::sync::Arc;

pub use event::{Event, RunName, StepName};
pub use log::LogObserver;

/// Receives the events of a client and of the workers that use it.
///
/// An observer is called on the threads of the executor and the workers, so it must return quickly
/// and must not block: it counts, or hands the event on. A panic of an observer stops the thread
/// that called it.
pub trait Observer: Send + Sync + 'static {
    /// Takes an event.
    fn event(&self, event: &Event<'_>);
}

/// The observers of a client. Clones share them.
#[derive(Clone)]
pub struct Observers(Arc<[Arc<dyn Observer>]>);

impl Observers {
    /// Returns these observers with one more.
    #[must_use]
    pub fn with(&self, observer: Arc<dyn Observer>) -> Self {
        Self(self.0.iter().cloned().chain([observer]).collect())
    }

    /// Hands the event to each observer.
    pub fn event(&self, event: &Event<'_>) {
        for observer in self.0.iter() {
            observer.event(event);
        }
    }
}

/// Logs only.
impl Default for Observers {
    fn default() -> Self {
        Self(Arc::new([Arc::new(LogObserver)]))
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observers").field(&self.0.len()).finish()
    }
}
