use std::sync::Arc;

use workflow_flows::Flows;
use workflow_flows::check::ToolCatalog;
use workflow_http::Actor;
use workflow_http::internal::{perform_as, require};
use workflow_sdk::RunId;
use workflow_sdk::operate::{Action, Done, Operate, OperateError, Order, Role};

use crate::answers::Outcome;
use crate::failure::Failure;

/// One call of a tool: its actor, and what it may reach.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) operate: Arc<dyn Operate>,
    pub(crate) flows: Option<Flows>,
    pub(crate) catalog: Option<Arc<dyn ToolCatalog + Send + Sync>>,
    pub(crate) actor: Actor,
}

impl Caller {
    /// Changes something on behalf of the actor.
    pub(crate) async fn order(&self, action: Action, reason: Option<String>) -> Result<Outcome, Failure> {
        Ok(Outcome::from(self.perform(action, reason).await?))
    }

    /// Changes something on behalf of the actor, and returns the answer as it is.
    pub(crate) async fn perform(&self, action: Action, reason: Option<String>) -> Result<Done, OperateError> {
        let order = Order::new(action);
        let order = match reason {
            Some(reason) => order.reason(reason),
            None => order,
        };
        perform_as(&*self.operate, &self.actor, order).await
    }

    /// Refuses an actor of a lesser role.
    pub(crate) fn needs(&self, role: Role, what: &str) -> Result<(), Failure> {
        Ok(require(&self.actor, role, what)?)
    }

    /// Returns the deployed flows.
    pub(crate) fn flows(&self) -> Result<&Flows, Failure> {
        self.flows.as_ref().ok_or_else(|| {
            let help = "start a flow with `document`, or connect the server to a database";
            Failure::new("unavailable", "this server has no store of flows", help)
        })
    }
}

/// Reads the id of a run.
pub(crate) fn run_id(text: &str) -> Result<RunId, Failure> {
    text.parse().map_err(|_| {
        Failure::bad_input(format!("{text:?} is not the id of a run"), "an id is a UUID; run_list shows it")
    })
}
