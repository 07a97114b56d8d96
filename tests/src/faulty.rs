//! A backend that fails when its test says so.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use workflow_sdk::engine::{
    Answer, AttemptWrite, Backend, Claim, EmittedItem, EndedRun, Hints, Inbox, Lane, LeaseSession, NextDue, Outcome,
    Prepared, Preparer, StepCommit, StepTransaction, WaitingApproval, WorkerId, WorkerRecord, Write,
};
use workflow_sdk::{BackendError, BackendErrorKind, Run, RunFilter, RunId, StepAttempt};

/// What goes wrong with one commit.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It fails without an effect.
    Before(BackendErrorKind),
    /// It has its effect, and then fails.
    After(BackendErrorKind),
    /// It panics.
    Panic,
}

type Test = Box<dyn Fn(&Write) -> bool + Send + Sync>;

/// Where commits wait.
#[derive(Debug)]
pub struct Gate {
    reached: Semaphore,
    open: Semaphore,
}

impl Gate {
    async fn pass(&self) {
        self.reached.add_permits(1);
        let _ = self.open.acquire().await;
    }

    /// Returns when a commit has come to the gate.
    pub async fn reached(&self) {
        let _ = self.reached.acquire().await;
    }

    /// Lets every commit through from now on.
    pub fn open(&self) {
        self.open.close();
    }
}

/// Another backend, whose commits fail on demand.
pub struct FaultyBackend {
    inner: Arc<dyn Backend>,
    bad: Test,
    faults: Mutex<VecDeque<(Test, Fault)>>,
    batches: Mutex<Vec<usize>>,
    gate: Mutex<Option<(Test, Arc<Gate>)>>,
    transaction_faults: Mutex<VecDeque<Fault>>,
    /// So many reads of an inbox fail.
    inboxes: AtomicUsize,
    /// So many batches were prepared.
    prepared: AtomicUsize,
}

impl FaultyBackend {
    /// A backend that does not fail yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            bad: Box::new(|_| false),
            faults: Mutex::default(),
            batches: Mutex::default(),
            gate: Mutex::default(),
            transaction_faults: Mutex::default(),
            inboxes: AtomicUsize::new(0),
            prepared: AtomicUsize::new(0),
        }
    }

    /// Refuses every batch with one of these writes in it, as a database refuses data.
    #[must_use]
    pub fn refuse(self, bad: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Self {
        Self { bad: Box::new(bad), ..self }
    }

    /// The next commit with such a write in it has this fault; one for each call, in order.
    pub fn fail_next(&self, with: impl Fn(&Write) -> bool + Send + Sync + 'static, fault: Fault) {
        self.faults.lock().expect("faults").push_back((Box::new(with), fault));
    }

    /// The commit of the next transaction of a step has this fault, and nobody knows which; one for each call, in order.
    pub fn fail_next_transaction(&self, fault: Fault) {
        self.transaction_faults.lock().expect("faults").push_back(fault);
    }

    /// The next so many reads of an inbox find no database.
    pub fn fail_inboxes(&self, count: usize) {
        self.inboxes.store(count, SeqCst);
    }

    /// Faults that have not come to pass.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        self.faults.lock().expect("faults").len()
    }

    /// From now on commits with such a write in them wait at the gate that is returned.
    #[must_use]
    pub fn block(&self, with: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Arc<Gate> {
        let gate = Arc::new(Gate { reached: Semaphore::new(0), open: Semaphore::new(0) });
        *self.gate.lock().expect("gate") = Some((Box::new(with), Arc::clone(&gate)));
        gate
    }

    /// The sizes of the batches so far, failed ones included.
    #[must_use]
    pub fn batches(&self) -> Vec<usize> {
        self.batches.lock().expect("batches").clone()
    }

    /// How many batches were prepared.
    #[must_use]
    pub fn prepared(&self) -> usize {
        self.prepared.load(SeqCst)
    }

    fn gate_of(&self, writes: &[Write]) -> Option<Arc<Gate>> {
        let gate = self.gate.lock().expect("gate");
        gate.as_ref().filter(|(with, _)| writes.iter().any(with)).map(|(_, gate)| Arc::clone(gate))
    }

    /// A commit of these writes, or what goes wrong with it.
    async fn with_faults<T>(
        &self,
        writes: &[Write],
        commit: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        self.batches.lock().expect("batches").push(writes.len());
        if let Some(gate) = self.gate_of(writes) {
            gate.pass().await;
        }
        if writes.iter().any(&self.bad) {
            return Err(failure(BackendErrorKind::Invalid));
        }
        match self.next_fault(writes) {
            None => commit.await,
            Some(Fault::Before(kind)) => Err(failure(kind)),
            Some(Fault::After(kind)) => {
                commit.await?;
                Err(failure(kind))
            }
            Some(Fault::Panic) => panic!("a fault of the test"),
        }
    }

    fn next_fault(&self, writes: &[Write]) -> Option<Fault> {
        let mut faults = self.faults.lock().expect("faults");
        let matches = faults.front().is_some_and(|(with, _)| writes.iter().any(with));
        if matches { faults.pop_front().map(|(_, fault)| fault) } else { None }
    }
}

