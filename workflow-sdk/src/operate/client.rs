//! Implements `Operate` over the database, except for the reads of runs.

use async_trait::async_trait;

use crate::Client;

use super::{
    ApprovalPage, AuditPage, BackfillSchedule, BackfillView, Counts, Done, GatePage, LimitView, ListApprovals,
    ListAudit, ListGates, ListSchedules, ListSeats, OccurrenceView, Operate, OperateError, Order, QueueView,
    SchedulePage, ScheduleView, SeatPage, SystemView, WorkerView, WorkflowView, approvals, audit, counts, limits,
    order_commit, queues, schedules, seats, system, workers,
};

#[async_trait]
impl Operate for Client {
    async fn counts(&self) -> Result<Counts, OperateError> {
        counts::counts(self).await
    }

    async fn queues(&self) -> Result<Vec<QueueView>, OperateError> {
        queues::queues(self).await
    }

    async fn gates(&self, list: ListGates) -> Result<GatePage, OperateError> {
        queues::gates(self, list).await
    }

    async fn limits(&self) -> Result<Vec<LimitView>, OperateError> {
        limits::limits(self).await
    }

    async fn seats(&self, list: ListSeats) -> Result<SeatPage, OperateError> {
        seats::seats(self, list).await
    }

    async fn workers(&self) -> Result<Vec<WorkerView>, OperateError> {
        workers::workers(self).await
    }

    async fn workflows(&self) -> Result<Vec<WorkflowView>, OperateError> {
        workers::workflows(self).await
    }

    async fn schedules(&self, list: ListSchedules) -> Result<SchedulePage, OperateError> {
        schedules::schedules(self, list).await
    }

    async fn schedule(&self, name: &str) -> Result<ScheduleView, OperateError> {
        schedules::schedule(self, name).await
    }

    async fn next_occurrences(&self, schedule: &str, count: u32) -> Result<Vec<OccurrenceView>, OperateError> {
        schedules::next(self, schedule, count).await
    }

    async fn backfill_preview(&self, backfill: BackfillSchedule) -> Result<BackfillView, OperateError> {
        schedules::backfill_preview(self, backfill).await
    }

    async fn approvals(&self, list: ListApprovals) -> Result<ApprovalPage, OperateError> {
        approvals::approvals(self, list).await
    }

    async fn perform(&self, order: Order) -> Result<Done, OperateError> {
        order_commit::perform(self, order).await
    }

    async fn audit(&self, list: ListAudit) -> Result<AuditPage, OperateError> {
        audit::read(self, list).await
    }

    async fn system(&self) -> Result<SystemView, OperateError> {
        system::system(self).await
    }
}
