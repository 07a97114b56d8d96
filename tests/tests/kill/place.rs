//! Where a scene takes place, before anything is there.

use std::path::Path;

use tempfile::TempDir;
use workflow_tests::Database;
use workflow_tests::postgres::postgres_url;
use workflow_tests::worker_process::{WorkerProcess, WorkerSettings};

/// A directory, and a database without tables.
pub struct Place {
    pub database: Database,
    pub directory: TempDir,
    pub url: String,
    pub schema: Option<String>,
}

impl Place {
    pub fn new(database: Database) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let (url, schema) = match database {
            Database::Sqlite => (format!("sqlite://{}", directory.path().join("test.db").display()), None),
            Database::Postgres => {
                (postgres_url(), Some(format!("k_{}", &uuid::Uuid::new_v4().simple().to_string()[..24])))
            }
        };
        Self { database, directory, url, schema }
    }

    /// Defaults of the worker where they matter, else what keeps a test short.
    pub fn settings(&self) -> WorkerSettings {
        WorkerSettings {
            url: self.url.clone(),
            schema: self.schema.clone(),
            directory: self.directory.path().to_owned(),
            lease: None,
            concurrency: 100,
            linger: 1000,
            grace: 30_000,
            max_crashes: None,
            pause: 2,
            threads: 2,
            starts_runs: false,
        }
    }

    /// A worker process. Its name is that of its log.
    pub fn spawn(&self, name: &str, settings: &WorkerSettings, failpoint: Option<&str>) -> WorkerProcess {
        WorkerProcess::spawn(Path::new(env!("CARGO_BIN_EXE_ledger_worker")), settings, name, failpoint)
    }
}
