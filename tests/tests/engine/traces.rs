use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use workflow_sdk::prelude::*;
use workflow_sdk::{BegunSpan, Event, Observer, TraceContext};
use workflow_tests::{Live, LocalWorker};

pub(crate) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Where the caller of a test is.
pub(crate) fn caller() -> TraceContext {
    format!("00-{TRACE}-00f067aa0ba902b7-01").parse().unwrap()
}

/// A worker in a process of its own.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(db: &Live, rest: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
        command.arg(db.url()).arg(db.schema().unwrap_or_default()).args(rest);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("run the program");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    /// Waits for the log line of a body of this workflow.
    pub(crate) async fn body(&mut self, workflow: &str) -> BodyLine {
        let wanted = format!("body of {workflow}");
        let found = async {
            while let Some(line) = self.lines.next_line().await.expect("read the log") {
                if line.contains(&wanted) && !line.contains(&format!("{wanted}_")) {
                    return BodyLine::of(&line);
                }
            }
            panic!("the worker has ended");
        };
        tokio::time::timeout(Duration::from_secs(60), found).await.expect("a body begins within a minute")
    }
}

/// The log line of a body: the spans around it, and the context that the body has seen.
#[derive(Debug)]
pub(crate) struct BodyLine {
    traces: Vec<String>,
    spans: Vec<String>,
    parents: Vec<String>,
    seen: String,
}

impl BodyLine {
    fn of(line: &str) -> Self {
        let all = |name: &str| {
            let fields = line.split([' ', '{', '}']).filter_map(|field| field.strip_prefix(name));
            fields.map(str::to_owned).collect::<Vec<_>>()
        };
        let seen = all("seen=").concat();
        Self { traces: all("trace_id="), spans: all("span_id="), parents: all("parent_span_id="), seen }
    }

    /// Checks that the body stands in its drive, and the drive below this span of the trace.
    /// Returns the span of the drive.
    pub(crate) fn check(&self, parent: &str) -> &str {
        let [drive, body] = &self.spans[..] else { panic!("{self:?}") };
        assert_eq!(self.traces, [TRACE, TRACE], "{self:?}");
        assert_eq!(self.parents, [parent, drive], "{self:?}");
        assert_eq!(self.seen, format!("00-{TRACE}-{body}-01"), "{self:?}");
        drive
    }
}

pub async fn a_trace_survives_a_kill_and_reaches_children(db: Live) {
    let mut first = Process::start(&db, &["hang"]);
    let run = db.client.start_by_name("traced", &().into()).trace_parent(caller()).await.unwrap();
    let interrupted = first.body("traced").await;
    first.child.kill().await.expect("kill the process");
    let mut second = Process::start(&db, &[]);
    let resumed = second.body("traced").await;
    let child = second.body("traced_child").await;
    run.result().await.unwrap();

    let first_drive = interrupted.check("00f067aa0ba902b7");
    let second_drive = resumed.check("00f067aa0ba902b7");
    assert_ne!(first_drive, second_drive, "each drive has a span of its own");
    assert_ne!(interrupted.seen, resumed.seen, "and so has each body");
    child.check(second_drive);
    second.child.kill().await.expect("kill the process");
}

#[workflow]
async fn sees(ctx: &Ctx) -> Result<(Option<String>, Option<String>)> {
    let text = || ctx.trace_context().map(|trace| trace.to_string());
    let inside = ctx.step("look", async || ok(text())).await?;
    ok((text(), inside))
}

/// The id of the trace of a context.
fn trace_of(context: Option<String>) -> Option<String> {
    context.map(|context| context.parse::<TraceContext>().unwrap().trace_id())
}

pub async fn a_run_belongs_to_the_trace_that_it_was_given_first(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(sees));
    let alone = db.client.start(sees, ()).await.unwrap();
    assert_eq!(alone.result().await.unwrap(), (None, None));
    assert_eq!(db.client.run(alone.id()).await.unwrap().trace, None);

    let run = db.client.start(sees, ()).key("once").trace_parent(caller()).await.unwrap();
    let (outside, inside) = run.result().await.unwrap();
    assert_ne!(outside, inside, "a body has a span of its own");
    assert_eq!((trace_of(outside), trace_of(inside)), (Some(TRACE.into()), Some(TRACE.into())));
    let other = TraceContext::new([1; 16], [2; 8], false).unwrap();
    let again = db.client.start(sees, ()).key("once").trace_parent(other).await.unwrap();
    assert_eq!(again.id(), run.id());
    assert_eq!(db.client.run(run.id()).await.unwrap().trace, Some(caller()), "a second start changes nothing");

    // A fork is started by another caller, perhaps years later.
    let fork = db.client.fork(run.id()).await.unwrap();
    assert_eq!(db.client.run(fork.id()).await.unwrap().trace, None);
    let fork = db.client.fork(run.id()).trace_parent(other).await.unwrap();
    assert_eq!(db.client.run(fork.id()).await.unwrap().trace, Some(other));
    worker.stop().await;
}

/// A tracing system that numbers its spans itself.
#[derive(Default)]
struct Numbered {
    /// The parents of the spans so far.
    parents: Mutex<Vec<Option<TraceContext>>>,
}

impl Numbered {
    fn context(span: u8) -> TraceContext {
        TraceContext::new([7; 16], [span; 8], true).unwrap()
    }
}

impl Observer for &'static Numbered {
    fn event(&self, _: &Event<'_>) {}

    fn span_begun(&self, begun: &BegunSpan<'_>) -> Option<TraceContext> {
        let mut parents = self.parents.lock().unwrap();
        parents.push(begun.parent);
        Some(Numbered::context(u8::try_from(parents.len()).unwrap()))
    }

    fn current_trace(&self) -> Option<TraceContext> {
        Some(Numbered::context(99))
    }
}

pub async fn a_tracing_system_numbers_the_spans(db: Live) {
    let system: &'static Numbered = Box::leak(Box::default());
    let client = db.connect().observer(system).await.unwrap();
    let worker = LocalWorker::start(workflow_worker::Worker::new(client.clone(), ()).register(sees));
    let run = client.start(sees, ()).await.unwrap();
    let caller = Numbered::context(99);
    assert_eq!(client.run(run.id()).await.unwrap().trace, Some(caller), "the caller is in a trace");
    let seen = run.result().await.unwrap();
    let text = |span| Some(Numbered::context(span).to_string());
    assert_eq!(seen, (text(1), text(2)));
    // The parent of the body's span is a span of this process.
    assert_eq!(*system.parents.lock().unwrap(), [Some(caller), None]);
    worker.stop().await;
}

pub async fn a_trace_that_is_not_understood_stops_no_run(db: Live) {
    let run = db.client.start(sees, ()).trace_parent(caller()).await.unwrap();
    let mut raw = db.raw().await;
    raw.execute("UPDATE workflow_runs SET trace = '00-what'").await;
    let read = db.client.run(run.id()).await.unwrap();
    assert_eq!(read.trace, None);
    assert!(read.unreadable.iter().any(|why| why.starts_with("trace: ")), "{:?}", read.unreadable);
    let worker = LocalWorker::start(db.worker(()).register(sees));
    assert_eq!(run.result().await.unwrap(), (None, None));
    worker.stop().await;
}
