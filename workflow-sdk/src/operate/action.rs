use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use workflow_engine::model::{BulkId, LimitRule, Priority, QueueLimits, RunId, Timestamp};

use super::{BackfillSchedule, CreateSchedule, Payload, Role, StartBulk, UpdateSchedule};

/// The change that an order makes: see [`Operate::perform`](super::Operate::perform).
///
/// Its text is an object with the name of the action: `{"action":"pause_queue","queue":"mail"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Action {
    /// Starts a run.
    StartRun(Box<StartRun>),
    /// Cancels a run as [`Client::cancel`](crate::Client::cancel) does: a second cancel terminates
    /// it.
    CancelRun {
        /// The run.
        run: RunId,
        /// `true` never terminates: a run that was asked before stays as it is. Default: `false`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        only_ask: bool,
    },
    /// Ends a run as canceled at once, without its compensations.
    TerminateRun {
        /// The run.
        run: RunId,
    },
    /// Keeps a run from going on until it is resumed.
    PauseRun {
        /// The run.
        run: RunId,
    },
    /// Lets a paused run go on.
    ResumeRun {
        /// The run.
        run: RunId,
    },
    /// Sets the priority with which a run waits for its first claim.
    SetPriority {
        /// The run.
        run: RunId,
        /// The priority.
        priority: Priority,
    },
    /// Moves a run to another queue, as [`Client::move_to`](crate::Client::move_to) does.
    MoveTo {
        /// The run.
        run: RunId,
        /// The queue.
        queue: String,
    },
    /// Tries a failed run again from where it failed.
    RetryRun {
        /// The run.
        run: RunId,
        /// A deadline that replaces the present one, in milliseconds from now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
    },
    /// Starts a run with the beginning of another run's history.
    ForkRun(Box<ForkRun>),
    /// Sends a signal to a run.
    SignalRun {
        /// The run.
        run: RunId,
        /// The name of the signal.
        name: String,
        /// The value.
        payload: Payload,
        /// Identifies a repetition: of the signals with one key, the run receives the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Decides about an approval. The order's actor is shown as the person of the decision.
    DecideApproval {
        /// The run.
        run: RunId,
        /// The key of the approval's step.
        step: String,
        /// `true` approves, `false` rejects.
        approve: bool,
        /// Goes to the run with the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Deletes a run that has ended, with everything that belongs to it.
    DeleteRun {
        /// The run.
        run: RunId,
    },
    /// Keeps the runs of a queue from being claimed. The order's reason is shown with the queue.
    PauseQueue {
        /// The queue.
        queue: String,
    },
    /// Lets the runs of a paused queue be claimed again.
    ResumeQueue {
        /// The queue.
        queue: String,
    },
    /// Sets the limits of a queue, in place of those that workers declare.
    SetQueueLimits {
        /// The queue.
        queue: String,
        /// The limits.
        limits: QueueLimits,
    },
    /// Lets the limits hold that workers declare for a queue.
    ClearQueueLimits {
        /// The queue.
        queue: String,
    },
    /// Sets how many turns a gate has in a round.
    WeighGate {
        /// The queue.
        queue: String,
        /// The gate.
        gate: String,
        /// The weight. Range: 1 to 1000; another one is moved into the range.
        weight: u32,
    },
    /// Sets the rule of a limit for steps, in place of the declared one.
    SetLimit {
        /// The limit.
        limit: String,
        /// The rule.
        rule: LimitRule,
    },
    /// Lets the declared rule of a limit hold again.
    ClearLimit {
        /// The limit.
        limit: String,
    },
    /// Creates a schedule.
    CreateSchedule(Box<CreateSchedule>),
    /// Changes a schedule.
    UpdateSchedule(Box<UpdateSchedule>),
    /// Starts the runs of past occurrences of a schedule.
    BackfillSchedule(Box<BackfillSchedule>),
    /// Keeps a schedule from starting runs. The order's reason is shown with the schedule.
    PauseSchedule {
        /// The schedule.
        schedule: String,
    },
    /// Lets a paused schedule start runs again.
    ResumeSchedule {
        /// The schedule.
        schedule: String,
    },
    /// Starts a run of a schedule now.
    TriggerSchedule {
        /// The schedule.
        schedule: String,
        /// The input. Default: that of the schedule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
    },
    /// Deletes a schedule. Its runs stay.
    DeleteSchedule {
        /// The schedule.
        schedule: String,
    },
    /// Lets the times and policies hold again that code declares for a schedule.
    RevertSchedule {
        /// The schedule.
        schedule: String,
    },
    /// Delivers an event to every run that waits for it.
    EmitEvent {
        /// The name of the event.
        name: String,
        /// The key of the event.
        key: String,
        /// The value.
        payload: Payload,
    },
    /// Does one action to every run that a query finds, in the background.
    StartBulk(Box<StartBulk>),
    /// Ends a bulk operation before it has dealt with all runs.
    StopBulk {
        /// The operation.
        bulk: BulkId,
    },
}

/// Starts a run: see [`Client::start_by_name`](crate::Client::start_by_name).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StartRun {
    /// The name of the workflow.
    pub workflow: String,
    /// The input.
    pub input: Payload,
    /// The queue. Default: [`DEFAULT_QUEUE`](crate::DEFAULT_QUEUE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The gate. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The version. Default: [`DEFAULT_VERSION`](crate::DEFAULT_VERSION).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Identifies a repetition: a workflow has one run per key. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The priority. Default: normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// When the run begins. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// In how many milliseconds the run begins, in place of `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// In how many milliseconds the run fails if it has not ended. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The single key: while a run of the workflow has it and has not ended, the start leads to
    /// that run. See [`Start::single`](crate::Start::single). Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single: Option<String>,
    /// The tags. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The limits for steps that the start declares if they have no rule. Default: none. They are
    /// no part of a request to a server.
    #[serde(skip)]
    pub limits: BTreeMap<String, LimitRule>,
}

