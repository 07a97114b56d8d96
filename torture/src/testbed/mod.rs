//! A database, a ledger beside it, and the processes that work on them.

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

use crate::ledger::Ledger;
use crate::worker_process::{WorkerProcess, WorkerSettings};
use crate::workflows::Site;
use workflow_tests::log_capture::LogCapture;
use workflow_tests::log_secrets::{assert_no_secret, stored_secrets};
use workflow_tests::{Database, RawConnection};

pub use location::Location;

/// A location of one test, or of one round of a campaign. Its clock is the real one: processes of their own work here.
#[derive(Debug)]
pub struct Testbed {
    /// Which database.
    pub database: Database,
    /// The client of this process.
    pub client: Client,
    /// What steps did.
    pub ledger: Ledger,
    location: Location,
    /// `None`: a campaign looks into the logs itself, and its own is too long to be kept.
    captured: Option<LogCapture>,
}

/// Where a testbed takes location, if not in the temporary directory and on the tests' server.
#[derive(Clone, Debug)]
pub struct TestbedOptions {
    /// Which database.
    pub database: Database,
    /// The PostgreSQL server; `None`: that of the tests.
    pub server: Option<String>,
    /// The directory in which that of the testbed is made; `None`: the system's for temporary files.
    pub directory: Option<PathBuf>,
    /// The program whose argument are a worker's settings; `None`: `ledger_worker`, as it was built with this one.
    pub program: Option<PathBuf>,
    /// The directory of SQLite's file; `None`: that of the testbed.
    pub files: Option<PathBuf>,
    /// The clock of this process's client; `None`: the true one.
    pub clock: Option<Clock>,
}

impl TestbedOptions {
    /// Nothing but the database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database, server: None, directory: None, program: None, files: None, clock: None }
    }
}

/// A run whose start was acknowledged, and the output that it must have.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// Its id.
    pub id: RunId,
    /// Its output.
    pub output: u64,
}

/// Of a test that fails, everything is left to be looked at.
impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep();
        }
    }
}

/// What stood in the database at one moment: outcomes whose bodies must never begin again.
#[derive(Clone, Debug)]
pub struct Recorded {
    steps: HashSet<String>,
    /// Lines that the ledger had.
    lines: usize,
}

impl Testbed {
    /// A fresh database of this kind, with its [audit](crate::audit).
    pub async fn new(database: Database) -> Self {
        Self::at(Location::new(database)).await
    }

    /// A fresh database where the options say, of a campaign.
    pub async fn with(mut options: TestbedOptions) -> Self {
        let clock = options.clock.take();
        Self::open(Location::with(options), clock, None).await
    }

    /// At this location, whatever is there.
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
        let testbed = Self { database: location.database, client, ledger, location, captured };
        crate::audit::install(&mut testbed.raw().await, testbed.schema()).await;
        testbed
    }

    /// Removes what lies outside of the test's own directory, which goes with the testbed: after its workers, who still write there.
    ///
    /// # Panics
    /// If a log shows what the database holds.
    pub async fn sweep(&self) {
        if let Some(captured) = &self.captured {
            let secrets = stored_secrets(&self.location.url, &mut self.raw().await).await;
            for log in self.location.logs().into_iter().chain([captured.text()]) {
                assert_no_secret(&secrets, &log);
            }
        }
        if let Some(schema) = &self.location.schema {
            let mut raw = self.raw().await;
            raw.execute(format!("SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")).await;
        }
    }

    /// Leaves the testbed's directory where it is, to be looked at.
    pub fn keep(&mut self) {
        self.location.directory.disable_cleanup(true);
        eprintln!(
            "left: {}, {}",
            self.location.directory().display(),
            self.location.schema.as_deref().unwrap_or("test.db")
        );
    }

    /// A connection past the engine.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&self.location.url, self.location.schema.as_deref()).await
    }

    /// The schema, on PostgreSQL.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.location.schema.as_deref()
    }

    /// Of the ledger, the logs and SQLite's file.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.location.directory()
    }

    /// Lets the steps end that wait for this gate.
    pub fn open_gate(&self, name: &str) {
        std::fs::write(self.gate(name), "").expect("open a gate");
    }

    /// Makes later steps wait again.
    pub fn close_gate(&self, name: &str) {
        std::fs::remove_file(self.gate(name)).expect("close a gate");
    }

    /// Makes later steps wait for each of the gates that a gated run has.
    pub fn close_gates(&self) {
        for gate in ["one", "two"].map(|name| self.gate(name)).iter().filter(|gate| gate.exists()) {
            std::fs::remove_file(gate).expect("close a gate");
        }
    }

    fn gate(&self, name: &str) -> PathBuf {
        Site::new(self.directory().to_owned(), Duration::ZERO, 1).gate(name)
    }

    /// Defaults of the worker where they matter, else what keeps a test short.
    #[must_use]
    pub fn settings(&self) -> WorkerSettings {
        self.location.settings()
    }

    /// A worker process. Its name is that of its log.
    pub fn spawn(&self, name: &str, settings: &WorkerSettings) -> WorkerProcess {
        self.location.spawn(name, settings, None)
    }

    /// A worker process that dies, or stands still, at a point.
    pub fn spawn_to_die(&self, name: &str, settings: &WorkerSettings, failpoint: &str) -> WorkerProcess {
        self.location.spawn(name, settings, Some(failpoint))
    }

    /// Stops a worker at a moment at which it holds no lock of the database. On SQLite a process that stands still in the
    /// middle of a transaction holds up all others until it goes on or dies: there is no server that would end it.
    pub async fn stop(&self, worker: &WorkerProcess) {
        loop {
            worker.signal(Signal::STOP);
            worker.stands_still().await;
            if self.can_be_written().await {
                return;
            }
            worker.signal(Signal::CONT);
        }
    }

    /// Whether nobody holds the write lock of the file.
    pub async fn can_be_written(&self) -> bool {
        let RawConnection::Sqlite(mut connection) = self.raw().await else { return true };
        let brief = "PRAGMA busy_timeout = 100; BEGIN IMMEDIATE; ROLLBACK";
        connection.execute(sqlx::raw_sql(brief)).await.is_ok()
    }

    /// What is recorded of a run.
    pub async fn history(&self, id: RunId) -> Vec<StepAttempt> {
        self.client.history(id).await.expect("read a history")
    }
}

impl Recorded {
    /// How many outcomes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.steps.len()
    }
}

fn subject(run: RunId, step_key: &str) -> String {
    format!("{run}/{step_key}")
}