impl std::fmt::Debug for FaultyBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyBackend").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Preparer for FaultyBackend {
    fn prepare(&self, writes: &[Write]) -> Option<Prepared> {
        let prepared = self.inner.preparer()?.prepare(writes);
        self.prepared.fetch_add(usize::from(prepared.is_some()), SeqCst);
        prepared
    }

    async fn commit_prepared(&self, writes: &[Write], prepared: Prepared) -> Result<Answer, BackendError> {
        let preparer = self.inner.preparer().ok_or_else(|| failure(BackendErrorKind::Other))?;
        self.with_faults(writes, preparer.commit_prepared(writes, prepared)).await
    }
}

fn failure(kind: BackendErrorKind) -> BackendError {
    BackendError::new(kind, "commit", "a fault of the test")
}

#[async_trait]
impl Backend for FaultyBackend {
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, BackendError> {
        self.with_faults(writes, self.inner.commit(writes)).await
    }

    fn preparer(&self) -> Option<&dyn Preparer> {
        self.inner.preparer().map(|_| self as &dyn Preparer)
    }

    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, BackendError> {
        self.inner.next_due(lanes).await
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, BackendError> {
        self.inner.run(id).await
    }

    async fn list(&self, filter: &RunFilter) -> Result<Vec<Run>, BackendError> {
        self.inner.list(filter).await
    }

    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, BackendError> {
        self.inner.history(id).await
    }

    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, BackendError> {
        self.inner.published(id, name).await
    }

    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, BackendError> {
        self.inner.emitted(id, name, after, limit).await
    }

    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, BackendError> {
        self.inner.ended(ids).await
    }

    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, BackendError> {
        let fault = self.inboxes.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if fault.is_ok() {
            return Err(BackendError::new(BackendErrorKind::Unreachable, "read an inbox", "a fault of the test"));
        }
        self.inner.inbox(id, names).await
    }

    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<(RunId, i64)>, BackendError> {
        self.inner.wakes(ids).await
    }

    async fn approvals(&self, run: Option<RunId>, limit: u32) -> Result<Vec<WaitingApproval>, BackendError> {
        self.inner.approvals(run, limit).await
    }

    async fn open_lease(&self, worker: WorkerId, lanes: &[Lane]) -> Result<Box<dyn LeaseSession>, BackendError> {
        self.inner.open_lease(worker, lanes).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, BackendError> {
        self.inner.workers().await
    }

    async fn due_lanes(&self, lanes: &[Lane]) -> Result<Vec<Lane>, BackendError> {
        self.inner.due_lanes(lanes).await
    }

    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, BackendError> {
        let transaction = self.inner.begin(claim).await?;
        let fault = self.transaction_faults.lock().expect("faults").pop_front();
        Ok(transaction.map(|inner| match fault {
            Some(fault) => Box::new(FaultyTransaction { inner, fault }) as Box<dyn StepTransaction>,
            None => inner,
        }))
    }

    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, BackendError> {
        self.inner.recorded(run, step_key, attempt).await
    }

    async fn hint(&self) -> Result<(), BackendError> {
        self.inner.hint().await
    }

    async fn listen(&self) -> Result<Box<dyn Hints>, BackendError> {
        self.inner.listen().await
    }

    fn in_process(&self) -> bool {
        self.inner.in_process()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
}

/// A transaction whose commit fails.
#[derive(Debug)]
struct FaultyTransaction {
    inner: Box<dyn StepTransaction>,
    fault: Fault,
}

#[async_trait]
impl StepTransaction for FaultyTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        self.inner.connection()
    }

    fn database(&self) -> &'static str {
        self.inner.database()
    }

    fn belongs_to(&self, backend: &dyn Backend) -> bool {
        self.inner.belongs_to(backend)
    }

    async fn commit(self: Box<Self>, outcome: AttemptWrite) -> StepCommit {
        match self.fault {
            Fault::Before(kind) => {
                self.inner.roll_back().await;
                StepCommit::Unknown(failure(kind))
            }
            Fault::After(kind) => match self.inner.commit(outcome).await {
                StepCommit::Committed => StepCommit::Unknown(failure(kind)),
                other => other,
            },
            Fault::Panic => panic!("a fault of the test"),
        }
    }

    async fn roll_back(self: Box<Self>) {
        self.inner.roll_back().await;
    }
}
