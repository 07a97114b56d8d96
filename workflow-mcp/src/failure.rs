use serde::Serialize;
use workflow_flows::check::{Finding, Severity};
use workflow_sdk::operate::{OperateError, OperateErrorCode, QueryError};

use crate::answers::{Found, word};

/// Why a tool failed, as an agent reads it: a code to act on, the mistake, and the way out.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    code: String,
    message: String,
    help: String,
    /// The faults of a flow or of its input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Found>,
}

impl Failure {
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), help: help.into(), findings: Vec::new() }
    }

    /// Refuses an argument.
    pub(crate) fn bad_input(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new("bad_input", message, help)
    }

    /// Refuses a flow that has errors.
    pub(crate) fn invalid_flow(findings: Vec<Finding>) -> Self {
        let failure = Self::new("invalid_flow", "the flow has faults", "apply the fix of each finding, and try again");
        failure.found(findings)
    }

    /// Refuses an input that does not fit its flow.
    pub(crate) fn invalid_input(findings: Vec<Finding>) -> Self {
        let help = "give an input that fits the schema `input` of the flow; flow_list with its name shows it";
        Self::new("invalid_input", "the input does not fit the flow", help).found(findings)
    }

    /// Returns the failure of a call about deployed flows. If their store failed, the text may name
    /// the place of the database, so agents get another one.
    pub(crate) fn of_flows(error: impl Into<OperateError>) -> Self {
        let error: OperateError = error.into();
        if error.code != OperateErrorCode::Unavailable {
            return error.into();
        }
        tracing::warn!(error = &error as &dyn std::error::Error, "the store of flows failed");
        Self::new("unavailable", "the store of flows failed", "try again later")
    }

    /// Adds the errors among the findings.
    fn found(self, findings: Vec<Finding>) -> Self {
        let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
        Self { findings: errors.map(Found::from).collect(), ..self }
    }

    /// Returns the failure as the JSON text that answers the call.
    pub(crate) fn to_text(&self) -> String {
        serde_json::json!({ "error": self }).to_string()
    }
}

impl From<OperateError> for Failure {
    fn from(error: OperateError) -> Self {
        Self::new(word(&error.code), error.message, error.help)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        OperateError::from(error).into()
    }
}
