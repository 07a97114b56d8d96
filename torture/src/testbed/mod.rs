//! A testbed: a database, a ledger beside it, and the processes that work on them.

mod check;
mod load;
mod location;
mod wait;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use sqlx::Executor;
use workflow_engine::model::Clock;
use workflow_sdk::prelude::*;
use workflow_sdk::{RunId, StepAttempt};

use crate::checker::damage::deadlocks;
use crate::ledger::Ledger;
use crate::worker_process::{WorkerProcess, WorkerSettings};
use crate::workflows::Site;
use workflow_tests::log_capture::LogCapture;
use workflow_tests::log_secrets::{assert_no_secret, stored_secrets};
use workflow_tests::{Database, RawConnection, until};

pub use location::Location;

/// The testbed of one test or of one round of a campaign. It uses the real clock, because processes
/// of their own work on it.
#[derive(Debug)]
pub struct Testbed {
    /// Which database.
    pub database: Database,
    /// The client of this process.
    pub client: Client,
    /// The ledger of what steps did.
    pub ledger: Ledger,
    /// The deadlocks that the server had counted before.
    pub(crate) deadlocks_before: i64,
    location: Location,
    /// `None` for a campaign, which searches the logs itself and whose own log is too long to be
    /// kept.
    captured: Option<LogCapture>,
}

/// Options of a testbed. Without them it is in the temporary directory and on the tests' server.
#[derive(Clone, Debug)]
pub struct TestbedOptions {
    /// Which database.
    pub database: Database,
    /// The URL of the PostgreSQL server; `None`: the server of the tests.
    pub server: Option<String>,
    /// The directory in which the directory of the testbed is created; `None`: the system's
    /// directory for temporary files.
    pub directory: Option<PathBuf>,
    /// The program whose argument is a worker's settings; `None`: the `ledger_worker` that was
    /// built with this program.
    pub program: Option<PathBuf>,
    /// The directory of the SQLite file; `None`: the directory of the testbed.
    pub files: Option<PathBuf>,
    /// The clock of this process's client; `None`: the true clock.
    pub clock: Option<Clock>,
}

impl TestbedOptions {
    /// Returns default options for this database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database, server: None, directory: None, program: None, files: None, clock: None }
    }
}

/// A run whose start was acknowledged, and its expected output.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// The id of the run.
    pub id: RunId,
    /// The expected output of the run.
    pub output: u64,
}

/// Keeps everything that a failed test leaves, for inspection.
impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep();
        }
    }
}

/// The outcomes that were in the database at one moment. Their bodies must never begin again.
#[derive(Clone, Debug)]
pub struct Recorded {
    steps: HashSet<String>,
    /// The number of lines in the ledger at that moment.
    lines: usize,
}

impl Testbed {
    /// Creates a fresh database of this kind, with its [audit](crate::audit).
    pub async fn new(database: Database) -> Self {
        Self::at(Location::new(database)).await
    }

    /// Creates a fresh database with these options, for a campaign.
    pub async fn with(mut options: TestbedOptions) -> Self {
        let clock = options.clock.take();
        Self::open(Location::with(options), clock, None).await
    }

    /// Opens the testbed at this location, with whatever data it contains.
    pub async fn at(location: Location) -> Self {
        Self::open(location, None, Some(LogCapture::start())).await
    }

    async fn open(location: Location, clock: Option<Clock>, captured: Option<LogCapture>) -> Self {
        let mut connect = Client::connect(&location.url).pool_size(4);
        if let Some(schema) = &location.schema {
            connect = connect.schema(schema);
        }
        if let Some(clock) = clock {
            connect = connect.clock(clock);
        }
        let client = connect.await.expect("connect to the testbed's database");
        let ledger = Ledger::inside(location.directory());
        let mut testbed = Self { database: location.database, client, ledger, deadlocks_before: 0, location, captured };
        let mut raw = testbed.raw().await;
        testbed.deadlocks_before = deadlocks(&mut raw, testbed.database).await;
        crate::audit::install(&mut raw, testbed.schema()).await;
        testbed
    }

