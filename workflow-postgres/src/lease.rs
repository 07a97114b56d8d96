use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::{Connection, PgConnection, PgPool, Row};
use uuid::Uuid;

use workflow_engine::model::{Claim, Clock, Lane, Retention, Timestamp, WorkerId};
use workflow_engine::store::{DatabaseError, LeaseSession, Renewed, WorkerLock, WorkerLook};

use super::PostgresStore;
use super::call::Limit;
use super::error::Failure;
use super::open::connect;
use super::ownership::RecordedAgain;
use super::sql::Sql;
use super::start::micros;
use super::witness::Witness;
use super::{lanes, row};

/// After this session was opened again, it takes no worker for dead for this time: a restart of the
/// server, which cuts the sessions of all workers, may have cut it.
const SETTLING: Duration = Duration::from_secs(2);

/// How long a renewal tries again while other transactions hold rows of its runs. A transaction of
/// an application may hold one for long, and costs no other run its lease.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The time between two such tries. A batch of this process holds its rows for milliseconds.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The kind of the lock in `end_worker_session.sql`.
const KIND: i16 = 1;

/// The connection of one worker, which holds its liveness lock.
pub(super) struct PostgresLease {
    /// Has the connect options of its sessions.
    pool: PgPool,
    sql: Arc<Sql>,
    clock: Clock,
    worker: WorkerId,
    /// The lanes that the worker serves, as JSON text.
    lanes: String,
    /// The retention that it declares, as JSON text.
    retention: String,
    /// `true` if this process has recorded the worker before.
    recorded: bool,
    recorded_again: RecordedAgain,
    /// `None` during a call, and after a call that failed or was dropped: the next call opens
    /// another session.
    session: Option<Session>,
    /// Holds the second lock. `None` before the worker is recorded.
    witness: Option<Witness>,
    /// The end of [`SETTLING`].
    settled_at: Option<Instant>,
}

/// A connection on which the worker is recorded.
struct Session {
    connection: PgConnection,
    /// `false` while the server takes an older session of this worker for alive: that session then
    /// holds the lock.
    locked: bool,
}

impl PostgresLease {
    /// Connects, takes the lock, then records the worker and the lanes that it serves.
    pub(super) async fn open(
        store: &PostgresStore,
        worker: WorkerId,
        served: &[Lane],
        retention: &Retention,
    ) -> Result<Self, DatabaseError> {
        let invalid = |error| Failure::invalid(error).during("record a worker");
        let lanes = serde_json::to_string(served).map_err(invalid)?;
        let retention = serde_json::to_string(retention).map_err(invalid)?;
        let mut lease = Self {
            pool: store.pool.clone(),
            sql: Arc::clone(&store.sql),
            clock: store.clock.clone(),
            worker,
            lanes,
            retention,
            recorded: false,
            recorded_again: store.session.recorded_again(),
            session: None,
            witness: None,
            settled_at: None,
        };
        let open = async {
            let mut session = lease.take_session().await?;
            lanes::insert(&mut session.connection, &store.sql, served).await?;
            Ok(session)
        };
        let session = Limit::from_now().run(open).await;
        lease.session = Some(session.map_err(|failure| failure.during("open a lease session"))?);
        lease.witness = Some(Witness::start(store.pool.clone(), Arc::clone(&store.sql), worker).await);
        Ok(lease)
    }

