//! The parts of an env that outlive a crash of its process.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::MemoryDatabase;
use futures::future::BoxFuture;
use workflow_engine::model::Clock;
use workflow_sdk::Client;

use workflow_worker::WorkerError;

use super::commit_log::SharedLog;
use super::effects::Ledger;
use super::time::VirtualTime;

/// Makes a worker on a client. The worker works until its process ends. `None` if no workflow is
/// registered.
pub(super) type MakeWorker =
    Arc<dyn Fn(Client) -> Option<BoxFuture<'static, Result<(), WorkerError>>> + Send + Sync + 'static>;

/// The parts of an env that outlive a crash of its process.
pub(super) struct Surroundings {
    pub(super) database: MemoryDatabase,
    pub(super) time: Arc<VirtualTime>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) log: SharedLog,
    pub(super) worker: MakeWorker,
    worker_error: Mutex<Option<String>>,
}

impl Surroundings {
    pub(super) fn new(time: Arc<VirtualTime>, ledger: Arc<Ledger>, log: SharedLog, worker: MakeWorker) -> Arc<Self> {
        let read = Arc::clone(&time);
        let database = MemoryDatabase::new(Clock::from_fn(move || read.now()));
        Arc::new(Self { database, time, ledger, log, worker, worker_error: Mutex::default() })
    }

    pub(super) fn worker_ended(&self, error: &WorkerError) {
        *self.worker_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }

    /// Returns the error with which the worker has ended.
    pub(super) fn worker_error(&self) -> Option<String> {
        self.worker_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}
