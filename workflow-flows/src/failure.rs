//! Failures of flows, as they are stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use workflow_sdk::{Error, ErrorKind, RetryAdvice, StepError};

use crate::expression::ExpressionError;
use crate::{ErrorClass, ToolError};

/// The code of a failure at run time. Its text, such as `F250`, stands in the message too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FlowCode {
    /// No case of a `switch` has the value, and there is no default.
    #[serde(rename = "F220")]
    NoCase,
    /// No branch of a graph's step is true, and there is no `else`.
    #[serde(rename = "F221")]
    NoBranch,
    /// A step was visited, or a loop took turns, as often as it may.
    #[serde(rename = "F222")]
    TooOften,
    /// The run made as many decisions as it may.
    #[serde(rename = "F223")]
    Decisions,
    /// A gate or a wait was not answered in time.
    #[serde(rename = "F230")]
    Unanswered,
    /// An approval was refused.
    #[serde(rename = "F231")]
    Rejected,
    /// An expression failed, or gave a value of the wrong type.
    #[serde(rename = "F240")]
    Expression,
    /// An expression took more than it may.
    #[serde(rename = "F241")]
    ExpressionBudget,
    /// A tool failed, or the worker lacks what the step needs.
    #[serde(rename = "F250")]
    Tool,
    /// A step of the kind `fail` ended the flow.
    #[serde(rename = "F251")]
    Wanted,
    /// The answer of a recipe does not fit its schema.
    #[serde(rename = "F260")]
    Answer,
}

impl FlowCode {
    /// Returns the text of the code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCase => "F220",
            Self::NoBranch => "F221",
            Self::TooOften => "F222",
            Self::Decisions => "F223",
            Self::Unanswered => "F230",
            Self::Rejected => "F231",
            Self::Expression => "F240",
            Self::ExpressionBudget => "F241",
            Self::Tool => "F250",
            Self::Wanted => "F251",
            Self::Answer => "F260",
        }
    }
}

/// The failure of a flow's step. It is the typed value of the stored error, so a program finds out
/// with [`Error::downcast`] which step failed, and why.
///
/// ```
/// use workflow_flows::{ErrorClass, FlowCode, FlowError};
///
/// let error = FlowError::new(FlowCode::NoCase, ErrorClass::Invalid, "route", "no case \"x\"");
/// assert_eq!(error.to_string(), "F220: step \"route\": no case \"x\"");
/// let error = workflow_sdk::Error::from(error);
/// assert_eq!(error.downcast::<FlowError>().unwrap().code, FlowCode::NoCase);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}: step {step:?}: {message}", code.as_str())]
#[non_exhaustive]
pub struct FlowError {
    /// The code of the failure.
    pub code: FlowCode,
    /// The kind of the failure, which decides about a further attempt.
    pub class: ErrorClass,
    /// The id of the step. Empty: the flow itself.
    pub step: String,
    /// The cause, and what to do next, without the code and the step.
    pub message: String,
    /// Whether and when another attempt may follow. Not stored.
    #[serde(skip)]
    again: Again,
}

/// Whether another attempt may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Again {
    #[default]
    Never,
    ByPolicy,
    After(Duration),
}

impl FlowError {
    /// Creates a failure after which no attempt follows.
    #[must_use]
    pub fn new(code: FlowCode, class: ErrorClass, step: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, class, step: step.into(), message: message.into(), again: Again::Never }
    }

    pub(crate) fn again(self, again: Again) -> Self {
        Self { again, ..self }
    }

    pub(crate) fn of_tool(step: &str, error: &ToolError) -> Self {
        Self::new(FlowCode::Tool, error.class, step, error.message.clone())
    }

    pub(crate) fn of_expression(step: &str, what: &str, error: &ExpressionError) -> Self {
        let code = match error {
            ExpressionError::Budget(_) => FlowCode::ExpressionBudget,
            _ => FlowCode::Expression,
        };
        Self::new(code, ErrorClass::Invalid, step, format!("{what}: {error}"))
    }

    /// Returns the failure of a step from the error that the step gave. An error of the engine,
    /// such as a panic of a tool, becomes a failure of this step.
    #[must_use]
    pub fn of(step: &str, error: &Error) -> Self {
        error.downcast().unwrap_or_else(|| {
            let class = match error.kind() {
                ErrorKind::Timeout | ErrorKind::Deadline => ErrorClass::Timeout,
                ErrorKind::Refused => ErrorClass::Invalid,
                _ => ErrorClass::Failed,
            };
            Self::new(FlowCode::Tool, class, step, error.message())
        })
    }

    /// Returns the value that expressions see as `error`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({ "code": self.code, "class": self.class, "message": self.message, "step": self.step })
    }
}

impl StepError for FlowError {
    const NAME: &'static str = "workflow_flows::FlowError";

    fn retry_advice(&self) -> RetryAdvice {
        match self.again {
            Again::Never => RetryAdvice::Never,
            Again::ByPolicy => RetryAdvice::Policy,
            Again::After(delay) => RetryAdvice::After(delay),
        }
    }
}

workflow_sdk::__private::submit! {
    workflow_sdk::__private::Registered::of::<FlowError>()
}
