use std::time::Duration;

use uuid::Uuid;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

use crate::database::{Database, Place};
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::tables::Tables;
use crate::workflows::{STEP_BYTES, STEPS, five_steps};
use crate::working::Working;
use crate::{BoxResult, Common, limit};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Runs in each round.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Runs at once.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Rounds, each of the bare program and the engine in turn; the medians count.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The engine once more in each round, with encrypted payloads.
    #[arg(long)]
    encrypted: bool,
}

/// How payloads are stored.
#[derive(Clone, Copy)]
enum Payloads {
    Plain,
    Encrypted,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let place = Place::parse(args.common.database.as_deref())?;
    let (mut bare, mut engine, mut encrypted) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        bare.push(bare_round(&place, &args).await?);
        engine.push(engine_round(&place, &args, Payloads::Plain).await?);
        if args.encrypted {
            encrypted.push(engine_round(&place, &args, Payloads::Encrypted).await?);
        }
    }
    let limit = steps_per_second(&args, &Samples::new(bare)?);
    let steps = steps_per_second(&args, &Samples::new(engine)?);
    let mut report = Report::new("throughput", place.kind())
        .setting("runs", args.runs)
        .setting("steps", STEPS)
        .setting("concurrency", args.concurrency)
        .setting("rounds", args.rounds);
    report.figure("runs", steps / f64::from(STEPS), "runs/s");
    report.figure("steps", steps, "steps/s");
    report.figure("limit: the bare program", limit, "steps/s");
    report.judged("throughput / limit", steps / limit, "", Target::AtLeast(0.5));
    if args.encrypted {
        let encrypted = steps_per_second(&args, &Samples::new(encrypted)?);
        report.figure("steps with encrypted payloads", encrypted, "steps/s");
        report.figure("encrypted / plain", encrypted / steps, "");
    }
    report.print(args.common.json);
    Ok(())
}

fn steps_per_second(args: &Args, times: &Samples) -> f64 {
    f64::from(args.runs) * f64::from(STEPS) / times.median().as_secs_f64()
}

async fn bare_round(place: &Place, args: &Args) -> BoxResult<Duration> {
    let (database, _, runs) = enqueued(place, args, Payloads::Plain).await?;
    let runs: Vec<Uuid> = runs.iter().map(|run| run.id().as_uuid()).collect();
    let elapsed = limit::steps_and_ends(&database, &runs, args.concurrency as usize).await?;
    database.remove().await?;
    Ok(elapsed)
}

/// From the start of the worker to the last end. Nobody waits for a result meanwhile: it is the worker that is measured.
async fn engine_round(place: &Place, args: &Args, payloads: Payloads) -> BoxResult<Duration> {
    let (database, client, handles) = enqueued(place, args, payloads).await?;
    let mut tables = Tables::open(&database).await?;
    let begun = limit::micros();
    let working = Working::start(Worker::new(client, ()).register(five_steps).concurrency(args.concurrency));
    tables.until_all_ended().await?;
    let last_end = tables.number("SELECT max(completed_at) FROM {runs}").await?;
    let totals = futures::future::try_join_all(handles.iter().map(RunHandle::result)).await?;
    for (seed, total) in (0_u64..).zip(totals) {
        if total != seed + STEP_BYTES * u64::from(STEPS) {
            return Err(format!("the run of seed {seed} gave {total}").into());
        }
    }
    working.stop().await?;
    drop(handles);
    drop(tables);
    database.remove().await?;
    Ok(Duration::from_micros(u64::try_from(last_end - begun)?))
}

async fn enqueued(
    place: &Place,
    args: &Args,
    payloads: Payloads,
) -> BoxResult<(Database, Client, Vec<RunHandle<u64>>)> {
    let database = place.fresh();
    let client = match payloads {
        Payloads::Plain => database.client().await?,
        Payloads::Encrypted => database.encrypted_client().await?,
    };
    let handles = client.start_many(five_steps, 0..u64::from(args.runs)).await?;
    Ok((database, client, handles))
}
