//! Benchmarks from end to end: `cargo run --release -p workflow-bench -- throughput --database <url>`.
//!
//! Figures of one run can be compared with each other; those of two machines cannot.

mod backlog;
mod database;
mod enqueue;
mod fan_out;
mod history;
mod idle;
mod latency;
mod limit;
mod process;
mod report;
mod rounds;
mod samples;
mod scale;
mod server;
mod signals;
mod sleepers;
mod tables;
mod takeover;
mod throughput;
mod wire;
mod workflows;
mod working;

use clap::{Parser, Subcommand};

type BoxResult<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

/// What every benchmark takes.
#[derive(Debug, clap::Args)]
struct Common {
    /// `sqlite://<path of a file to be made>` or `postgres://user@host/database`, where a schema is made; a SQLite file in a
    /// temporary directory if none is given. Both are removed afterwards.
    #[arg(long)]
    database: Option<String>,
    /// One line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Runs of 5 small steps in a row, enqueued first, then done by one worker; beside the bare program.
    Throughput(throughput::Args),
    /// Starts of one client, with some in flight; beside the bare program.
    Enqueue(enqueue::Args),
    /// What a worker costs that has nothing to do. Linux only.
    Idle(idle::Args),
    /// From the start of a run of one step to its result, one after the other; beside one commit of the bare program.
    Latency(latency::Args),
    /// Several worker processes, and what a run costs the database, whatever the machine. PostgreSQL only.
    Scale(scale::Args),
    /// From a signal to a parked run to the step after it.
    Signals(signals::Args),
    /// One run of many steps in a row, and its replay after the worker was killed.
    History(history::Args),
    /// One run of many steps side by side, and a map over many items.
    FanOut(fan_out::Args),
    /// From the SIGKILL of a worker to the end of its runs in another.
    Takeover(takeover::Args),
    /// Many runs asleep: the memory and the processor time of their worker, and all of them woken at once.
    Sleepers(sleepers::Args),
    /// How long a claim takes among millions of runs that are none of its business.
    Backlog(backlog::Args),
    /// A worker for another benchmark: works until its input ends.
    #[command(hide = true)]
    Worker(working::Args),
}

/// The database is on the same machine, so half of its processors are the database's: a runtime with a thread for each takes them from it just
/// when it has the most to do. `TOKIO_WORKER_THREADS` says otherwise.
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
        Bench::Idle(args) => idle::run(args).await,
        Bench::Latency(args) => latency::run(args).await,
        Bench::Scale(args) => scale::run(args).await,
        Bench::Signals(args) => signals::run(args).await,
        Bench::History(args) => history::run(args).await,
        Bench::FanOut(args) => fan_out::run(args).await,
        Bench::Takeover(args) => takeover::run(args).await,
        Bench::Sleepers(args) => sleepers::run(args).await,
        Bench::Backlog(args) => backlog::run(args).await,
        Bench::Worker(args) => working::run(args).await,
    }
}
