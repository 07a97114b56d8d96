//! Passes every payload through the codec: encodes it on its way to a database, decodes it on its
//! way back.
//!
//! This store stands between the engine and the database because every payload passes here in both
//! directions together with its run and step. No write can bypass it: `Write` is matched without a
//! wildcard.

mod bulk;
mod change;
mod schedule;
mod system;
mod wait;

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;

use crate::model::{
    AttemptStatus, Claim, Lane, LimitRecord, PayloadContext, PayloadPlace, QueueRecord, Retention, Run, RunId,
    SeatLine, SeatWait, SignalOutcome, StepAttempt, StepKind, StoredError, StoredSchedule, Timestamp, WorkerId,
    event_of_signal,
};

use super::coded_writes::{Encoded, has_mark};
use super::{
    ApprovalList, AttemptWrite, AuditList, AuditedWrite, ClaimedRun, Coding, CommitOrder, DatabaseError, DueSchedules,
    EmittedItem, EndedRun, ForeignTransaction, ForkWrite, GateList, GateUse, HeldRuns, HistoryRow, HistoryScan, Inbox,
    LeaseSession, ListedApprovals, ListedAudits, ListedGate, ListedSeat, Listener, NextDue, Outcome, ReadRates,
    RunCounts, RunScan, RunWakes, ScannedRuns, SeatCounts, SeatList, SeatRow, StepCommit, StepTransaction, Store,
    StoreId, WaitingApproval, WaitingPlace, WithinError, WorkerRecord, Write,
};

/// A store that encodes the payloads of another one.
///
/// A read of one run for use (history, inbox, published value) fails with kind
/// [`Codec`](super::DatabaseErrorKind::Codec) if it cannot be decoded. A read of many runs (lists,
/// ends, claims, pages of streams), or for display, replaces the payload by the reason: one run
/// must not hide the others.
#[derive(Debug)]
pub struct CodedStore {
    inner: Arc<dyn Store>,
    coding: Coding,
    order: CommitOrder,
}

impl CodedStore {
    /// Puts the coding in front of the store.
    pub fn new(inner: Arc<dyn Store>, coding: Coding) -> Self {
        Self { inner, coding, order: CommitOrder::default() }
    }

    /// Returns the store behind the coding.
    pub(super) fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn show_run(&self, run: &mut Run) {
        let context = |place| PayloadContext::new(run.id, place);
        self.coding.show(&context(PayloadPlace::Input), &mut run.input);
        if let Some(output) = &mut run.output {
            self.coding.show(&context(PayloadPlace::Output), output);
        }
        self.show_error_of(run);
    }

    fn show_error_of(&self, run: &mut Run) {
        let place = if run.status.is_terminal() { PayloadPlace::FinalError } else { PayloadPlace::Error };
        show_error(&self.coding, &PayloadContext::new(run.id, place), run.error.as_mut());
    }

    /// Encodes the history of a fork anew: a database would copy the rows unchanged, but their
    /// payloads are bound to the source run.
    async fn encode_fork(&self, fork: &ForkWrite) -> Result<ForkWrite, DatabaseError> {
        let new = self.coding.encode_start(&fork.new)?.into_owned();
        let mut kept = Vec::new();
        if fork.before > 1 {
            let history = self.history(fork.source).await?;
            for row in crate::model::rows_kept_by_fork(history, fork.before) {
                kept.push(self.coding.encode_row(new.id, &row)?);
            }
        }
        Ok(ForkWrite { new, kept: Some(kept), ..fork.clone() })
    }

    async fn encode_all(&self, writes: &[Write]) -> Encoded {
        let mut encoded = Encoded::with_capacity(writes.len());
        for write in writes {
            encoded.add(write, self.encode(write).await);
        }
        encoded
    }

    async fn commit_encoded(&self, encoded: Encoded) -> Result<Vec<Outcome>, DatabaseError> {
        let outcomes = if encoded.writes.is_empty() { Vec::new() } else { self.inner.commit(&encoded.writes).await? };
        Ok(encoded.outcomes(outcomes))
    }

