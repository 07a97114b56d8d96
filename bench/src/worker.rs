//! The workers that a benchmark measures: inside this process, or in a process of their own.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use workflow_flows::{FlowRuntime, flow};
use workflow_sdk::Client;
use workflow_worker::{Worker, WorkerError};

use crate::BoxResult;
use crate::database::Database;
use crate::workflows;

/// A worker inside this process.
#[derive(Debug)]
pub(crate) struct LocalWorker {
    stop: oneshot::Sender<()>,
    worker: JoinHandle<Result<(), WorkerError>>,
}

impl LocalWorker {
    /// Starts `worker` in a task.
    pub(crate) fn start<S: Send + Sync + 'static>(worker: Worker<S>) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = tokio::spawn(worker.run_until(async {
            let _ = stopped.await;
        }));
        Self { stop, worker }
    }

    /// Drains the worker and waits for its end.
    pub(crate) async fn stop(self) -> BoxResult<()> {
        let _ = self.stop.send(());
        self.worker.await??;
        Ok(())
    }
}

/// The arguments of a worker process.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    database: String,
    #[arg(long)]
    schema: String,
    #[arg(long)]
    concurrency: u32,
    /// Runs flows, and no other workflow.
    #[arg(long)]
    flows: bool,
}

/// A worker in a process of its own. Dropping this value kills the process.
#[derive(Debug)]
pub(crate) struct WorkerProcess(Child);

impl WorkerProcess {
    /// Starts the process and waits until the worker is ready.
    pub(crate) async fn start(database: &Database, concurrency: u32) -> BoxResult<Self> {
        Self::spawn(database, concurrency, None).await
    }

    /// Starts a process that runs flows, and waits until the worker is ready.
    pub(crate) async fn start_with_flows(database: &Database, concurrency: u32) -> BoxResult<Self> {
        Self::spawn(database, concurrency, Some("--flows")).await
    }

    async fn spawn(database: &Database, concurrency: u32, option: Option<&str>) -> BoxResult<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", "--database", &database.url, "--schema", &database.schema])
            .args(["--concurrency", &concurrency.to_string()])
            .args(option)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("the worker process has no piped output")?;
        let said = BufReader::new(output).lines().next_line().await?;
        if said.as_deref() != Some(READY) {
            return Err(format!("the worker process ended early: {:?}", child.wait().await?).into());
        }
        Ok(Self(child))
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> BoxResult<u32> {
        self.0.id().ok_or_else(|| "the worker process has ended".into())
    }

    /// Sends SIGKILL to the process and waits for its end.
    pub(crate) async fn kill(mut self) -> BoxResult<()> {
        self.0.kill().await?;
        Ok(())
    }

    /// Drains the worker and waits for the end of its process.
    pub(crate) async fn stop(mut self) -> BoxResult<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("the worker process ended with {status}").into()) }
    }
}

/// The line that a worker process prints when it is ready.
const READY: &str = "ready";

/// Runs the worker process until its input ends.
pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let client = Client::connect(&args.database).schema(&args.schema).await?;
    if args.flows {
        let runtime = FlowRuntime::builder().build();
        work(Worker::new(client, runtime).register(flow).concurrency(args.concurrency)).await
    } else {
        work(workflows::register(Worker::new(client, ()).concurrency(args.concurrency))).await
    }
}

async fn work<S: Send + Sync + 'static>(worker: Worker<S>) -> BoxResult<()> {
    println!("{READY}");
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    worker.run_until(async { while let Ok(Some(_)) = input.next_line().await {} }).await?;
    Ok(())
}
