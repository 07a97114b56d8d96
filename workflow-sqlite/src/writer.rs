//! The one connection that writes. In a database in memory it is the only connection, for reads too.

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

/// The writer connection, for one user at a time.
#[derive(Debug)]
pub(super) struct Writer {
    connect: SqliteConnectOptions,
    in_memory: bool,
    slot: Arc<Mutex<Slot>>,
    seen: Arc<Seen>,
}

/// What the writer has done and seen, for those who look for the commits of others.
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
    /// What was known at that version, left here by the last user.
    fence_cache: FenceCache,
    /// A transaction may be open: its user was dropped half-way, or could not end it.
    dirty: bool,
    /// The driver takes a transaction on this connection for one inside of another: see [`WriterGuard::begin_nesting`].
    nesting: bool,
}

#[derive(Debug)]
enum State {
    Open(SqliteConnection),
    /// Given up; the next user opens another.
    Absent,
    Closed,
}

/// The writer connection in use.
#[derive(Debug)]
pub(super) struct WriterGuard {
    slot: OwnedMutexGuard<Slot>,
    in_memory: bool,
    seen: Arc<Seen>,
    /// What the last user left. It is gone with this user, unless it is [kept](WriterGuard::keep).
    fence_cache: FenceCache,
}

impl Seen {
    /// Another number than before whenever a commit was made or tried meanwhile, or is under way: it counts beginnings and ends.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// How many commits were those of a step's transaction, which no executor announces.
    pub(super) fn unannounced(&self) -> u64 {
        self.unannounced.load(Ordering::SeqCst)
    }

    /// How often the writer looked for commits of others: each transaction begins with that.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::SeqCst)
    }

    /// In how many of these looks there were any.
    pub(super) fn others(&self) -> u64 {
        self.others.load(Ordering::SeqCst)
    }

    /// Before a commit, and after it.
    fn committing(&self) {
        self.commits.fetch_add(1, Ordering::SeqCst);
    }

    fn committed_unannounced(&self) {
        self.unannounced.fetch_add(1, Ordering::SeqCst);
    }

    /// In this order: whoever reads of a look reads also of what it saw.
    fn looked(&self, others: bool) {
        self.others.fetch_add(u64::from(others), Ordering::SeqCst);
        self.looks.fetch_add(1, Ordering::SeqCst);
    }
}

impl Writer {
    /// Takes over a connection that is ready; `connect` opens another like it.
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

    /// Waits for the connection, which is then in no transaction.
    pub(super) async fn lock(&self) -> Result<WriterGuard, DatabaseError> {
        let mut slot = Arc::clone(&self.slot).lock_owned().await;
        let fence_cache = std::mem::take(&mut slot.fence_cache);
        let mut guard = WriterGuard { slot, in_memory: self.in_memory, seen: Arc::clone(&self.seen), fence_cache };
        guard.reopen(&self.connect).await?;
        guard.forget_transaction().await;
        Ok(guard)
    }

