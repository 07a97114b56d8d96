//! The PostgreSQL store.
//!
//! Order of locks: a batch takes locks in five places only: the schedules that it changes (in the
//! order of their names, before everything else), the rows of workers, the keys of its
//! starts (in their order), the lines in which it gives seats out (in the order of their numbers),
//! and then its runs (workers and runs in the order of their ids).
//! Everything after that changes rows that it has locked, or skips rows that are locked. So two
//! batches, or a batch and a renewal, cannot deadlock (`deadlock_tests.rs`). Two cases remain,
//! which are too rare to pay for. The slow path inserts its starts before it locks workers, which
//! matters only if it terminates runs: it then locks the workers of all processes. And the key of a
//! child comes after the locks, because only they show that the claim on its parent holds. In both,
//! a session that holds one of these locks and waits for another closes a circle. The server ends
//! one of the two batches, and its executor sends it again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use sqlx::PgPool;
use tokio::sync::Semaphore;

use workflow_engine::model::{
    Claim, Clock, Lane, LimitRecord, QueueRecord, Retention, Run, RunId, SeatLine, SeatWait, StepAttempt,
    StoredSchedule, Timestamp, WorkerId,
};

use workflow_engine::store::{
    ApprovalList, AuditList, DatabaseError, DueSchedules, EmittedItem, EndedRun, ForeignTransaction, GateList, GateUse,
    HeldRuns, HistoryRow, HistoryScan, Inbox, LeaseSession, ListedApprovals, ListedAudits, ListedGate, ListedSeat,
    Listener, NextDue, Outcome, ReadRates, RunCounts, RunScan, RunWakes, ScannedRuns, SeatCounts, SeatList, SeatRow,
    Standby, StepTransaction, Store, StoreId, WaitingPlace, WithinError, WorkerRecord, Write,
};

/// The connection of the driver, as an application uses it.
pub use sqlx::PgConnection;

/// The transaction of the driver, as an application uses it.
pub type PgTransaction<'c> = sqlx::Transaction<'c, sqlx::Postgres>;

/// The pool of the driver, as an application uses it.
pub type Pool = PgPool;

/// The kind of this database, as errors show it.
pub const DATABASE: &str = "PostgreSQL";

mod attempt;
mod audit;
mod bulk;
mod call;
mod cascade;
mod change;
mod claim;
mod claim_cursor;
mod commit;
mod context;
mod continue_as_new;
mod count;
mod crashes;
mod deletion;
mod error;
mod event;
mod fast_path;
mod fence;
mod fence_cache;
mod finish;
mod fork;
mod gate;
mod hints;
mod history_page;
mod lanes;
mod lease;
mod limit;
mod line_rate;
mod migrate;
mod open;
mod ownerless;
mod ownership;
mod parts;
mod pause;
mod placement;
mod pooler;
mod queue;
mod read;
mod retry;
mod room;
mod row;
mod scan;
mod schedule;
mod seat;
mod session;
mod signal;
mod single;
mod slow_path;
mod sql;
mod start;
mod statistics;
mod system;
mod timeline;
mod transaction;
mod transfer;
mod transfer_sql;
mod wait;
mod within;
mod witness;

#[cfg(test)]
mod attempt_tests;
#[cfg(test)]
mod claim_cursor_tests;
#[cfg(test)]
mod commit_tests;
#[cfg(test)]
mod count_tests;
#[cfg(test)]
mod deadlock_tests;
#[cfg(test)]
mod fast_path_tests;
#[cfg(test)]
mod fence_cache_tests;
#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod lease_tests;
#[cfg(test)]
mod migrate_tests;
#[cfg(test)]
mod open_tests;
#[cfg(test)]
mod ownership_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod scan_tests;
#[cfg(test)]
mod seat_tests;
#[cfg(test)]
mod timeline_tests;
#[cfg(test)]
mod turn_tests;
#[cfg(test)]
mod writer_plan_tests;

use call::read_call;
use session::Session;
use sql::Sql;

/// Returns the text of the statement that claims runs, for tests of its plan.
#[doc(hidden)]
#[must_use]
pub fn claim_statement(schema: &str) -> String {
    Sql::load(schema).parts(parts::Parts::CLAIM_RUNS).to_string()
}

/// Returns the statements that bring a schema with this version up to date, in one transaction.
/// 0: it has none of our tables.
#[doc(hidden)]
#[must_use]
pub fn migration_script(schema: &str, found: i64) -> String {
    migrate::script(&Sql::load(schema), schema, migrate::MIGRATIONS, found)
}

