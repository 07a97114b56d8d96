//! A store that fails on demand.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use workflow_engine::model::{
    AwaitedStep, BulkId, BulkRecord, Claim, DatabaseView, FailureRow, Lane, LimitRecord, QueueRecord, Retention,
    SeatLine, SeatWait, SourceLine, StatisticsRow, StoredSchedule, Timestamp, WorkerId,
};
use workflow_engine::store::{
    ApprovalList, AttemptWrite, AuditList, BulkStore, ChangeStore, CommitOrder, DueSchedules, EmittedItem, EndedRun,
    ForeignTransaction, GateList, GateUse, HeldRuns, HistoryRow, HistoryScan, Inbox, LeaseSession, ListedApprovals,
    ListedAudits, ListedGate, ListedSeat, Listener, NextDue, Outcome, ReadRates, RunCounts, RunScan, RunTags,
    ScannedRuns, SeatCounts, SeatList, SeatRow, StatisticsScan, StatisticsStore, StepCommit, StepTransaction, Store,
    StoreId, SystemStore, WaitStore, WaitingPlace, WithinError, WorkerRecord, Write,
};
use workflow_sdk::{DatabaseError, DatabaseErrorKind, Run, RunId, StepAttempt};

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
    /// Reads of ended runs so far.
    ended_reads: AtomicUsize,
    /// Reads of the data version, and of parts of lists, so far.
    version_reads: AtomicUsize,
    scans: AtomicUsize,
    /// Reads of items of streams so far.
    item_reads: AtomicUsize,
    /// Rows of parts of histories that were read so far.
    history_rows: AtomicUsize,
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
            ended_reads: AtomicUsize::new(0),
            version_reads: AtomicUsize::new(0),
            scans: AtomicUsize::new(0),
            item_reads: AtomicUsize::new(0),
            history_rows: AtomicUsize::new(0),
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

    /// Returns how often the store was asked which of some runs have ended.
    #[must_use]
    pub fn ended_reads(&self) -> usize {
        self.ended_reads.load(SeqCst)
    }

    /// Returns how often items of streams were read.
    #[must_use]
    pub fn item_reads(&self) -> usize {
        self.item_reads.load(SeqCst)
    }

    /// Returns how many rows the reads of parts of histories have returned.
    #[must_use]
    pub fn history_rows(&self) -> usize {
        self.history_rows.load(SeqCst)
    }

    /// Returns how often the data version and parts of lists were read.
    #[must_use]
    pub fn reads_for_changes(&self) -> (usize, usize) {
        (self.version_reads.load(SeqCst), self.scans.load(SeqCst))
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

#[async_trait]
impl StatisticsStore for FaultyStore {
    async fn statistics(&self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, DatabaseError> {
        self.inner.statistics(scan).await
    }

    async fn failures(&self) -> Result<Vec<FailureRow>, DatabaseError> {
        self.inner.failures().await
    }

    async fn run_tags(&self, runs: &[RunId]) -> Result<RunTags, DatabaseError> {
        self.inner.run_tags(runs).await
    }

    async fn source_lines(
        &self,
        workflow: &str,
        version: &str,
        steps: &BTreeSet<&str>,
    ) -> Result<Vec<SourceLine>, DatabaseError> {
        self.inner.source_lines(workflow, version, steps).await
    }
}

#[async_trait]
impl ChangeStore for FaultyStore {
    async fn data_version(&self) -> Result<String, DatabaseError> {
        self.version_reads.fetch_add(1, SeqCst);
        self.inner.data_version().await
    }
}

#[async_trait]
impl WaitStore for FaultyStore {
    async fn slot_holders(&self, queue: &str, gate: Option<&str>, limit: u32) -> Result<Vec<RunId>, DatabaseError> {
        self.inner.slot_holders(queue, gate, limit).await
    }

    async fn due_before(&self, run: &Run, at_most: u32) -> Result<u32, DatabaseError> {
        self.inner.due_before(run, at_most).await
    }

    async fn has_lane(&self, queue: &str) -> Result<bool, DatabaseError> {
        self.inner.has_lane(queue).await
    }

    async fn awaited_steps(&self, runs: &[RunId]) -> Result<Vec<(RunId, AwaitedStep)>, DatabaseError> {
        self.inner.awaited_steps(runs).await
    }
}

#[async_trait]
impl SystemStore for FaultyStore {
    async fn system(&self) -> Result<DatabaseView, DatabaseError> {
        self.inner.system().await
    }
}

#[async_trait]
impl BulkStore for FaultyStore {
    async fn bulk(&self, id: BulkId) -> Result<Option<BulkRecord>, DatabaseError> {
        self.inner.bulk(id).await
    }

    async fn bulks(&self, older_than: BulkId, limit: u32) -> Result<Vec<BulkRecord>, DatabaseError> {
        self.inner.bulks(older_than, limit).await
    }

    async fn next_bulk(&self) -> Result<Option<Duration>, DatabaseError> {
        self.inner.next_bulk().await
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        // Batches of statistics come at times that no test knows.
        if let [Write::Statistics(_)] = writes {
            return self.order.call(std::future::ready(()), |()| self.inner.commit(writes)).await;
        }
        let _under_way = UnderWay::begin(self);
        self.order.call(self.pass_gate(writes), |()| self.commit_with_faults(writes)).await
    }

    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, DatabaseError> {
        self.inner.next_due(lanes).await
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, DatabaseError> {
        self.inner.run(id).await
    }

    async fn find(&self, workflow: &str, key: &str) -> Result<Option<RunId>, DatabaseError> {
        self.inner.find(workflow, key).await
    }

    async fn scan(&self, scan: &RunScan) -> Result<ScannedRuns, DatabaseError> {
        self.scans.fetch_add(1, SeqCst);
        self.inner.scan(scan).await
    }

    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError> {
        self.inner.history(id).await
    }

    async fn history_page(&self, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError> {
        let rows = self.inner.history_page(scan).await?;
        self.history_rows.fetch_add(rows.len(), SeqCst);
        Ok(rows)
    }

    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, DatabaseError> {
        self.inner.published(id, name).await
    }

    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, DatabaseError> {
        self.item_reads.fetch_add(1, SeqCst);
        self.inner.emitted(id, name, after, limit).await
    }

    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError> {
        self.ended_reads.fetch_add(1, SeqCst);
        self.inner.ended(ids).await
    }

    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError> {
        let fault = self.inboxes.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if fault.is_ok() {
            return Err(DatabaseError::new(DatabaseErrorKind::Unreachable, "read an inbox", "a fault of the test"));
        }
        self.inner.inbox(id, names).await
    }

    async fn missing(&self, ids: &[RunId]) -> Result<Vec<RunId>, DatabaseError> {
        self.inner.missing(ids).await
    }

    async fn audits(&self, list: &AuditList) -> Result<ListedAudits, DatabaseError> {
        self.inner.audits(list).await
    }

    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<(RunId, i64)>, DatabaseError> {
        self.inner.wakes(ids).await
    }

    async fn approvals(&self, list: &ApprovalList) -> Result<ListedApprovals, DatabaseError> {
        self.inner.approvals(list).await
    }

    async fn schedule(&self, name: &str) -> Result<Option<StoredSchedule>, DatabaseError> {
        self.inner.schedule(name).await
    }

    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredSchedule>, DatabaseError> {
        self.inner.schedules(after, limit).await
    }

    async fn due_schedules(&self, computed: &[String], limit: u32) -> Result<DueSchedules, DatabaseError> {
        self.inner.due_schedules(computed, limit).await
    }

    async fn open_lease(
        &self,
        worker: WorkerId,
        lanes: &[Lane],
        retention: &Retention,
    ) -> Result<Box<dyn LeaseSession>, DatabaseError> {
        self.inner.open_lease(worker, lanes, retention).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, DatabaseError> {
        self.inner.queues().await
    }

    async fn running_in(&self, queue: &str, at_most: u32) -> Result<u32, DatabaseError> {
        self.inner.running_in(queue, at_most).await
    }

    async fn waiting_in(&self, place: WaitingPlace<'_>) -> Result<u32, DatabaseError> {
        self.inner.waiting_in(place).await
    }

    async fn gate_use(&self, queue: &str, gate: &str) -> Result<GateUse, DatabaseError> {
        self.inner.gate_use(queue, gate).await
    }

    async fn run_counts(&self, at_most: u32) -> Result<RunCounts, DatabaseError> {
        self.inner.run_counts(at_most).await
    }

    async fn lanes(&self, limit: u32) -> Result<Vec<Lane>, DatabaseError> {
        self.inner.lanes(limit).await
    }

    async fn oldest_due(&self, queue: &str) -> Result<Option<Timestamp>, DatabaseError> {
        self.inner.oldest_due(queue).await
    }

    async fn gates(&self, list: GateList<'_>) -> Result<Vec<ListedGate>, DatabaseError> {
        self.inner.gates(list).await
    }

    async fn held_runs(&self, at_most: u32) -> Result<HeldRuns, DatabaseError> {
        self.inner.held_runs(at_most).await
    }

    async fn listed_seats(&self, list: SeatList<'_>) -> Result<Vec<ListedSeat>, DatabaseError> {
        self.inner.listed_seats(list).await
    }

    async fn seat_counts(&self, limit: &str, at_most: u32) -> Result<SeatCounts, DatabaseError> {
        self.inner.seat_counts(limit, at_most).await
    }

    async fn limits(&self) -> Result<Vec<LimitRecord>, DatabaseError> {
        self.inner.limits().await
    }

    async fn waiting_lines(&self, after: Option<&SeatLine>, limit: u32) -> Result<Vec<SeatLine>, DatabaseError> {
        self.inner.waiting_lines(after, limit).await
    }

    async fn seats(&self, lines: &[(&SeatLine, u32)]) -> Result<Vec<Vec<SeatRow>>, DatabaseError> {
        self.inner.seats(lines).await
    }

    async fn line_rates(&self, lines: &[&SeatLine]) -> Result<ReadRates, DatabaseError> {
        self.inner.line_rates(lines).await
    }

    async fn seat_waits(&self, run: RunId) -> Result<Vec<SeatWait>, DatabaseError> {
        self.inner.seat_waits(run).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, DatabaseError> {
        self.inner.workers().await
    }

    async fn due_lanes(&self, lanes: &[Lane]) -> Result<Vec<Lane>, DatabaseError> {
        self.inner.due_lanes(lanes).await
    }

    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
        let transaction = self.inner.begin(claim).await?;
        let fault = self.transaction_faults.lock().expect("faults").pop_front();
        Ok(transaction.map(|inner| match fault {
            Some(fault) => Box::new(FaultyTransaction { inner, fault }) as Box<dyn StepTransaction>,
            None => inner,
        }))
    }

    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, DatabaseError> {
        self.inner.recorded(run, step_key, attempt).await
    }

    async fn hint(&self) -> Result<(), DatabaseError> {
        self.inner.hint().await
    }

    async fn listen(&self) -> Result<Box<dyn Listener>, DatabaseError> {
        self.inner.listen().await
    }

    fn in_process(&self) -> bool {
        self.inner.in_process()
    }

    /// Returns `true`, so that the executor puts batches in line on every database.
    fn prepares_next_batch(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn commit_within(&self, transaction: ForeignTransaction<'_>, write: &Write) -> Result<Outcome, WithinError> {
        self.inner.commit_within(transaction, write).await
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
