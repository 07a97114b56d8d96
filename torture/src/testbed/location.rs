use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::worker_process::{WorkerProcess, WorkerSettings};
use workflow_tests::Database;
use workflow_tests::postgres::postgres_url;

use super::TestbedOptions;

/// The location of a testbed before anything is there: a directory, and a database without tables.
#[derive(Debug)]
pub struct Location {
    /// Which database.
    pub database: Database,
    pub(super) url: String,
    pub(super) schema: Option<String>,
    pub(super) directory: TempDir,
    program: PathBuf,
}

impl Location {
    /// Returns a location in the temporary directory and on the tests' server.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self::with(TestbedOptions::new(database))
    }

    pub(super) fn with(options: TestbedOptions) -> Self {
        let TestbedOptions { database, server, directory, program, files, clock: _ } = options;
        let directory = match directory {
            Some(parent) => tempfile::tempdir_in(parent),
            None => tempfile::tempdir(),
        };
        let directory = directory.expect("a directory for the testbed");
        let (url, schema) = match database {
            Database::Memory => unreachable!("a database in memory takes no SQL"),
            Database::Sqlite => {
                let files = files.as_deref().unwrap_or(directory.path());
                (format!("sqlite://{}", files.join("test.db").display()), None)
            }
            Database::Postgres => {
                let schema = format!("k_{}", &uuid::Uuid::new_v4().simple().to_string()[..24]);
                (server.unwrap_or_else(postgres_url), Some(schema))
            }
        };
        Self { database, url, schema, directory, program: program.unwrap_or_else(ledger_worker) }
    }

    /// Returns the directory of the ledger, the logs and the SQLite file.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the logs of the worker processes.
    pub(super) fn logs(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.directory()).expect("list the directory");
        let paths = files.map(|file| file.expect("a file of the directory").path());
        let logs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.map(|path| std::fs::read_to_string(path).expect("read a log")).collect()
    }

    /// Returns the worker's settings: defaults where they matter, otherwise short times.
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
            cancel_grace: None,
            lets_bodies_end: false,
            max_crashes: None,
            pause: 2,
            threads: 2,
            starts_runs: false,
            races: false,
            release: 0,
            variables: Vec::new(),
        }
    }

    /// Starts a worker process, which dies or stops at the failpoint, if there is one. Its log has
    /// its name.
    #[must_use]
    pub fn spawn(&self, name: &str, settings: &WorkerSettings, failpoint: Option<&str>) -> WorkerProcess {
        WorkerProcess::spawn(&self.program, settings, name, failpoint)
    }
}

/// Returns the path of `ledger_worker`: beside this program or one directory above, where cargo
/// puts the programs of a package for its tests.
fn ledger_worker() -> PathBuf {
    let this = std::env::current_exe().expect("the path of this program");
    let directory = this.ancestors().skip(1).find(|directory| directory.join("ledger_worker").exists());
    directory.unwrap_or_else(|| panic!("no ledger_worker beside {}; build it", this.display())).join("ledger_worker")
}
