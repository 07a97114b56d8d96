//! The spans of bodies.

use crate::model::{ErrorKind, TraceContext};
use crate::observe::EnteredSpan;
use crate::replay::CallId;

use super::{Inner, RunCell, lock};

impl RunCell {
    /// Returns the place in a trace of the present body or, outside of one, of the drive.
    pub fn trace_context(&self) -> Option<TraceContext> {
        let inner = lock(&self.inner);
        let body = inner.current.and_then(|call| inner.slots[call.index()].span.as_ref());
        body.map_or(self.settings.span.context(), |body| body.context())
    }

    /// Closes the span of a body that has ended, with the kind of its error.
    pub fn close_body(&self, call: CallId, error: Option<ErrorKind>) {
        let Some(span) = lock(&self.inner).slots[call.index()].span.take() else { return };
        if let Some(kind) = error {
            span.failed(kind);
        }
    }
}

impl Inner {
    /// Enters the span of the body of a call.
    pub(super) fn enter_span(&self, call: CallId) -> Option<EnteredSpan> {
        self.slots[call.index()].span.as_ref().map(|body| body.enter())
    }
}