    /// Removes the data outside the testbed's own directory, which is removed with the testbed. A
    /// worker that still lives finds no tables any more.
    ///
    /// # Panics
    /// If a log shows a value that the database contains.
    pub async fn sweep(&self) {
        if let Some(captured) = &self.captured {
            let secrets = stored_secrets(&self.location.url, &mut self.raw().await).await;
            for log in self.location.logs().into_iter().chain([captured.text()]) {
                assert_no_secret(&secrets, &log);
            }
        }
        if let Some(schema) = &self.location.schema {
            self.raw().await.drop_schema(schema).await;
        }
    }

    /// Keeps the testbed's directory for inspection.
    pub fn keep(&mut self) {
        self.location.directory.disable_cleanup(true);
        eprintln!(
            "left: {}, {}",
            self.location.directory().display(),
            self.location.schema.as_deref().unwrap_or("test.db")
        );
    }

    /// Opens a connection that bypasses the engine.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&self.location.url, self.location.schema.as_deref()).await
    }

    /// Returns the schema on PostgreSQL.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.location.schema.as_deref()
    }

    /// Returns the directory of the ledger, the logs and the SQLite file.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.location.directory()
    }

    /// Lets the steps end that wait for this gate.
    pub fn open_gate(&self, name: &str) {
        std::fs::write(self.gate(name), "").expect("open a gate");
    }

    /// Makes later steps wait for this gate again.
    pub fn close_gate(&self, name: &str) {
        std::fs::remove_file(self.gate(name)).expect("close a gate");
    }

    /// Makes later steps wait for both gates of [`gated`](crate::workflows::gated).
    pub fn close_gates(&self) {
        for gate in ["one", "two"].map(|name| self.gate(name)).iter().filter(|gate| gate.exists()) {
            std::fs::remove_file(gate).expect("close a gate");
        }
    }

    fn gate(&self, name: &str) -> PathBuf {
        Site::new(self.directory().to_owned(), Duration::ZERO, 1).gate(name)
    }

    /// Returns the worker's settings: defaults where they matter, otherwise short times.
    #[must_use]
    pub fn settings(&self) -> WorkerSettings {
        self.location.settings()
    }

    /// Starts a worker process. Its log has its name.
    pub fn spawn(&self, name: &str, settings: &WorkerSettings) -> WorkerProcess {
        self.location.spawn(name, settings, None)
    }

    /// Starts a worker process that dies or stops at a failpoint.
    pub fn spawn_to_die(&self, name: &str, settings: &WorkerSettings, failpoint: &str) -> WorkerProcess {
        self.location.spawn(name, settings, Some(failpoint))
    }

    /// Stops a worker at a moment at which it holds no lock of the database. On SQLite, a process
    /// that stops in the middle of a transaction blocks all others until it continues or dies,
    /// because no server ends its transaction.
    pub async fn stop(&self, worker: &WorkerProcess) {
        loop {
            worker.signal(Signal::STOP);
            worker.stands_still().await;
            if self.can_be_written().await {
                return;
            }
            worker.signal(Signal::CONT);
            // Stopped again at once, it would not get the time to end its transaction, and all
            // others would wait for it.
            until("the transaction of a worker ends", async || self.can_be_written().await.then_some(())).await;
        }
    }

    /// Returns `true` if no process holds the write lock of the SQLite file.
    pub async fn can_be_written(&self) -> bool {
        let RawConnection::Sqlite(mut connection) = self.raw().await else { return true };
        let brief = "PRAGMA busy_timeout = 100; BEGIN IMMEDIATE; ROLLBACK";
        connection.execute(sqlx::raw_sql(brief)).await.is_ok()
    }

    /// Returns the history of a run.
    pub async fn history(&self, id: RunId) -> Vec<StepAttempt> {
        self.client.history(id).await.expect("read a history")
    }
}

impl Recorded {
    /// Returns the number of outcomes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.steps.len()
    }
}

fn subject(run: RunId, step_key: &str) -> String {
    format!("{run}/{step_key}")
}
