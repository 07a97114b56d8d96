//! Whether a run is one of a flow, and the name of that flow.

use std::collections::BTreeMap;

use workflow_sdk::Workflow;

use crate::{FLOW_TAG, FLOW_VERSION_TAG, FlowWorkflow};

/// The flow of a run, as the tags of the run name it.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use workflow_flows::{FlowName, is_flow};
///
/// let tags = BTreeMap::from([("flow".to_owned(), "triage".to_owned())]);
/// let flow = FlowName::of("flow", &tags).ok_or("not a run of a flow")?;
/// assert_eq!((flow.name, flow.version), ("triage", None));
/// // Any run may have such a tag.
/// assert_eq!(FlowName::of("checkout", &tags), None);
/// assert!(is_flow("flow") && !is_flow("checkout"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowName<'t> {
    /// The name of the flow.
    pub name: &'t str,
    /// The version of the flow. `None` if the start of the run brought the definition.
    pub version: Option<&'t str>,
}

impl<'t> FlowName<'t> {
    /// Returns the flow of a run, by the workflow and the tags of the run. `None` if the run is not
    /// one of a flow, or no tag names the flow.
    #[must_use]
    pub fn of(workflow: &str, tags: &'t BTreeMap<String, String>) -> Option<Self> {
        let tag = |name: &str| tags.get(name).map(String::as_str);
        let name = tag(FLOW_TAG).filter(|_| is_flow(workflow))?;
        Some(Self { name, version: tag(FLOW_VERSION_TAG) })
    }
}

/// Returns `true` if the runs of a workflow with this name are runs of flows.
#[must_use]
pub fn is_flow(workflow: &str) -> bool {
    workflow == FlowWorkflow::NAME
}
