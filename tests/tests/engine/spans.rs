//! The spans of runs, as an exporter of OpenTelemetry gets them.

use std::time::Duration;

use opentelemetry::trace::{SpanKind, Status, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::Instrument;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use workflow_sdk::otel::{OpenTelemetry, SpanIds};
use workflow_sdk::prelude::*;
use workflow_tests::{Live, LocalWorker};
use workflow_worker::Worker;

use crate::traces::{Process, TRACE, caller};
use crate::{failure, reaches};

/// The spans that have ended.
struct Exported(InMemorySpanExporter);

impl Exported {
    /// The spans with this name, by their start.
    fn named(&self, name: &str) -> Vec<SpanData> {
        let mut spans = self.0.get_finished_spans().unwrap();
        spans.retain(|span| span.name == name);
        spans.sort_by_key(|span| span.start_time);
        spans
    }

    /// The only span with this name.
    #[track_caller]
    fn one(&self, name: &str) -> SpanData {
        let spans = self.named(name);
        let [span] = &spans[..] else { panic!("{name}: {spans:?}") };
        span.clone()
    }
}

/// The value of an attribute, as text.
fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.to_string())
}

fn id_of(span: &SpanData) -> String {
    span.span_context.span_id().to_string()
}

/// The ids of the spans to which this one has links. All of them lie in its trace.
#[track_caller]
fn links(span: &SpanData) -> Vec<String> {
    let linked = span.links.links.iter().map(|link| &link.span_context);
    linked
        .map(|linked| {
            assert_eq!(linked.trace_id(), span.span_context.trace_id());
            linked.span_id().to_string()
        })
        .collect()
}

/// Runs a part of a test in a thread of its own, whose spans are exported. The subscriber of the
/// process belongs to all tests.
async fn exporting<P: AsyncFnOnce(Exported) + Send + 'static>(part: P) {
    let ran = tokio::task::spawn_blocking(move || {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone());
        let provider = provider.with_id_generator(SpanIds::default()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let off = ("workflow_", LevelFilter::OFF);
        let targets = [("workflow", LevelFilter::INFO), (module_path!(), LevelFilter::INFO), off];
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(Targets::new().with_targets(targets)));
        let _guard = tracing::subscriber::set_default(subscriber);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(part(Exported(exporter)));
    });
    ran.await.unwrap();
}

#[workflow]
async fn pays(ctx: &Ctx, cents: u64) -> Result<u64> {
    ctx.step("charge", async || ok(cents)).await?;
    ctx.signal::<()>("packed").await?;
    ctx.child(ships, cents).await
}

#[workflow]
async fn ships(ctx: &Ctx, _cents: u64) -> Result<u64> {
    ctx.step("load", async || Err::<u64, _>(Error::fatal("no van"))).await
}

pub async fn a_run_is_one_trace_with_links_from_drive_to_drive(db: Live) {
    exporting(async move |exported| {
        let client = db.connect().observer(OpenTelemetry).await.unwrap();
        let worker = Worker::new(client.clone(), ()).register(pays).register(ships);
        let worker = LocalWorker::start(worker.linger(Duration::ZERO));
        let start = async { client.start(pays, 42).await.unwrap() };
        let run = start.instrument(tracing::info_span!("request")).await;
        reaches(&run, RunStatus::Parked).await;
        run.signal("packed", &()).await.unwrap();
        let error = failure(run.result().await);
        worker.stop().await;

        let request = exported.one("request");
        let drives = exported.named("run pays");
        let (child, charge, load) = (exported.one("run ships"), exported.one("step charge"), exported.one("step load"));
        let trace = request.span_context.trace_id();
        for span in drives.iter().chain([&child, &charge, &load]) {
            assert_eq!(span.span_context.trace_id(), trace, "{span:?}");
        }

        // It parks for the signal, and for the child unless that has ended at once.
        let [first, second, ..] = &drives[..] else { panic!("{drives:?}") };
        let mut before = None;
        for (drive, epoch) in drives.iter().zip(1..) {
            assert_eq!(attribute(drive, "epoch"), Some(epoch.to_string()));
            assert_eq!(drive.parent_span_id, request.span_context.span_id(), "each stands below the start");
            assert_eq!(links(drive), Vec::from_iter(before.replace(id_of(drive))), "{drive:?}");
            assert_eq!(drive.span_kind, SpanKind::Consumer);
            assert_eq!(attribute(drive, "run_id"), Some(run.id().to_string()));
            assert_eq!(attribute(drive, "workflow").as_deref(), Some("pays"));
            assert_eq!(attribute(drive, "queue").as_deref(), Some("default"));
        }
        let outcomes: Vec<_> = drives.iter().filter_map(|drive| attribute(drive, "outcome")).collect();
        assert_eq!(outcomes.len(), drives.len());
        let (last, parked) = outcomes.split_last().unwrap();
        assert!(last == "failed" && parked.iter().all(|outcome| outcome == "parked"), "{outcomes:?}");
        assert_eq!(charge.parent_span_id, first.span_context.span_id());
        assert_eq!(child.parent_span_id, second.span_context.span_id(), "the drive that started it");
        assert_eq!(load.parent_span_id, child.span_context.span_id());
        assert_eq!((links(&child), links(&load)), (vec![], vec![]));
        let step = (attribute(&load, "step"), attribute(&load, "attempt"));
        assert_eq!(step, (Some("load".into()), Some("1".into())));

        let failed = |kind: &str| Status::error(kind.to_owned());
        assert_eq!((&first.status, &charge.status), (&Status::Unset, &Status::Unset));
        assert_eq!(drives.last().unwrap().status, failed(error.kind.as_str()));
        assert_eq!((&child.status, &load.status), (&failed("application"), &failed("application")));
        let texts = format!("{:?}", exported.0.get_finished_spans().unwrap());
        assert!(!texts.contains("no van"), "a message of an error may hold a payload: {texts}");
    })
    .await;
}

