//! Kills a worker in the middle of a step, and shows that the run goes on.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::sleep;
use workflow_sdk::prelude::*;
use workflow_sdk::{Client, RunHandle};
use workflow_worker::Worker;

use crate::arguments::Demo;
use crate::output::Output;
use crate::{Exit, Failure};

/// How long the body of a step takes.
const STEP: Duration = Duration::from_millis(700);
/// How often the demonstration looks at the ledger.
const LOOK: Duration = Duration::from_millis(20);
/// The step in whose middle the worker is killed.
const CUT: &str = "ship";
const STEPS: [&str; 4] = ["reserve", "charge", "ship", "notify"];

#[workflow]
async fn fulfil(ctx: &Ctx<Ledger>, order: u64) -> Result<String> {
    let ledger = ctx.state();
    let pieces = ctx.step("reserve", async || ledger.work("reserve", order % 5 + 1).await).await?;
    let receipt = ctx.step("charge", async || ledger.work("charge", 4700 + pieces).await).await?;
    let parcel = ctx.step("ship", async || ledger.work("ship", format!("parcel {receipt}")).await).await?;
    ctx.step("notify", async || ledger.work("notify", format!("{parcel} is on its way")).await).await
}

/// A file beside the database to which the bodies of the steps write that they begin and end.
#[derive(Clone, Debug)]
struct Ledger(PathBuf);

impl Ledger {
    async fn work<T>(&self, step: &str, value: T) -> io::Result<T> {
        self.append("begin", step)?;
        sleep(STEP).await;
        self.append("end", step)?;
        Ok(value)
    }

    fn append(&self, mark: &str, step: &str) -> io::Result<()> {
        writeln!(OpenOptions::new().create(true).append(true).open(&self.0)?, "{mark} {step}")
    }

    fn count(&self, mark: &str, step: &str) -> usize {
        let line = format!("{mark} {step}");
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter(|written| *written == line).count()
    }
}

/// Runs the demonstration, or the worker process that it kills.
pub(crate) async fn run(demo: Demo, output: &Output) -> Result<Exit, Failure> {
    let failed =
        |error: workflow_sdk::BoxError| Failure::new(Exit::Error, format!("the demonstration failed: {error}"));
    match demo.worker {
        Some(directory) => work(&directory).await.map_err(failed)?,
        None => demonstrate(output).await.map_err(failed)?,
    }
    Ok(Exit::Ok)
}

async fn work(directory: &Path) -> Result<(), workflow_sdk::BoxError> {
    let client = connect(directory).await?;
    let worker = Worker::new(client, Ledger(directory.join("ledger"))).register(fulfil);
    Ok(worker.run().await?)
}

async fn connect(directory: &Path) -> Result<Client, workflow_sdk::BoxError> {
    Ok(Client::connect(url(directory)).await?)
}

fn url(directory: &Path) -> String {
    format!("sqlite://{}", directory.join("demo.db").display())
}

async fn demonstrate(output: &Output) -> Result<(), workflow_sdk::BoxError> {
    let directory = std::env::temp_dir().join(format!("workflow-demo-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let ledger = Ledger(directory.join("ledger"));
    let client = connect(&directory).await?;
    let run = client.start(fulfil, 42).await?;
    output.note(format!("database  {}", directory.join("demo.db").display()));
    output.note(format!("run       {} of 4 steps: {}", run.id(), STEPS.join(", ")));

    let mut first = Process::start(&directory)?;
    output.note(format!("\nworker {} begins", first.id()));
    let mut told = Told::default();
    while ledger.count("begin", CUT) == 0 {
        told.tell(&ledger, output);
        first.check()?;
        sleep(LOOK).await;
    }
    sleep(STEP / 3).await;
    told.tell(&ledger, output);
    output.note(format!("  {CUT:9} under way"));
    ask(output, first.id());
    let killed = first.kill()?;
    output.note(format!("\nworker {killed} is gone: SIGKILL, in the middle of {CUT}"));

    let mut second = Process::start(&directory)?;
    output.note(format!("worker {} begins, and replays the run", second.id()));
    for step in STEPS.into_iter().take_while(|step| *step != CUT) {
        output.note(format!("  {step:9} taken from the database, not run again"));
    }
    let result = follow(&run, &ledger, &mut told, &mut second, output).await?;
    second.kill()?;

    output.note(format!("\nThe run returned {result:?}."));
    output.note("What the steps did, from a file that only their bodies write:");
    for step in STEPS {
        let (begun, ended) = (ledger.count("begin", step), ledger.count("end", step));
        let cut = if begun > ended { format!(", {} cut off by the kill", begun - ended) } else { String::new() };
        output.note(format!("  {step:9} begun {begun}, ended {ended}{cut}"));
    }
    output.note("A step that was cut off runs again: give its effect ctx.idempotency_key().");
    output.note(format!(
        "\nLook at the run:  workflow --to {} runs show {}",
        directory.join("demo.db").display(),
        run.id()
    ));
    Ok(())
}

/// Waits for the end of the run, and tells of each step.
async fn follow(
    run: &RunHandle<String>,
    ledger: &Ledger,
    told: &mut Told,
    worker: &mut Process,
    output: &Output,
) -> Result<String, workflow_sdk::BoxError> {
    let result = run.result();
    tokio::pin!(result);
    loop {
        tokio::select! {
            biased;
            done = &mut result => {
                told.tell(ledger, output);
                return Ok(done?);
            }
            () = sleep(LOOK) => {
                told.tell(ledger, output);
                worker.check()?;
            }
        }
    }
}

/// Gives a person the time to kill the worker by hand.
fn ask(output: &Output, worker: u32) {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return;
    }
    output.note(format!("\nPress Enter to kill the worker with SIGKILL, or do it yourself: kill -9 {worker}"));
    // Without an answer the demonstration goes on.
    let _ = io::stdin().read_line(&mut String::new());
}

/// The steps of whose end the demonstration has told.
#[derive(Default)]
struct Told(usize);

impl Told {
    fn tell(&mut self, ledger: &Ledger, output: &Output) {
        while let Some(step) = STEPS.get(self.0).filter(|step| ledger.count("end", step) > 0) {
            output.note(format!("  {step:9} done"));
            self.0 += 1;
        }
    }
}

/// A worker process, which is killed at the latest when the demonstration ends.
struct Process(Child);

impl Process {
    fn start(directory: &Path) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["demo", "--worker"]).arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    /// Fails if the process has ended by itself, unless a person has killed it.
    fn check(&mut self) -> Result<(), workflow_sdk::BoxError> {
        match self.0.try_wait()? {
            Some(status) if status.code().is_some() => Err(format!("the worker ended: {status}").into()),
            _ => Ok(()),
        }
    }

    /// Kills the process, if it still lives, and returns its id.
    fn kill(&mut self) -> io::Result<u32> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(self.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.kill();
    }
}
