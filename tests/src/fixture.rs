//! A fresh database for one test.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use workflow_engine::model::{Claim, Clock, NewRun};
use workflow_engine::store::{ClaimRequest, Claimed, ClaimedRun, Outcome, StartOutcome, Store, StoreOptions, Write};
use workflow_sdk::internal::connect;
use workflow_sdk::{ConnectError, Run, RunFilter, RunId, RunStatus, StepAttempt, Timestamp};
use workflow_testing::MemoryDatabase;

use crate::builders::{CLOCK_START, claim_request, lane, new_run};
use crate::log_capture::LogCapture;
use crate::log_secrets::assert_no_stored_secret;
use crate::outcome;
use crate::postgres::postgres_url;
use crate::raw_connection::RawConnection;

/// The databases that keep the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// A file.
    Sqlite,
    /// A schema on the server of the tests.
    Postgres,
    /// The maps of the store for tests.
    Memory,
}

impl Database {
    /// Returns its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Memory => "memory",
        }
    }
}

/// A fresh database, a store on it, and a clock that stands still until it is moved.
#[derive(Debug)]
pub struct Fixture {
    /// Which database.
    pub database: Database,
    /// The first handle.
    pub store: Arc<dyn Store>,
    /// The clock of every handle.
    pub clock: Clock,
    location: DataLocation,
    captured: Arc<LogCapture>,
}

/// The location of the data.
#[derive(Clone, Debug)]
pub(crate) enum DataLocation {
    File(Arc<TempDir>),
    Schema(String),
    Memory(MemoryDatabase),
}

impl DataLocation {
    pub(crate) fn new(database: Database, clock: &Clock) -> Self {
        match database {
            Database::Memory => Self::Memory(MemoryDatabase::new(clock.clone())),
            Database::Sqlite => Self::File(Arc::new(tempfile::tempdir().expect("a directory for the database"))),
            // At most 31 bytes are accepted: 2 and 24 random digits and the prefix.
            Database::Postgres => Self::Schema(format!("t_{}", &uuid::Uuid::new_v4().simple().to_string()[..24])),
        }
    }

    pub(crate) fn schema(&self) -> Option<&str> {
        match self {
            Self::File(_) | Self::Memory(_) => None,
            Self::Schema(schema) => Some(schema),
        }
    }
}

impl Fixture {
    /// Creates a new database with the tables of the engine.
    pub async fn new(database: Database) -> Self {
        let captured = Arc::new(LogCapture::start());
        let clock = Clock::manual(CLOCK_START);
        let location = DataLocation::new(database, &clock);
        let store = connect_to(&location, &clock).await.expect("connect to a fresh database");
        Self { database, store, clock, location, captured }
    }

    /// The URL of the data.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.location)
    }

    /// The options of every handle.
    #[must_use]
    pub fn options(&self) -> StoreOptions {
        options(&self.location, &self.clock)
    }

    /// Opens a second handle on the data, as another process would have one.
    pub async fn second(&self) -> Arc<dyn Store> {
        self.connect().await.expect("a second handle")
    }

    /// Connects once more.
    ///
    /// # Errors
    /// [`ConnectError`] of the store.
    pub async fn connect(&self) -> Result<Arc<dyn Store>, ConnectError> {
        connect_to(&self.location, &self.clock).await
    }

    /// A connection of the test's own, past the contract.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&url(&self.location), self.location.schema()).await
    }

    /// Creates a location of its own for data of this kind, without tables.
    #[must_use]
    pub fn empty(&self) -> Empty {
        Empty { location: DataLocation::new(self.database, &self.clock), clock: self.clock.clone() }
    }

    /// Returns the value that removes the data, to be used after the last use of the fixture.
    #[must_use]
    pub fn cleanup(&self) -> Cleanup {
        Cleanup { store: self.store.clone(), location: self.location.clone(), captured: Arc::clone(&self.captured) }
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.host_now()
    }

    /// Moves the time.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Commits on the first handle.
    pub async fn commit(&self, writes: &[Write]) -> Vec<Outcome> {
        let outcomes = self.store.commit(writes).await.expect("commit");
        assert_eq!(outcomes.len(), writes.len(), "an outcome for each write");
        outcomes
    }

    /// Commits one write.
    pub async fn write(&self, write: Write) -> Outcome {
        outcome::one(self.commit(&[write]).await)
    }

    /// Starts a run.
    pub async fn start(&self, run: &NewRun) -> StartOutcome {
        outcome::started(&self.write(Write::Start(run.clone())).await)
    }

    /// Starts [`new_run`].
    pub async fn started(&self) -> RunId {
        let run = new_run();
        assert_eq!(self.start(&run).await, StartOutcome::Created);
        run.id
    }

    /// Starts this many runs in one batch.
    pub async fn started_many(&self, count: usize) -> Vec<RunId> {
        let runs: Vec<NewRun> = (0..count).map(|_| new_run()).collect();
        for started in self.commit(&runs.iter().cloned().map(Write::Start).collect::<Vec<_>>()).await {
            outcome::created(&started);
        }
        runs.iter().map(|run| run.id).collect()
    }

    /// Claims runs.
    pub async fn claim(&self, request: &ClaimRequest) -> Claimed {
        outcome::claimed(self.write(Write::Claim(request.clone())).await)
    }

    /// Claims all due runs for a new worker and returns their ids.
    pub async fn claim_due(&self) -> Vec<RunId> {
        self.claim(&claim_request()).await.runs.iter().map(|run| run.claim.run_id).collect()
    }

    /// Claims the only due run for a new worker.
    pub async fn claim_only(&self) -> ClaimedRun {
        let mut runs = self.claim(&claim_request()).await.runs;
        assert_eq!(runs.len(), 1, "one run is due");
        runs.remove(0)
    }

    /// Starts [`new_run`] and claims it for a new worker.
    pub async fn held(&self) -> Claim {
        let id = self.started().await;
        let claim = self.claim_only().await.claim;
        assert_eq!(claim.run_id, id);
        claim
    }

    /// Starts [`new_run`], claims it, lets the lease end and claims it again; returns the stale and
    /// the current claim.
    pub async fn taken_over(&self) -> (Claim, Claim) {
        let stale = self.held().await;
        self.advance(crate::builders::LEASE);
        let current = self.claim_only().await.claim;
        assert_eq!(current, Claim { run_id: stale.run_id, epoch: stale.epoch + 1 });
        (stale, current)
    }

    /// Reads a run that exists.
    pub async fn run(&self, id: RunId) -> Run {
        self.store.run(id).await.expect("read a run").expect("the run exists")
    }

    /// Reads up to a thousand runs, the newest first.
    pub async fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for listed in self.store.list(&RunFilter::new().page_size(1000)).await.expect("list") {
            runs.push(self.run(listed.id).await);
        }
        runs
    }

    /// Reads the status of a run that exists.
    pub async fn status(&self, id: RunId) -> RunStatus {
        self.run(id).await.status
    }

    /// Reads the history of a run.
    pub async fn history(&self, id: RunId) -> Vec<StepAttempt> {
        self.store.history(id).await.expect("read a history")
    }

    /// Reads all that is stored of a run, to check that nothing changes it.
    pub async fn snapshot(&self, id: RunId) -> (Run, Vec<StepAttempt>) {
        (self.run(id).await, self.history(id).await)
    }

    /// Returns when [`lane`] is next due.
    pub async fn next_due(&self) -> Option<Timestamp> {
        let next = self.store.next_due(&[lane()]).await.expect("next due");
        assert_eq!(next.now, self.now(), "the store's clock decides");
        next.at
    }
}

