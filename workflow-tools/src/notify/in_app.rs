use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_flows::{ErrorClass, InboxError, InboxMessage, InboxStore, Tool, ToolCall, ToolError};

use super::{Notice, input_schema, notice};
use crate::arguments::invalid;

/// Where messages of the channel `in-app` are kept: an [`InboxStore`], or a table of the
/// application.
#[async_trait]
pub trait Inbox: Send + Sync + 'static {
    /// Keeps a message of this actor. `key` is identical in every attempt of the step: a message
    /// with a key that is there already must not be kept twice.
    ///
    /// # Errors
    /// A [`ToolError`] with the class that decides whether the step is tried again.
    async fn put(&self, actor: &str, key: &str, notice: Notice) -> Result<(), ToolError>;
}

#[async_trait]
impl Inbox for InboxStore {
    async fn put(&self, actor: &str, key: &str, notice: Notice) -> Result<(), ToolError> {
        let Notice { to, title, text, data } = notice;
        let mut message = InboxMessage::new(key, text);
        (message.to, message.title, message.data) = (to, title, data);
        actor.clone_into(&mut message.actor);
        match InboxStore::put(self, &message).await {
            Ok(_) => Ok(()),
            Err(error @ InboxError::Message { .. }) => Err(invalid(format!("in-app: {error}"))),
            Err(_) => Err(ToolError::new(ErrorClass::Unavailable, "in-app: the inbox cannot be written now")),
        }
    }
}

/// The channel `in-app`: gives messages to an [`Inbox`]. The token of an approval is taken out of
/// `data`.
///
/// ```
/// use workflow_flows::{InboxStore, Tool};
/// use workflow_tools::notify::InApp;
///
/// assert_eq!(InApp::new(InboxStore::in_memory()).name(), "in-app");
/// ```
#[derive(Clone)]
pub struct InApp {
    inbox: Arc<dyn Inbox>,
}

impl fmt::Debug for InApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InApp").finish_non_exhaustive()
    }
}

impl InApp {
    /// Creates the channel.
    #[must_use]
    pub fn new(inbox: impl Inbox) -> Self {
        Self { inbox: Arc::new(inbox) }
    }
}

#[async_trait]
impl Tool for InApp {
    fn name(&self) -> &str {
        "in-app"
    }

    fn description(&self) -> &str {
        "Leaves a message in the application."
    }

    fn input_schema(&self) -> Value {
        input_schema()
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let mut notice = notice("in-app", &call)?;
        // More accounts can read an inbox than may decide the gate.
        if let (Some(_), Some(data)) = (&call.token, notice.data.as_object_mut()) {
            data.remove("token");
        }
        self.inbox.put(&call.actor, &call.idempotency_key, notice).await?;
        Ok(json!({ "kept": true }))
    }
}
