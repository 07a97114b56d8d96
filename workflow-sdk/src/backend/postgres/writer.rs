//! The connection of the executor.

use std::fmt;
use std::time::Instant;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::Mutex;

use crate::backend::{BackendError, Outcome, Write};

use super::call::Limit;
use super::commit::{Context, Memory};
use super::error::Failure;
use super::open::{PING_TIMEOUT, REST, connect};
use super::sql::Sql;
use super::worker_lock::{RecordedAgain, Workers};
use super::{PostgresBackend, commit};

const OPERATION: &str = "commit a batch";

/// One connection outside the pool, so that a commit waits for no reader, and belongs to the runtime of its user: a
/// connection that another runtime opened is heard only when that one has time.
#[derive(Default)]
pub(super) struct Writer {
    slot: Mutex<Slot>,
    recorded_again: RecordedAgain,
}

#[derive(Default)]
struct Slot {
    kept: Option<Kept>,
    workers: Workers,
    /// Left by a commit that succeeded.
    memory: Memory,
}

/// A connection that rests. In use it is nowhere, so that a commit which is dropped half-way closes it.
struct Kept {
    connection: PgConnection,
    since: Instant,
}

impl PostgresBackend {
    /// See [`Backend::commit`](crate::backend::Backend::commit).
    pub(super) async fn write(&self, writes: &[Write]) -> Result<Vec<Outcome>, BackendError> {
        self.refuse_if_closed(OPERATION)?;
        let mut slot = self.writer.slot.lock().await;
        let limit = Limit::from_now();
        for write in writes {
            if let Write::Claim(request) = write {
                slot.workers.remember(request.worker);
            }
        }
        let workers = slot.workers.proven(&self.writer.recorded_again, Instant::now());
        let taken = limit.run(self.take(slot.kept.take())).await;
        let mut connection = taken.map_err(|failure| failure.during(OPERATION))?;
        let context = Context { sql: &self.sql, clock: &self.clock, workers: &workers };
        let mut memory = std::mem::take(&mut slot.memory);
        let result = limit.run(commit::commit(&mut connection, context, &mut memory, writes)).await;
        if result.is_ok() {
            slot.memory = memory;
        }
        if !result.as_ref().is_err_and(|failure| failure.breaks_connection) {
            slot.kept = Some(Kept { connection, since: Instant::now() });
        }
        result.map_err(|failure| failure.during(OPERATION))
    }

    /// The connection that was kept, if it lives, else another.
    async fn take(&self, kept: Option<Kept>) -> Result<PgConnection, Failure> {
        if let Some(Kept { mut connection, since }) = kept {
            let is_fresh = since.elapsed() < REST;
            if is_fresh || matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))) {
                return Ok(connection);
            }
        }
        connect_writer(&self.options, &self.sql).await
    }
}

/// A connection whose session is the executor's.
pub(super) async fn connect_writer(options: &PgConnectOptions, sql: &Sql) -> Result<PgConnection, Failure> {
    let mut connection = connect(options, sql).await?;
    sql.configure_writer.query().execute(&mut connection).await?;
    Ok(connection)
}

impl Writer {
    /// The workers of this process on whose rows a batch may not rely.
    pub(super) fn recorded_again(&self) -> RecordedAgain {
        self.recorded_again.clone()
    }

    /// How many of these claims are known to hold.
    #[cfg(test)]
    pub(super) async fn known(&self, claims: &[crate::model::Claim]) -> usize {
        let slot = self.slot.lock().await;
        claims.iter().filter(|claim| slot.memory.known.holds(**claim)).count()
    }

    /// So long, claims may begin where the last one ended.
    #[cfg(test)]
    pub(super) async fn begin_elsewhere_within(&self, longest: std::time::Duration) {
        self.slot.lock().await.memory.start = super::claim_start::ClaimStart::within(longest);
    }

    /// Ends the connection.
    pub(super) async fn close(&self) {
        if let Some(Kept { connection, .. }) = self.slot.lock().await.kept.take() {
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
