//! Benchmarks from end to end: `cargo run --release -p workflow-bench -- throughput --database <url>`.
//!
//! Figures of one run can be compared with each other; those of two machines cannot.

mod throughput;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Runs of 5 small steps in a row, enqueued first, then done by one worker.
    Throughput(throughput::Args),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).init();
    match Args::parse().bench {
        Bench::Throughput(args) => throughput::run(args).await,
    }
}
