use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};
use tokio::time::Instant;

use workflow_engine::store::{DatabaseError, DatabaseErrorKind};

use super::PostgresStore;
use super::error::Failure;

/// The deadline of a call, including the wait for a connection. The driver sets no keepalive on its
/// sockets, and a server that is gone enforces no time-out.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A connection of the pool for one call. It goes back only through [`Call::end`]. If the call
/// fails in a way that leaves the connection in doubt, runs out of time or is dropped half-way, the
/// connection is closed and the server rolls back.
pub(super) struct Call {
    connection: PoolConnection<Postgres>,
    operation: &'static str,
    limit: Limit,
    /// `true` if other calls may use the connection.
    sound: bool,
}

/// Runs a read. If its connection turns out to be cut, it is repeated on another one: after a
/// restart of the server, each connection that rested in the pool is cut. All tries have one
/// deadline.
macro_rules! read_call {
    ($store:expr, $operation:literal, $connection:ident => $read:expr) => {{
        let limit = $crate::call::Limit::from_now();
        let mut tries = $store.pool.options().get_max_connections();
        loop {
            let mut call = $store.begin_call_within($operation, limit).await?;
            let $connection = call.connection();
            let result = limit.run($read).await;
            let is_cut = result.as_ref().is_err_and($crate::error::Failure::is_cut_connection);
            let result = call.end(result);
            if !is_cut || tries == 0 {
                break result;
            }
            tries -= 1;
        }
    }};
}

pub(super) use read_call;

/// The time by which a call must have ended.
#[derive(Clone, Copy)]
pub(super) struct Limit(Instant);

impl Limit {
    /// Returns the deadline of a call that begins now.
    pub(super) fn from_now() -> Self {
        Self::after(DEADLINE)
    }

    /// Returns a deadline this long from now.
    pub(super) fn after(duration: Duration) -> Self {
        Self(Instant::now() + duration)
    }

    /// Returns the answer of the work, or a failure of kind [`DatabaseErrorKind::Unreachable`] if
    /// the deadline passes first.
    pub(super) async fn run<T>(self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::time::timeout_at(self.0, work).await.unwrap_or_else(|elapsed| Err(Failure::timed_out(elapsed)))
    }
}

impl PostgresStore {
    /// Takes a connection of the pool.
    pub(super) async fn begin_call(&self, operation: &'static str) -> Result<Call, DatabaseError> {
        self.begin_call_within(operation, Limit::from_now()).await
    }

    /// Takes a connection of the pool, for a call with this deadline.
    pub(super) async fn begin_call_within(&self, operation: &'static str, limit: Limit) -> Result<Call, DatabaseError> {
        self.refuse_if_closed(operation)?;
        let acquire = async {
            tokio::select! {
                biased;
                acquired = self.pool.acquire() => Ok(acquired?),
                // The pool would try until its own time-out, and not say why.
                failure = self.sql.timeline.refusal() => Err(failure),
            }
        };
        let connection = limit.run(acquire).await.map_err(|failure| failure.during(operation))?;
        Ok(Call { connection, operation, limit, sound: false })
    }

    /// Fails if the store or its pool was closed. A call that uses no connection of the pool could
    /// go on, but a store half of whose calls succeed would help no caller.
    pub(super) fn refuse_if_closed(&self, operation: &'static str) -> Result<(), DatabaseError> {
        if !self.closed.load(Ordering::Acquire) && !self.pool.is_closed() {
            return Ok(());
        }
        Err(DatabaseError::new(DatabaseErrorKind::Unreachable, operation, sqlx::Error::PoolClosed))
    }
}

impl Call {
    /// Returns the deadline of this call.
    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns the connection.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Gives the connection back, or closes it if the failure leaves it in doubt.
    pub(super) fn end<T>(mut self, result: Result<T, Failure>) -> Result<T, DatabaseError> {
        self.sound = match &result {
            Ok(_) => true,
            Err(failure) => !failure.breaks_connection,
        };
        result.map_err(|failure| failure.during(self.operation))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.sound {
            self.connection.close_on_drop();
        }
    }
}