    async fn encode<'w>(&self, write: &'w Write) -> Result<Cow<'w, Write>, DatabaseError> {
        match write {
            write if !self.coding.encodes() && !has_mark(write) => Ok(Cow::Borrowed(write)),
            Write::Schedule(write) => Ok(Cow::Owned(Write::Schedule(Box::new(self.encode_schedule(write).await?)))),
            Write::Fork(fork) => Ok(Cow::Owned(Write::Fork(Box::new(self.encode_fork(fork).await?)))),
            Write::Audited(audited) => {
                let write = Box::pin(self.encode(&audited.write)).await?.into_owned();
                Ok(Cow::Owned(Write::Audited(Box::new(AuditedWrite { write, order: audited.order.clone() }))))
            }
            Write::Bulk(write) => Ok(Cow::Owned(Write::Bulk(Box::new(self.encode_bulk(write).await?)))),
            write => self.coding.encode_write(write),
        }
    }
}

#[async_trait]
impl Store for CodedStore {
    /// A write whose payload cannot be encoded is refused, and so are later writes of its claim
    /// that may depend on it. The others of the batch are committed.
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        let outcomes = if self.coding.encodes() || writes.iter().any(has_mark) {
            // For a fork or a schedule, the database must be read first.
            self.order.call(self.encode_all(writes), |encoded| self.commit_encoded(encoded)).await?
        } else {
            self.order.call(std::future::ready(()), |()| self.inner.commit(writes)).await?
        };
        Ok(decode_outcomes(&self.coding, outcomes))
    }

    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
        let transaction = self.inner.begin(claim).await?;
        if !self.coding.encodes() {
            return Ok(transaction);
        }
        let coded =
            |inner| Box::new(CodedTransaction { inner, coding: self.coding.clone() }) as Box<dyn StepTransaction>;
        Ok(transaction.map(coded))
    }

    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, DatabaseError> {
        let mut row = self.inner.recorded(run, step_key, attempt).await?;
        if let Some(row) = &mut row {
            self.coding.open_row(run, row)?;
        }
        Ok(row)
    }

    async fn now(&self) -> Result<Timestamp, DatabaseError> {
        self.inner.now().await
    }

    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, DatabaseError> {
        self.inner.next_due(lanes).await
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, DatabaseError> {
        let mut run = self.inner.run(id).await?;
        run.iter_mut().for_each(|run| self.show_run(run));
        Ok(run)
    }

    async fn find(&self, workflow: &str, key: &str) -> Result<Option<RunId>, DatabaseError> {
        self.inner.find(workflow, key).await
    }

    async fn scan(&self, scan: &RunScan) -> Result<ScannedRuns, DatabaseError> {
        let mut scanned = self.inner.scan(scan).await?;
        scanned.runs.iter_mut().for_each(|run| self.show_error_of(run));
        Ok(scanned)
    }

    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError> {
        let mut rows = self.inner.history(id).await?;
        for row in &mut rows {
            self.coding.open_row(id, row)?;
        }
        Ok(rows)
    }

    async fn history_page(&self, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError> {
        let mut rows = self.inner.history_page(scan).await?;
        rows.iter_mut().for_each(|row| self.coding.show_row(scan.run, row));
        Ok(rows)
    }

    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, DatabaseError> {
        let mut text = self.inner.published(id, name).await?;
        if let Some(text) = &mut text {
            let key = StepKind::Published.key_of(name);
            let context = PayloadContext::new(id, PayloadPlace::StepOutput { key: &key });
            self.coding.open(&context.of_row(StepKind::Published, AttemptStatus::Running), text)?;
        }
        Ok(text)
    }

    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, DatabaseError> {
        let mut items = self.inner.emitted(id, name, after, limit).await?;
        let key = StepKind::Emitted.key_of(name);
        for EmittedItem { number, item } in &mut items {
            let context = PayloadContext::new(id, PayloadPlace::Item { key: &key, number: *number });
            self.coding.show(&context.of_row(StepKind::Emitted, AttemptStatus::Succeeded), item);
        }
        Ok(items)
    }

    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError> {
        let mut ended = self.inner.ended(ids).await?;
        for EndedRun { id, output, error, .. } in &mut ended {
            if let Some(output) = output {
                self.coding.show(&PayloadContext::new(*id, PayloadPlace::Output), output);
            }
            show_error(&self.coding, &PayloadContext::new(*id, PayloadPlace::FinalError), error.as_mut());
        }
        Ok(ended)
    }

    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError> {
        let mut inbox = self.inner.inbox(id, names).await?;
        for signal in inbox.iter_mut().flat_map(|inbox| &mut inbox.signals) {
            let context = match event_of_signal(&signal.name) {
                Some((name, key)) => PayloadContext::of_event(name, key),
                None => PayloadContext::new(id, PayloadPlace::Signal { name: &signal.name }),
            };
            self.coding.open(&context, &mut signal.payload)?;
        }
        Ok(inbox)
    }

    async fn missing(&self, ids: &[RunId]) -> Result<Vec<RunId>, DatabaseError> {
        self.inner.missing(ids).await
    }

    async fn audits(&self, list: &AuditList) -> Result<ListedAudits, DatabaseError> {
        self.inner.audits(list).await
    }

    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<RunWakes>, DatabaseError> {
        self.inner.wakes(ids).await
    }

    async fn approvals(&self, list: &ApprovalList) -> Result<ListedApprovals, DatabaseError> {
        let mut listed = self.inner.approvals(list).await?;
        for WaitingApproval { run_id, step_key, kind, output, .. } in &mut listed.waiting {
            if let Some(output) = output {
                let context = PayloadContext::new(*run_id, PayloadPlace::StepOutput { key: step_key });
                self.coding.show(&context.of_row(*kind, AttemptStatus::Running), output);
            }
        }
        Ok(listed)
    }

    async fn schedule(&self, name: &str) -> Result<Option<StoredSchedule>, DatabaseError> {
        let mut row = self.inner.schedule(name).await?;
        row.iter_mut().for_each(|row| self.coding.show_schedule(row));
        Ok(row)
    }

    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredSchedule>, DatabaseError> {
        let mut rows = self.inner.schedules(after, limit).await?;
        rows.iter_mut().for_each(|row| self.coding.show_schedule(row));
        Ok(rows)
    }

    async fn due_schedules(&self, computed: &[String], limit: u32) -> Result<DueSchedules, DatabaseError> {
        let mut schedules = self.inner.due_schedules(computed, limit).await?;
        schedules.due.iter_mut().for_each(|row| self.coding.show_schedule(row));
        Ok(schedules)
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

    fn in_process(&self) -> bool {
        self.inner.in_process()
    }

    fn prepares_next_batch(&self) -> bool {
        self.inner.prepares_next_batch()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn commit_within(&self, transaction: ForeignTransaction<'_>, write: &Write) -> Result<Outcome, WithinError> {
        let encoded = self.encode(write).await?;
        let outcome = self.inner.commit_within(transaction, &encoded).await?;
        Ok(decode_outcomes(&self.coding, vec![outcome]).remove(0))
    }
}

fn show_error(coding: &Coding, context: &PayloadContext<'_>, error: Option<&mut StoredError>) {
    if let Some(error) = error {
        coding.show_error(context, error);
    }
}

fn show_claimed(coding: &Coding, run: &mut ClaimedRun) {
    let run_id = run.claim.run_id;
    coding.show(&PayloadContext::new(run_id, PayloadPlace::Input), &mut run.input);
    show_error(coding, &PayloadContext::new(run_id, PayloadPlace::Error), run.error.as_mut());
    if run.unreadable.is_none() {
        run.unreadable = run.error.as_ref().and_then(StoredError::why_not_understood);
    }
}

fn decode_outcomes(coding: &Coding, mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    for outcome in &mut outcomes {
        match outcome {
            Outcome::Started(started) => coding.decode_started(started),
            Outcome::Signaled(SignalOutcome::Repeated(first)) => {
                let place = PayloadPlace::Signal { name: &first.name };
                coding.show(&PayloadContext::new(first.run_id, place), &mut first.payload);
            }
            Outcome::BulkClaimed(row) => row.iter_mut().for_each(|row| coding.show_bulk(row)),
            Outcome::Claimed(claimed) => claimed.runs.iter_mut().for_each(|run| show_claimed(coding, run)),
            _ => {}
        }
    }
    outcomes
}

/// A transaction that encodes the outcome of its step.
#[derive(Debug)]
struct CodedTransaction {
    inner: Box<dyn StepTransaction>,
    coding: Coding,
}

#[async_trait]
impl StepTransaction for CodedTransaction {
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
        match self.coding.encode_row(outcome.claim.run_id, &outcome.row) {
            Ok(row) => self.inner.commit(AttemptWrite { row, ..outcome }).await,
            Err(error) => {
                self.inner.roll_back().await;
                StepCommit::RolledBack(error)
            }
        }
    }

    async fn roll_back(self: Box<Self>) {
        self.inner.roll_back().await;
    }
}
