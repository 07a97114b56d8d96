//! The only connection that writes. If the database is in memory, it is the only connection, and
//! reads use it too.

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, Connection, Row, Sqlite, SqliteConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard};

use workflow_engine::faults::altered;
use workflow_engine::store::Asked;
use workflow_engine::store::{ClaimedRun, DatabaseError, Write};

use super::error::{During, closed};
use super::fence_cache::FenceCache;
use super::script::{self, Answer};
use super::sql;

/// The writer connection. One caller at a time uses it.
#[derive(Debug)]
pub(super) struct Writer {
    connect: SqliteConnectOptions,
    in_memory: bool,
    slot: Arc<Mutex<Slot>>,
    seen: Arc<Seen>,
}

/// Counters of the writer's commits and checks. The listener for hints reads them to find the
/// commits of other connections.
#[derive(Debug, Default)]
pub(super) struct Seen {
    commits: AtomicU64,
    unannounced: AtomicU64,
    looks: AtomicU64,
    others: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    connection: State,
    /// The data version that this connection saw last.
    data_version: Option<i64>,
    /// The claims known at that version, which the last user left here.
    fence_cache: FenceCache,
    /// A transaction may be open, because its user was dropped half-way or could not end it.
    dirty: bool,
    /// The driver opens a transaction on this connection as a savepoint: see
    /// [`WriterGuard::begin_nesting`].
    nesting: bool,
}

#[derive(Debug)]
enum State {
    Open(SqliteConnection),
    /// The connection was given up. The next user opens another one.
    Absent,
    Closed,
}

/// The writer connection in use.
#[derive(Debug)]
pub(super) struct WriterGuard {
    slot: OwnedMutexGuard<Slot>,
    in_memory: bool,
    seen: Arc<Seen>,
    /// The claims that the last user left. They are dropped with this guard unless they are
    /// [kept](WriterGuard::keep).
    fence_cache: FenceCache,
}

impl Seen {
    /// Returns a number that changes when a commit begins and when it ends, whether it succeeds or
    /// not. So it also shows a commit that is under way.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns the number of commits of step transactions, which no executor announces.
    pub(super) fn unannounced(&self) -> u64 {
        self.unannounced.load(Ordering::SeqCst)
    }

    /// Returns how often the writer has checked for commits of others. Each transaction begins with
    /// a check.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::SeqCst)
    }

    /// Returns how many of these checks found commits of others.
    pub(super) fn others(&self) -> u64 {
        self.others.load(Ordering::SeqCst)
    }

    /// Must be called before a commit and after it.
    fn committing(&self) {
        self.commits.fetch_add(1, Ordering::SeqCst);
    }

    fn committed_unannounced(&self) {
        self.unannounced.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a check. `others` is counted first, so a reader that sees the check also sees what it
    /// found.
    fn looked(&self, others: bool) {
        self.others.fetch_add(u64::from(others), Ordering::SeqCst);
        self.looks.fetch_add(1, Ordering::SeqCst);
    }
}

impl Writer {
    /// Takes over an open connection. `connect` has the options to open another one like it.
    pub(super) fn new(connection: SqliteConnection, connect: SqliteConnectOptions, in_memory: bool) -> Self {
        let slot = Slot {
            connection: State::Open(connection),
            data_version: None,
            fence_cache: FenceCache::default(),
            dirty: false,
            nesting: false,
        };
        Self { connect, in_memory, slot: Arc::new(Mutex::new(slot)), seen: Arc::default() }
    }

    /// Waits for the connection. No transaction is open on it then.
    pub(super) async fn lock(&self) -> Result<WriterGuard, DatabaseError> {
        let mut slot = Arc::clone(&self.slot).lock_owned().await;
        let fence_cache = std::mem::take(&mut slot.fence_cache);
        let mut guard = WriterGuard { slot, in_memory: self.in_memory, seen: Arc::clone(&self.seen), fence_cache };
        guard.reopen(&self.connect).await?;
        guard.forget_transaction().await;
        Ok(guard)
    }

