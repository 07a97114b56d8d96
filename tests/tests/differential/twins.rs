//! Two databases of one kind with the same content, each used by two processes.

use workflow_engine::model::{Clock, Retention, WorkerId};
use workflow_engine::store::{LeaseSession, Outcome, Store, Write};
use workflow_postgres::PostgresStore;
use workflow_sdk::{DatabaseError, DatabaseErrorKind};
use workflow_sqlite::SqliteStore;
use workflow_tests::raw_connection::RawConnection;
use workflow_tests::{Database, Empty};

use std::time::Duration;

use crate::plan::PROCESSES;

/// How a twin commits its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// As an executor does.
    Usual,
    Slow,
}

/// One of the databases.
pub struct Twin {
    path: Path,
    handles: Vec<Handle>,
    /// By which each process looks after dead workers.
    leases: Vec<Box<dyn LeaseSession>>,
    raw: RawConnection,
    place: Empty,
}

enum Handle {
    Sqlite(SqliteStore),
    Postgres(Box<PostgresStore>),
}

impl Handle {
    async fn open(database: Database, place: &Empty) -> Self {
        let (url, options) = (place.url(), place.options());
        match database {
            Database::Sqlite => Self::Sqlite(SqliteStore::open(&url, options).await.expect("open the file")),
            Database::Postgres => {
                let store = PostgresStore::open(&url, options).await.expect("open the schema");
                // Where a claim begins depends on the time of day.
                store.resume_claims_within(Duration::ZERO);
                Self::Postgres(Box::new(store))
            }
            Database::Memory => panic!("a store in memory has one path"),
        }
    }

    fn store(&self) -> &dyn Store {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store.as_ref(),
        }
    }

    async fn commit(&self, path: Path, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        match (path, self) {
            (Path::Usual, _) => self.store().commit(writes).await,
            (Path::Slow, Self::Sqlite(store)) => store.commit_on_slow_path(writes).await,
            (Path::Slow, Self::Postgres(store)) => store.commit_on_slow_path(writes).await,
        }
    }
}

impl Twin {
    /// A fresh database in which these workers are recorded, but for the last one.
    pub async fn new(database: Database, path: Path, clock: &Clock, workers: &[WorkerId]) -> Self {
        let place = Empty::new(database, clock);
        let mut handles = Vec::new();
        let mut leases = Vec::new();
        for _ in 0..PROCESSES {
            let handle = Handle::open(database, &place).await;
            leases.push(
                handle
                    .store()
                    .open_lease(WorkerId::generate(), &[], &Retention::default())
                    .await
                    .expect("open a lease"),
            );
            handles.push(handle);
        }
        let mut raw = place.raw().await;
        // Leases have other ids in the other database, because their locks belong to the server.
        raw.execute("DELETE FROM workflow_workers").await;
        for worker in &workers[..workers.len() - 1] {
            // Only PostgreSQL has the key of a lock beside it.
            let (columns, values) = match database {
                Database::Postgres => ("id, started_at, lock_key", format!("'{worker}', 7, 7")),
                _ => ("id, started_at", format!("'{worker}', 7")),
            };
            raw.execute(format!("INSERT INTO workflow_workers ({columns}) VALUES ({values})")).await;
        }
        Self { path, handles, leases, raw, place }
    }

    /// Commits a batch by one of the processes.
    pub async fn commit(&self, process: usize, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseErrorKind> {
        self.handles[process].commit(self.path, writes).await.map_err(|error| error.kind)
    }

    /// Has a process take this worker for dead. Says how many claims that makes due.
    pub async fn release_worker(&mut self, process: usize, worker: WorkerId) -> u64 {
        self.leases[process].release_worker(worker).await.expect("release a worker")
    }

    /// Every row of every table, as text.
    pub async fn rows(&mut self) -> Vec<String> {
        let mut rows = Vec::new();
        for table in ["workflow_runs", "step_attempts", "workflow_signals", "workflow_workers"] {
            // The key of a lock may be anything.
            let columns = self.raw.column_names(table).await;
            let columns: Vec<_> = columns.into_iter().filter(|column| column != "lock_key").collect();
            rows.extend(self.raw.rows_as_text(table, &columns).await);
        }
        rows
    }

    /// Closes the handles and removes the data.
    pub async fn remove(self) {
        for lease in self.leases {
            let _ = lease.close().await;
        }
        for handle in self.handles {
            handle.store().close().await;
        }
        self.place.sweep().await;
    }
}
