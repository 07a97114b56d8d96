use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use workflow_sdk::Client;

use crate::database::Location;
use crate::report::{Report, Target};
use crate::rounds::Rounds;
use crate::samples::Samples;
use crate::workflows::one_step;
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of clients, each with connections of its own, as in processes of their own.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// For how long each round lasts.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Number of rounds; the medians are reported.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let [mut rate, mut p99, mut longest] = std::array::from_fn(|_| Rounds::default());
    for _ in 0..args.rounds {
        let times = round(&location, args.clients, Duration::try_from_secs_f64(args.seconds)?).await?;
        rate.push(times.len() as f64 / args.seconds);
        let times = Samples::new(times)?;
        p99.push(times.p99_ms());
        longest.push(times.quantile(1.0).as_secs_f64() * 1e3);
    }
    let mut report = Report::new("contention", location.kind())
        .setting("clients", args.clients)
        .setting("seconds", args.seconds)
        .setting("rounds", args.rounds);
    report.figure("all clients", rate.median(), "starts/s");
    report.figure("start, p99", p99.median(), "ms");
    report.judged("longest start", longest.median(), "ms", Target::AtMost(500.0));
    report.print(args.common.json);
    Ok(())
}

/// Lets each client start one run after the other. Returns how long each start took.
async fn round(location: &Location, clients: u32, lasts: Duration) -> BoxResult<Vec<Duration>> {
    let database = location.fresh();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let client = database.client().await?;
        tasks.spawn(start_for(client, lasts));
    }
    let mut times = Vec::new();
    while let Some(task) = tasks.join_next().await {
        times.extend(task??);
    }
    database.remove().await?;
    Ok(times)
}

async fn start_for(client: Client, lasts: Duration) -> BoxResult<Vec<Duration>> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < lasts {
        let started = Instant::now();
        client.start(one_step, 0).await?;
        times.push(started.elapsed());
    }
    Ok(times)
}
