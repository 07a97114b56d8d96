//! Shows what durable runs are for.
//!
//! Starts a run for each order of a file and kills the worker process in the middle of its steps.
//! A second worker process continues the runs. A ledger outside of the database shows which step
//! bodies really ran.
//!
//! `cargo run --example quickstart [-- [ORDERS.json] [--database postgres://user@host/database]]`

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{sleep, timeout};
use workflow_examples::audit::{Audit, Fate, StepOf};
use workflow_examples::ledger::{Ledger, Mark};
use workflow_examples::orders::{self, Order, Totals};
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

// ---- The application's workflow -----------------------------------------------------------------

#[workflow]
async fn fulfil(ctx: &Ctx<Shop>, order: Order) -> Result<Receipt> {
    let shop = ctx.state();
    let pieces = ctx.step("reserve", || shop.reserve(&order)).await?;
    let cents = ctx.step("charge", || shop.charge(&order)).await?;
    let parcel = ctx.step("ship", || shop.ship(&order, pieces)).await?;
    Ok(Receipt { order: order.id, pieces, cents, parcel })
}

const STEPS: [&str; 3] = ["reserve", "charge", "ship"];

const STEP_TIME: Duration = Duration::from_millis(150);

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    order: String,
    pieces: u64,
    cents: u64,
    parcel: String,
}

/// Stands for the warehouse, the bank and the carrier. Records each of its effects in the ledger.
///
/// A real bank would also get `ctx.idempotency_key()`, because a step that is cut off runs twice.
struct Shop {
    ledger: Ledger,
}

impl Shop {
    async fn reserve(&self, order: &Order) -> io::Result<u64> {
        self.effect(order, "reserve", order.totals().pieces).await
    }

    async fn charge(&self, order: &Order) -> io::Result<u64> {
        self.effect(order, "charge", order.totals().cents).await
    }

    async fn ship(&self, order: &Order, pieces: u64) -> io::Result<String> {
        self.effect(order, "ship", format!("{}/{pieces}", order.id)).await
    }

    async fn effect<T>(&self, order: &Order, step: &str, value: T) -> io::Result<T> {
        self.ledger.append(Mark::Begin, &order.id, step)?;
        sleep(STEP_TIME).await;
        self.ledger.append(Mark::End, &order.id, step)?;
        Ok(value)
    }
}

// ---- The demonstration --------------------------------------------------------------------------

#[derive(Parser)]
#[command(about = "Kills a worker in the middle of its steps and shows what is lost: nothing.")]
struct Options {
    /// Order file [default: examples/data/orders.json]
    orders: Option<PathBuf>,
    /// sqlite://file or postgres://user@host/database [default: a fresh SQLite file]
    #[arg(long)]
    database: Option<String>,
    /// Runs this program as the worker process. The quickstart starts itself with this option.
    #[arg(long, hide = true, num_args = 3, value_names = ["DATABASE", "SCHEMA", "LEDGER"])]
    worker: Option<Vec<String>>,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let options = Options::parse();
    let result = match options.worker.as_deref() {
        Some([database, schema, ledger]) => work(&Location::of(database, schema, ledger)).await,
        _ => demonstrate(options).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn demonstrate(options: Options) -> Result<()> {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/orders.json"));
    let file = options.orders.unwrap_or_else(default);
    let orders = orders::read(&file)?;
    let location = Location::fresh(options.database)?;
    let client = location.connect().await?;

    println!("1. A run is started for each order in {}.", orders::shown(&file));
    let runs = start_runs(&client, &orders).await?;
    println!("   {} runs of {} steps: {}", runs.len(), STEPS.len(), STEPS.join(", "));

    let first = WorkerProcess::start(&location)?;
    println!("2. A worker process is started: pid {}.", first.pid);
    let first = first.run_into_a_step(&location.ledger, runs.len()).await?;

    let killed = first.kill().await?;
    println!("3. The worker is killed in the middle of its steps: pid {killed} is gone.");
    let runs = note_claims(runs).await?;

    let second = WorkerProcess::start(&location)?;
    println!("4. Another worker process is started: pid {}.", second.pid);
    let receipts = second.run_to_the_end(&runs).await?;

    println!("5. How often each step ran, according to the ledger that the steps write:");
    let recorded = recorded_before_the_kill(&runs).await?;
    show_ledger(&location.ledger, &orders, killed, &recorded)?;

    println!("6. The totals of the orders, from the results of the runs:");
    show_totals(&orders, &receipts)?;
    println!("\nTo inspect:\n  database  {}\n  ledger    {}", location.shown(), location.ledger.path().display());
    Ok(())
}

// ---- 1. Runs ------------------------------------------------------------------------------------

async fn start_runs(client: &Client, orders: &[Order]) -> Result<Vec<RunHandle<Receipt>>> {
    let starts = orders.iter().map(async |order| client.start(fulfil, order.clone()).key(&order.id).await);
    let runs = futures::future::try_join_all(starts).await?;
    let statuses = futures::future::try_join_all(runs.iter().map(RunHandle::status)).await?;
    if statuses.iter().all(|status| *status == RunStatus::Pending) {
        return Ok(runs);
    }
    Err(Error::msg("the database already has runs of these orders, from an earlier quickstart; use another database"))
}

// ---- 2. A worker process ------------------------------------------------------------------------

async fn work(location: &Location) -> Result<()> {
    let shop = Shop { ledger: location.ledger.clone() };
    let worker = Worker::new(location.connect().await?, shop).register(fulfil).concurrency(4);
    Ok(worker.run_until(input_closed()).await?)
}

/// Completes when the process that started this one closes this one's standard input, or dies.
async fn input_closed() {
    let (sender, closed) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(sender);
    });
    let _ = closed.await;
}