impl StartRun {
    /// Starts a run of this workflow with this input.
    #[must_use]
    pub fn new(workflow: impl Into<String>, input: Payload) -> Self {
        Self {
            workflow: workflow.into(),
            input,
            queue: None,
            gate: None,
            version: None,
            key: None,
            priority: None,
            at: None,
            delay_ms: None,
            deadline_ms: None,
            single: None,
            tags: BTreeMap::new(),
            limits: BTreeMap::new(),
        }
    }
}

/// Forks a run: see [`Client::fork`](crate::Client::fork).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ForkRun {
    /// The run whose history is copied.
    pub run: RunId,
    /// The key of the first step that is done again. Default: all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The input. Default: that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// The version. Default: that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The queue. Default: that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Identifies a repetition: a workflow has one run per key. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl ForkRun {
    /// Forks this run from its beginning.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        Self { run, from: None, input: None, version: None, queue: None, key: None }
    }
}

impl Action {
    /// Returns the verb of the audit row, such as `run.cancel`.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::StartRun(_) => "run.start",
            Self::CancelRun { .. } => "run.cancel",
            Self::TerminateRun { .. } => "run.terminate",
            Self::PauseRun { .. } => "run.pause",
            Self::ResumeRun { .. } => "run.resume",
            Self::SetPriority { .. } => "run.set_priority",
            Self::MoveTo { .. } => "run.move_to",
            Self::RetryRun { .. } => "run.retry",
            Self::ForkRun(_) => "run.fork",
            Self::SignalRun { .. } => "run.signal",
            Self::DecideApproval { .. } => "run.decide",
            Self::DeleteRun { .. } => "run.delete",
            Self::PauseQueue { .. } => "queue.pause",
            Self::ResumeQueue { .. } => "queue.resume",
            Self::SetQueueLimits { .. } => "queue.set_limits",
            Self::ClearQueueLimits { .. } => "queue.clear_limits",
            Self::WeighGate { .. } => "gate.weigh",
            Self::SetLimit { .. } => "limit.set",
            Self::ClearLimit { .. } => "limit.clear",
            Self::CreateSchedule(_) => "schedule.create",
            Self::UpdateSchedule(_) => "schedule.update",
            Self::BackfillSchedule(_) => "schedule.backfill",
            Self::PauseSchedule { .. } => "schedule.pause",
            Self::ResumeSchedule { .. } => "schedule.resume",
            Self::TriggerSchedule { .. } => "schedule.trigger",
            Self::DeleteSchedule { .. } => "schedule.delete",
            Self::RevertSchedule { .. } => "schedule.revert",
            Self::EmitEvent { .. } => "event.emit",
            Self::StartBulk(_) => "bulk.start",
            Self::StopBulk { .. } => "bulk.stop",
        }
    }

    /// Returns the target of the audit row: `run:ID`, `queue:NAME`, `gate:QUEUE/GATE`,
    /// `limit:NAME`, `schedule:NAME`, `event:NAME/KEY`, `bulk:ID`, and `workflow:NAME` for a start.
    #[must_use]
    pub fn target(&self) -> String {
        match self {
            Self::StartRun(start) => format!("workflow:{}", start.workflow),
            Self::ForkRun(fork) => format!("run:{}", fork.run),
            Self::CancelRun { run, .. }
            | Self::TerminateRun { run }
            | Self::PauseRun { run }
            | Self::ResumeRun { run }
            | Self::SetPriority { run, .. }
            | Self::MoveTo { run, .. }
            | Self::RetryRun { run, .. }
            | Self::SignalRun { run, .. }
            | Self::DecideApproval { run, .. }
            | Self::DeleteRun { run } => format!("run:{run}"),
            Self::PauseQueue { queue }
            | Self::ResumeQueue { queue }
            | Self::SetQueueLimits { queue, .. }
            | Self::ClearQueueLimits { queue } => format!("queue:{queue}"),
            Self::WeighGate { queue, gate, .. } => format!("gate:{queue}/{gate}"),
            Self::SetLimit { limit, .. } | Self::ClearLimit { limit } => format!("limit:{limit}"),
            Self::CreateSchedule(create) => format!("schedule:{}", create.schedule),
            Self::UpdateSchedule(update) => format!("schedule:{}", update.schedule),
            Self::BackfillSchedule(backfill) => format!("schedule:{}", backfill.schedule),
            Self::PauseSchedule { schedule }
            | Self::ResumeSchedule { schedule }
            | Self::TriggerSchedule { schedule, .. }
            | Self::DeleteSchedule { schedule }
            | Self::RevertSchedule { schedule } => format!("schedule:{schedule}"),
            Self::EmitEvent { name, key, .. } => format!("event:{name}/{key}"),
            Self::StartBulk(start) => start.id.map_or_else(|| "bulk:new".into(), |id| format!("bulk:{id}")),
            Self::StopBulk { bulk } => format!("bulk:{bulk}"),
        }
    }

    /// Returns the least role that may give the order. The caller checks it: a client has the
    /// rights of its database role, whatever this says.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self {
            Self::StartRun(_) | Self::CancelRun { .. } | Self::TerminateRun { .. } => Role::Operator,
            Self::PauseRun { .. } | Self::ResumeRun { .. } | Self::RetryRun { .. } => Role::Operator,
            Self::ForkRun(_) | Self::SignalRun { .. } | Self::DecideApproval { .. } => Role::Operator,
            Self::SetPriority { .. } | Self::MoveTo { .. } => Role::Operator,
            Self::PauseQueue { .. } | Self::ResumeQueue { .. } | Self::EmitEvent { .. } => Role::Operator,
            Self::PauseSchedule { .. } | Self::ResumeSchedule { .. } => Role::Operator,
            // Their runs do what the schedule declares, as every start by an operator may.
            Self::TriggerSchedule { .. } | Self::BackfillSchedule(_) => Role::Operator,
            Self::CreateSchedule(_) | Self::UpdateSchedule(_) => Role::Admin,
            Self::DeleteRun { .. } | Self::DeleteSchedule { .. } | Self::RevertSchedule { .. } => Role::Admin,
            Self::SetQueueLimits { .. } | Self::ClearQueueLimits { .. } | Self::WeighGate { .. } => Role::Admin,
            Self::SetLimit { .. } | Self::ClearLimit { .. } => Role::Admin,
            Self::StartBulk(start) => start.apply.role(),
            Self::StopBulk { .. } => Role::Operator,
        }
    }

    /// Returns the arguments of the audit row: names, ids and limits. Payloads are left out, and so
    /// are the keys and the tags of a start, because the row outlives a deletion of the run.
    pub(super) fn arguments(&self) -> String {
        let all = match self {
            Self::StartRun(start) => {
                let StartRun { queue, gate, version, priority, at, delay_ms, deadline_ms, .. } = &**start;
                json!({ "queue": queue, "gate": gate, "version": version, "priority": priority, "at": at,
                        "delay_ms": delay_ms, "deadline_ms": deadline_ms })
            }
            Self::ForkRun(fork) => json!({ "from": fork.from, "version": fork.version, "queue": fork.queue }),
            Self::RetryRun { deadline_ms, .. } => json!({ "deadline_ms": deadline_ms }),
            Self::SetPriority { priority, .. } => json!({ "priority": priority }),
            Self::MoveTo { queue, .. } => json!({ "queue": queue }),
            Self::SignalRun { name, .. } => json!({ "name": name }),
            Self::DecideApproval { step, approve, .. } => json!({ "step": step, "approve": approve }),
            Self::SetQueueLimits { limits, .. } => json!({ "limits": limits }),
            Self::WeighGate { weight, .. } => json!({ "weight": weight }),
            Self::SetLimit { rule, .. } => json!({ "rule": rule }),
            Self::CreateSchedule(create) => {
                json!({ "workflow": create.workflow, "settings": create.settings.audited() })
            }
            Self::UpdateSchedule(update) => json!({ "settings": update.settings.audited() }),
            Self::BackfillSchedule(backfill) => {
                json!({ "after": backfill.after, "until": backfill.until, "max": backfill.max })
            }
            Self::CancelRun { .. } | Self::TerminateRun { .. } | Self::PauseRun { .. } | Self::ResumeRun { .. } => {
                Value::Null
            }
            Self::DeleteRun { .. } | Self::PauseQueue { .. } | Self::ResumeQueue { .. } => Value::Null,
            Self::ClearQueueLimits { .. } | Self::ClearLimit { .. } | Self::PauseSchedule { .. } => Value::Null,
            Self::ResumeSchedule { .. } | Self::TriggerSchedule { .. } | Self::DeleteSchedule { .. } => Value::Null,
            Self::RevertSchedule { .. } | Self::EmitEvent { .. } | Self::StopBulk { .. } => Value::Null,
            // The row of the operation has the query, which may have keys and tags.
            Self::StartBulk(start) => json!({ "verb": start.apply.verb() }),
        };
        let given = match all {
            Value::Object(all) => all.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        };
        Value::Object(given).to_string()
    }

    /// Replaces the payload that the text has under this name by one with the very digits and
    /// spaces of the text.
    pub(super) fn set_payload(&mut self, name: &str, exact: Payload) {
        match (self, name) {
            (Self::StartRun(start), "input") => start.input = exact,
            (Self::ForkRun(fork), "input") if fork.input.is_some() => fork.input = Some(exact),
            (Self::TriggerSchedule { input, .. }, "input") if input.is_some() => *input = Some(exact),
            (Self::CreateSchedule(create), "input") => create.input = exact,
            (Self::UpdateSchedule(update), "input") if update.input.is_some() => update.input = Some(exact),
            (Self::BackfillSchedule(backfill), "input") if backfill.input.is_some() => backfill.input = Some(exact),
            (Self::SignalRun { payload, .. } | Self::EmitEvent { payload, .. }, "payload") => *payload = exact,
            (Self::StartBulk(start), "apply") => start.apply.set_payload(exact),
            _ => {}
        }
    }
}
