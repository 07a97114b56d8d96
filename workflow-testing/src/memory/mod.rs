//! The store in memory, for tests: plain maps behind the contract of a store. The data ends with
//! the last handle.
//!
//! [`Tables`](tables::Tables) and the functions that change it are synchronous, and know neither
//! clocks nor tasks. A mutex stands around the tables. A call never waits, so a commit is atomic:
//! no other call sees a part of it, and a dropped future has applied all of it or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use workflow_engine::model::{
    Claim, Clock, Lane, LimitRecord, QueueRecord, Retention, Run, RunId, SeatLine, SeatWait, StepAttempt,
    StoredSchedule, Timestamp, WorkerId,
};

use workflow_engine::store::{
    ApprovalList, AuditList, DatabaseError, DatabaseErrorKind, DueSchedules, EmittedItem, EndedRun, ForeignTransaction,
    GateList, GateUse, HeldRuns, HistoryRow, HistoryScan, Inbox, LeaseSession, ListedApprovals, ListedAudits,
    ListedGate, ListedSeat, Listener, NextDue, Outcome, ReadRates, RunCounts, RunScan, RunWakes, ScannedRuns,
    SeatCounts, SeatList, SeatRow, StepTransaction, Store, StoreId, WaitingPlace, WithinError, WorkerRecord, Write,
};

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
mod event;
mod finish;
mod fork;
mod gate;
mod hints;
mod lease;
mod ownerless;
mod pause;
mod placement;
mod read;
mod retry;
mod room;
mod schedule;
mod seat;
mod signal;
mod single;
mod start;
mod statistics;
mod system;
mod tables;
mod transaction;
mod wait;
mod within;

#[cfg(test)]
mod transaction_tests;

use database::Database;
use within::Within;

/// The kind of this database, as errors show it.
const MEMORY: &str = "a database in memory";

/// A database in memory. A clone is another reference to the same database. Each
/// [handle](MemoryDatabase::handle) stands for the connection of one process.
///
/// ```
/// use workflow_sdk::Client;
/// use workflow_engine::model::Clock;
/// use workflow_testing::MemoryDatabase;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = MemoryDatabase::new(Clock::default());
/// let client = Client::in_memory(&database).await?;
/// let run = client.start_by_name("checkout", &42.into()).await?;
/// let other_process = Client::in_memory(&database).await?;
/// assert_eq!(other_process.run(run.id()).await?.input, "42");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryDatabase(Arc<Database>);

impl MemoryDatabase {
    /// Creates an empty database whose times come from this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Database::new(clock)))
    }

    /// Opens a new handle, like a connection of another process: closing it closes no other handle,
    /// and it gets hints of the commits of other handles.
    #[must_use]
    pub fn handle(&self) -> Arc<dyn Store> {
        let number = self.0.next_handle();
        Arc::new(MemoryStore {
            handle: Arc::new(Handle {
                id: StoreId::next(),
                database: Arc::clone(&self.0),
                number,
                closed: AtomicBool::new(false),
            }),
        })
    }
}

/// Opens a new [handle](MemoryDatabase::handle), for `Client::in_memory`.
impl From<&MemoryDatabase> for Arc<dyn Store> {
    fn from(database: &MemoryDatabase) -> Self {
        database.handle()
    }
}

/// The connection of one process to a database.
#[derive(Debug)]
struct Handle {
    id: StoreId,
    database: Arc<Database>,
    /// Distinguishes the handle's own commits from the commits of other handles.
    number: u64,
    closed: AtomicBool,
}

impl Handle {
    /// Returns the database.
    ///
    /// # Errors
    /// Kind [`DatabaseErrorKind::Unreachable`] if the handle was closed.
    fn open(&self, operation: &'static str) -> Result<&Database, DatabaseError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(DatabaseError::new(DatabaseErrorKind::Unreachable, operation, "the database was closed"));
        }
        Ok(&self.database)
    }
}