    /// Checks for commits of others. Returns `false`, without a check, if the connection is in use.
    pub(super) async fn try_look(&self) -> Result<bool, DatabaseError> {
        let Ok(mut slot) = self.slot.try_lock() else { return Ok(false) };
        let State::Open(connection) = &mut slot.connection else {
            // A new connection cannot tell what was committed before it was opened.
            self.seen.looked(true);
            return Ok(true);
        };
        let look = sqlx::query_scalar(sql::READ_DATA_VERSION).fetch_one(connection);
        let version = look.await.during("look for changes of other processes")?;
        let others = slot.data_version.replace(version) != Some(version);
        slot.fence_cache.looked(others);
        self.seen.looked(others);
        Ok(true)
    }

    /// Returns `true` if the connection is in use.
    pub(super) fn is_in_use(&self) -> bool {
        self.slot.try_lock().is_err()
    }

    /// Returns the counters of the writer.
    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Closes the connection. [`Writer::lock`] fails from then on.
    pub(super) async fn close(&self) {
        let mut slot = self.slot.lock().await;
        if let State::Open(connection) = std::mem::replace(&mut slot.connection, State::Closed)
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the writer connection did not close cleanly; nothing that was committed is lost");
        }
    }
}

impl WriterGuard {
    /// Returns the connection.
    pub(super) fn connection(&mut self) -> Result<&mut SqliteConnection, DatabaseError> {
        match &mut self.slot.connection {
            State::Open(connection) => Ok(connection),
            State::Absent | State::Closed => Err(closed("use the writer connection")),
        }
    }

    /// Begins a write transaction, which holds the write lock from its beginning. SQLite could
    /// refuse the first write of a transaction that read first, at once and without the busy
    /// timeout. Under the lock it also checks whether others have committed since the last check.
    pub(super) async fn begin(&mut self) -> Result<(), DatabaseError> {
        let script = sqlx::query(altered("deferred-begin", sql::BEGIN_AND_LOOK, "IMMEDIATE", "DEFERRED"));
        self.begin_with(script, &[]).await.map(drop)
    }

