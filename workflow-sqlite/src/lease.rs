//! The session of a worker: renews claims, shows that the process lives, and finds dead workers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{Connection, SqliteConnection};

use workflow_engine::faults::altered;
use workflow_engine::faults::failpoint_error;
use workflow_engine::model::{Claim, Lane, Retention, Timestamp, WorkerId};
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, LeaseSession, Renewed, WorkerLock, WorkerLook};

use super::database::Database;
use super::error::{During, with_write_lock, within_deadline};
use super::lock_file::{HeldLock, LockFiles};
use super::writer::WriterGuard;
use super::{row, sql, start};

/// The lease session of a worker. A call that is dropped leaves no transaction open: each statement
/// is a transaction of its own, except those that release a dead worker.
#[derive(Debug)]
struct Session {
    database: Arc<Database>,
    worker: WorkerId,
    /// The lanes that the worker serves, as JSON text.
    lanes: String,
    /// The retention that it declares, as JSON text.
    retention: String,
    /// `None` for a database in memory, which has one process and one connection.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    connection: SqliteConnection,
    files: LockFiles,
    lock: HeldLock,
}

/// The connection of the session, or the only one of a database in memory.
enum SessionConnection<'a> {
    Own(&'a mut SqliteConnection),
    Shared(WriterGuard),
}

/// See [`Store::open_lease`](workflow_engine::store::Store::open_lease).
pub(super) async fn open(
    database: &Arc<Database>,
    worker: WorkerId,
    served: &[Lane],
    retention: &Retention,
) -> Result<Box<dyn LeaseSession>, DatabaseError> {
    const OPERATION: &str = "open a lease session";
    let lanes = serde_json::to_string(served).during(OPERATION)?;
    let retention = serde_json::to_string(retention).during(OPERATION)?;
    database.check_open(OPERATION)?;
    let own = match &database.file {
        None => None,
        Some(file) => {
            let connection = file.open_writing_connection(OPERATION).await?;
            let files = LockFiles::of(&file.path);
            // Locked before the row is written, because a recorded worker without a lock counts as
            // dead.
            let lock = files.lock(worker).map_err(|error| file_error(OPERATION, error))?;
            Some(Own { connection, files, lock })
        }
    };
    let mut session = Session { database: Arc::clone(database), worker, lanes, retention, own };
    // Each on its own: a repetition of both would drop the lock of the recorded worker.
    with_write_lock!(OPERATION, session.record())?;
    with_write_lock!(OPERATION, session.insert_lanes(served))?;
    Ok(Box::new(session))
}

