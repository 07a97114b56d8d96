//! The connection of the executor.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::Mutex;

use workflow_engine::model::Timestamp;
use workflow_engine::store::{DatabaseError, Outcome, Write};

use super::bound::Bound;
use super::call::Limit;
use super::commit::{Committed, Context, Memory};
use super::error::Failure;
use super::open::{PING_TIMEOUT, REST, connect};
use super::plain::Plain;
use super::sql::Sql;
use super::worker_lock::{RecordedAgain, Workers};
use super::{PostgresStore, commit};

const OPERATION: &str = "commit a batch";

/// One connection outside the pool, so that a commit waits for no reader, and belongs to the runtime of its user: a
/// connection that another runtime opened is heard only when that one has time.
#[derive(Default)]
pub(super) struct Writer {
    kept: Mutex<Option<Kept>>,
    memory: Arc<Memory>,
    recorded_again: RecordedAgain,
}

/// How a batch is committed.
#[derive(Clone, Copy)]
enum Path {
    Shortest,
    Slow,
}

/// A batch that was bound ahead of its commit.
struct BoundAhead {
    bound: Bound,
    /// The workers on whose rows it relies, all of them or not.
    workers: Workers,
    /// What a clock said that only moves when it is told to.
    now: Option<Timestamp>,
}

/// A connection that rests. In use it is nowhere, so that a commit which is dropped half-way closes it.
struct Kept {
    connection: PgConnection,
    since: Instant,
}

impl PostgresStore {
    /// See [`Store::commit`](workflow_engine::store::Store::commit).
    pub(super) async fn write_and_read(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        let committed = self.write(writes, Path::Shortest).await?;
        // If another commit waits for the connection, it is sent before the rows of this one are read.
        if self.writer.kept.try_lock().is_err() {
            tokio::task::yield_now().await;
        }
        let outcomes = committed.read(&self.writer.memory, writes);
        Ok(outcomes.unwrap_or_else(|failure| unreadable(writes, &failure.during(OPERATION))))
    }

    /// Commits on the slow path, which gives the outcomes that a batch must have on any path. For tests.
    ///
    /// # Errors
    /// See [`Store::commit`](workflow_engine::store::Store::commit).
    #[doc(hidden)]
    pub async fn commit_on_slow_path(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        let committed = self.write(writes, Path::Slow).await?;
        committed.read(&self.writer.memory, writes).map_err(|failure| failure.during(OPERATION))
    }

    /// Lets a claim resume where the last full claim ended for at most this long. For tests.
    #[doc(hidden)]
    pub fn resume_claims_within(&self, longest: std::time::Duration) {
        self.writer.memory.lock().start = super::claim_start::ClaimStart::within(longest);
    }

    /// Commits the writes. If another commit is under way, first binds the statement, then waits.
    async fn write(&self, writes: &[Write], path: Path) -> Result<Committed, DatabaseError> {
        self.refuse_if_closed(OPERATION)?;
        // A batch that is bound from now on must ask for the claims that this one releases.
        self.writer.memory.lock().known.finished(writes);
        let is_busy = self.writer.kept.try_lock().is_err();
        let bound = if is_busy { self.bind_ahead(writes) } else { None };
        let mut kept = self.writer.kept.lock().await;
        let limit = Limit::from_now();
        let workers = self.writer.workers_of(writes);
        let bound = bound.and_then(|bound| self.still_current(bound, &workers));
        let taken = limit.run(self.take(kept.take())).await;
        let mut connection = taken.map_err(|failure| failure.during(OPERATION))?;
        let context = Context { sql: &self.sql, clock: &self.clock, workers: &workers };
        let memory = &*self.writer.memory;
        let committing = async {
            match path {
                Path::Shortest => commit::commit(&mut connection, context, memory, writes, bound).await,
                Path::Slow => {
                    let outcomes = commit::take_the_long_way(&mut connection, context, memory, writes).await?;
                    Ok(Committed::Read(outcomes))
                }
            }
        };
        let result = limit.run(committing).await;
        if result.is_err() {
            memory.forget();
        }
        if !result.as_ref().is_err_and(|failure| failure.breaks_connection) {
            *kept = Some(Kept { connection, since: Instant::now() });
        }
        result.map_err(|failure| failure.during(OPERATION))
    }

    /// Binds the statement of a plain batch while another batch is under way.
    fn bind_ahead(&self, writes: &[Write]) -> Option<BoundAhead> {
        let workers = self.writer.workers_of(writes);
        let context = Context { sql: &self.sql, clock: &self.clock, workers: &workers };
        let memory = self.writer.memory.lock();
        let bound = Plain::of(writes, &workers, &memory.known)?.bind_one(context, &memory.known)?.ok()?;
        drop(memory);
        Some(BoundAhead { bound, workers, now: self.clock.fixed() })
    }

    /// Returns the statement if it would be bound the same way now: it must not rely on the row of a
    /// worker on which no batch may rely any more.
    fn still_current(&self, ahead: BoundAhead, workers: &Workers) -> Option<Bound> {
        let is_current = ahead.workers == *workers && ahead.now == self.clock.fixed();
        is_current.then_some(ahead.bound)
    }

    /// The connection that was kept, if it lives, else another.
    async fn take(&self, kept: Option<Kept>) -> Result<PgConnection, Failure> {
        if let Some(Kept { mut connection, since }) = kept {
            let is_fresh = since.elapsed() < REST;
            if is_fresh || matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))) {
                return Ok(connection);
            }
        }
        // A commit that was dropped half-way left no connection, and may have let go of claims.
        self.writer.memory.forget();
        connect_writer(&self.options, &self.sql).await
    }
}

/// The outcomes of a batch that is committed, but whose claimed runs cannot be read.
fn unreadable(writes: &[Write], error: &DatabaseError) -> Vec<Outcome> {
    let outcome = |write: &Write| match write.as_claim() {
        Some(_) => Outcome::refused(error),
        None => Outcome::Applied,
    };
    writes.iter().map(outcome).collect()
}

/// A connection whose session is the executor's.
pub(super) async fn connect_writer(options: &PgConnectOptions, sql: &Sql) -> Result<PgConnection, Failure> {
    let mut connection = connect(options, sql).await?;
    sql.configure_writer.query().execute(&mut connection).await?;
    Ok(connection)
}

impl Writer {
    /// Waits for the turn to commit, as a commit does.
    #[cfg(test)]
    pub(super) async fn turn(&self) -> impl Sized {
        self.kept.lock().await
    }

    /// The workers on whose rows a batch may rely now, those among them that claim by it.
    fn workers_of(&self, writes: &[Write]) -> Workers {
        let mut memory = self.memory.lock();
        for write in writes {
            if let Some(request) = write.as_claim() {
                memory.workers.remember(request.worker);
            }
        }
        memory.workers.proven(&self.recorded_again, Instant::now())
    }

    /// The workers of this process on whose rows a batch may not rely.
    pub(super) fn recorded_again(&self) -> RecordedAgain {
        self.recorded_again.clone()
    }

    /// How many of these claims are known to hold.
    #[cfg(test)]
    pub(super) fn known(&self, claims: &[workflow_engine::model::Claim]) -> usize {
        let memory = self.memory.lock();
        claims.iter().filter(|claim| memory.known.holds(**claim)).count()
    }

    /// Ends the connection.
    pub(super) async fn close(&self) {
        if let Some(Kept { connection, .. }) = self.kept.lock().await.take() {
            // That the server hears no farewell harms nobody.
            let _ = tokio::time::timeout(PING_TIMEOUT, connection.close()).await;
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}