/// The store of one handle.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    handle: Arc<Handle>,
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        let database = self.handle.open("commit a batch")?;
        database.change(self.handle.number, |tables, now| commit::commit(tables, writes, now))
    }

    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
        transaction::begin(&self.handle, claim)
    }

    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, DatabaseError> {
        let database = self.handle.open("look for an outcome")?;
        Ok(database.look(|tables, _| tables.attempt(run, step_key, attempt).cloned()))
    }

    async fn now(&self) -> Result<Timestamp, DatabaseError> {
        Ok(self.handle.open("read the time")?.look(|_, now| now))
    }

    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, DatabaseError> {
        let database = self.handle.open("find the next due run")?;
        Ok(database.look(|tables, now| NextDue { now, at: read::next_due(tables, lanes) }))
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, DatabaseError> {
        let database = self.handle.open("read a run")?;
        Ok(database.look(|tables, _| tables.run(id).cloned()))
    }

    async fn find(&self, workflow: &str, key: &str) -> Result<Option<RunId>, DatabaseError> {
        let database = self.handle.open("find a run")?;
        Ok(database.look(|tables, _| tables.keyed(workflow, key).map(|run| run.id)))
    }

    async fn scan(&self, scan: &RunScan) -> Result<ScannedRuns, DatabaseError> {
        let database = self.handle.open("list runs")?;
        Ok(database.look(|tables, _| read::scan(tables, scan)))
    }

    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError> {
        let database = self.handle.open("read a history")?;
        Ok(database.look(|tables, _| read::history(tables, id)))
    }

    async fn history_page(&self, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError> {
        let database = self.handle.open("read a part of a history")?;
        Ok(database.look(|tables, _| read::history_page(tables, scan)))
    }

    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, DatabaseError> {
        let database = self.handle.open("read a published value")?;
        Ok(database.look(|tables, _| read::published(tables, id, name)))
    }

    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, DatabaseError> {
        let database = self.handle.open("read a stream")?;
        Ok(database.look(|tables, _| read::emitted(tables, id, name, after, limit)))
    }

    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError> {
        let database = self.handle.open("read ended runs")?;
        Ok(database.look(|tables, _| read::ended(tables, ids)))
    }

    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError> {
        let database = self.handle.open("read an inbox")?;
        Ok(database.look(|tables, _| read::inbox(tables, id, names)))
    }

    async fn missing(&self, ids: &[RunId]) -> Result<Vec<RunId>, DatabaseError> {
        let database = self.handle.open("look for missing runs")?;
        Ok(database.look(|tables, _| read::missing(tables, ids)))
    }

    async fn audits(&self, list: &AuditList) -> Result<ListedAudits, DatabaseError> {
        let database = self.handle.open("list audit rows")?;
        Ok(database.look(|tables, _| audit::list(tables, list)))
    }

    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<RunWakes>, DatabaseError> {
        let database = self.handle.open("look at held runs")?;
        Ok(database.look(|tables, _| read::wakes(tables, ids)))
    }

    async fn approvals(&self, list: &ApprovalList) -> Result<ListedApprovals, DatabaseError> {
        let database = self.handle.open("list approvals")?;
        Ok(database.look(|tables, _| read::approvals(tables, list)))
    }

    async fn schedule(&self, name: &str) -> Result<Option<StoredSchedule>, DatabaseError> {
        let database = self.handle.open("read a schedule")?;
        Ok(database.look(|tables, _| tables.schedules().get(name).cloned()))
    }

    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredSchedule>, DatabaseError> {
        let database = self.handle.open("list schedules")?;
        Ok(database.look(|tables, _| schedule::list(tables, after, limit)))
    }

    async fn due_schedules(&self, computed: &[String], limit: u32) -> Result<DueSchedules, DatabaseError> {
        let database = self.handle.open("find due schedules")?;
        Ok(database.look(|tables, now| schedule::due(tables, computed, limit, now)))
    }

    async fn open_lease(
        &self,
        worker: WorkerId,
        lanes: &[Lane],
        retention: &Retention,
    ) -> Result<Box<dyn LeaseSession>, DatabaseError> {
        lease::open(&self.handle, worker, lanes, retention)
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, DatabaseError> {
        let database = self.handle.open("list queues")?;
        Ok(database.look(|tables, _| tables.queues().values().cloned().collect()))
    }

    async fn running_in(&self, queue: &str, at_most: u32) -> Result<u32, DatabaseError> {
        let database = self.handle.open("count the running runs of a queue")?;
        let running = database.look(|tables, _| tables.running_in(queue));
        Ok(u32::try_from(running).unwrap_or(u32::MAX).min(at_most))
    }

    async fn waiting_in(&self, place: WaitingPlace<'_>) -> Result<u32, DatabaseError> {
        let database = self.handle.open("count the waiting runs of a queue")?;
        Ok(database.look(|tables, _| room::count(tables, &place)))
    }

    async fn gate_use(&self, queue: &str, gate: &str) -> Result<GateUse, DatabaseError> {
        let database = self.handle.open("read the use of a gate")?;
        Ok(database.look(|tables, _| {
            let running = u32::try_from(tables.running_behind(queue, gate).count()).unwrap_or(u32::MAX);
            GateUse { running, used_until: tables.gates.used_until(queue, gate) }
        }))
    }

    async fn run_counts(&self, at_most: u32) -> Result<RunCounts, DatabaseError> {
        let database = self.handle.open("count runs")?;
        Ok(database.look(|tables, now| count::runs(tables, at_most, now)))
    }

    async fn lanes(&self, limit: u32) -> Result<Vec<Lane>, DatabaseError> {
        let database = self.handle.open("list lanes")?;
        Ok(database.look(|tables, _| count::lanes(tables, limit)))
    }

    async fn oldest_due(&self, queue: &str) -> Result<Option<Timestamp>, DatabaseError> {
        let database = self.handle.open("find the oldest due run")?;
        Ok(database.look(|tables, now| count::oldest_due(tables, queue, now)))
    }

    async fn gates(&self, list: GateList<'_>) -> Result<Vec<ListedGate>, DatabaseError> {
        let database = self.handle.open("list gates")?;
        Ok(database.look(|tables, _| gate::list(tables, list)))
    }

    async fn held_runs(&self, at_most: u32) -> Result<HeldRuns, DatabaseError> {
        let database = self.handle.open("count the runs of workers")?;
        Ok(database.look(|tables, _| count::held_runs(tables, at_most)))
    }

    async fn listed_seats(&self, list: SeatList<'_>) -> Result<Vec<ListedSeat>, DatabaseError> {
        let database = self.handle.open("list seats")?;
        Ok(database.look(|tables, _| seat::listed(tables, list)))
    }

    async fn seat_counts(&self, limit: &str, at_most: u32) -> Result<SeatCounts, DatabaseError> {
        let database = self.handle.open("count seats")?;
        Ok(database.look(|tables, _| seat::counts(tables, limit, at_most)))
    }

    async fn limits(&self) -> Result<Vec<LimitRecord>, DatabaseError> {
        let database = self.handle.open("list limits")?;
        Ok(database.look(|tables, _| tables.limits().values().cloned().collect()))
    }

    async fn waiting_lines(&self, after: Option<&SeatLine>, limit: u32) -> Result<Vec<SeatLine>, DatabaseError> {
        let database = self.handle.open("find waiting steps")?;
        Ok(database.look(|tables, _| seat::waiting_lines(tables, after, limit)))
    }

    async fn seats(&self, lines: &[(&SeatLine, u32)]) -> Result<Vec<Vec<SeatRow>>, DatabaseError> {
        let database = self.handle.open("read seats")?;
        Ok(database.look(|tables, now| seat::read(tables, lines, &[], now)))
    }

    async fn line_rates(&self, lines: &[&SeatLine]) -> Result<ReadRates, DatabaseError> {
        let database = self.handle.open("read the rates of limits")?;
        Ok(database.look(|tables, now| seat::read_rates(tables, lines, now)))
    }

    async fn seat_waits(&self, run: RunId) -> Result<Vec<SeatWait>, DatabaseError> {
        let database = self.handle.open("find the seats that a run waits for")?;
        Ok(database.look(|tables, _| seat::waits_of(tables, run)))
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, DatabaseError> {
        let database = self.handle.open("list workers")?;
        Ok(database.look(|tables, _| tables.workers.records()))
    }

    async fn due_lanes(&self, lanes: &[Lane]) -> Result<Vec<Lane>, DatabaseError> {
        let database = self.handle.open("find due lanes")?;
        Ok(database.look(|tables, now| read::due_lanes(tables, lanes, now)))
    }

    /// Sends nothing, because each commit wakes the listeners of the other handles itself.
    async fn hint(&self) -> Result<(), DatabaseError> {
        self.handle.open("send a hint").map(drop)
    }

    async fn listen(&self) -> Result<Box<dyn Listener>, DatabaseError> {
        Ok(Box::new(hints::listen(&self.handle)?))
    }

    fn in_process(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.handle.closed.store(true, Ordering::SeqCst);
        self.handle.database.listeners().wake_all();
    }

    async fn commit_within(&self, transaction: ForeignTransaction<'_>, write: &Write) -> Result<Outcome, WithinError> {
        let other = WithinError::OtherDatabase { store: MEMORY, transaction: transaction.database };
        let within: &mut Within = transaction.connection.downcast_mut().ok_or(other)?;
        Ok(within.write(&self.handle.database, write)?)
    }
}
