//! A database, a ledger beside it, and the processes that work on them.

mod check;
mod load;
mod wait;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use sqlx::Executor;
use tempfile::TempDir;
use workflow_sdk::prelude::*;
use workflow_sdk::{RunId, StepAttempt};

use crate::ledger::Ledger;
use crate::postgres::postgres_url;
use crate::worker_process::{WorkerProcess, WorkerSettings};
use crate::workflows::Site;
use crate::{Database, RawConnection};

/// A place of one test, or of one round of a campaign. Its clock is the real one: processes of their own work here.
#[derive(Debug)]
pub struct Scene {
    /// Which database.
    pub database: Database,
    /// The client of this process.
    pub client: Client,
    /// What steps did.
    pub ledger: Ledger,
    url: String,
    schema: Option<String>,
    directory: TempDir,
    program: PathBuf,
}

/// Where a scene takes place, if not in the temporary directory and on the tests' server.
#[derive(Clone, Debug)]
pub struct SceneOptions {
    /// Which database.
    pub database: Database,
    /// The PostgreSQL server; `None`: that of the tests.
    pub server: Option<String>,
    /// The directory in which that of the scene is made; `None`: the system's for temporary files.
    pub directory: Option<PathBuf>,
    /// The program whose argument are a worker's settings; `None`: `ledger_worker`, as it was built with this one.
    pub program: Option<PathBuf>,
}

impl SceneOptions {
    /// Nothing but the database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database, server: None, directory: None, program: None }
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
impl Drop for Scene {
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

impl Scene {
    /// A fresh database of this kind, with its [audit](crate::audit).
    pub async fn new(database: Database) -> Self {
        Self::with(SceneOptions::new(database)).await
    }

    /// A fresh database where the options say.
    pub async fn with(options: SceneOptions) -> Self {
        let SceneOptions { database, server, directory, program } = options;
        let directory = match directory {
            Some(parent) => tempfile::tempdir_in(parent),
            None => tempfile::tempdir(),
        };
        let directory = directory.expect("a directory for the scene");
        let (url, schema) = match database {
            Database::Sqlite => (format!("sqlite://{}", directory.path().join("test.db").display()), None),
            Database::Postgres => {
                let schema = format!("k_{}", &uuid::Uuid::new_v4().simple().to_string()[..24]);
                (server.unwrap_or_else(postgres_url), Some(schema))
            }
        };
        let program = program.unwrap_or_else(ledger_worker);
        let mut connect = Client::connect(&url).pool_size(4);
        if let Some(schema) = &schema {
            connect = connect.schema(schema);
        }
        let client = connect.await.expect("connect to a fresh database");
        let scene =
            Self { database, client, ledger: Ledger::inside(directory.path()), url, schema, directory, program };
        crate::audit::install(&mut scene.raw().await, scene.schema.as_deref()).await;
        scene
    }

    /// Removes what lies outside of the test's own directory.
    pub async fn sweep(self) {
        if let Some(schema) = &self.schema {
            let mut raw = self.raw().await;
            raw.execute(format!("SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")).await;
        }
    }

    /// Leaves the scene's directory where it is, to be looked at.
    pub fn keep(&mut self) {
        self.directory.disable_cleanup(true);
        eprintln!("left: {}, {}", self.directory.path().display(), self.schema.as_deref().unwrap_or("test.db"));
    }

    /// A connection past the engine.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&self.url, self.schema.as_deref()).await
    }

    /// The schema, on PostgreSQL.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Of the ledger, the logs and SQLite's file.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Lets the steps end that wait for this gate.
    pub fn open_gate(&self, name: &str) {
        std::fs::write(self.gate(name), "").expect("open a gate");
    }

    /// Makes later steps wait again.
    pub fn close_gate(&self, name: &str) {
        std::fs::remove_file(self.gate(name)).expect("close a gate");
    }

    fn gate(&self, name: &str) -> PathBuf {
        Site::new(self.directory().to_owned(), Duration::ZERO, 1).gate(name)
    }

    /// Defaults of the worker where they matter, else what keeps a test short.
    #[must_use]
    pub fn settings(&self) -> WorkerSettings {
        WorkerSettings {
            url: self.url.clone(),
            schema: self.schema.clone(),
            directory: self.directory().to_owned(),
            lease: None,
            concurrency: 100,
            linger: 1000,
            grace: 30_000,
            max_crashes: None,
            pause: 2,
            threads: 2,
            starts_runs: false,
            races: false,
        }
    }

    /// A worker process. Its name is that of its log.
    pub fn spawn(&self, name: &str, settings: &WorkerSettings) -> WorkerProcess {
        WorkerProcess::spawn(&self.program, settings, name, None)
    }

    /// A worker process that dies, or stands still, at a point.
    pub fn spawn_to_die(&self, name: &str, settings: &WorkerSettings, failpoint: &str) -> WorkerProcess {
        WorkerProcess::spawn(&self.program, settings, name, Some(failpoint))
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

/// The program beside this one, or one directory above it: where cargo puts the programs of a package, and its tests.
fn ledger_worker() -> PathBuf {
    let this = std::env::current_exe().expect("the path of this program");
    let directory = this.ancestors().skip(1).find(|directory| directory.join("ledger_worker").exists());
    directory.unwrap_or_else(|| panic!("no ledger_worker beside {}: build it", this.display())).join("ledger_worker")
}

fn subject(run: RunId, step_key: &str) -> String {
    format!("{run}/{step_key}")
}
