//! A store that fails on demand.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use workflow_engine::forward_store;
use workflow_engine::model::{Claim, Lane, Retention, WorkerId};
use workflow_engine::store::{
    AttemptWrite, CommitOrder, LeaseSession, Outcome, StepCommit, StepTransaction, Store, StoreId, Write,
};
use workflow_sdk::{DatabaseError, DatabaseErrorKind};

/// The fault of one commit.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The commit fails without an effect.
    Before(DatabaseErrorKind),
    /// The commit has its effect, and then fails.
    After(DatabaseErrorKind),
    /// The commit panics.
    Panic,
}

type Test = Box<dyn Fn(&Write) -> bool + Send + Sync>;

/// A gate at which commits wait.
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

    /// Returns when a commit waits at the gate.
    pub async fn reached(&self) {
        let _ = self.reached.acquire().await;
    }

    /// Lets every commit pass from now on.
    pub fn open(&self) {
        self.open.close();
    }
}

/// A store in front of another one, whose commits fail on demand.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    bad: Test,
    faults: Mutex<VecDeque<(Test, Fault)>>,
    batches: Mutex<Vec<usize>>,
    gate: Mutex<Option<(Test, Arc<Gate>)>>,
    transaction_faults: Mutex<VecDeque<Fault>>,
    /// How many reads of an inbox still fail.
    inboxes: AtomicUsize,
    /// The reads so far, by the name of the call.
    reads: Mutex<BTreeMap<&'static str, usize>>,
    /// Keeps the order of the commits, of which some wait at a gate.
    order: CommitOrder,
    /// Calls of `commit` that have not returned.
    under_way: AtomicUsize,
    /// Calls of `commit` that were made while another one was under way.
    overlapping: AtomicUsize,
}

impl FaultyStore {
    /// Returns a store that does not fail yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            bad: Box::new(|_| false),
            faults: Mutex::default(),
            batches: Mutex::default(),
            gate: Mutex::default(),
            transaction_faults: Mutex::default(),
            inboxes: AtomicUsize::new(0),
            reads: Mutex::default(),
            order: CommitOrder::default(),
            under_way: AtomicUsize::new(0),
            overlapping: AtomicUsize::new(0),
        }
    }

    /// Refuses every batch that contains one of these writes, as a database refuses data.
    #[must_use]
    pub fn refuse(self, bad: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Self {
        Self { bad: Box::new(bad), ..self }
    }

    /// Gives the next commit that contains such a write this fault; further calls are queued.
    pub fn fail_next(&self, with: impl Fn(&Write) -> bool + Send + Sync + 'static, fault: Fault) {
        self.faults.lock().expect("faults").push_back((Box::new(with), fault));
    }

    /// Gives the commit of the next transaction of a step this fault, with an unknown outcome;
    /// further calls are queued.
    pub fn fail_next_transaction(&self, fault: Fault) {
        self.transaction_faults.lock().expect("faults").push_back(fault);
    }

    /// Makes the next reads of an inbox find no database.
    pub fn fail_inboxes(&self, count: usize) {
        self.inboxes.store(count, SeqCst);
    }

    /// Returns how many faults are left.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        self.faults.lock().expect("faults").len()
    }

    /// Returns a gate at which commits that contain such a write wait from now on.
    #[must_use]
    pub fn block(&self, with: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Arc<Gate> {
        let gate = Arc::new(Gate { reached: Semaphore::new(0), open: Semaphore::new(0) });
        *self.gate.lock().expect("gate") = Some((Box::new(with), Arc::clone(&gate)));
        gate
    }

    /// Returns the sizes of the batches so far, including failed ones.
    #[must_use]
    pub fn batches(&self) -> Vec<usize> {
        self.batches.lock().expect("batches").clone()
    }

    /// Returns the number of batches that were sent while another one was being committed.
    #[must_use]
    pub fn overlapping(&self) -> usize {
        self.overlapping.load(SeqCst)
    }

    /// Returns how often a read was made, such as `history_page`.
    #[must_use]
    pub fn reads(&self, name: &str) -> usize {
        self.reads.lock().expect("reads").get(name).copied().unwrap_or_default()
    }

    /// Returns how often the data version and parts of lists were read.
    #[must_use]
    pub fn reads_for_changes(&self) -> (usize, usize) {
        (self.reads("data_version"), self.reads("scan"))
    }

    /// Counts a read, and makes it unless it is to fail.
    async fn around<T: Send>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, DatabaseError>> + Send,
    ) -> Result<T, DatabaseError> {
        *self.reads.lock().expect("reads").entry(name).or_default() += 1;
        if name == "inbox" && self.inboxes.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(DatabaseError::new(DatabaseErrorKind::Unreachable, "read an inbox", "a fault of the test"));
        }
        call.await
    }

    fn gate_of(&self, writes: &[Write]) -> Option<Arc<Gate>> {
        let gate = self.gate.lock().expect("gate");
        gate.as_ref().filter(|(with, _)| writes.iter().any(with)).map(|(_, gate)| Arc::clone(gate))
    }

    /// Waits at the gate, if these writes have to.
    async fn pass_gate(&self, writes: &[Write]) {
        self.batches.lock().expect("batches").push(writes.len());
        if let Some(gate) = self.gate_of(writes) {
            gate.pass().await;
        }
    }

    /// Commits these writes, unless they are bad or have a fault.
    async fn commit_with_faults(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        if writes.iter().any(&self.bad) {
            return Err(failure(DatabaseErrorKind::Invalid));
        }
        match self.next_fault(writes) {
            None => self.inner.commit(writes).await,
            Some(Fault::Before(kind)) => Err(failure(kind)),
            Some(Fault::After(kind)) => {
                self.inner.commit(writes).await?;
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

/// Counts one call of `commit` until it returns or is dropped.
struct UnderWay<'s>(&'s FaultyStore);

impl<'s> UnderWay<'s> {
    fn begin(store: &'s FaultyStore) -> Self {
        let others = store.under_way.fetch_add(1, SeqCst);
        store.overlapping.fetch_add(usize::from(others > 0), SeqCst);
        Self(store)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, SeqCst);
    }
}

impl std::fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

fn failure(kind: DatabaseErrorKind) -> DatabaseError {
    DatabaseError::new(kind, "commit", "a fault of the test")
}

forward_store! {
    FaultyStore {
        async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
            // Batches of statistics come at times that no test knows.
            if let [Write::Statistics(_)] = writes {
                return self.order.call(std::future::ready(()), |()| self.inner.commit(writes)).await;
            }
            let _under_way = UnderWay::begin(self);
            self.order.call(self.pass_gate(writes), |()| self.commit_with_faults(writes)).await
        }

        async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
            let transaction = self.inner.begin(claim).await?;
            let fault = self.transaction_faults.lock().expect("faults").pop_front();
            Ok(transaction.map(|inner| match fault {
                Some(fault) => Box::new(FaultyTransaction { inner, fault }) as Box<dyn StepTransaction>,
                None => inner,
            }))
        }

        async fn open_lease(
            &self,
            worker: WorkerId,
            lanes: &[Lane],
            retention: &Retention,
        ) -> Result<Box<dyn LeaseSession>, DatabaseError> {
            self.inner.open_lease(worker, lanes, retention).await
        }

        fn in_process(&self) -> bool {
            self.inner.in_process()
        }

        /// Returns `true`, so that the executor puts batches in line on every database.
        fn prepares_next_batch(&self) -> bool {
            true
        }
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

    fn store(&self) -> StoreId {
        self.inner.store()
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