impl Session {
    async fn connection(&mut self) -> Result<SessionConnection<'_>, DatabaseError> {
        match &mut self.own {
            Some(own) => Ok(SessionConnection::Own(&mut own.connection)),
            None => Ok(SessionConnection::Shared(self.database.writer.lock().await?)),
        }
    }

    async fn record(&mut self) -> Result<(), DatabaseError> {
        let (worker, now) = (self.worker.to_string(), self.database.now().as_micros());
        let query = sqlx::query(sql::INSERT_WORKER)
            .bind(worker)
            .bind(now)
            .bind(self.lanes.clone())
            .bind(self.retention.clone());
        query.execute(self.connection().await?.get()?).await.during("record a worker")?;
        Ok(())
    }

    async fn insert_lanes(&mut self, lanes: &[Lane]) -> Result<(), DatabaseError> {
        start::insert_lanes(self.connection().await?.get()?, lanes).await
    }

    /// Returns the recorded workers, each with its start.
    async fn recorded(&mut self) -> Result<Vec<(WorkerId, Timestamp)>, DatabaseError> {
        let query = sqlx::query(sql::LIST_WORKERS);
        let rows = query.fetch_all(self.connection().await?.get()?).await.during("list workers")?;
        let record = |found| Ok((row::worker_id(row::get(found, "id")?)?, row::time(found, "started_at")?));
        rows.iter().map(record).collect()
    }

    /// Records the worker again, after another worker took it for dead and removed its row and its
    /// file.
    async fn record_again(&mut self) -> Result<(), DatabaseError> {
        tracing::warn!(worker = %self.worker, "this worker was taken for dead; it records itself again");
        if let Some(own) = &mut self.own {
            match own.files.lock(self.worker) {
                Ok(lock) => own.lock = lock,
                // The file still exists, locked by this session itself.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(file_error("lock again", error)),
            }
        }
        self.record().await
    }

    async fn renew_claims(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, DatabaseError> {
        const OPERATION: &str = "renew claims";
        let mut rows: Vec<_> = claims.iter().map(|claim| (claim.run_id, claim.epoch)).collect();
        rows.sort_unstable();
        let until = self.database.now() + lease;
        let renew = altered("unfenced-heartbeat", sql::RENEW_CLAIMS, " AND epoch = c.value ->> 1", "");
        let query = sqlx::query(renew).bind(serde_json::to_string(&rows).during(OPERATION)?).bind(until.as_micros());
        let rows = query.fetch_all(self.connection().await?.get()?).await.during(OPERATION)?;
        rows.iter().map(row::renewed).collect()
    }

    async fn look_at_workers(&mut self) -> Result<WorkerLook, DatabaseError> {
        let recorded = self.recorded().await?;
        if !recorded.iter().any(|(worker, _)| *worker == self.worker) {
            self.record_again().await?;
        }
        let now = self.database.now();
        let Some(own) = &self.own else { return Ok(WorkerLook::default()) };
        let look = |(worker, started_at): (WorkerId, Timestamp)| {
            let is_held = worker == self.worker || !own.files.is_dead(worker, now.since(started_at))?;
            Ok(WorkerLock { worker, is_held })
        };
        let locks = recorded.into_iter().map(look).collect::<std::io::Result<Vec<_>>>();
        let locks = locks.map_err(|error| file_error("look at a worker's lock", error))?;
        Ok(WorkerLook::of(self.worker, &locks))
    }

    /// Releases claims and forgets the worker in one transaction, so that each death is counted
    /// once. A transaction that is dropped is rolled back at once by the driver's thread.
    async fn release(&mut self, worker: WorkerId) -> Result<u64, DatabaseError> {
        const OPERATION: &str = "release a dead worker's claims";
        let (id, now) = (worker.to_string(), self.database.now().as_micros());
        let mut connection = self.connection().await?;
        let mut transaction = connection.get()?.begin_with("BEGIN IMMEDIATE").await.during(OPERATION)?;
        let forget = sqlx::query(sql::DELETE_WORKER).bind(&id).execute(&mut *transaction);
        let is_recorded = forget.await.during(OPERATION)?.rows_affected() > 0;
        failpoint_error("lease.in_release")?;
        let released = match is_recorded {
            true => {
                let release_claims =
                    altered("uncounted-crash", sql::RELEASE_CLAIMS, "crashes = crashes + 1", "crashes = crashes");
                let release_claims =
                    altered("blame-beside-others", release_claims, "iif(alone_epoch = epoch,", "iif(true,");
                let release = sqlx::query(release_claims).bind(id).bind(now).execute(&mut *transaction);
                release.await.during(OPERATION)?.rows_affected()
            }
            false => 0,
        };
        transaction.commit().await.during(OPERATION)?;
        drop(connection);
        if let Some(own) = &self.own {
            own.files.remove(worker).map_err(|error| file_error("remove a worker's lock file", error))?;
        }
        Ok(released)
    }

    async fn forget(&mut self) -> Result<(), DatabaseError> {
        let forget = sqlx::query(sql::DELETE_WORKER).bind(self.worker.to_string());
        forget.execute(self.connection().await?.get()?).await.during("forget a worker").map(drop)
    }

    async fn end(self) -> Result<(), DatabaseError> {
        let Some(own) = self.own else { return Ok(()) };
        own.lock.release().map_err(|error| file_error("remove the lock file", error))?;
        own.connection.close().await.during("close a lease session")
    }
}

impl SessionConnection<'_> {
    fn get(&mut self) -> Result<&mut SqliteConnection, DatabaseError> {
        match self {
            Self::Own(connection) => Ok(connection),
            Self::Shared(guard) => guard.connection(),
        }
    }
}

#[async_trait]
impl LeaseSession for Session {
    async fn renew(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, DatabaseError> {
        self.database.check_files("renew claims")?;
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        with_write_lock!("renew claims", self.renew_claims(claims, lease))
    }

    async fn look(&mut self) -> Result<WorkerLook, DatabaseError> {
        with_write_lock!("look at workers", self.look_at_workers())
    }

    async fn release_worker(&mut self, worker: WorkerId) -> Result<u64, DatabaseError> {
        with_write_lock!("release a worker", self.release(worker))
    }

    async fn close(mut self: Box<Self>) -> Result<(), DatabaseError> {
        with_write_lock!("forget a worker", self.forget())?;
        within_deadline("close a lease session", self.end()).await
    }
}

/// Turns an error of a lock file into one of the database: the files lie beside the database, so if
/// they cannot be used, neither can it.
pub(super) fn file_error(operation: &'static str, error: std::io::Error) -> DatabaseError {
    let kind = match error.kind() {
        // Only a change of the files helps.
        std::io::ErrorKind::PermissionDenied => DatabaseErrorKind::Other,
        _ => DatabaseErrorKind::Unreachable,
    };
    DatabaseError::new(kind, operation, error)
}
