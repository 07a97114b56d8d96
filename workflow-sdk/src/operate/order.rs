use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use workflow_engine::model::{AuditId, NameSubject, NewAudit, check_name};

use crate::ClientError;

use super::{Action, OperateError, OperateErrorCode};

/// An action, on whose behalf and why: see [`Operate::perform`](super::Operate::perform).
///
/// ```
/// use workflow_sdk::operate::{Action, Order};
///
/// let order = Order::new(Action::PauseQueue { queue: "mail".into() }).actor("ada").reason("too many bounces");
/// let text = serde_json::to_string(&order)?;
/// assert_eq!(text, r#"{"action":"pause_queue","queue":"mail","actor":"ada","reason":"too many bounces"}"#);
/// assert_eq!(serde_json::from_str::<Order>(&text)?, order);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// An order is read from JSON text, in which a payload keeps its very digits. It cannot be a
/// flattened field of another type.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
}

impl Order {
    /// Orders this action, on behalf of an unknown actor and without a reason.
    #[must_use]
    pub fn new(action: Action) -> Self {
        Self { action, actor: None, reason: None }
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
        }
        use serde::de::Error;
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Fields { mut action, actor, reason } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        // The enum reads numbers as floats where they have too many digits.
        let mut exact: HashMap<String, Box<RawValue>> = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        for name in ["input", "payload"] {
            if let Some(text) = exact.remove(name) {
                action.set_payload(name, Payload(text));
            }
        }
        Ok(Self { action, actor, reason })
    }
}

/// The least a person or program must be allowed to, to give an order. Each role may do what those
/// before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also starts, stops and answers runs, and pauses queues and schedules.
    Operator,
    /// Also sets limits and deletes.
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

    /// Returns the text, as the calls of the client take it.
    pub(super) const fn raw(&self) -> &Box<RawValue> {
        &self.0
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
