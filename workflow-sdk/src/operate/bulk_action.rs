use serde::{Deserialize, Serialize};

use workflow_engine::model::{BulkId, Priority, RunId};

use super::{Action, ForkRun, Payload, Query, Role};

/// Orders a bulk operation: one action on every run that a query finds. A worker executes it in the
/// background.
///
/// ```
/// use workflow_sdk::operate::{Action, BulkAction, Order, StartBulk};
///
/// let retry = BulkAction::RetryRun { deadline_ms: None };
/// let start = StartBulk::new("status:failed".parse()?, retry);
/// let order = Order::new(Action::StartBulk(Box::new(start))).reason("the service is back");
/// assert_eq!(
///     serde_json::to_string(&order)?,
///     r#"{"action":"start_bulk","query":"status:failed","#.to_owned()
///         + r#""apply":{"action":"retry_run"},"reason":"the service is back"}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StartBulk {
    /// The runs. Times that are ages count from the commit of the order. Runs that are started
    /// later are not touched.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub query: Query,
    /// The action on each of them.
    pub apply: BulkAction,
    /// Identifies a repetition: a second order with the same id changes nothing. Default: a new id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<BulkId>,
}

impl StartBulk {
    /// Does this to every run that the query finds.
    #[must_use]
    pub fn new(query: Query, apply: BulkAction) -> Self {
        Self { query, apply, id: None }
    }

    /// Sets the id, so that the order can be repeated. Default: a new id.
    #[must_use]
    pub fn id(mut self, id: BulkId) -> Self {
        self.id = Some(id);
        self
    }
}

/// The action of a bulk operation on each of its runs: that of a single order, without its run. A
/// run that has ended, or is as the action wants it, is skipped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum BulkAction {
    /// Asks the run to end, as [`Action::CancelRun`] with `only_ask` does. A run that was asked
    /// before is skipped: [`BulkAction::TerminateRun`] ends it.
    CancelRun,
    /// See [`Action::TerminateRun`].
    TerminateRun,
    /// See [`Action::PauseRun`].
    PauseRun,
    /// See [`Action::ResumeRun`].
    ResumeRun,
    /// See [`Action::SetPriority`]. A run that has begun is skipped.
    SetPriority {
        /// The priority.
        priority: Priority,
    },
    /// See [`Action::MoveTo`]. A run that a worker holds fails.
    MoveTo {
        /// The queue.
        queue: String,
    },
    /// See [`Action::RetryRun`]. A run that has not failed is skipped.
    RetryRun {
        /// A deadline that replaces the present one, in milliseconds from the commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
    },
    /// See [`Action::ForkRun`]: a new run does a part of each run anew.
    ForkRun {
        /// The key of the first step that is done again. Default: all are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The version. Default: that of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The queue. Default: that of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue: Option<String>,
    },
    /// See [`Action::SignalRun`].
    SignalRun {
        /// The name of the signal.
        name: String,
        /// The value.
        payload: Payload,
        /// Identifies a repetition, within each run. Default: a key of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// See [`Action::DeleteRun`].
    DeleteRun,
}

impl BulkAction {
    /// Returns the action of the single order about this run.
    #[must_use]
    pub fn on(&self, run: RunId) -> Action {
        match self.clone() {
            Self::CancelRun => Action::CancelRun { run, only_ask: true },
            Self::TerminateRun => Action::TerminateRun { run },
            Self::PauseRun => Action::PauseRun { run },
            Self::ResumeRun => Action::ResumeRun { run },
            Self::SetPriority { priority } => Action::SetPriority { run, priority },
            Self::MoveTo { queue } => Action::MoveTo { run, queue },
            Self::RetryRun { deadline_ms } => Action::RetryRun { run, deadline_ms },
            Self::ForkRun { from, version, queue } => {
                Action::ForkRun(Box::new(ForkRun { from, version, queue, ..ForkRun::new(run) }))
            }
            Self::SignalRun { name, payload, key } => Action::SignalRun { run, name, payload, key },
            Self::DeleteRun => Action::DeleteRun { run },
        }
    }

    /// Returns the verb of the audit rows of the runs: that of the single order, such as
    /// `run.cancel`.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        self.on(RunId::FIRST).verb()
    }

    /// Returns the least role that may order the operation: that of the single order.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self {
            Self::CancelRun | Self::TerminateRun | Self::PauseRun | Self::ResumeRun => Role::Operator,
            Self::SetPriority { .. } | Self::MoveTo { .. } => Role::Operator,
            Self::RetryRun { .. } | Self::ForkRun { .. } | Self::SignalRun { .. } => Role::Operator,
            Self::DeleteRun => Role::Admin,
        }
    }

    /// Returns the action without its payload, and the payload.
    pub(super) fn split(&self) -> (Self, Option<String>) {
        let mut action = self.clone();
        let payload = match &mut action {
            Self::SignalRun { payload, .. } => {
                Some(std::mem::replace(payload, Payload::from(serde_json::Value::Null)).as_str().to_owned())
            }
            _ => None,
        };
        (action, payload)
    }

    /// Puts the payload back.
    pub(super) fn set_payload(&mut self, exact: Payload) {
        if let Self::SignalRun { payload, .. } = self {
            *payload = exact;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_needs_the_role_of_the_single_order() {
        let go = BulkAction::SignalRun {
            name: "go".into(),
            payload: Payload::from(serde_json::json!({"secret": 1})),
            key: None,
        };
        let fork = BulkAction::ForkRun { from: None, version: None, queue: None };
        let retry = BulkAction::RetryRun { deadline_ms: None };
        let (bare, payload) = go.split();
        assert_eq!(payload.as_deref(), Some(r#"{"secret":1}"#));
        assert_ne!(bare, go);
        for action in [
            BulkAction::CancelRun,
            BulkAction::TerminateRun,
            BulkAction::PauseRun,
            BulkAction::ResumeRun,
            BulkAction::DeleteRun,
            BulkAction::SetPriority { priority: Priority::Low },
            BulkAction::MoveTo { queue: "mail".into() },
            go,
            fork,
            retry,
        ] {
            assert_eq!(action.role(), action.on(RunId::FIRST).role());
        }
    }
}
