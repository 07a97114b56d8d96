//! The SQLite store: one file, one writer connection, a few readers. Several processes may share
//! the file.

use std::sync::Arc;

use async_trait::async_trait;

use workflow_engine::model::{
    Claim, Lane, LimitRecord, QueueRecord, Retention, Run, RunId, SeatLine, SeatWait, StepAttempt, StoredSchedule,
    Timestamp, WorkerId,
};

use workflow_engine::store::{
    ApprovalList, AuditList, ConnectError, DatabaseError, DueSchedules, EmittedItem, EndedRun, ForeignTransaction,
    GateList, GateUse, HeldRuns, HistoryRow, HistoryScan, Inbox, LeaseSession, ListedApprovals, ListedAudits,
    ListedGate, ListedSeat, Listener, NextDue, Outcome, ReadRates, RunCounts, RunScan, RunWakes, ScannedRuns,
    SeatCounts, SeatList, SeatRow, StepTransaction, Store, StoreOptions, WaitingPlace, WithinError, WorkerRecord,
    Write,
};

/// The connection of the driver, as an application uses it.
pub use sqlx::SqliteConnection;

/// The transaction of the driver, as an application uses it.
pub type SqliteTransaction<'c> = sqlx::Transaction<'c, sqlx::Sqlite>;

/// The pool of the driver, as an application uses it.
pub type Pool = sqlx::SqlitePool;

/// The kind of this database, as errors show it.
pub const DATABASE: &str = "SQLite";

mod attempt;
mod audit;
mod bulk;
mod cascade;
mod change;
mod claim;
mod commit;
mod continue_as_new;
mod count;
mod crashes;
mod database;
mod deletion;
mod error;
mod event;
mod fast_path;
mod fence;
mod fence_cache;
mod file_identity;
mod finish;
mod fork;
mod gate;
mod hint_socket;
mod hints;
mod history_page;
mod lease;
mod limit;
mod line_rate;
mod location;
mod lock_file;
mod migrate;
mod open;
mod ownerless;
mod pause;
mod placement;
mod pool;
mod queue;
mod read;
mod retry;
mod room;
mod row;
mod rows;
mod scan;
mod schedule;
mod script;
mod seat;
mod signal;
mod single;
mod slow_path;
mod sql;
mod start;
mod statistics;
mod system;
mod transaction;
mod transfer;
mod transfer_sql;
mod wait;
mod wal_file;
mod wal_watch;
mod within;
mod workers;
mod writer;

#[cfg(test)]
mod commit_tests;
#[cfg(test)]
mod count_tests;
#[cfg(test)]
mod fast_path_tests;
#[cfg(test)]
mod fence_cache_tests;
#[cfg(test)]
mod file_identity_tests;
#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod lease_tests;
#[cfg(test)]
mod open_tests;
#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod scan_tests;

use database::Database;
use error::{with_write_lock, within_deadline};

/// Returns the statements that bring a database with this version up to date, in one transaction.
/// 0: it has none of our tables.
#[doc(hidden)]
#[must_use]
pub fn migration_script(found: i64) -> String {
    migrate::script(found)
}

/// A store in a SQLite database.
#[derive(Debug)]
pub struct SqliteStore {
    database: Arc<Database>,
    /// The turn to commit a batch, in the order of the calls. The deadline of a commit does not
    /// count the time before its turn.
    turn: tokio::sync::Mutex<()>,
}

impl SqliteStore {
    /// Opens the database at the URL, creates it if it is missing, and brings its schema up to
    /// date.
    ///
    /// # Errors
    /// [`ConnectError`] if the database cannot be opened, checked or migrated.
    pub async fn open(url: &str, options: StoreOptions) -> Result<Self, ConnectError> {
        let database = open::open(url, options).await?;
        Ok(Self { database: Arc::new(database), turn: tokio::sync::Mutex::default() })
    }

    /// Opens the database of a pool of the application, and brings its schema up to date. Reads use
    /// the pool, which stays open when the store is closed.
    ///
    /// # Errors
    /// [`ConnectError`] if the database cannot be opened, checked or migrated, or does not suit.
    pub async fn open_pool(pool: Pool, options: StoreOptions) -> Result<Self, ConnectError> {
        let database = open::open_pool(pool, options).await?;
        Ok(Self { database: Arc::new(database), turn: tokio::sync::Mutex::default() })
    }

