//! The session of the executor: its connection, and the turns of its batches.

use std::fmt;
use std::ops::DerefMut;
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::Mutex;

use workflow_engine::model::Timestamp;
use workflow_engine::store::{DatabaseError, Outcome, Write};

use super::PostgresStore;
use super::call::Limit;
use super::claim_cursor::ClaimCursor;
use super::commit::{Committed, commit, commit_slowly};
use super::context::{Context, Memory};
use super::error::Failure;
use super::fast_path::{BatchStatement, FastPath};
use super::open::{PING_TIMEOUT, REST, connect};
use super::ownership::{RecordedAgain, Workers};
use super::sql::Sql;

const OPERATION: &str = "commit a batch";

/// The session of the executor.
///
/// Its connection is not one of the pool, so that a commit waits for no reader. It belongs to the
/// runtime of its user: what arrives on a connection that another runtime opened is noticed only
/// when that runtime has time.
#[derive(Default)]
pub(super) struct Session {
    /// Batches take their turns in the order in which they began to wait.
    rested: Mutex<Option<Rested>>,
    memory: Memory,
    recorded_again: RecordedAgain,
}

/// A connection that is not in use. A connection in use is kept nowhere, so that a commit which is
/// dropped half-way closes it.
pub(super) struct Rested {
    connection: PgConnection,
    since: Instant,
}

/// The statement of a batch, and what it was bound for.
struct Bound {
    /// `None`: the fast path does not take the batch.
    statement: Option<BatchStatement>,
    /// The workers on whose rows the statement relies.
    workers: Workers,
    /// The time, if a clock of the test's decides.
    now: Option<Timestamp>,
}

/// How a batch is committed.
#[derive(Clone, Copy)]
enum Path {
    /// On the fast path if it takes the batch.
    Fast,
    Slow,
}

impl PostgresStore {
    /// Commits a batch.
    ///
    /// A second batch may be committed meanwhile: it is bound at once, and sent as soon as the
    /// answer to the first one has arrived, before that is read.
    pub(super) async fn commit_batch(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        self.commit_on(Path::Fast, writes).await
    }

    /// Commits a batch on the slow path, whatever its writes are. For tests that compare the paths.
    ///
    /// # Errors
    /// See [`Store::commit`](workflow_engine::store::Store::commit).
    #[doc(hidden)]
    pub async fn commit_on_slow_path(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        self.commit_on(Path::Slow, writes).await
    }

    /// Lets claims resume where a full claim has ended, for at most `longest`. For tests.
    #[doc(hidden)]
    pub fn resume_claims_within(&self, longest: Duration) {
        self.session.memory.lock().cursor = ClaimCursor::within(longest);
    }

    async fn commit_on(&self, path: Path, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        let bound = match path {
            Path::Fast => Some(self.bind(writes)),
            Path::Slow => None,
        };
        let committed = self.write(writes, bound).await?;
        if self.session.rested.try_lock().is_err() {
            // The next batch has its turn. It is sent now, because to read this one's answer takes
            // a while.
            tokio::task::yield_now().await;
        }
        Ok(committed.read(&self.session.memory, writes))
    }

    async fn write(&self, writes: &[Write], bound: Option<Bound>) -> Result<Committed, DatabaseError> {
        self.refuse_if_closed(OPERATION)?;
        let mut rested = self.session.turn().await;
        // A wait for the turn is no part of the time that the database has.
        let limit = Limit::from_now();
        let committing = async {
            let mut connection = self.take(rested.take()).await?;
            let committed = self.commit_bound(&mut connection, writes, bound).await;
            if !committed.as_ref().is_err_and(|failure| failure.breaks_connection) {
                *rested = Some(Rested { connection, since: Instant::now() });
            }
            committed
        };
        limit.run(committing).await.map_err(|failure| {
            self.session.memory.forget();
            failure.during(OPERATION)
        })
    }

    async fn commit_bound(
        &self,
        connection: &mut PgConnection,
        writes: &[Write],
        bound: Option<Bound>,
    ) -> Result<Committed, Failure> {
        let (session, memory) = (&self.session, &self.session.memory);
        let Some(mut bound) = bound else {
            let context = Context { sql: &self.sql, clock: &self.clock, workers: &session.workers() };
            return commit_slowly(connection, context, memory, writes).await.map(Committed::Outcomes);
        };
        // The batch may not rely on a worker's row that must not be relied on any more.
        if bound.workers != session.workers() || bound.now != self.clock.fixed() {
            bound = self.bind(writes);
        }
        let context = Context { sql: &self.sql, clock: &self.clock, workers: &bound.workers };
        commit(connection, context, memory, writes, bound.statement).await
    }