struct WorkerProcess {
    child: Child,
    pid: u32,
    /// The worker ends when its input is closed, so it cannot outlive the quickstart.
    input: Option<ChildStdin>,
    started: Instant,
}

impl WorkerProcess {
    fn start(location: &Location) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--worker").args([&location.database, &location.schema]).arg(location.ledger.path());
        let failed = |error| Error::msg(format!("the worker process cannot be started: {error}"));
        let mut child = command.stdin(Stdio::piped()).kill_on_drop(true).spawn().map_err(failed)?;
        let pid = child.id().ok_or_else(|| Error::msg("the worker process ended at once"))?;
        Ok(Self { input: child.stdin.take(), child, pid, started: Instant::now() })
    }

    /// Waits until more than a third of all steps have ended, and another step is half way through.
    async fn run_into_a_step(mut self, ledger: &Ledger, runs: usize) -> Result<Self> {
        let mut seen = 0;
        loop {
            let entries = ledger.read()?;
            let ended = entries.iter().filter(|entry| entry.mark == Mark::End).count();
            let just_started = entries[seen..].last().is_some_and(|entry| entry.mark == Mark::Begin);
            if ended >= runs + runs / 3 && just_started {
                sleep(STEP_TIME / 2).await;
                println!("   after {:.1?}: {ended} steps have ended, others are running", self.started.elapsed());
                return Ok(self);
            }
            seen = entries.len();
            if let Some(status) = self.child.try_wait()? {
                return Err(self.died(status));
            }
            if self.started.elapsed() > time_limit(runs) {
                return Err(Error::msg(format!("the worker is too slow: only {ended} steps have ended")));
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends SIGKILL, which a process cannot catch: it has no time to clean up.
    async fn kill(mut self) -> Result<u32> {
        self.child.start_kill()?;
        let status = self.child.wait().await?;
        if status.signal() == Some(9) { Ok(self.pid) } else { Err(self.died(status)) }
    }

    async fn run_to_the_end(mut self, runs: &[Claimed]) -> Result<Vec<Receipt>> {
        let results = futures::future::try_join_all(runs.iter().map(|claimed| claimed.run.result()));
        let receipts = tokio::select! {
            results = timeout(time_limit(runs.len()), results) =>
                results.map_err(|_| Error::msg("some runs have no result yet, though a worker serves them"))??,
            status = self.child.wait() => return Err(self.died(status?)),
        };
        println!("   after {:.1?}: every run has its result", self.started.elapsed());
        drop(self.input.take());
        let status = self.child.wait().await?;
        if status.success() { Ok(receipts) } else { Err(self.died(status)) }
    }

    fn died(&self, status: ExitStatus) -> Error {
        Error::msg(format!("worker process {} ended by itself ({status}); see its output above", self.pid))
    }
}

/// Returns a generous time limit, which allows for slow machines and long order files.
fn time_limit(runs: usize) -> Duration {
    Duration::from_secs(15) + Duration::from_secs(1) * u32::try_from(runs).unwrap_or(u32::MAX)
}

// ---- 3. and 5. The steps recorded before the kill -----------------------------------------------

/// A run and the epoch of its last claim by the first worker.
struct Claimed {
    run: RunHandle<Receipt>,
    order: String,
    epoch: i64,
}

async fn note_claims(runs: Vec<RunHandle<Receipt>>) -> Result<Vec<Claimed>> {
    let note = async |run: RunHandle<Receipt>| {
        let row = run.run().await?;
        ok(Claimed { run, order: row.key.unwrap_or_default(), epoch: row.epoch })
    };
    futures::future::try_join_all(runs.into_iter().map(note)).await
}

/// Returns the steps whose outcome was committed under a claim of the first worker.
async fn recorded_before_the_kill(runs: &[Claimed]) -> Result<BTreeSet<StepOf>> {
    let mut recorded = BTreeSet::new();
    for Claimed { run, order, epoch } in runs {
        let history = run.history().await?;
        let of_first = history.into_iter().filter(|step| step.position.is_some() && step.epoch <= *epoch);
        recorded.extend(of_first.map(|step| (order.clone(), step.step_key)));
    }
    Ok(recorded)
}

fn show_ledger(ledger: &Ledger, orders: &[Order], killed: u32, recorded: &BTreeSet<StepOf>) -> Result<()> {
    let step_of = |order: &Order, step: &str| (order.id.clone(), step.to_owned());
    let steps = orders.iter().flat_map(|order| STEPS.map(|step| step_of(order, step))).collect();
    let audit = Audit::new(&ledger.read()?, &steps, killed, recorded);

    println!("\n   {:<10}{:<22}{:<15}{:<15}{}", "order", "customer", STEPS[0], STEPS[1], STEPS[2]);
    for order in orders {
        let [reserve, charge, ship] = STEPS.map(|step| match audit.fates.get(&step_of(order, step)) {
            Some(Fate::Once) => "once",
            Some(Fate::Cut) => "cut off, rerun",
            Some(Fate::Unrecorded) => "ended, rerun",
            Some(Fate::Wrong) | None => "WRONG",
        });
        println!("   {:<10}{:<22.20}{reserve:<15}{charge:<15}{ship}", order.id, order.customer);
    }
    let count = |fate| audit.count(fate);
    println!("\n   ran once   {:>4}  ({} of them recorded before the kill)", count(Fate::Once), recorded.len());
    println!("   ran twice  {:>4}  (cut off by the kill)", count(Fate::Cut));
    if count(Fate::Unrecorded) > 0 {
        println!("   ran twice  {:>4}  (ended, but not recorded before the kill)", count(Fate::Unrecorded));
    }
    match audit.wrong.as_slice() {
        [] if count(Fate::Cut) > 0 => Ok(()),
        [] => Err(Error::msg("the kill came between two steps and cut off neither; start the quickstart again")),
        wrong => Err(Error::msg(format!("the ledger contradicts the database:\n  {}", wrong.join("\n  ")))),
    }
}

// ---- 6. Totals ----------------------------------------------------------------------------------

fn show_totals(orders: &[Order], receipts: &[Receipt]) -> Result<()> {
    let ordered: Totals = orders.iter().map(Order::totals).sum();
    let fulfilled =
        receipts.iter().map(|receipt| Totals { orders: 1, pieces: receipt.pieces, cents: receipt.cents }).sum();
    println!("   {fulfilled}");
    if ordered == fulfilled {
        println!("   The order file has the same totals.");
        return Ok(());
    }
    Err(Error::msg(format!("the order file has other totals: {ordered}")))
}

// ---- Database and ledger ------------------------------------------------------------------------

struct Location {
    database: String,
    /// The schema on PostgreSQL. SQLite has no schemas.
    schema: String,
    ledger: Ledger,
}

impl Location {
    fn of(database: &str, schema: &str, ledger: &str) -> Self {
        Self { database: database.into(), schema: schema.into(), ledger: Ledger::at(ledger) }
    }

    fn fresh(database: Option<String>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("workflow-quickstart-").tempdir()?.keep();
        let database = database.unwrap_or_else(|| format!("sqlite://{}/quickstart.db", directory.display()));
        if database.contains(":memory:") {
            return Err(Error::msg("processes cannot share a database in memory; use a file"));
        }
        let schema = format!("quickstart_{:08x}", uuid::Uuid::new_v4().as_fields().0);
        Ok(Self { database, schema, ledger: Ledger::at(directory.join("ledger.jsonl")) })
    }

    async fn connect(&self) -> Result<Client> {
        Ok(Client::connect(&self.database).schema(&self.schema).await?)
    }

    fn shown(&self) -> String {
        match self.database.strip_prefix("sqlite://") {
            Some(file) => file.into(),
            None => format!("schema {} of the given PostgreSQL database", self.schema),
        }
    }
}
