use serde::{Deserialize, Serialize};
use workflow_sdk::Timestamp;

use super::{Deployed, FlowStoreError};
use crate::FlowStart;
use crate::graph::Flow;

/// A deployed version of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowVersion {
    /// The name of the flow.
    pub name: String,
    /// The number of the version among those of this name, from 1.
    pub number: i64,
    /// The name of the version: given by the deploy, or its number.
    pub version: String,
    /// The [digest](Flow::digest) of the flow.
    pub digest: String,
    /// The flow.
    pub definition: Flow,
    /// When it was deployed.
    pub created_at: Timestamp,
    /// The account that deployed it.
    pub created_by: String,
}

impl FlowVersion {
    /// Returns the start of a run of this version, without input and actor.
    #[must_use]
    pub fn into_start(self) -> FlowStart {
        FlowStart { version: self.version, ..FlowStart::with_digest(self.definition, self.digest) }
    }
}

/// Accepts a version that stands already if it has this body.
pub(super) fn is_same(found: FlowVersion, digest: &str) -> Result<Deployed, FlowStoreError> {
    if found.digest == digest {
        return Ok(Deployed { version: found, is_new: false });
    }
    Err(FlowStoreError::VersionTaken { name: found.name, version: found.version })
}
