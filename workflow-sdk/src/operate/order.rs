use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use workflow_engine::model::{AuditId, NameSubject, NewAudit, TraceContext, check_name};

use crate::ClientError;

use super::{Action, OperateError, OperateErrorCode};

/// An action, on whose behalf and why: see [`Operate::perform`](super::Operate::perform).
///
/// ```
/// use workflow_sdk::operate::{Action, Order};
///
/// let pause = Action::PauseQueue { queue: "mail".into() };
/// let order = Order::new(pause).actor("ada").reason("bounces");
/// let text = serde_json::to_string(&order)?;
/// assert_eq!(
///     text,
///     r#"{"action":"pause_queue","queue":"mail","actor":"ada","reason":"bounces"}"#
/// );
/// assert_eq!(serde_json::from_str::<Order>(&text)?, order);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// An order is read from JSON text, in which a payload keeps its very digits. It cannot be a
/// flattened field of another type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Order {
    /// The action.
    #[serde(flatten)]
    pub action: Action,
    /// The person or program that gives the order. It goes into the audit row. Default: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Why. It goes into the audit row. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The span of the caller, in a distributed trace. The order belongs to that trace, and so does
    /// a run that it starts or forks. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<TraceContext>,
}

impl Order {
    /// Orders this action, on behalf of an unknown actor and without a reason.
    #[must_use]
    pub fn new(action: Action) -> Self {
        Self { action, actor: None, reason: None, trace_parent: None }
    }

    /// Sets on whose behalf the order is given. Range: 1 to 255 bytes without control characters.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Sets the reason. Range: 1 to 255 bytes without control characters.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the span of the caller, in a distributed trace.
    #[must_use]
    pub fn trace_parent(mut self, parent: TraceContext) -> Self {
        self.trace_parent = Some(parent);
        self
    }

    /// Checks what goes into the audit row beside the action.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        if let Some(actor) = &self.actor {
            check_name(NameSubject::Actor, actor)?;
        }
        if let Some(reason) = &self.reason {
            check_name(NameSubject::Reason, reason)?;
        }
        Ok(())
    }

    /// Returns the audit row of the order.
    pub(super) fn audit(&self) -> NewAudit {
        NewAudit {
            id: AuditId::generate(),
            actor: self.actor.clone(),
            verb: self.action.verb().into(),
            target: self.action.target(),
            reason: self.reason.clone(),
            arguments: self.action.arguments(),
        }
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(flatten)]
            action: Action,
            #[serde(default)]
            actor: Option<String>,
            #[serde(default)]
            reason: Option<String>,
            #[serde(default)]
            trace_parent: Option<TraceContext>,
        }
        use serde::de::Error;
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Fields { mut action, actor, reason, trace_parent } =
            serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        // The enum reads numbers as floats where they have too many digits.
        let mut exact: HashMap<String, Box<RawValue>> = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        for name in ["input", "payload"] {
            if let Some(text) = exact.remove(name) {
                action.set_payload(name, Payload(text));
            }
        }
        if let Some(apply) = exact.remove("apply") {
            let mut exact: HashMap<String, Box<RawValue>> =
                serde_json::from_str(apply.get()).map_err(D::Error::custom)?;
            exact.remove("payload").into_iter().for_each(|text| action.set_payload("apply", Payload(text)));
        }
        Ok(Self { action, actor, reason, trace_parent })
    }
}

/// The rights that a person or program has, and that an order needs. Each role has the rights of
/// the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also starts, stops and answers runs, and pauses queues and schedules.
    Operator,
    /// Also sets limits, creates and changes schedules, and deletes.
    Admin,
}

/// A value that goes to a run: JSON text, which is stored unchanged.
///
/// ```
/// use workflow_sdk::operate::Payload;
///
/// let payload = Payload::new(r#"{"amount": 12345678901234567890123}"#)?;
/// assert_eq!(payload.as_str(), r#"{"amount": 12345678901234567890123}"#);
/// assert!(Payload::new("{").unwrap_err().message.contains("line 1"));
/// assert_eq!(Payload::from(serde_json::json!([1, 2])).as_str(), "[1,2]");
/// # Ok::<(), workflow_sdk::operate::OperateError>(())
/// ```
#[derive(Clone)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = serde_json::Value))]
pub struct Payload(Box<RawValue>);