#[workflow]
async fn traced(ctx: &Ctx) -> Result<()> {
    ctx.step("work", async || ok(())).await?;
    ctx.child(traced_child, ()).await
}

#[workflow]
async fn traced_child(ctx: &Ctx) -> Result<()> {
    ctx.step("work", async || ok(())).await
}

pub async fn a_drive_has_a_link_to_the_drive_of_a_dead_worker(db: Live) {
    let mut first = Process::start(&db, &["hang"]);
    let run = db.client.start_by_name("traced", &().into()).trace_parent(caller()).await.unwrap();
    let interrupted = first.body("traced").await;
    first.child.kill().await.expect("kill the process");
    let dead = interrupted.check(&caller().span_id()).to_owned();

    let id = run.id();
    exporting(async move |exported| {
        let client = db.connect().observer(OpenTelemetry).await.unwrap();
        let worker = LocalWorker::start(Worker::new(client.clone(), ()).register(traced).register(traced_child));
        client.handle::<()>(id).await.unwrap().result().await.unwrap();
        worker.stop().await;

        let drives = exported.named("run traced");
        let [drive, ..] = &drives[..] else { panic!("no drive was exported") };
        assert_eq!(drive.span_context.trace_id().to_string(), TRACE);
        assert_eq!(drive.parent_span_id.to_string(), caller().span_id());
        assert!(drive.parent_span_is_remote);
        assert_eq!(links(drive), [dead]);
        let child = exported.one("run traced_child");
        assert_eq!(child.span_context.trace_id().to_string(), TRACE);
        assert!(drives.iter().any(|drive| drive.span_context.span_id() == child.parent_span_id));
    })
    .await;
}

pub async fn a_run_outside_of_every_trace_gets_a_trace_per_drive(db: Live) {
    exporting(async move |exported| {
        let client = db.connect().observer(OpenTelemetry).await.unwrap();
        let worker = Worker::new(client.clone(), ()).register(pays).register(ships);
        let worker = LocalWorker::start(worker.linger(Duration::ZERO));
        let run = client.start(pays, 42).await.unwrap();
        reaches(&run, RunStatus::Parked).await;
        run.signal("packed", &()).await.unwrap();
        failure(run.result().await);
        worker.stop().await;

        let drives = exported.named("run pays");
        let [first, second, ..] = &drives[..] else { panic!("{drives:?}") };
        assert_ne!(first.span_context.trace_id(), second.span_context.trace_id());
        assert_eq!(client.run(run.id()).await.unwrap().trace, None, "nothing is stored");
        assert_eq!(drives.iter().flat_map(links).count(), 0);
        let child = exported.one("run ships");
        assert_eq!(child.span_context.trace_id(), second.span_context.trace_id());
        assert_eq!(child.parent_span_id, second.span_context.span_id());
    })
    .await;
}
