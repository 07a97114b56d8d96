//! The store of an env's process. It counts the commits on the in-memory store, and the process
//! dies at one of them.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use workflow_engine::model::{
    AwaitedStep, BulkId, BulkRecord, Claim, DatabaseView, FailureRow, Lane, LimitRecord, QueueRecord, Retention,
    SeatLine, SeatWait, SourceLine, StatisticsRow, StoredSchedule, Timestamp, WorkerId,
};
use workflow_engine::store::{
    ApprovalList, AttemptWrite, AuditList, BulkStore, ChangeStore, DueSchedules, EmittedItem, EndedRun,
    ForeignTransaction, GateList, GateUse, HeldRuns, HistoryRow, HistoryScan, Inbox, LeaseSession, ListedApprovals,
    ListedAudits, ListedGate, ListedSeat, Listener, NextDue, Outcome, ReadRates, RunCounts, RunScan, RunTags,
    ScannedRuns, SeatCounts, SeatList, SeatRow, StatisticsScan, StatisticsStore, StepCommit, StepTransaction, Store,
    StoreId, SystemStore, WaitStore, WaitingPlace, WithinError, WorkerRecord, Write,
};
use workflow_sdk::{DatabaseError, Run, RunId, StepAttempt};

use super::commit_log::SharedLog;

#[derive(Debug)]
pub(super) struct CrashStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) log: SharedLog,
}

#[async_trait]
impl StatisticsStore for CrashStore {
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
impl ChangeStore for CrashStore {
    async fn data_version(&self) -> Result<String, DatabaseError> {
        self.inner.data_version().await
    }
}

#[async_trait]
impl WaitStore for CrashStore {
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
impl SystemStore for CrashStore {
    async fn system(&self) -> Result<DatabaseView, DatabaseError> {
        self.inner.system().await
    }
}

#[async_trait]
impl BulkStore for CrashStore {
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
impl Store for CrashStore {
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        let number = self.log.before(writes).await;
        let outcomes = self.inner.commit(writes).await?;
        self.log.after(number, writes, &outcomes).await;
        Ok(outcomes)
    }

    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
        let transaction = self.inner.begin(claim).await?;
        let log = Arc::clone(&self.log);
        Ok(transaction.map(|inner| Box::new(CrashTransaction { inner, log }) as Box<dyn StepTransaction>))
    }

    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, DatabaseError> {
        self.inner.recorded(run, step_key, attempt).await
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
        self.inner.scan(scan).await
    }

    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError> {
        self.inner.history(id).await
    }

    async fn history_page(&self, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError> {
        self.inner.history_page(scan).await
    }

    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, DatabaseError> {
        self.inner.published(id, name).await
    }

    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, DatabaseError> {
        self.inner.emitted(id, name, after, limit).await
    }

    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError> {
        self.inner.ended(ids).await
    }

    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError> {
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

    async fn hint(&self) -> Result<(), DatabaseError> {
        self.inner.hint().await
    }

    async fn listen(&self) -> Result<Box<dyn Listener>, DatabaseError> {
        self.inner.listen().await
    }

    /// Returns `true`, because the inner store is in memory.
    fn in_process(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn commit_within(&self, transaction: ForeignTransaction<'_>, write: &Write) -> Result<Outcome, WithinError> {
        self.inner.commit_within(transaction, write).await
    }
}

/// The transaction of a step. Its commit counts like any other commit.
#[derive(Debug)]
struct CrashTransaction {
    inner: Box<dyn StepTransaction>,
    log: SharedLog,
}

#[async_trait]
impl StepTransaction for CrashTransaction {
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
        let writes = [Write::Attempt(outcome.clone())];
        let number = self.log.before(&writes).await;
        let committed = self.inner.commit(outcome).await;
        let answer = match committed {
            StepCommit::Committed => Outcome::Applied,
            _ => Outcome::Lost,
        };
        self.log.after(number, &writes, &[answer]).await;
        committed
    }

    async fn roll_back(self: Box<Self>) {
        self.inner.roll_back().await;
    }
}
