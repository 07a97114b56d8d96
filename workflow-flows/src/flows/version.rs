use serde::{Deserialize, Serialize};
use workflow_sdk::Timestamp;

use crate::graph::Trigger;
use crate::store::{Deployed, FlowVersion};
use crate::{levels, mermaid};

/// A deployed version of a flow, without its definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowSummary {
    /// The name of the flow.
    pub name: String,
    /// The name of the version.
    pub version: String,
    /// The number of the version among those of this name, from 1.
    pub number: i64,
    /// The digest of the flow.
    pub digest: String,
    /// Its purpose. Empty if the document says nothing.
    pub description: String,
    /// The kinds of its triggers: `cron`, `webhook`, `event`. They start the newest version.
    pub triggers: Vec<String>,
    /// When it was deployed.
    pub created_at: Timestamp,
    /// The account that deployed it.
    pub created_by: String,
}

impl From<&FlowVersion> for FlowSummary {
    fn from(version: &FlowVersion) -> Self {
        let kind = |trigger: &Trigger| match trigger {
            Trigger::Cron { .. } => "cron",
            Trigger::Webhook { .. } => "webhook",
            Trigger::Event { .. } => "event",
        };
        Self {
            name: version.name.clone(),
            version: version.version.clone(),
            number: version.number,
            digest: version.digest.clone(),
            description: version.definition.description.clone(),
            triggers: version.definition.triggers.iter().map(|trigger| kind(trigger).to_owned()).collect(),
            created_at: version.created_at,
            created_by: version.created_by.clone(),
        }
    }
}

/// The answer to a deploy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeployedFlow {
    /// The version that is now deployed.
    #[serde(flatten)]
    pub flow: FlowSummary,
    /// `false` if a version had this body already, and nothing was added.
    pub is_new: bool,
}

impl From<&Deployed> for DeployedFlow {
    fn from(deployed: &Deployed) -> Self {
        Self { flow: FlowSummary::from(&deployed.version), is_new: deployed.is_new }
    }
}

/// The drawing of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowDiagram {
    /// A flowchart, for Mermaid.
    pub mermaid: String,
    /// The ids of the steps, by the order in which they can begin.
    pub levels: Vec<Vec<String>>,
}

impl From<&FlowVersion> for FlowDiagram {
    fn from(version: &FlowVersion) -> Self {
        let levels = levels(&version.definition.body).into_iter();
        let levels = levels.map(|level| level.into_iter().map(str::to_owned).collect()).collect();
        Self { mermaid: mermaid(&version.definition), levels }
    }
}
