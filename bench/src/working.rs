//! A worker that works while something is measured: inside this process, or a process of its own.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use workflow_sdk::Client;
use workflow_worker::{Worker, WorkerError};

use crate::BoxResult;
use crate::database::Database;
use crate::workflows;

/// A worker inside this process.
#[derive(Debug)]
pub(crate) struct Working {
    stop: oneshot::Sender<()>,
    worker: JoinHandle<Result<(), WorkerError>>,
}

impl Working {
    /// Starts this worker.
    pub(crate) fn start(worker: Worker<()>) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = tokio::spawn(worker.run_until(async {
            let _ = stopped.await;
        }));
        Self { stop, worker }
    }

    /// Drains it and waits for its end.
    pub(crate) async fn stop(self) -> BoxResult<()> {
        let _ = self.stop.send(());
        self.worker.await??;
        Ok(())
    }
}

/// The arguments of the process of a worker.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    database: String,
    #[arg(long)]
    schema: String,
    #[arg(long)]
    concurrency: u32,
}

/// A worker in a process of its own. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct WorkerProcess(Child);

impl WorkerProcess {
    /// Starts it and waits until it is about to work.
    pub(crate) async fn start(database: &Database, concurrency: u32) -> BoxResult<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", "--database", &database.url, "--schema", &database.schema])
            .args(["--concurrency", &concurrency.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("the worker has an output")?;
        let said = BufReader::new(output).lines().next_line().await?;
        if said.as_deref() != Some(READY) {
            return Err(format!("the process of the worker ended early: {:?}", child.wait().await?).into());
        }
        Ok(Self(child))
    }

    /// Its id.
    pub(crate) fn id(&self) -> BoxResult<u32> {
        self.0.id().ok_or_else(|| "the process of the worker has ended".into())
    }

    /// SIGKILL, and its end.
    pub(crate) async fn kill(mut self) -> BoxResult<()> {
        self.0.kill().await?;
        Ok(())
    }

    /// Drains it and waits for its end.
    pub(crate) async fn stop(mut self) -> BoxResult<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("the process of the worker ended with {status}").into()) }
    }
}

const READY: &str = "ready";

/// The process of a worker: works until its input ends.
pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let client = Client::connect(&args.database).schema(&args.schema).await?;
    let worker = workflows::register(Worker::new(client, ()).concurrency(args.concurrency));
    println!("{READY}");
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    worker.run_until(async { while let Ok(Some(_)) = input.next_line().await {} }).await?;
    Ok(())
}
