//! The resources, which agents read by a URI.

use serde_json::json;
use workflow_flows::SCHEMA;
use workflow_http::internal::shown;

use crate::caller::{Caller, run_id};
use crate::failure::Failure;
use crate::runs::run_view;
use crate::steps::waits;

/// A resource that is always there.
pub(crate) struct Resource {
    pub(crate) uri: &'static str,
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) media_type: &'static str,
}

/// The beginning of the URI of a run.
const RUN: &str = "run://";
/// The form of the URIs of runs.
pub(crate) const RUN_TEMPLATE: &str = "run://{id}";
const JSON: &str = "application/json";
const SCHEMA_URI: &str = "flow://schema";
const FORMAT_URI: &str = "flow://format";
const TOOLS_URI: &str = "flow://tools";

/// The format of flows in short: the instructions of the server.
pub(crate) const INSTRUCTIONS: &str = include_str!("instructions.md");

pub(crate) const RESOURCES: [Resource; 3] = [
    Resource {
        uri: SCHEMA_URI,
        name: "flow-1.schema.json",
        description: "The JSON Schema of flows",
        media_type: "application/schema+json",
    },
    Resource {
        uri: FORMAT_URI,
        name: "format",
        description: "The format of flows in short",
        media_type: "text/markdown",
    },
    Resource {
        uri: TOOLS_URI,
        name: "tools",
        description: "The tools that flows may call, if this server knows them",
        media_type: JSON,
    },
];

/// Returns the media type and the text of a resource.
pub(crate) async fn read(caller: &Caller, uri: &str) -> Result<(&'static str, String), Failure> {
    match uri {
        SCHEMA_URI => Ok(("application/schema+json", SCHEMA.to_owned())),
        FORMAT_URI => Ok(("text/markdown", INSTRUCTIONS.to_owned())),
        TOOLS_URI => Ok((JSON, tools(caller))),
        _ => match uri.strip_prefix(RUN) {
            Some(id) => Ok((JSON, run(caller, id).await?)),
            None => Err(Failure::new("not_found", format!("there is no resource {uri:?}"), "list the resources")),
        },
    }
}

fn tools(caller: &Caller) -> String {
    let tools = caller.catalog.as_deref().map(|catalog| {
        let described = |name: String| json!({ "arguments": catalog.tool(&name), "name": name });
        catalog.tools().into_iter().map(described).collect::<Vec<_>>()
    });
    json!({ "tools": tools }).to_string()
}

async fn run(caller: &Caller, id: &str) -> Result<String, Failure> {
    let detail = caller.operate.run(run_id(id)?).await?;
    let waits = waits(caller, &detail).await?;
    let view = run_view(caller, shown(detail, &caller.actor), waits);
    Ok(serde_json::to_string(&view).unwrap_or_default())
}