    /// Commits on the slow path, whatever the writes are. Tests compare its outcomes with those of
    /// the fast path.
    ///
    /// # Errors
    /// See [`Store::commit`].
    #[doc(hidden)]
    pub async fn commit_on_slow_path(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        with_write_lock!("commit a batch", commit::commit_on_slow_path(&self.database, writes))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        const OPERATION: &str = "commit a batch";
        let _turn = self.turn.lock().await;
        self.database.check_files_after_pause(OPERATION)?;
        let outcomes = with_write_lock!(OPERATION, commit::commit(&self.database, writes))?;
        self.database.check_files(OPERATION)?;
        Ok(outcomes)
    }

    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
        with_write_lock!("begin a transaction", transaction::begin(&self.database, claim))
    }

    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, DatabaseError> {
        with_write_lock!("look for an outcome", transaction::recorded(&self.database, run, step_key, attempt))
    }

    async fn now(&self) -> Result<Timestamp, DatabaseError> {
        Ok(self.database.now())
    }

    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, DatabaseError> {
        within_deadline("find the next due run", read::next_due(&self.database, lanes)).await
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, DatabaseError> {
        within_deadline("read a run", read::run(&self.database, id)).await
    }

    async fn find(&self, workflow: &str, key: &str) -> Result<Option<RunId>, DatabaseError> {
        within_deadline("find a run", read::find(&self.database, workflow, key)).await
    }

    async fn scan(&self, scan: &RunScan) -> Result<ScannedRuns, DatabaseError> {
        within_deadline("list runs", scan::scan(&self.database, scan)).await
    }

    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError> {
        within_deadline("read a history", read::history(&self.database, id)).await
    }

    async fn history_page(&self, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError> {
        within_deadline("read a part of a history", history_page::read(&self.database, scan)).await
    }

    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, DatabaseError> {
        within_deadline("read a published value", read::published(&self.database, id, name)).await
    }

    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, DatabaseError> {
        within_deadline("read a stream", read::emitted(&self.database, id, name, after, limit)).await
    }

    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError> {
        within_deadline("read ended runs", read::ended(&self.database, ids)).await
    }

    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError> {
        within_deadline("read an inbox", read::inbox(&self.database, id, names)).await
    }

    async fn missing(&self, ids: &[RunId]) -> Result<Vec<RunId>, DatabaseError> {
        within_deadline("look for missing runs", read::missing(&self.database, ids)).await
    }

    async fn audits(&self, list: &AuditList) -> Result<ListedAudits, DatabaseError> {
        within_deadline("list audit rows", audit::list(&self.database, list)).await
    }

    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<RunWakes>, DatabaseError> {
        within_deadline("look at held runs", read::wakes(&self.database, ids)).await
    }

    async fn approvals(&self, list: &ApprovalList) -> Result<ListedApprovals, DatabaseError> {
        within_deadline("list approvals", read::approvals(&self.database, list)).await
    }

    async fn schedule(&self, name: &str) -> Result<Option<StoredSchedule>, DatabaseError> {
        within_deadline("read a schedule", schedule::read(&self.database, name)).await
    }

    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredSchedule>, DatabaseError> {
        within_deadline("list schedules", schedule::list(&self.database, after, limit)).await
    }

    async fn due_schedules(&self, computed: &[String], limit: u32) -> Result<DueSchedules, DatabaseError> {
        within_deadline("find due schedules", schedule::due(&self.database, computed, limit)).await
    }

    async fn open_lease(
        &self,
        worker: WorkerId,
        lanes: &[Lane],
        retention: &Retention,
    ) -> Result<Box<dyn LeaseSession>, DatabaseError> {
        within_deadline("open a lease session", lease::open(&self.database, worker, lanes, retention)).await
    }

    async fn run_counts(&self, at_most: u32) -> Result<RunCounts, DatabaseError> {
        within_deadline("count runs", count::runs(&self.database, at_most)).await
    }

    async fn lanes(&self, limit: u32) -> Result<Vec<Lane>, DatabaseError> {
        within_deadline("list lanes", workers::lanes(&self.database, limit)).await
    }

    async fn oldest_due(&self, queue: &str) -> Result<Option<Timestamp>, DatabaseError> {
        within_deadline("find the oldest due run", queue::oldest_due(&self.database, queue)).await
    }

    async fn gates(&self, list: GateList<'_>) -> Result<Vec<ListedGate>, DatabaseError> {
        within_deadline("list gates", count::gates(&self.database, list)).await
    }

    async fn held_runs(&self, at_most: u32) -> Result<HeldRuns, DatabaseError> {
        within_deadline("count the runs of workers", count::held_runs(&self.database, at_most)).await
    }

    async fn listed_seats(&self, list: SeatList<'_>) -> Result<Vec<ListedSeat>, DatabaseError> {
        within_deadline("list seats", seat::listed(&self.database, list)).await
    }

    async fn seat_counts(&self, limit: &str, at_most: u32) -> Result<SeatCounts, DatabaseError> {
        within_deadline("count seats", count::seats(&self.database, limit, at_most)).await
    }

    async fn limits(&self) -> Result<Vec<LimitRecord>, DatabaseError> {
        within_deadline("list limits", limit::list(&self.database)).await
    }

    async fn waiting_lines(&self, after: Option<&SeatLine>, limit: u32) -> Result<Vec<SeatLine>, DatabaseError> {
        within_deadline("find waiting steps", seat::waiting_lines(&self.database, after, limit)).await
    }

    async fn seats(&self, lines: &[(&SeatLine, u32)]) -> Result<Vec<Vec<SeatRow>>, DatabaseError> {
        within_deadline("read seats", seat::list(&self.database, lines)).await
    }

    async fn line_rates(&self, lines: &[&SeatLine]) -> Result<ReadRates, DatabaseError> {
        within_deadline("read the rates of limits", line_rate::list(&self.database, lines)).await
    }

    async fn seat_waits(&self, run: RunId) -> Result<Vec<SeatWait>, DatabaseError> {
        within_deadline("find the seats that a run waits for", seat::waits_of(&self.database, run)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, DatabaseError> {
        within_deadline("list workers", workers::workers(&self.database)).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, DatabaseError> {
        within_deadline("list queues", queue::list(&self.database)).await
    }

    async fn running_in(&self, queue: &str, at_most: u32) -> Result<u32, DatabaseError> {
        within_deadline("count the running runs of a queue", queue::running_in(&self.database, queue, at_most)).await
    }

    async fn waiting_in(&self, place: WaitingPlace<'_>) -> Result<u32, DatabaseError> {
        within_deadline("count the waiting runs of a queue", room::waiting_in(&self.database, place)).await
    }

    async fn gate_use(&self, queue: &str, gate: &str) -> Result<GateUse, DatabaseError> {
        within_deadline("read the use of a gate", queue::gate_use(&self.database, queue, gate)).await
    }

    async fn due_lanes(&self, lanes: &[Lane]) -> Result<Vec<Lane>, DatabaseError> {
        within_deadline("find due lanes", workers::due_lanes(&self.database, lanes)).await
    }

    /// A commit changes the data version of the database, which every listener checks. The hint
    /// spares a listener the time until its next check.
    async fn hint(&self) -> Result<(), DatabaseError> {
        const OPERATION: &str = "send a hint";
        self.database.check_open(OPERATION)?;
        let Some(file) = &self.database.file else { return Ok(()) };
        file.hints.notify().map_err(|error| lease::file_error(OPERATION, error))
    }

    async fn listen(&self) -> Result<Box<dyn Listener>, DatabaseError> {
        within_deadline("listen for hints", hints::listen(&self.database)).await
    }

    async fn close(&self) {
        let closing = async {
            self.database.close().await;
            Ok(())
        };
        if let Err(error) = within_deadline("close the database", closing).await {
            tracing::warn!(%error, "connections were left open");
        }
    }

    fn in_process(&self) -> bool {
        false
    }

    async fn commit_within(&self, transaction: ForeignTransaction<'_>, write: &Write) -> Result<Outcome, WithinError> {
        let other = WithinError::OtherDatabase { store: DATABASE, transaction: transaction.database };
        let own = transaction.origin == Some(self.database.id);
        let connection = transaction.connection.downcast_mut().ok_or(other)?;
        Ok(self.write_within(connection, own, write).await?)
    }
}
