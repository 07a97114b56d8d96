//! Everything else that an operator does, by requests.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::json;
use workflow_sdk::operate::{
    ApprovalPage, AuditPage, BackfillSchedule, BackfillView, BulkId, BulkPage, BulkPreview, BulkView, Counts, Done,
    FailurePage, GatePage, LimitView, ListApprovals, ListAudit, ListBulks, ListFailures, ListGates, ListSchedules,
    ListSeats, ListStats, OccurrenceView, Operate, OperateBulk, OperateError, OperateStatistics, Order, Query,
    QueueView, SchedulePage, ScheduleView, SeatPage, StatsPage, SystemView, WorkerView, WorkflowView,
};

use crate::Remote;
use crate::request::Target;
use crate::run_interface::text;

#[async_trait]
impl OperateStatistics for Remote {
    async fn stats(&self, list: ListStats) -> Result<StatsPage, OperateError> {
        let ListStats { since, until, step, by, queue, workflow, version, .. } = list;
        let target = Target::new(["stats"]).with("since", since).with("until", until).with("by", word(by));
        let target = target.with("step", step.and_then(word)).with("queue", queue);
        self.get(target.with("workflow", workflow).with("version", version)).await
    }

    async fn failures(&self, list: ListFailures) -> Result<FailurePage, OperateError> {
        let ListFailures { since, workflow, limit, .. } = list;
        let target = Target::new(["failures"]).with("since", since).with("workflow", workflow);
        self.get(target.with("limit", Some(limit))).await
    }
}

#[async_trait]
impl OperateBulk for Remote {
    async fn bulk_preview(&self, query: &Query) -> Result<BulkPreview, OperateError> {
        let body = json!({ "query": query.to_string() });
        self.ask(Target::new(["bulk", "preview"]), body.to_string()).await
    }

    async fn bulk(&self, bulk: BulkId) -> Result<BulkView, OperateError> {
        self.get(Target::new(["bulk", &bulk.to_string()])).await
    }

    async fn bulks(&self, list: ListBulks) -> Result<BulkPage, OperateError> {
        let target = Target::new(["bulk"]).with("limit", Some(list.limit));
        self.get(target.with("cursor", text(list.cursor.as_ref()))).await
    }
}

/// Returns the word that stands for a value in JSON.
fn word<T: Serialize>(value: T) -> Option<String> {
    Some(serde_json::to_value(value).ok()?.as_str()?.to_owned())
}

#[async_trait]
impl Operate for Remote {
    async fn counts(&self) -> Result<Counts, OperateError> {
        self.get(Target::new(["counts"])).await
    }

    async fn queues(&self) -> Result<Vec<QueueView>, OperateError> {
        self.get(Target::new(["queues"])).await
    }

    async fn gates(&self, list: ListGates) -> Result<GatePage, OperateError> {
        let target = Target::new(["queues", &list.queue, "gates"]).with("limit", Some(list.limit));
        self.get(target.with("cursor", text(list.cursor.as_ref()))).await
    }

    async fn limits(&self) -> Result<Vec<LimitView>, OperateError> {
        self.get(Target::new(["limits"])).await
    }

    async fn seats(&self, list: ListSeats) -> Result<SeatPage, OperateError> {
        let target = Target::new(["limits", &list.limit_name, "seats"]).with("key", list.key.as_deref());
        let target = target.with("limit", Some(list.limit)).with("cursor", text(list.cursor.as_ref()));
        self.get(target).await
    }

    async fn workers(&self) -> Result<Vec<WorkerView>, OperateError> {
        self.get(Target::new(["workers"])).await
    }

    async fn workflows(&self) -> Result<Vec<WorkflowView>, OperateError> {
        self.get(Target::new(["workflows"])).await
    }

    async fn schedules(&self, list: ListSchedules) -> Result<SchedulePage, OperateError> {
        let target = Target::new(["schedules"]).with("limit", Some(list.limit));
        self.get(target.with("cursor", text(list.cursor.as_ref()))).await
    }

    async fn schedule(&self, name: &str) -> Result<ScheduleView, OperateError> {
        self.get(Target::new(["schedules", name])).await
    }

    async fn next_occurrences(&self, schedule: &str, count: u32) -> Result<Vec<OccurrenceView>, OperateError> {
        self.get(Target::new(["schedules", schedule, "next"]).with("count", Some(count))).await
    }

    async fn backfill_preview(&self, backfill: BackfillSchedule) -> Result<BackfillView, OperateError> {
        let BackfillSchedule { schedule, after, until, max, .. } = backfill;
        let target = Target::new(["schedules", &schedule, "backfill"]).with("after", Some(after.as_micros()));
        self.get(target.with("until", Some(until.as_micros())).with("max", max)).await
    }

    async fn approvals(&self, list: ListApprovals) -> Result<ApprovalPage, OperateError> {
        let target = Target::new(["approvals"]).with("run", list.run).with("limit", Some(list.limit));
        self.get(target.with("cursor", text(list.cursor.as_ref()))).await
    }

    async fn perform(&self, order: Order) -> Result<Done, OperateError> {
        let unwritten = |error: serde_json::Error| crate::refused(error.to_string(), "mend the order");
        let body = serde_json::to_string(&order).map_err(unwritten)?;
        self.post(Target::new(["orders"]), body).await
    }

    async fn audit(&self, list: ListAudit) -> Result<AuditPage, OperateError> {
        let verb = Some(list.verb.as_str()).filter(|verb| !verb.is_empty());
        let target = Target::new(["audit"]).with("verb", verb).with("target", list.target.as_deref());
        let target = target.with("actor", list.actor.as_deref()).with("limit", Some(list.limit));
        self.get(target.with("cursor", text(list.cursor.as_ref()))).await
    }

    async fn system(&self) -> Result<SystemView, OperateError> {
        self.get(Target::new(["system"])).await
    }
}