    /// Begins a transaction as [`WriterGuard::begin`] does, by a script that continues
    /// `BEGIN_AND_LOOK` with other statements. Returns the answers of those statements.
    /// `operations` says what each of them does.
    pub(super) async fn begin_with(
        &mut self,
        script: Query<'_, Sqlite, SqliteArguments>,
        operations: &[&'static str],
    ) -> Result<Vec<Answer>, DatabaseError> {
        const BEGIN: &str = "begin a transaction";
        self.slot.dirty = true;
        let mut answers = Vec::new();
        let operations = [&[BEGIN, BEGIN], operations].concat();
        let run = script::run(self.connection()?, script, &operations, |answer| answers.push(answer)).await;
        self.slot.dirty = !answers.is_empty();
        run?;
        let mut answers = answers.into_iter().skip(1);
        let version = answers.next().and_then(|look| look.rows.first().map(|row| row.try_get(0)));
        let before = std::mem::replace(&mut self.slot.data_version, version.transpose().during(BEGIN)?);
        let others = before != self.slot.data_version;
        self.fence_cache.looked(others);
        self.seen.looked(others);
        Ok(answers.collect())
    }

    /// Returns the claims that are known to hold. They are certain only in a transaction, under its
    /// lock.
    pub(super) fn fence_cache(&self) -> &FenceCache {
        &self.fence_cache
    }

    /// Leaves the fence cache to the next user, after the fast path committed a batch with these
    /// writes, checked claims and claimed runs.
    pub(super) fn keep(&mut self, writes: &[Write], asked: Asked, claimed: &[ClaimedRun]) {
        self.fence_cache.committed(writes, asked, claimed);
        self.slot.fence_cache = std::mem::take(&mut self.fence_cache);
    }

    /// Executes one statement as a transaction of its own.
    pub(super) async fn alone<T>(
        &mut self,
        statement: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        self.slot.dirty = true;
        self.seen.committing();
        let result = statement(self.connection()?).await;
        self.seen.committing();
        // SQLite has committed the statement or rolled it back.
        self.slot.dirty = false;
        result
    }

    /// Begins a transaction for the statements of an author. If the author begins another
    /// transaction by the driver, that one becomes a savepoint inside of this one.
    pub(super) async fn begin_nesting(&mut self) -> Result<(), DatabaseError> {
        if self.slot.nesting {
            return self.begin().await;
        }
        self.slot.dirty = true;
        let begin = self.connection()?.begin_with("BEGIN IMMEDIATE").await;
        // A forgotten transaction stays in the driver's count of open transactions. Nothing else of
        // ours reads that count.
        let began = begin.map(std::mem::forget).during("begin a transaction");
        self.slot.nesting = began.is_ok();
        self.slot.dirty = began.is_ok();
        began
    }

    /// Rolls back, if a transaction is open. If that fails, the connection is given up.
    pub(super) async fn roll_back(mut self) {
        if self.slot.dirty
            && let Ok(connection) = self.connection()
            && execute(connection, "ROLLBACK").await.is_ok()
        {
            self.slot.dirty = false;
        }
    }

    /// Commits the transaction of a step. The flag of an error is `true` if it is unknown whether
    /// the transaction was committed.
    pub(super) async fn commit(mut self) -> Result<(), (DatabaseError, bool)> {
        let committed = self.execute_commit().await;
        self.seen.committed_unannounced();
        let rolled_back = match (&committed, self.connection()) {
            (Err(_), Ok(connection)) => execute(connection, "ROLLBACK").await.is_ok(),
            _ => false,
        };
        self.slot.dirty = committed.is_err() && !rolled_back;
        committed.map_err(|error| (error, !rolled_back))
    }

    /// Commits after a success, and rolls back after an error.
    pub(super) async fn end<T>(&mut self, result: Result<T, DatabaseError>) -> Result<T, DatabaseError> {
        let ended = match result {
            Ok(value) => self.execute_commit().await.map(|()| value),
            Err(error) => Err(error),
        };
        self.forget_if_ended(ended.is_ok()).await?;
        ended
    }

    /// Notes that no transaction is open, if it was committed or can be rolled back.
    async fn forget_if_ended(&mut self, committed: bool) -> Result<(), DatabaseError> {
        // SQLite itself rolls back after some errors. The roll-back then fails, and the connection
        // is given up.
        if committed || execute(self.connection()?, "ROLLBACK").await.is_ok() {
            self.slot.dirty = false;
        }
        Ok(())
    }

    /// Executes a script that ends with a commit. Returns the result of `read` for the rows of the
    /// first statement that answers any. `read` runs while the disk is synced, and its result is
    /// valid only after this call has succeeded. `operations` says what each statement does.
    pub(super) async fn end_with<T>(
        &mut self,
        script: Query<'_, Sqlite, SqliteArguments>,
        operations: &[&'static str],
        read: impl Fn(&[SqliteRow]) -> T,
    ) -> Result<T, DatabaseError> {
        let mut first = None;
        self.seen.committing();
        let read_first = |answer: Answer| {
            if !answer.rows.is_empty() {
                first.get_or_insert_with(|| read(&answer.rows));
            }
        };
        let ended = script::run(self.connection()?, script, operations, read_first).await;
        self.seen.committing();
        self.forget_if_ended(ended.is_ok()).await?;
        ended.map(|()| first.unwrap_or_else(|| read(&[])))
    }

    async fn execute_commit(&mut self) -> Result<(), DatabaseError> {
        self.seen.committing();
        let committed = execute(self.connection()?, "COMMIT").await.during("commit a transaction");
        self.seen.committing();
        committed
    }

    async fn reopen(&mut self, connect: &SqliteConnectOptions) -> Result<(), DatabaseError> {
        if matches!(self.slot.connection, State::Absent) {
            self.slot.connection = State::Open(connect.connect().await.during("reopen the writer connection")?);
            self.slot.data_version = None;
            self.slot.nesting = false;
        }
        self.connection().map(drop)
    }

    /// Rolls back a transaction that the last user left open. This happens only in memory, because
    /// a database in memory lives as long as its connection, which was therefore kept.
    async fn forget_transaction(&mut self) {
        if self.slot.dirty
            && let Ok(connection) = self.connection()
        {
            // This fails if no transaction is open, which does no harm.
            let _ = execute(connection, "ROLLBACK").await;
            self.slot.dirty = false;
        }
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        // Closing the connection rolls back at once. An open transaction would lock out every other
        // process.
        if self.slot.dirty && !self.in_memory {
            self.slot.connection = State::Absent;
            self.slot.dirty = false;
        }
    }
}

/// Executes a statement without parameters. Transactions are begun and ended by statements instead
/// of the driver's `Transaction`, which counts its depth: its count stays wrong after SQLite itself
/// has rolled back, for example on a full disk.
async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(statement).execute(connection).await.map(drop)
}