    /// Looks for commits of others, if nobody uses the connection. `false`: somebody does.
    pub(super) async fn try_look(&self) -> Result<bool, DatabaseError> {
        let Ok(mut slot) = self.slot.try_lock() else { return Ok(false) };
        let State::Open(connection) = &mut slot.connection else {
            // What the next connection will not know of either.
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

    /// Whether somebody uses the connection.
    pub(super) fn is_in_use(&self) -> bool {
        self.slot.try_lock().is_err()
    }

    /// What it has done and seen.
    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Ends the connection. [`Writer::lock`] fails from then on.
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
    /// The connection.
    pub(super) fn connection(&mut self) -> Result<&mut SqliteConnection, DatabaseError> {
        match &mut self.slot.connection {
            State::Open(connection) => Ok(connection),
            State::Absent | State::Closed => Err(closed("use the writer connection")),
        }
    }

    /// Begins a write transaction and holds the write lock from the start: a transaction that read first could be
    /// refused its first write at once, without the busy timeout. Sees on the way, under that lock, whether others have
    /// committed since the last time.
    pub(super) async fn begin(&mut self) -> Result<(), DatabaseError> {
        let script = sqlx::query(altered("deferred-begin", sql::BEGIN_AND_LOOK, "IMMEDIATE", "DEFERRED"));
        self.begin_with(script, &[]).await.map(drop)
    }

    /// The same by a script that begins as `BEGIN_AND_LOOK` and goes on with other statements: says what each of those answered.
    /// `operations`: what each of those does.
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

    /// The claims that are known to hold. After a transaction has begun: under its lock.
    pub(super) fn fence_cache(&self) -> &FenceCache {
        &self.fence_cache
    }

    /// Leaves what is known to the next user, after a plain batch was committed that asked and claimed this.
    pub(super) fn keep(mut self, writes: &[Write], asked: Asked, claimed: &[ClaimedRun]) {
        self.fence_cache.committed(writes, asked, claimed);
        self.slot.fence_cache = std::mem::take(&mut self.fence_cache);
    }

    /// One statement that is a transaction of its own.
    pub(super) async fn alone<T>(
        &mut self,
        statement: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        self.slot.dirty = true;
        self.seen.committing();
        let result = statement(self.connection()?).await;
        self.seen.committing();
        // SQLite has committed it, or rolled it back.
        self.slot.dirty = false;
        result
    }

    /// As [`WriterGuard::begin`], for statements of an author: a transaction that they begin by the driver becomes a
    /// savepoint inside of this one.
    pub(super) async fn begin_nesting(&mut self) -> Result<(), DatabaseError> {
        if self.slot.nesting {
            return self.begin().await;
        }
        self.slot.dirty = true;
        let begin = self.connection()?.begin_with("BEGIN IMMEDIATE").await;
        // Forgotten, it stays in the driver's count of open transactions, which nothing else of ours looks at.
        let began = begin.map(std::mem::forget).during("begin a transaction");
        self.slot.nesting = began.is_ok();
        self.slot.dirty = began.is_ok();
        began
    }

    /// Rolls back. A connection that cannot is given up.
    pub(super) async fn roll_back(mut self) {
        if let Ok(connection) = self.connection()
            && execute(connection, "ROLLBACK").await.is_ok()
        {
            self.slot.dirty = false;
        }
    }

    /// Commits the transaction of a step, and says whether the error of a commit that failed leaves open what became of it.
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

    /// Commits after a success, else rolls back.
    pub(super) async fn end<T>(&mut self, result: Result<T, DatabaseError>) -> Result<T, DatabaseError> {
        let ended = match result {
            Ok(value) => self.execute_commit().await.map(|()| value),
            Err(error) => Err(error),
        };
        self.forget_if_ended(ended.is_ok()).await?;
        ended
    }

    /// No transaction is open any more, if it was committed or can be rolled back.
    async fn forget_if_ended(&mut self, committed: bool) -> Result<(), DatabaseError> {
        // SQLite itself rolls back after some errors; the roll-back then fails, and the connection is given up.
        if committed || execute(self.connection()?, "ROLLBACK").await.is_ok() {
            self.slot.dirty = false;
        }
        Ok(())
    }

    /// Commits by a script that ends with the commit: gives what was read of the rows of the first of its statements that answers any, which
    /// is done while the disk is synced and is true only now. `operations`: what each of them does.
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

    /// Only a database in memory still has an open transaction here: it lives as long as its connection, which
    /// therefore was kept.
    async fn forget_transaction(&mut self) {
        if self.slot.dirty
            && let Ok(connection) = self.connection()
        {
            // It fails where no transaction is open, which is as well.
            let _ = execute(connection, "ROLLBACK").await;
            self.slot.dirty = false;
        }
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        // Closing the connection rolls back at once. Left open, the transaction would lock out every other process.
        if self.slot.dirty && !self.in_memory {
            self.slot.connection = State::Absent;
            self.slot.dirty = false;
        }
    }
}

/// By plain statements, not the driver's `Transaction`: that one counts its depth, and the count is wrong for ever after
/// SQLite rolled back by itself (a full disk).
async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(statement).execute(connection).await.map(drop)
}