impl Payload {
    /// Returns the value that this JSON text is.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) with line and column if the text is not JSON, or is
    /// nested deeper than 127.
    pub fn new(text: impl Into<String>) -> Result<Self, OperateError> {
        let text = text.into();
        let checked = serde_json::from_str::<Value>(&text).and_then(|_| RawValue::from_string(text));
        checked.map(Self).map_err(|error| {
            let message = format!("the value is not JSON: {error}");
            OperateError::new(OperateErrorCode::BadInput, message, "mend the text; a string stands in double quotes")
        })
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        // A `Value` is always JSON.
        Self(RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.as_str().len())
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use workflow_engine::model::{LimitRule, Priority, QueueLimits, RunId, Timestamp};

    use super::super::{
        BackfillSchedule, BulkAction, BulkId, CreateSchedule, ForkRun, StartBulk, StartRun, UpdateSchedule,
    };
    use super::*;

    /// An action of each kind, with every payload.
    fn every_action() -> Vec<Action> {
        let (run, queue, schedule) = (RunId::generate(), || "mail".to_owned(), || "daily".to_owned());
        let payload = || Payload::new(r#"{"secret":12345678901234567890123,"f":1.10}"#).unwrap();
        let mut fork = ForkRun::new(run);
        fork.input = Some(payload());
        let mut start = StartRun::new("checkout", payload());
        (start.key, start.priority) = (Some("secret key".into()), Some(Priority::High));
        start.tags.insert("customer".into(), "secret tag".into());
        let mut create = CreateSchedule::new("daily", "report", payload());
        create.settings.tags = Some([("customer".to_owned(), "secret tag".to_owned())].into());
        let mut update = UpdateSchedule::new("daily");
        (update.input, update.settings.every_ms) = (Some(payload()), Some(86_400_000));
        let mut backfill = BackfillSchedule::new("daily", Timestamp::from_micros(1), Timestamp::from_micros(2));
        (backfill.max, backfill.input) = (Some(7), Some(payload()));
        let signal = BulkAction::SignalRun { name: "go".into(), payload: payload(), key: Some("secret key".into()) };
        vec![
            Action::StartRun(Box::new(start)),
            Action::CancelRun { run, only_ask: true },
            Action::TerminateRun { run },
            Action::PauseRun { run },
            Action::ResumeRun { run },
            Action::SetPriority { run, priority: Priority::Low },
            Action::MoveTo { run, queue: queue() },
            Action::RetryRun { run, deadline_ms: Some(5) },
            Action::ForkRun(Box::new(fork)),
            Action::SignalRun { run, name: "go".into(), payload: payload(), key: Some("secret key".into()) },
            Action::DecideApproval { run, step: "ship".into(), approve: false, note: Some("secret note".into()) },
            Action::DeleteRun { run },
            Action::PauseQueue { queue: queue() },
            Action::ResumeQueue { queue: queue() },
            Action::SetQueueLimits { queue: queue(), limits: QueueLimits::none().concurrency(7) },
            Action::ClearQueueLimits { queue: queue() },
            Action::WeighGate { queue: queue(), gate: "a".into(), weight: 2 },
            Action::SetLimit { limit: "llm".into(), rule: LimitRule::none().concurrency(7) },
            Action::ClearLimit { limit: "llm".into() },
            Action::CreateSchedule(Box::new(create)),
            Action::UpdateSchedule(Box::new(update)),
            Action::BackfillSchedule(Box::new(backfill)),
            Action::PauseSchedule { schedule: schedule() },
            Action::ResumeSchedule { schedule: schedule() },
            Action::TriggerSchedule { schedule: schedule(), input: Some(payload()) },
            Action::DeleteSchedule { schedule: schedule() },
            Action::RevertSchedule { schedule: schedule() },
            Action::EmitEvent { name: "paid".into(), key: "order-1".into(), payload: payload() },
            Action::StartBulk(Box::new(StartBulk::new("key:\"secret key\"".parse().unwrap(), signal))),
            Action::StopBulk { bulk: BulkId::generate() },
        ]
    }

    #[test]
    fn every_order_has_a_text_that_keeps_each_digit() {
        for action in every_action() {
            let bare = Order::new(action.clone());
            let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
            for order in [bare, Order::new(action).actor("ada").reason("because").trace_parent(trace)] {
                let text = serde_json::to_string(&order).unwrap();
                assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order, "{text}");
            }
        }
    }

    #[test]
    fn no_audit_row_has_a_payload() {
        for action in every_action() {
            let text = format!("{:?}", Order::new(action).audit());
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn each_action_has_a_verb_of_its_own() {
        let actions = every_action();
        let verbs: BTreeSet<&str> = actions.iter().map(Action::verb).collect();
        assert_eq!(verbs.len(), actions.len());
        let is_role = |wanted| actions.iter().filter(|action| action.role() == wanted).count();
        assert_eq!((is_role(Role::Viewer), is_role(Role::Operator), is_role(Role::Admin)), (0, 20, 10));
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
    }

    #[test]
    fn a_text_that_is_no_order_is_refused() {
        for (text, says) in [
            (r#"{"run":"x"}"#, "missing field `action`"),
            (r#"{"action":"cancel_rum","run":"x"}"#, "unknown variant `cancel_rum`"),
            (r#"{"action":"cancel_run"}"#, "missing field `run`"),
            (r#"{"action":"cancel_run","run":"x"}"#, "UUID"),
            (r#"{"action":"pause_queue","queue":"mail","raeson":"x"}"#, "unknown field `raeson`"),
            (r#"{"action":"start_run","workflow":"w","input":1,"quue":"x"}"#, "unknown field `quue`"),
            (r#"{"action":"start_run","workflow":"w"}"#, "missing field `input`"),
            (r#"{"action":"update_schedule","schedule":"s","settings":{"corn":[]}}"#, "unknown field `corn`"),
            (r#"{"action":"create_schedule","schedule":"s","workflow":"w","input":1}"#, "missing field `settings`"),
            ("[]", "invalid type"),
        ] {
            let error = serde_json::from_str::<Order>(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_payload_that_is_nested_too_deep_is_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Payload::new(nested(127)).is_ok());
        assert_eq!(Payload::new(nested(128)).unwrap_err().code, OperateErrorCode::BadInput);
        let order = format!(r#"{{"action":"start_run","workflow":"w","input":{}}}"#, nested(400));
        assert!(serde_json::from_str::<Order>(&order).is_err());
    }
}
