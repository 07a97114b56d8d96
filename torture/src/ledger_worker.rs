//! What the program `ledger_worker` does, and every program that is called as it is.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use crate::ledger::{Fact, Ledger};
use crate::program::{PLANNED, program};
use crate::race_client::race;
use crate::worker_process::WorkerSettings;
use crate::workflows::rolled::{FirstVersion, SecondVersion, rolled};
use crate::workflows::{
    Site, Stubborn, aborter, blocker, chain, collect, debits, emitter, fan, gated, gatekeeper, leaf, pages, parent,
    sleepy, unlucky, waiter, waits,
};
use tokio::signal::unix::{SignalKind, signal};
use workflow_sdk::Client;
use workflow_worker::Worker;

/// Works as these settings say, until it is told to end.
///
/// # Errors
/// Settings that are none, and what ends a worker.
pub fn work(settings: &str) -> Result<(), Box<dyn Error>> {
    let settings: WorkerSettings = serde_json::from_str(settings)?;
    silence_planned_panics();
    // All that the engine says is searched for what it was handed. Of sqlx that is done within a test's own process, without
    // warnings of slow statements. And the tests' own server runs without fsync, as every process would say.
    let filter = "trace,sqlx=error,workflow_sdk::store::postgres::open=error";
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_env_filter(filter).init();
    let races = settings.races;
    std::thread::spawn(move || {
        if races {
            // It reads its input itself, and ends with it.
            return;
        }
        // The other end is held by the test alone, and closed by the system if that dies.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::abort();
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(settings.threads).enable_all().build()?;
    runtime.block_on(run(settings))
}

/// So that a panic in a log is one that nobody meant.
fn silence_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&PLANNED) {
            usual(panic);
        }
    }));
}

async fn run(settings: WorkerSettings) -> Result<(), Box<dyn Error>> {
    // A file that may not grow further is then an error of the write, not the end of the process.
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
        .register(aborter)
        .register(Stubborn)
        .register(unlucky)
        .register(waits)
        .register(waiter)
        .register(collect)
        .register(leaf)
        .register(parent)
        .register(gatekeeper)
        .register(program)
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
    Ok(worker.run().await?)
}

/// Starts runs for ever, four at a time.
async fn start_runs(client: &Client, settings: &WorkerSettings) -> Result<(), Box<dyn Error>> {
    let ledger = Ledger::inside(&settings.directory);
    let starter = async |first: u64| -> Result<(), workflow_sdk::ClientError> {
        for n in (first..).step_by(4) {
            // Under its key, so that it can be started again whatever became of it.
            let key = format!("start-{n}");
            let mut started = client.start(fan, n).key(&key).await;
            while let Err(workflow_sdk::ClientError::Database(error)) = &started {
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