async fn connect_to(location: &DataLocation, clock: &Clock) -> Result<Arc<dyn Store>, ConnectError> {
    match location {
        DataLocation::Memory(database) => Ok(database.handle()),
        DataLocation::File(_) | DataLocation::Schema(_) => connect(&url(location), options(location, clock)).await,
    }
}

/// Returns the URL of data that has one.
///
/// # Panics
/// Panics for data in memory: a case that needs the URL or SQL says in its list that it does not
/// run there.
pub(crate) fn url(location: &DataLocation) -> String {
    match location {
        DataLocation::Memory(_) => panic!("a database in memory has no URL and takes no SQL"),
        DataLocation::File(dir) => format!("sqlite://{}", dir.path().join("test.db").display()),
        DataLocation::Schema(_) => postgres_url(),
    }
}

/// Removes data outside the test's own directory.
pub(crate) async fn sweep(location: &DataLocation) {
    if let Some(schema) = location.schema() {
        let mut raw = RawConnection::open(&url(location), Some(schema)).await;
        raw.drop_schema(schema).await;
    }
}

fn options(location: &DataLocation, clock: &Clock) -> StoreOptions {
    let mut options = StoreOptions { clock: clock.clone(), ..StoreOptions::default() };
    if let DataLocation::Schema(schema) = location {
        options.schema.clone_from(schema);
    }
    options
}

/// An empty location for data.
#[derive(Debug)]
pub struct Empty {
    location: DataLocation,
    clock: Clock,
}

impl Empty {
    /// Returns an empty location for this kind of database, whose handles have this clock.
    #[must_use]
    pub fn new(database: Database, clock: &Clock) -> Self {
        Self { location: DataLocation::new(database, clock), clock: clock.clone() }
    }

    /// Returns an empty location for this kind of database, whose handles have the usual clock.
    #[must_use]
    pub fn of(database: Database) -> Self {
        Self::new(database, &Clock::default())
    }

    /// The URL of the data.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.location)
    }

    /// The options of every handle.
    #[must_use]
    pub fn options(&self) -> StoreOptions {
        options(&self.location, &self.clock)
    }

    /// Opens a connection of the test's own, after the first store was opened.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&url(&self.location), self.location.schema()).await
    }

    /// Removes the data.
    pub async fn sweep(self) {
        sweep(&self.location).await;
    }
}

/// Removes the data of a fixture when the test passes: the data of a failed test stays on the
/// server to be inspected.
#[derive(Debug)]
pub struct Cleanup {
    store: Arc<dyn Store>,
    location: DataLocation,
    captured: Arc<LogCapture>,
}

impl Cleanup {
    /// Removes the data.
    ///
    /// # Panics
    /// Panics if the log shows any of the data.
    pub async fn sweep(self) {
        self.store.close().await;
        assert_no_stored_secret(&self.location, &self.captured).await;
        sweep(&self.location).await;
    }
}
