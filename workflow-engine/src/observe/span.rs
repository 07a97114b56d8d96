use tracing::Span;
use tracing::field::{Empty, display};
pub use tracing::span::EnteredSpan;

use crate::model::{ErrorKind, TraceContext, derived_u64};

use super::{BegunSpan, Observers, RunName, StepName};

/// A span of `tracing` that the engine has opened, and its place in the trace of its run.
///
/// The ids of the spans of a run are derived from the run, so they are not stored. An observer that
/// hands spans to a tracing system replaces the ids by those of that system: see
/// [`Observer::span_begun`](super::Observer::span_begun).
#[derive(Clone, Debug)]
pub struct OpenSpan {
    span: Span,
    context: Option<TraceContext>,
}

impl OpenSpan {
    /// Returns no span, in no trace.
    #[must_use]
    pub fn none() -> Self {
        Self { span: Span::none(), context: None }
    }

    /// Opens the span of a drive: a worker's work on a run, under one claim.
    #[must_use]
    pub fn of_drive(run: RunName<'_>, epoch: i64, parent: Option<TraceContext>, observers: &Observers) -> Self {
        let RunName { id, workflow, version, queue } = run;
        let span = tracing::info_span!(
            target: "workflow",
            parent: None,
            "run",
            otel.name = %format_args!("run {workflow}"),
            otel.kind = "consumer",
            run_id = %id,
            workflow,
            version,
            queue,
            epoch,
            outcome = Empty,
            error = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
            trace_id = Empty,
            span_id = Empty,
            parent_span_id = Empty,
        );
        let of_epoch =
            |epoch: i64| parent.map(|parent| parent.with_span(derived_u64(id, &format!("span of drive {epoch}"))));
        // The first claim of a run has epoch 1.
        let follows = if epoch > 1 { of_epoch(epoch - 1) } else { None };
        let begun = BegunSpan { span: &span, parent, place: of_epoch(epoch), follows };
        let context = placed_by(observers, &begun);
        Self::placed(span, context, parent)
    }

    /// Opens the span of the body of a step, inside of the span of its drive. Returns `None` if the
    /// run has no trace and no subscriber of `tracing` takes the span.
    #[must_use]
    pub fn of_body(&self, step: StepName<'_>, epoch: i64, observers: &Observers) -> Option<Self> {
        let StepName { run_id, key, kind, attempt } = step;
        let span = tracing::info_span!(
            target: "workflow",
            parent: &self.span,
            "step",
            otel.name = %format_args!("step {key}"),
            run_id = %run_id,
            step = key,
            kind = kind.as_str(),
            attempt,
            error = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
            trace_id = Empty,
            span_id = Empty,
            parent_span_id = Empty,
        );
        if span.is_disabled() && self.context.is_none() {
            return None;
        }
        let number = || derived_u64(run_id, &format!("span of attempt {attempt} of {key} in drive {epoch}"));
        let place = self.context.map(|drive| drive.with_span(number()));
        let context = placed_by(observers, &BegunSpan { span: &span, parent: None, place, follows: None });
        Some(Self::placed(span, context, self.context))
    }

    /// Opens the span of an order: a call through the interface for operators, such as a request
    /// over HTTP. `number` distinguishes it from other orders.
    #[must_use]
    pub fn of_order(
        (verb, target): (&str, &str),
        number: u64,
        parent: Option<TraceContext>,
        observers: &Observers,
    ) -> Self {
        let span = tracing::info_span!(
            target: "workflow",
            "order",
            otel.name = verb,
            order = verb,
            about = target,
            trace_id = Empty,
            span_id = Empty,
            parent_span_id = Empty,
        );
        let place = parent.map(|parent| parent.with_span(number));
        let context = placed_by(observers, &BegunSpan { span: &span, parent, place, follows: None });
        Self::placed(span, context, parent)
    }

    fn placed(span: Span, context: Option<TraceContext>, parent: Option<TraceContext>) -> Self {
        if let (Some(context), false) = (context, span.is_disabled()) {
            span.record("trace_id", display(context.trace_id()));
            span.record("span_id", display(context.span_id()));
            if let Some(parent) = parent.filter(|parent| parent.trace_id() == context.trace_id()) {
                span.record("parent_span_id", display(parent.span_id()));
            }
        }
        Self { span, context }
    }

    /// Enters the span, until the value is dropped.
    pub fn enter(&self) -> EnteredSpan {
        self.span.clone().entered()
    }

    /// Returns the span.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Returns the place in the trace: the parent of what is done within the span.
    #[must_use]
    pub fn context(&self) -> Option<TraceContext> {
        self.context
    }

    /// Notes how the drive of this span has ended, and the kind of its error if it has failed.
    pub fn ended(&self, outcome: &'static str, error: Option<ErrorKind>) {
        // Exporters take the last exit of a span for its end.
        self.span.in_scope(|| {
            self.span.record("outcome", outcome);
            if let Some(kind) = error {
                self.failed(kind);
            }
        });
    }

    /// Notes that the work within the span has failed. A message of the error could hold a payload,
    /// so only its kind is kept.
    pub fn failed(&self, kind: ErrorKind) {
        self.span.record("error", display(kind));
        self.span.record("otel.status_code", "ERROR");
        self.span.record("otel.status_description", display(kind));
    }
}

/// Returns the place of a new span: that of an observer or, without one, that of the engine.
fn placed_by(observers: &Observers, begun: &BegunSpan<'_>) -> Option<TraceContext> {
    let given = if begun.span.is_disabled() { None } else { observers.span_begun(begun) };
    given.or(begun.place)
}
