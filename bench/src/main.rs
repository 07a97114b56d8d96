//! End-to-end benchmarks.
//!
//! Example: `cargo run --release -p workflow-bench -- throughput --database <url>`. The figures of
//! one run can be compared with each other. Figures of different machines cannot be compared.

mod approvals;
mod backlog;
mod baseline;
mod bulk;
mod clock;
mod contention;
mod dashboard;
mod database;
mod enqueue;
mod events;
mod fairness;
mod fan_out;
mod flows;
mod gates;
mod history;
mod idle;
mod latency;
mod limits;
mod load;
mod operate;
mod process;
mod proxy;
mod report;
mod retention;
mod rounds;
mod samples;
mod scale;
mod schedules;
mod server;
mod signals;
mod sleepers;
mod system;
mod tables;
mod takeover;
mod throughput;
mod worker;
mod workflows;

use clap::{Parser, Subcommand};

type BoxResult<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

/// The options of every benchmark.
#[derive(Debug, clap::Args)]
struct Common {
    /// `sqlite://<path>` for a file that does not exist yet, or `postgres://user@host/database`, in
    /// which a new schema is created. By default a SQLite file in a temporary directory. The file
    /// or schema is removed afterwards.
    #[arg(long)]
    database: Option<String>,
    /// Prints one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Measures runs of 5 small steps in a row. They are enqueued first, then executed by one
    /// worker. The baseline is the bare program.
    Throughput(throughput::Args),
    /// Measures starts by one client, with 1, 32 and 256 of them in flight. The baseline is the
    /// bare program.
    Enqueue(enqueue::Args),
    /// Measures how long a start waits while other clients write to the same database all the time.
    Contention(contention::Args),
    /// Measures what an idle worker costs. Linux only.
    Idle(idle::Args),
    /// Measures the time from the start of a one-step run to its result, one run after the other.
    /// The baseline is one commit of the bare program.
    Latency(latency::Args),
    /// Measures what the limit of a queue costs. The baseline is a queue without a limit.
    Limits(limits::Args),
    /// Measures runs behind gates beside a full gate with a long line.
    Gates(gates::Args),
    /// Measures a flow of 5 steps, with the Rust workflow of 5 steps as the baseline. Also measures
    /// the check of a document of 200 steps, and the time from a deploy to the first step.
    Flows(flows::Args),
    /// Measures a worker's memory and connections while many runs of a flow wait for approvals, and
    /// sends several decisions to each of them at once. Linux only.
    Approvals(approvals::Args),
    /// Measures several worker processes, and what each run costs the database independently of the
    /// machine's speed. PostgreSQL only.
    Scale(scale::Args),
    /// Measures the time from sending a signal to a parked run until its next step runs.
    Signals(signals::Args),
    /// Measures the emission of an event to many runs that wait for it, and the time until all of
    /// them have gone on.
    Events(events::Args),
    /// Measures the delay of a run while a worker has tens of thousands of due runs of another
    /// workflow.
    Fairness(fairness::Args),
    /// Measures one run of many steps in a row, and its replay after the worker was killed.
    History(history::Args),
    /// Measures one run of many concurrent steps, and a map over many items.
    FanOut(fan_out::Args),
    /// Measures the time from the SIGKILL of a worker until another worker has finished its runs.
    /// With `--limit`, also the time until a waiting run uses a slot that the killed worker held.
    Takeover(takeover::Args),
    /// Measures a worker's memory and processor time while many runs sleep, and waking all of them
    /// at once.
    Sleepers(sleepers::Args),
    /// Measures a claim among millions of runs that it must not take.
    Backlog(backlog::Args),
    /// Measures the reads of operators over a system of many runs.
    Operate(operate::Args),
    /// Measures how long the server works on the pages of the dashboard over a system of many runs.
    Dashboard(dashboard::Args),
    /// Measures the cancellation of many waiting runs by one bulk operation, whose worker gets
    /// SIGKILL in the middle, and what it costs a load beside it.
    Bulk(bulk::Args),
    /// Measures the deletion of many old runs by a worker's retention, and what it costs a load
    /// beside it.
    Retention(retention::Args),
    /// Measures how late runs are created that many schedules start in the same second.
    Schedules(schedules::Args),
    /// Runs a worker for another benchmark, until its input ends.
    #[command(hide = true)]
    Worker(worker::Args),
}

/// Gives the runtime half of the machine's processors and leaves the others to the database, which
/// runs on the same machine. With a thread per processor, the runtime would take them from the
/// database just when that is busiest. `TOKIO_WORKER_THREADS` overrides the number.
fn main() -> BoxResult<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        runtime.worker_threads(std::thread::available_parallelism()?.get().div_ceil(2));
    }
    runtime.enable_all().build()?.block_on(bench())
}

async fn bench() -> BoxResult<()> {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match Cli::parse().bench {
        Bench::Throughput(args) => throughput::run(args).await,
        Bench::Enqueue(args) => enqueue::run(args).await,
        Bench::Contention(args) => contention::run(args).await,
        Bench::Idle(args) => idle::run(args).await,
        Bench::Latency(args) => latency::run(args).await,
        Bench::Limits(args) => limits::run(args).await,
        Bench::Gates(args) => gates::run(args).await,
        Bench::Flows(args) => flows::run(args).await,
        Bench::Approvals(args) => approvals::run(args).await,
        Bench::Scale(args) => scale::run(args).await,
        Bench::Signals(args) => signals::run(args).await,
        Bench::Events(args) => events::run(args).await,
        Bench::Fairness(args) => fairness::run(args).await,
        Bench::History(args) => history::run(args).await,
        Bench::FanOut(args) => fan_out::run(args).await,
        Bench::Takeover(args) => takeover::run(args).await,
        Bench::Sleepers(args) => sleepers::run(args).await,
        Bench::Backlog(args) => backlog::run(args).await,
        Bench::Operate(args) => operate::run(args).await,
        Bench::Dashboard(args) => dashboard::run(args).await,
        Bench::Bulk(args) => bulk::run(args).await,
        Bench::Retention(args) => retention::run(args).await,
        Bench::Schedules(args) => schedules::run(args).await,
        Bench::Worker(args) => worker::run(args).await,
    }
}