    /// Returns the session, with its lock if the lock is free; opens a new one if the last call
    /// lost it.
    async fn take_session(&mut self) -> Result<Session, Failure> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let connection = connect(&self.pool.connect_options(), &self.sql).await?;
                // From now on, because the connect may take long.
                if self.recorded {
                    self.settled_at = Some(Instant::now() + SETTLING);
                }
                Session { connection, locked: false }
            }
        };
        if !session.locked {
            self.lock(&mut session).await?;
        }
        Ok(session)
    }

    /// Takes the lock before it writes the row, because a recorded worker without its lock counts
    /// as dead.
    async fn lock(&mut self, session: &mut Session) -> Result<(), Failure> {
        session.locked = self.try_lock(&mut session.connection).await?;
        if !session.locked {
            // Otherwise the lock would end with the old session at an unknown moment, and the
            // worker would count as dead.
            let end = self.sql.end_worker_session.query().bind(self.worker.lock_key()).bind(KIND);
            end.execute(&mut session.connection).await?;
            session.locked = self.try_lock(&mut session.connection).await?;
        }
        self.record(&mut session.connection).await
    }

    /// Records the worker if it is not recorded.
    async fn record(&mut self, connection: &mut PgConnection) -> Result<(), Failure> {
        let find = self.sql.find_worker.query().bind(self.worker.as_uuid());
        if find.fetch_optional(&mut *connection).await?.is_some() {
            return Ok(());
        }
        if self.recorded {
            self.recorded_again.note(self.worker);
        }
        let record = self.sql.insert_worker.query().bind(self.now()).bind(self.worker.as_uuid());
        record
            .bind(self.worker.lock_key())
            .bind(self.lanes.clone())
            .bind(self.retention.clone())
            .execute(connection)
            .await?;
        self.recorded = true;
        Ok(())
    }

    async fn try_lock(&self, connection: &mut PgConnection) -> Result<bool, Failure> {
        let row = self.sql.lock_worker.query().bind(self.worker.lock_key()).fetch_one(connection).await?;
        Ok(row.try_get("locked")?)
    }

    /// Keeps the session unless the failure broke it. A dropped call never comes here, so its
    /// session is closed.
    fn keep<T>(
        &mut self,
        session: Session,
        operation: &'static str,
        result: Result<T, Failure>,
    ) -> Result<T, DatabaseError> {
        if !result.as_ref().is_err_and(|failure| failure.breaks_connection) {
            self.session = Some(session);
        }
        result.map_err(|failure| failure.during(operation))
    }

    /// Renews claims, and tries those again for a moment whose rows another transaction holds.
    async fn renew_all(
        &self,
        connection: &mut PgConnection,
        claims: &[Claim],
        lease: Duration,
    ) -> Result<Vec<Renewed>, Failure> {
        let begun = Instant::now();
        let (mut renewed, mut left) = (Vec::with_capacity(claims.len()), claims.to_vec());
        loop {
            let found = self.renew_free(connection, &left, lease).await?;
            let (extended, locked): (Vec<_>, Vec<_>) = found.into_iter().partition(|found| found.is_extended);
            renewed.extend(extended);
            if locked.is_empty() || begun.elapsed() >= LOCK_PATIENCE {
                renewed.extend(locked);
                return Ok(renewed);
            }
            left = locked.iter().map(|locked| locked.claim).collect();
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }

    async fn renew_free(
        &self,
        connection: &mut PgConnection,
        claims: &[Claim],
        lease: Duration,
    ) -> Result<Vec<Renewed>, Failure> {
        let query = self.sql.renew_claims.query().bind(self.now());
        let query = query.bind(claims.iter().map(|claim| claim.run_id.as_uuid()).collect::<Vec<_>>());
        let query = query.bind(claims.iter().map(|claim| claim.epoch).collect::<Vec<_>>()).bind(micros(lease));
        let rows = query.fetch_all(connection).await?;
        let renewed = rows.iter().map(|row| {
            Ok(Renewed {
                claim: row::claim(row)?,
                cancel_requested: row::time_if_any(row, "cancel_requested_at")?.is_some(),
                paused: row::time_if_any(row, "paused_at")?.is_some(),
                wakes: row.try_get("wakes")?,
                is_extended: row.try_get("is_extended")?,
            })
        });
        renewed.collect()
    }

    fn now(&self) -> Option<i64> {
        self.clock.fixed().map(Timestamp::as_micros)
    }
}

#[async_trait]
impl LeaseSession for PostgresLease {
    async fn renew(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, DatabaseError> {
        const OPERATION: &str = "renew claims";
        let limit = Limit::from_now();
        let mut session = limit.run(self.take_session()).await.map_err(|failure| failure.during(OPERATION))?;
        let result = limit.run(self.renew_all(&mut session.connection, claims, lease)).await;
        self.keep(session, OPERATION, result)
    }

    async fn look(&mut self) -> Result<WorkerLook, DatabaseError> {
        const OPERATION: &str = "look for dead workers";
        let limit = Limit::from_now();
        let mut session = limit.run(self.take_session()).await.map_err(|failure| failure.during(OPERATION))?;
        let query = self.sql.read_worker_locks.query();
        let find = async {
            let rows = query.fetch_all(&mut session.connection).await?;
            let locks = rows.iter().map(|row| {
                let worker = row.try_get::<Uuid, _>("id")?.into();
                Ok(WorkerLock { worker, is_held: row.try_get("is_held")? })
            });
            let locks = locks.collect::<Result<Vec<_>, Failure>>()?;
            if !locks.iter().any(|lock| lock.worker == self.worker) {
                // Another worker has taken this one for dead and removed its record; its real death
                // would then go unnoticed.
                self.record(&mut session.connection).await?;
            }
            Ok(locks)
        };
        let result = limit.run(find).await;
        let mut look = WorkerLook::of(self.worker, &self.keep(session, OPERATION, result)?);
        if self.settled_at.is_some_and(|settled_at| Instant::now() < settled_at) {
            look.unlocked.clear();
        }
        Ok(look)
    }

    async fn release_worker(&mut self, worker: WorkerId) -> Result<u64, DatabaseError> {
        const OPERATION: &str = "release a dead worker's claims";
        let limit = Limit::from_now();
        let mut session = limit.run(self.take_session()).await.map_err(|failure| failure.during(OPERATION))?;
        let query = self.sql.release_worker.query().bind(self.now()).bind(worker.as_uuid());
        let result = limit.run(async { Ok(query.execute(&mut session.connection).await?.rows_affected()) }).await;
        self.keep(session, OPERATION, result)
    }

    async fn close(mut self: Box<Self>) -> Result<(), DatabaseError> {
        let limit = Limit::from_now();
        let close = async {
            let mut session = self.take_session().await?;
            self.sql.delete_worker.query().bind(self.worker.as_uuid()).execute(&mut session.connection).await?;
            self.sql.unlock_worker.query().bind(self.worker.lock_key()).execute(&mut session.connection).await?;
            // Without its record, nothing looks at the locks.
            drop(self.witness.take());
            Ok(session.connection.close().await?)
        };
        limit.run(close).await.map_err(|failure| failure.during("close a lease session"))
    }
}

impl fmt::Debug for PostgresLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLease").field("worker", &self.worker).finish_non_exhaustive()
    }
}
