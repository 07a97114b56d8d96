//! Converts errors of flows into `OperateError`.

use workflow_sdk::operate::{OperateError, OperateErrorCode as Code};

use crate::FlowStoreError;
use crate::check::Finding;

impl From<FlowStoreError> for OperateError {
    fn from(error: FlowStoreError) -> Self {
        let (code, help) = match error {
            FlowStoreError::Unknown { name } => return unknown_flow(&name),
            FlowStoreError::Client(error) => return error.into(),
            FlowStoreError::VersionTaken { .. } => (Code::Conflict, "name another version, or leave the name out"),
            FlowStoreError::Input { .. } => (Code::BadInput, "give an input that fits the schema of the flow"),
            FlowStoreError::Limit { .. } => (Code::BadInput, "change the limit in the flow"),
            FlowStoreError::Unreadable { .. } => (Code::Unreadable, "use the release that wrote it, or a later one"),
            FlowStoreError::Url { .. } => (Code::BadInput, "write sqlite://flows.db or postgres://host/database"),
            FlowStoreError::Database(_) => {
                (Code::Unavailable, "check the database, and the grants of its role on workflow_flows; then try again")
            }
        };
        Self::new(code, error.to_string(), help)
    }
}

pub(super) fn unknown_flow(name: &str) -> OperateError {
    OperateError::new(Code::NotFound, format!("there is no flow {name:?}"), "list the flows, or deploy it first")
}

/// Refuses to ask tools that are not known.
pub(super) fn no_runtime() -> OperateError {
    let help = "leave `connect` out, or ask a program that has a worker with flows";
    OperateError::new(Code::BadInput, "this program has no tools of flows", help)
}

pub(super) fn unknown_version(name: &str, version: &str) -> OperateError {
    let message = format!("the flow {name:?} has no version {version:?}");
    OperateError::new(Code::NotFound, message, "list its versions")
}

/// Refuses an input that does not fit the schema of its flow.
pub(super) fn unfit_input(findings: &[Finding]) -> OperateError {
    let told: Vec<String> = findings.iter().map(|finding| finding.message.clone()).collect();
    let message = format!("F060: {}", told.join("; "));
    OperateError::new(Code::BadInput, message, "give an input that fits the schema of the flow")
}
