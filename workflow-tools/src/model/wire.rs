//! The answer of an OpenAI-compatible server, as far as it is read.

use serde::Deserialize;
use workflow_flows::ToolError;

use crate::arguments::{failed, invalid};

/// A chat completion.
#[derive(Deserialize)]
pub(super) struct Completion {
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    pub(super) usage: Usage,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

/// Numbers of tokens.
#[derive(Deserialize, Default)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
}

impl Completion {
    /// Refuses a completion without an answer.
    pub(super) fn checked(self, shown: &str) -> Result<Self, ToolError> {
        let Some(choice) = self.choices.first() else {
            return Err(failed(format!("{shown} answered without a choice")));
        };
        if choice.message.refusal.is_some() || choice.finish_reason.as_deref() == Some("content_filter") {
            return Err(invalid(format!("the model of {shown} refused to answer")));
        }
        if choice.message.content.is_none() {
            return Err(failed(format!("{shown} answered without content")));
        }
        Ok(self)
    }

    /// The text of the answer.
    pub(super) fn text(&self) -> &str {
        self.choices.first().and_then(|choice| choice.message.content.as_deref()).unwrap_or_default()
    }

    /// Whether the answer ended at its longest length.
    pub(super) fn is_cut(&self) -> bool {
        self.choices.first().is_some_and(|choice| choice.finish_reason.as_deref() == Some("length"))
    }
}
