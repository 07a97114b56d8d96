//! The spans of runs and steps in OpenTelemetry (feature `otel`).
//!
//! [`OpenTelemetry`] is an observer that gives each span of the engine its parent, its place in the
//! trace and its link. The layer of the crate `tracing-opentelemetry` 0.34 exports the spans, with
//! a provider of `opentelemetry_sdk` 0.33. `docs/guide/traces.md` shows the whole set-up.

use std::cell::Cell;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use workflow_engine::model::TraceContext;
use workflow_engine::observe::{BegunSpan, Event, Observer};

thread_local! {
    /// The id of the span of the engine that this thread is about to start.
    static NEXT_ID: Cell<Option<SpanId>> = const { Cell::new(None) };
}

/// An observer that connects the spans of the engine with OpenTelemetry.
///
/// * A drive of a run stands below the span that started the run, in whatever process that was.
/// * A start belongs to the trace of the span around it, without
///   [`Start::trace_parent`](crate::Start::trace_parent).
/// * With [`SpanIds`], a drive has a link to the drive before.
///
/// Without the layer of `tracing-opentelemetry` the observer changes nothing.
///
/// ```
/// use opentelemetry::trace::TracerProvider;
/// use opentelemetry_sdk::trace::SdkTracerProvider;
/// use tracing_subscriber::layer::SubscriberExt;
/// use workflow_sdk::Client;
/// use workflow_sdk::otel::{OpenTelemetry, SpanIds};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // With an exporter: see the guide.
/// let provider = SdkTracerProvider::builder().with_id_generator(SpanIds::default()).build();
/// let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders"));
/// let subscriber = tracing_subscriber::registry().with(layer);
/// # let _guard = tracing::subscriber::set_default(subscriber);
/// let client = Client::connect("sqlite::memory:").observer(OpenTelemetry).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenTelemetry;

impl Observer for OpenTelemetry {
    fn event(&self, _: &Event<'_>) {}

    fn span_begun(&self, begun: &BegunSpan<'_>) -> Option<TraceContext> {
        let BegunSpan { span, parent, place, follows, .. } = *begun;
        if let Some(parent) = parent {
            // This fails for a span that the layer does not know, which then keeps the place that
            // the engine gave it.
            span.set_parent(Context::new().with_remote_span_context(remote(parent))).ok()?;
        }
        // The layer starts the span when its place is first asked for, on this thread.
        NEXT_ID.set(place.map(|place| SpanId::from_bytes(place.span_bytes())));
        let given = place_of(span);
        NEXT_ID.set(None);
        // Without `SpanIds`, the drive before has an id that is not known here.
        let has_own_id = given.map(|given| given.span_bytes()) == place.map(|place| place.span_bytes());
        if let Some(follows) = follows.filter(|_| has_own_id) {
            span.add_link(remote(follows));
        }
        given
    }

    fn current_trace(&self) -> Option<TraceContext> {
        place_of(&Span::current())
    }
}

/// A generator of ids for `opentelemetry_sdk` that gives the engine's spans the ids that the engine
/// has derived, and all other spans random ones.
///
/// A later drive computes the id of the drive before, so it can link to it although no id of a span
/// is stored. The ids are those of the fields `trace_id` and `span_id` in the log.
///
/// Needs the observer [`OpenTelemetry`]. Without it, each id is random.
#[derive(Clone, Debug, Default)]
pub struct SpanIds {
    random: RandomIdGenerator,
}

impl IdGenerator for SpanIds {
    fn new_trace_id(&self) -> TraceId {
        self.random.new_trace_id()
    }

    fn new_span_id(&self) -> SpanId {
        NEXT_ID.take().unwrap_or_else(|| self.random.new_span_id())
    }
}

/// Returns the place as a span of another process.
fn remote(place: TraceContext) -> SpanContext {
    let flags = if place.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (TraceId::from_bytes(place.trace_bytes()), SpanId::from_bytes(place.span_bytes()));
    SpanContext::new(trace, span, flags, true, TraceState::NONE)
}

/// Returns the place of a span, if the layer knows the span.
fn place_of(span: &Span) -> Option<TraceContext> {
    let context = span.context();
    let started = context.span();
    let place = started.span_context();
    TraceContext::new(place.trace_id().to_bytes(), place.span_id().to_bytes(), place.is_sampled())
}