/// A store in a schema of a PostgreSQL database.
pub struct PostgresStore {
    id: StoreId,
    /// Connections for reads and for the transactions of steps. Its connect options are also those
    /// of the connections outside the pool: the executor's, the lease's and the listener's. They
    /// are read for each connection, because an application may replace them, for example when a
    /// password changes.
    pool: PgPool,
    /// `true` if the application uses the pool too, so that it must stay open.
    is_shared: bool,
    /// The server, if it was a standby at the connect. Its store takes no writes.
    standby: Option<Standby>,
    closed: AtomicBool,
    session: Session,
    sql: Arc<Sql>,
    clock: Clock,
    channel: String,
    /// Distinguishes its own hints from those of other processes.
    origin: String,
    /// Half of the pool, so that reads find a connection whatever the bodies of steps do.
    transactions: Arc<Semaphore>,
}

/// Shows no password, which the driver's options do.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.pool.connect_options();
        let (host, port) = (options.get_host(), options.get_port());
        f.debug_struct("PostgresStore")
            .field("host", &host)
            .field("port", &port)
            .field("database", &options.get_database())
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.commit_batch(writes).await
    }

    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
        transaction::begin(self, claim).await
    }

    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, DatabaseError> {
        read_call!(self, "look for an outcome", connection => transaction::recorded(connection, &self.sql, run, step_key, attempt))
    }

    async fn now(&self) -> Result<Timestamp, DatabaseError> {
        read_call!(self, "read the time", connection => read::now(connection, &self.sql, &self.clock))
    }

    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, DatabaseError> {
        self.refuse_if_closed("look for the next due run")?;
        let (sql, clock) = (&self.sql, &self.clock);
        if let Some(next) =
            self.read_at_rest(async |connection| read::next_due(connection, sql, clock, lanes).await).await
        {
            return Ok(next);
        }
        read_call!(self, "look for the next due run", connection => read::next_due(connection, sql, clock, lanes))
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, DatabaseError> {
        read_call!(self, "read a run", connection => read::run(connection, &self.sql, id))
    }

    async fn find(&self, workflow: &str, key: &str) -> Result<Option<RunId>, DatabaseError> {
        read_call!(self, "find a run", connection => read::find(connection, &self.sql, workflow, key))
    }

    async fn scan(&self, scan: &RunScan) -> Result<ScannedRuns, DatabaseError> {
        read_call!(self, "list runs", connection => scan::scan(connection, &self.sql, scan))
    }

    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError> {
        read_call!(self, "read a history", connection => read::history(connection, &self.sql, id))
    }

    async fn history_page(&self, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError> {
        read_call!(self, "read a part of a history", connection => history_page::read(connection, &self.sql, scan))
    }

    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, DatabaseError> {
        read_call!(self, "read a published value", connection => read::published(connection, &self.sql, id, name))
    }

    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, DatabaseError> {
        read_call!(self, "read a stream", connection => read::emitted(connection, &self.sql, id, name, (after, limit)))
    }

    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError> {
        read_call!(self, "look for ended runs", connection => read::ended(connection, &self.sql, ids))
    }

    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError> {
        read_call!(self, "read an inbox", connection => read::inbox(connection, &self.sql, id, names))
    }

    async fn missing(&self, ids: &[RunId]) -> Result<Vec<RunId>, DatabaseError> {
        read_call!(self, "look for missing runs", connection => read::missing(connection, &self.sql, ids))
    }

    async fn audits(&self, list: &AuditList) -> Result<ListedAudits, DatabaseError> {
        read_call!(self, "list audit rows", connection => audit::list(connection, &self.sql, list))
    }

    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<RunWakes>, DatabaseError> {
        read_call!(self, "look at held runs", connection => read::wakes(connection, &self.sql, ids))
    }

    async fn approvals(&self, list: &ApprovalList) -> Result<ListedApprovals, DatabaseError> {
        read_call!(self, "list approvals", connection => read::approvals(connection, &self.sql, list))
    }

    async fn schedule(&self, name: &str) -> Result<Option<StoredSchedule>, DatabaseError> {
        read_call!(self, "read a schedule", connection => schedule::read(connection, &self.sql, name))
    }

    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredSchedule>, DatabaseError> {
        read_call!(self, "list schedules", connection => schedule::list(connection, &self.sql, (after, limit)))
    }

    async fn due_schedules(&self, computed: &[String], limit: u32) -> Result<DueSchedules, DatabaseError> {
        read_call!(
            self,
            "find due schedules",
            connection => schedule::due(connection, &self.sql, &self.clock, (computed, limit))
        )
    }

    async fn open_lease(
        &self,
        worker: WorkerId,
        lanes: &[Lane],
        retention: &Retention,
    ) -> Result<Box<dyn LeaseSession>, DatabaseError> {
        self.refuse_if_closed("open a lease session")?;
        Ok(Box::new(lease::PostgresLease::open(self, worker, lanes, retention).await?))
    }

    async fn run_counts(&self, at_most: u32) -> Result<RunCounts, DatabaseError> {
        read_call!(self, "count runs", connection => count::runs(connection, &self.sql, &self.clock, at_most))
    }

    async fn lanes(&self, limit: u32) -> Result<Vec<Lane>, DatabaseError> {
        read_call!(self, "list lanes", connection => read::lanes(connection, &self.sql, limit))
    }

    async fn oldest_due(&self, name: &str) -> Result<Option<Timestamp>, DatabaseError> {
        read_call!(self, "find the oldest due run", connection => queue::oldest_due(connection, &self.sql, &self.clock, name))
    }

    async fn gates(&self, list: GateList<'_>) -> Result<Vec<ListedGate>, DatabaseError> {
        read_call!(self, "list gates", connection => count::gates(connection, &self.sql, list))
    }

    async fn held_runs(&self, at_most: u32) -> Result<HeldRuns, DatabaseError> {
        read_call!(self, "count the runs of workers", connection => count::held_runs(connection, &self.sql, at_most))
    }

    async fn listed_seats(&self, list: SeatList<'_>) -> Result<Vec<ListedSeat>, DatabaseError> {
        read_call!(self, "list seats", connection => seat::listed(connection, &self.sql, list))
    }

    async fn seat_counts(&self, limit: &str, at_most: u32) -> Result<SeatCounts, DatabaseError> {
        read_call!(self, "count seats", connection => count::seats(connection, &self.sql, limit, at_most))
    }

    async fn limits(&self) -> Result<Vec<LimitRecord>, DatabaseError> {
        read_call!(self, "list limits", connection => limit::read(connection, &self.sql, None))
    }

    async fn waiting_lines(&self, after: Option<&SeatLine>, limit: u32) -> Result<Vec<SeatLine>, DatabaseError> {
        read_call!(self, "find waiting steps", connection => seat::waiting_lines(connection, &self.sql, after, limit))
    }

    async fn seats(&self, lines: &[(&SeatLine, u32)]) -> Result<Vec<Vec<SeatRow>>, DatabaseError> {
        read_call!(self, "read seats", connection => seat::read(connection, &self.sql, &self.clock, lines, &[]))
    }

    async fn line_rates(&self, lines: &[&SeatLine]) -> Result<ReadRates, DatabaseError> {
        let clock = &self.clock;
        read_call!(self, "read the rates of limits", connection => line_rate::read(connection, &self.sql, clock, lines))
    }

    async fn seat_waits(&self, run: RunId) -> Result<Vec<SeatWait>, DatabaseError> {
        read_call!(self, "find the seats that a run waits for", connection => seat::waits_of(connection, &self.sql, run))
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, DatabaseError> {
        read_call!(self, "list workers", connection => read::workers(connection, &self.sql))
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, DatabaseError> {
        read_call!(self, "list queues", connection => queue::list(connection, &self.sql))
    }

    async fn running_in(&self, name: &str, at_most: u32) -> Result<u32, DatabaseError> {
        read_call!(self, "count the running runs of a queue", connection => queue::running_in(connection, &self.sql, name, at_most))
    }

    async fn waiting_in(&self, place: WaitingPlace<'_>) -> Result<u32, DatabaseError> {
        read_call!(self, "count the waiting runs of a queue", connection => room::waiting_in(connection, &self.sql, place))
    }

    async fn gate_use(&self, queue: &str, gate: &str) -> Result<GateUse, DatabaseError> {
        read_call!(self, "read the use of a gate", connection => queue::gate_use(connection, &self.sql, queue, gate))
    }

    async fn due_lanes(&self, lanes: &[Lane]) -> Result<Vec<Lane>, DatabaseError> {
        read_call!(self, "find due lanes", connection => read::due_lanes(connection, &self.sql, &self.clock, lanes))
    }

    async fn hint(&self) -> Result<(), DatabaseError> {
        let mut call = self.begin_call("notify other processes").await?;
        let result = call.limit().run(hints::notify(call.connection(), &self.sql, &self.channel, &self.origin)).await;
        call.end(result)
    }

    async fn listen(&self) -> Result<Box<dyn Listener>, DatabaseError> {
        self.refuse_if_closed("listen for hints")?;
        if self.standby.is_some() {
            return Ok(Box::new(hints::StandbyListener));
        }
        Ok(Box::new(hints::PostgresListener::open(self).await?))
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if !self.is_shared {
            // The pool waits for its connections to come back, but a connection whose server is
            // gone may never come back.
            let _ = tokio::time::timeout(call::DEADLINE, self.pool.close()).await;
        }
        self.session.close().await;
    }

    fn in_process(&self) -> bool {
        false
    }

    fn prepares_next_batch(&self) -> bool {
        true
    }

    async fn commit_within(&self, transaction: ForeignTransaction<'_>, write: &Write) -> Result<Outcome, WithinError> {
        let other = WithinError::OtherDatabase { store: DATABASE, transaction: transaction.database };
        let connection = transaction.connection.downcast_mut().ok_or(other)?;
        if matches!(write, Write::Emit(_))
            && let Some(level) = self.refused_isolation(connection).await?
        {
            return Err(WithinError::Isolation { level });
        }
        Ok(self.write_within(connection, write).await?)
    }
}
