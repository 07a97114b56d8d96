//! The interface for operators, without the fields of payloads that answers leave out.

use std::sync::Arc;

use async_trait::async_trait;
use workflow_sdk::operate::{
    ApprovalPage, AuditPage, BackfillSchedule, BackfillView, BulkId, BulkPage, BulkPreview, BulkView, ChangePage,
    Counts, Done, EmittedPage, FailurePage, GatePage, HistoryPage, LimitView, ListApprovals, ListAudit, ListBulks,
    ListChanges, ListEmitted, ListFailures, ListGates, ListHistory, ListRuns, ListSchedules, ListSeats, ListStats,
    ListTimeline, OccurrenceView, Operate, OperateBulk, OperateChanges, OperateError, OperateRuns, OperateStatistics,
    Order, PayloadOf, Query, QueueView, RunDetail, RunId, RunPage, RunSummary, SchedulePage, ScheduleView, SeatPage,
    StatsPage, StoredPayload, SystemView, Timeline, WorkerView, WorkflowView,
};

use crate::{Access, Redact};

/// Reads through another interface, and leaves fields out of the payloads that it reads. So no
/// answer and no page can forget to.
#[derive(Debug)]
pub struct Redacted {
    operate: Arc<dyn Operate>,
    redact: Redact,
}

impl Redacted {
    /// Leaves out what `access` says.
    #[must_use]
    pub fn over(operate: Arc<dyn Operate>, access: &Access) -> Arc<dyn Operate> {
        Arc::new(Self { operate, redact: access.redacting().clone() })
    }
}

#[async_trait]
impl OperateRuns for Redacted {
    async fn runs(&self, list: ListRuns) -> Result<RunPage, OperateError> {
        self.operate.runs(list).await
    }

    async fn run(&self, run: RunId) -> Result<RunDetail, OperateError> {
        let mut detail = self.operate.run(run).await?;
        for payload in [&mut detail.input, &mut detail.output].into_iter().flatten() {
            self.redact.payload(payload);
        }
        detail.error.iter_mut().for_each(|error| self.redact.error(error));
        self.redact.explanation(&mut detail.explanation);
        Ok(detail)
    }

    async fn payload(&self, run: RunId, of: PayloadOf) -> Result<StoredPayload, OperateError> {
        let mut payload = self.operate.payload(run, of).await?;
        self.redact.payload(&mut payload);
        Ok(payload)
    }

    async fn find_runs(&self, id: &str, limit: u32) -> Result<Vec<RunSummary>, OperateError> {
        self.operate.find_runs(id, limit).await
    }

    async fn history(&self, list: ListHistory) -> Result<HistoryPage, OperateError> {
        let mut page = self.operate.history(list).await?;
        for item in &mut page.items {
            item.output.iter_mut().for_each(|output| self.redact.payload(output));
            item.error.iter_mut().for_each(|error| self.redact.error(error));
        }
        Ok(page)
    }

    async fn timeline_window(&self, list: ListTimeline) -> Result<Timeline, OperateError> {
        self.operate.timeline_window(list).await
    }
}

#[async_trait]
impl OperateChanges for Redacted {
    async fn changes(&self, list: ListChanges) -> Result<ChangePage, OperateError> {
        self.operate.changes(list).await
    }

    async fn emitted(&self, list: ListEmitted) -> Result<EmittedPage, OperateError> {
        let mut page = self.operate.emitted(list).await?;
        page.items.iter_mut().for_each(|item| self.redact.payload(&mut item.item));
        Ok(page)
    }

    async fn published(&self, run: RunId, name: &str) -> Result<StoredPayload, OperateError> {
        let mut value = self.operate.published(run, name).await?;
        self.redact.payload(&mut value);
        Ok(value)
    }
}

#[async_trait]
impl OperateStatistics for Redacted {
    async fn stats(&self, list: ListStats) -> Result<StatsPage, OperateError> {
        self.operate.stats(list).await
    }

    async fn failures(&self, list: ListFailures) -> Result<FailurePage, OperateError> {
        self.operate.failures(list).await
    }
}

#[async_trait]
impl OperateBulk for Redacted {
    async fn bulk_preview(&self, query: &Query) -> Result<BulkPreview, OperateError> {
        self.operate.bulk_preview(query).await
    }

    async fn bulk(&self, bulk: BulkId) -> Result<BulkView, OperateError> {
        self.operate.bulk(bulk).await
    }

    async fn bulks(&self, list: ListBulks) -> Result<BulkPage, OperateError> {
        self.operate.bulks(list).await
    }
}

#[async_trait]
impl Operate for Redacted {
    async fn counts(&self) -> Result<Counts, OperateError> {
        self.operate.counts().await
    }

    async fn queues(&self) -> Result<Vec<QueueView>, OperateError> {
        self.operate.queues().await
    }

    async fn gates(&self, list: ListGates) -> Result<GatePage, OperateError> {
        self.operate.gates(list).await
    }

    async fn limits(&self) -> Result<Vec<LimitView>, OperateError> {
        self.operate.limits().await
    }

    async fn seats(&self, list: ListSeats) -> Result<SeatPage, OperateError> {
        self.operate.seats(list).await
    }

    async fn workers(&self) -> Result<Vec<WorkerView>, OperateError> {
        self.operate.workers().await
    }

    async fn workflows(&self) -> Result<Vec<WorkflowView>, OperateError> {
        self.operate.workflows().await
    }

    async fn schedules(&self, list: ListSchedules) -> Result<SchedulePage, OperateError> {
        self.operate.schedules(list).await
    }

    async fn schedule(&self, name: &str) -> Result<ScheduleView, OperateError> {
        self.operate.schedule(name).await
    }

    async fn next_occurrences(&self, schedule: &str, count: u32) -> Result<Vec<OccurrenceView>, OperateError> {
        self.operate.next_occurrences(schedule, count).await
    }

    async fn backfill_preview(&self, backfill: BackfillSchedule) -> Result<BackfillView, OperateError> {
        self.operate.backfill_preview(backfill).await
    }

    async fn approvals(&self, list: ListApprovals) -> Result<ApprovalPage, OperateError> {
        self.operate.approvals(list).await
    }

    async fn perform(&self, order: Order) -> Result<Done, OperateError> {
        self.operate.perform(order).await
    }

    async fn audit(&self, list: ListAudit) -> Result<AuditPage, OperateError> {
        self.operate.audit(list).await
    }

    async fn system(&self) -> Result<SystemView, OperateError> {
        self.operate.system().await
    }
}