    /// Runs a read on the executor's connection while that rests. The session keeps the plan of the
    /// read, and the server takes longer to make such a plan than to execute it. `None`: a batch
    /// has the connection, or the read has failed there. Then run it on another connection.
    ///
    /// A read that is dropped half-way closes the connection, as a commit does.
    pub(super) async fn read_at_rest<T>(
        &self,
        read: impl AsyncFnOnce(&mut PgConnection) -> Result<T, Failure>,
    ) -> Option<T> {
        let mut rested = self.session.rested.try_lock().ok()?;
        let mut connection = rested.take()?.connection;
        // A batch may wait for the connection meanwhile.
        let result = Limit::after(PING_TIMEOUT).run(read(&mut connection)).await;
        if !result.as_ref().is_err_and(|failure| failure.breaks_connection) {
            *rested = Some(Rested { connection, since: Instant::now() });
        }
        result.ok()
    }

    /// Binds the statement of a batch. Another batch may be under way meanwhile.
    fn bind(&self, writes: &[Write]) -> Bound {
        let workers = self.session.workers_of(writes);
        let context = Context { sql: &self.sql, clock: &self.clock, workers: &workers };
        let mut memory = self.session.memory.lock();
        let batch = FastPath::of(writes, &workers, &memory.fences);
        // The slow path refuses a write that cannot be bound.
        let statement = batch.and_then(|batch| batch.bind(context, &memory.fences).ok());
        // A batch that is bound from now on must ask for the claims that this one releases.
        memory.fences.remove_released(writes);
        drop(memory);
        if statement.is_none() {
            self.session.memory.forget();
        }
        Bound { statement, workers, now: self.clock.fixed() }
    }

    /// Returns the rested connection if it is alive, else a new one.
    async fn take(&self, rested: Option<Rested>) -> Result<PgConnection, Failure> {
        if let Some(Rested { mut connection, since }) = rested {
            let is_fresh = since.elapsed() < REST;
            if is_fresh || matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))) {
                return Ok(connection);
            }
        }
        // A commit that was dropped half-way has left no connection, and may have released claims.
        self.session.memory.forget();
        connect_session(&self.pool.connect_options(), &self.sql).await
    }
}

/// Opens a connection with the settings of the executor's session.
pub(super) async fn connect_session(options: &PgConnectOptions, sql: &Sql) -> Result<PgConnection, Failure> {
    let mut connection = connect(options, sql).await?;
    sql.configure_writer.query().execute(&mut connection).await?;
    Ok(connection)
}

impl Session {
    /// Waits for the turn of a batch.
    pub(super) async fn turn(&self) -> impl DerefMut<Target = Option<Rested>> {
        self.rested.lock().await
    }

    /// Adds the workers that claim by these writes. Returns the workers on whose rows a batch may
    /// rely now.
    fn workers_of(&self, writes: &[Write]) -> Workers {
        let mut memory = self.memory.lock();
        for request in writes.iter().filter_map(Write::as_claim) {
            memory.workers.remember(request.worker);
        }
        memory.workers.proven(&self.recorded_again, Instant::now())
    }

    fn workers(&self) -> Workers {
        self.workers_of(&[])
    }

    /// Returns the workers of this process on whose rows a batch may not rely.
    pub(super) fn recorded_again(&self) -> RecordedAgain {
        self.recorded_again.clone()
    }

    /// Returns how many of these claims the fence cache knows.
    #[cfg(test)]
    pub(super) fn known(&self, claims: &[workflow_engine::model::Claim]) -> usize {
        let memory = self.memory.lock();
        claims.iter().filter(|claim| memory.fences.holds(**claim)).count()
    }

    /// Ends the connection.
    pub(super) async fn close(&self) {
        if let Some(Rested { connection, .. }) = self.rested.lock().await.take() {
            // It does no harm if the server does not learn of the end.
            let _ = tokio::time::timeout(PING_TIMEOUT, connection.close()).await;
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
