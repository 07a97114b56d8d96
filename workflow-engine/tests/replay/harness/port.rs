//! The port of a drive without a worker, and a transaction without a database.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use futures::future::BoxFuture;
use workflow_engine::model::{Admission, Circuit, NewSignal, ServiceReport};
use workflow_engine::runtime::{Port, PortFuture};
use workflow_engine::store::{AttemptWrite, StepCommit, StepTransaction, StoreId};
use workflow_sdk::{Breaker, Result, SignalOutcome, StoredError, Timestamp};

/// The port of a drive without a worker. The clock and the circuits belong to the test.
#[derive(Debug)]
pub(crate) struct ManualPort {
    pub(super) now: AtomicI64,
    pub(super) wakes: AtomicUsize,
    /// If true, a transaction never opens.
    pub(crate) database_is_busy: AtomicBool,
    pub(crate) circuits: Mutex<HashMap<String, Circuit>>,
}

impl ManualPort {
    pub(super) fn at(now: Timestamp) -> Self {
        Self {
            now: AtomicI64::new(now.as_micros()),
            wakes: AtomicUsize::new(0),
            circuits: Mutex::default(),
            database_is_busy: AtomicBool::new(false),
        }
    }
}

impl Port for ManualPort {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst))
    }

    fn signal(&self, signal: NewSignal) -> PortFuture<workflow_sdk::Result<SignalOutcome>> {
        Box::pin(async move { Err(workflow_sdk::Error::fatal(format!("the test port sends no signals: {signal:?}"))) })
    }

    fn breaker_admits(&self, breaker: &Breaker) -> std::result::Result<Admission, Timestamp> {
        let mut circuits = self.circuits.lock().unwrap();
        circuits.entry(breaker.name().to_owned()).or_default().admit(breaker, self.now())
    }

    fn breaker_report(&self, breaker: &Breaker, admission: Admission, report: ServiceReport<'_>) {
        let mut circuits = self.circuits.lock().unwrap();
        circuits.get_mut(breaker.name()).unwrap().report(breaker, admission, report, self.now());
    }

    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }

    fn begin_transaction(&self) -> BoxFuture<'_, Result<Box<dyn StepTransaction>, StoredError>> {
        Box::pin(async {
            if self.database_is_busy.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            Ok(Box::new(NoTransaction) as Box<dyn StepTransaction>)
        })
    }
}

/// A transaction without a database. The test commits the outcome by itself.
#[derive(Debug)]
struct NoTransaction;

#[async_trait::async_trait]
impl StepTransaction for NoTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        self
    }

    fn database(&self) -> &'static str {
        "none"
    }

    fn store(&self) -> StoreId {
        StoreId::next()
    }

    async fn commit(self: Box<Self>, _outcome: AttemptWrite) -> StepCommit {
        StepCommit::Committed
    }

    async fn roll_back(self: Box<Self>) {}
}
