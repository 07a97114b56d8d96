//! Everything else that an operator does, by requests.

use async_trait::async_trait;
use workflow_sdk::operate::{
    ApprovalPage, AuditPage, Counts, Done, GatePage, LimitView, ListApprovals, ListAudit, ListGates, ListSchedules,
    Operate, OperateError, Order, QueueView, SchedulePage, ScheduleView, WorkerView, WorkflowView,
};

use crate::Remote;
use crate::request::Target;
use crate::run_interface::text;

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

    async fn approvals(&self, list: ListApprovals) -> Result<ApprovalPage, OperateError> {
        self.get(Target::new(["approvals"]).with("run", list.run).with("limit", Some(list.limit))).await
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
}
