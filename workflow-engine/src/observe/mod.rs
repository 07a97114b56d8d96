//! Typed events of the engine, for observers: logs, metrics, tests.

mod event;
mod log;
mod span;

use std::fmt;
use std::sync::Arc;

use tracing::Span;

use crate::model::TraceContext;

pub use event::{Event, RunName, StepName};
pub use log::LogObserver;
pub use span::{EnteredSpan, OpenSpan};

/// Receives the events of a client and of the workers that use it.
///
/// An observer is called on the threads of the executor and the workers, so it must return quickly
/// and must not block: it counts, or hands the event on. A panic of an observer stops the thread
/// that called it.
pub trait Observer: Send + Sync + 'static {
    /// Takes an event.
    fn event(&self, event: &Event<'_>);

    /// Takes a span that the engine has opened, before it is entered, and returns the place that a
    /// tracing system gives it. Default: the span keeps the place that the engine gives it.
    ///
    /// An observer of this kind connects a system that numbers its spans itself, such as
    /// OpenTelemetry, for which the feature `otel` of `workflow-sdk` has one.
    fn span_begun(&self, begun: &BegunSpan<'_>) -> Option<TraceContext> {
        let _ = begun;
        None
    }

    /// Returns the place in a trace at which the calling thread is. A run that is started there
    /// belongs to that trace. Default: in no trace.
    fn current_trace(&self) -> Option<TraceContext> {
        None
    }
}

/// A span that the engine has opened. Nothing has entered it yet. See [`Observer::span_begun`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BegunSpan<'a> {
    /// The span.
    pub span: &'a Span,
    /// The parent, if it is a span of another process. `None` for a span whose parent is a span of
    /// this process, or that has no parent.
    pub parent: Option<TraceContext>,
    /// The place that the engine gives the span. It is derived from the run, the claim and the
    /// step, so it can be computed later without being stored. `None` outside of every trace.
    pub place: Option<TraceContext>,
    /// The place that the engine gave the drive before, if this is the span of a later drive of a
    /// run within a trace. No such span exists if the claim before led to no drive.
    pub follows: Option<TraceContext>,
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

    /// Hands a new span to each observer. Returns the place that the first of them gives it.
    pub fn span_begun(&self, begun: &BegunSpan<'_>) -> Option<TraceContext> {
        self.0.iter().fold(None, |placed, observer| placed.or(observer.span_begun(begun)))
    }

    /// Returns the place in a trace at which the calling thread is, if an observer knows it.
    #[must_use]
    pub fn current_trace(&self) -> Option<TraceContext> {
        self.0.iter().find_map(|observer| observer.current_trace())
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
