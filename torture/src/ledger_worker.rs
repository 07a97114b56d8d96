//! The main function of the program `ledger_worker`, and of every program that replaces it.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use crate::ledger::{Fact, Ledger};
use crate::program::{PLANNED, program};
use crate::race_client::race;
use crate::worker_process::WorkerSettings;
use crate::workflows::events::{listener, speaker};
use crate::workflows::limited::limited;
use crate::workflows::rolled::{FirstVersion, SecondVersion, rolled};
use crate::workflows::{
    Site, Stubborn, aborter, announce, blocker, chain, collect, debits, emitter, fan, gated, gatekeeper, lasting, leaf,
    listen, pages, parent, sleepy, slow_aborter, stuck, stuck_later, unlucky, waiter, waits,
};
use tokio::signal::unix::{SignalKind, signal};
use workflow_sdk::{Client, ClientError};
use workflow_worker::{LapsedLease, Worker};

/// Runs a worker with these settings until it is asked to end.
///
/// # Errors
/// If the settings cannot be parsed, or the worker ends with an error.
pub fn work(settings: &str) -> Result<(), Box<dyn Error>> {
    let settings: WorkerSettings = serde_json::from_str(settings)?;
    silence_planned_panics();
    // The tests search everything that the engine logs for stored values. sqlx is searched only in
    // the log of a test's own process, and without its warnings of slow statements. The tests' own
    // server runs without fsync, and each process would warn of that.
    let filter = "trace,sqlx=error,workflow_postgres::open=error";
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_env_filter(filter).init();
    let races = settings.races;
    std::thread::spawn(move || {
        if races {
            // A race client reads its input itself and ends with it.
            return;
        }
        // Only the test holds the other end of the pipe. The system closes it if the test dies.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::abort();
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(settings.threads).enable_all().build()?;
    runtime.block_on(run(settings))
}

/// Hides planned panics, so that every panic in a log is a real one.
fn silence_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&PLANNED) {
            usual(panic);
        }
    }));
}

async fn run(settings: WorkerSettings) -> Result<(), Box<dyn Error>> {
    // Handles SIGXFSZ. A file that may not grow further is then an error of the write, not the end
    // of the process.
    let _limits = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    let mut connect = Client::connect(&settings.url).pool_size(4);
    if let Some(schema) = &settings.schema {
        connect = connect.schema(schema);
    }
    let client = connect.await?;
    if settings.races {
        return race(client, Ledger::inside(&settings.directory)).await;
    }
    if settings.starts_runs { start_runs(&client, &settings).await } else { drive(client, settings).await }
}

async fn drive(client: Client, settings: WorkerSettings) -> Result<(), Box<dyn Error>> {
    let site = Site::new(settings.directory, Duration::from_millis(settings.pause), settings.threads)
        .in_schema(settings.schema.as_deref())
        .of_release(settings.release);
    let mut worker = Worker::new(client, site)
        .register(chain)
        .register(fan)
        .register(pages)
        .register(sleepy)
        .register(debits)
        .register(gated)
        .register(emitter)
        .register(blocker)
        .register(stuck)
        .register(stuck_later)
        .register(lasting)
        .register(aborter)
        .register(slow_aborter)
        .register(Stubborn)
        .register(unlucky)
        .register(waits)
        .register(waiter)
        .register(collect)
        .register(listen)
        .register(announce)
        .register(leaf)
        .register(parent)
        .register(gatekeeper)
        .register(program)
        .register(limited)
        .register(listener)
        .register(speaker)
        .register(rolled)
        .register(FirstVersion)
        .concurrency(settings.concurrency)
        .linger(Duration::from_millis(settings.linger))
        .grace(Duration::from_millis(settings.grace));
    if settings.release > 0 {
        worker = worker.register(SecondVersion);
    }
    if let Some(lease) = settings.lease {
        worker = worker.lease(Duration::from_millis(lease));
    }
    if let Some(crashes) = settings.max_crashes {
        worker = worker.max_crashes(crashes);
    }
    if let Some(grace) = settings.cancel_grace {
        worker = worker.cancel_grace(Duration::from_millis(grace));
    }
    if settings.lets_bodies_end {
        worker = worker.lapsed_lease(LapsedLease::LetBodiesEnd);
    }
    Ok(worker.run().await?)
}

/// Starts runs for ever, four at a time.
async fn start_runs(client: &Client, settings: &WorkerSettings) -> Result<(), Box<dyn Error>> {
    let ledger = Ledger::inside(&settings.directory);
    let starter = async |first: u64| -> Result<(), ClientError> {
        for n in (first..).step_by(4) {
            // Each run has a key, so that its start can be repeated whatever became of the first
            // one.
            let key = format!("start-{n}");
            let mut started = client.start(fan, n).key(&key).await;
            while let Err(error @ (ClientError::Database(_) | ClientError::TimedOut { .. })) = &started {
                eprintln!("start {n} again: {error}");
                started = client.start(fan, n).key(&key).await;
            }
            let run = started?;
            ledger.append(Fact::Started, &run.id().to_string(), 0);
        }
        Ok(())
    };
    futures::try_join!(starter(0), starter(1), starter(2), starter(3))?;
    Ok(())
}
