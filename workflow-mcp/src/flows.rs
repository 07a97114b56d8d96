//! `flow_check`, `flow_deploy` and `flow_list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_flows::check::{Checked, Dialect, ToolCatalog};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowDocument, FlowSummary, FlowVersion, levels, mermaid};
use workflow_sdk::operate::Role;

use crate::answers::{Found, time};
use crate::caller::Caller;
use crate::failure::Failure;

/// The most flows of one answer.
const MOST_FLOWS: usize = 200;
/// The flows of one answer, unless the call says otherwise.
const FLOWS: usize = 50;

/// The format of a document.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DialectName {
    Native,
    TwoTable,
    Opcode,
    Cncf,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::Native => Self::Native,
            DialectName::TwoTable => Self::TwoTable,
            DialectName::Opcode => Self::Opcode,
            DialectName::Cncf => Self::Cncf,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckFlow {
    /// The flow as YAML or JSON text, at most 256 KiB.
    document: String,
    /// The format. Default: found out from the document.
    dialect: Option<DialectName>,
    /// The name of a flow whose document has no place for one. Default: `flow`.
    name: Option<String>,
    /// An input that is checked against the schema of the flow.
    input: Option<Value>,
    /// Also return the levels of the steps and a Mermaid diagram.
    #[serde(default)]
    plan: bool,
    /// Also ask the worker beside this server, the servers of the tools and the policy whether
    /// your account may call the tools (F070 to F072). Calls no tool. Needs the role operator.
    #[serde(default)]
    connect: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckedFlow {
    /// `true` if the flow, and the input if one was given, can start.
    valid: bool,
    /// The format of the document.
    dialect: String,
    /// The name of a valid flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Equal for flows that mean the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The faults, in the order of their places.
    findings: Vec<Found>,
    /// The number of further faults that the answer leaves out.
    untold: usize,
    /// The ids of the steps by the level in which they can begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<Vec<Vec<String>>>,
    /// A drawing of the flow as a Mermaid flowchart.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagram: Option<String>,
}

pub(crate) async fn check_flow(caller: Caller, input: CheckFlow) -> Result<CheckedFlow, Failure> {
    let CheckFlow { document, dialect, name, input, plan, connect } = input;
    let mut document = document_of(document, dialect, name);
    document.input = input;
    let Checked { dialect, findings, untold, digest, flow } = check_document(&caller, document, connect).await?;
    let plan = flow.as_ref().filter(|_| plan);
    Ok(CheckedFlow {
        valid: flow.is_some(),
        dialect: dialect.to_string(),
        levels: plan.map(level_names),
        diagram: plan.map(mermaid),
        name: flow.map(|flow| flow.name),
        digest,
        findings: findings.into_iter().map(Found::from).collect(),
        untold,
    })
}

/// Returns what the tools and the other interfaces check.
pub(crate) fn document_of(text: String, dialect: Option<DialectName>, name: Option<String>) -> FlowDocument {
    let mut document = FlowDocument::new(text);
    (document.dialect, document.name) = (dialect.map(Dialect::from), name);
    document
}

fn level_names(flow: &Flow) -> Vec<Vec<String>> {
    levels(&flow.body).into_iter().map(|ids| ids.into_iter().map(str::to_owned).collect()).collect()
}

/// Checks a document on a blocking thread, so that a large one delays no other call. With `connect`
/// its tools are asked. This may start programs, so it needs the right to start runs.
async fn check_document(caller: &Caller, document: FlowDocument, connect: bool) -> Result<Checked, Failure> {
    if connect {
        caller.needs(Role::Operator, "a check that connects")?;
        let checked = caller.flows()?.check_connected(&document, &caller.actor.name).await;
        return checked.map_err(Failure::of_flows);
    }
    let catalog = caller.catalog.clone();
    let checked = tokio::task::spawn_blocking(move || {
        document.check_with(catalog.as_deref().map(|catalog| catalog as &dyn ToolCatalog))
    });
    checked.await.map_err(|_| Failure::new("unavailable", "the check was broken off", "try again"))
}

/// Returns the flow of a document that is valid and has the name of the request.
pub(crate) async fn valid_flow(
    caller: &Caller,
    document: &FlowDocument,
    connect: bool,
) -> Result<(Flow, Vec<Found>), Failure> {
    let checked = check_document(caller, document.clone(), connect).await?;
    let Some(flow) = checked.flow else { return Err(Failure::invalid_flow(checked.findings)) };
    document.check_name(&flow)?;
    Ok((flow, checked.findings.into_iter().map(Found::from).collect()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeployFlow {
    /// The flow as YAML or JSON text, at most 256 KiB.
    document: String,
    /// The format. Default: found out from the document.
    dialect: Option<DialectName>,
    /// The name of a flow whose document has no place for one. Default: `flow`.
    name: Option<String>,
    /// The name of the version. Default: the next number.
    version: Option<String>,
    /// Also check as flow_check does with `connect`.
    #[serde(default)]
    connect: bool,
}

/// A deployed version of a flow.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Deployed {
    /// The name of the flow.
    name: String,
    /// The name of the version.
    version: String,
    /// Equal for flows that mean the same.
    digest: String,
    /// When it was deployed.
    deployed_at: String,
    /// The account that deployed it.
    deployed_by: String,
    /// `false` if it was deployed before.
    is_new: bool,
    /// Warnings.
    findings: Vec<Found>,
}

pub(crate) async fn deploy_flow(caller: Caller, input: DeployFlow) -> Result<Deployed, Failure> {
    caller.needs(Role::Admin, "flow_deploy")?;
    let flows = caller.flows()?;
    let document = document_of(input.document, input.dialect, input.name);
    let (flow, findings) = valid_flow(&caller, &document, input.connect).await?;
    let deployed = flows.deploy(&flow, &caller.actor.name, input.version.as_deref()).await;
    let deployed = deployed.map_err(Failure::of_flows)?;
    let FlowSummary { name, version, digest, created_at, created_by, .. } = deployed.flow;
    let deployed_at = time(created_at);
    Ok(Deployed { name, version, digest, deployed_at, deployed_by: created_by, is_new: deployed.is_new, findings })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFlows {
    /// The flow whose versions are listed. Default: the newest version of each flow.
    name: Option<String>,
    /// The most items. Default: 50. Range: 1 to 200.
    limit: Option<usize>,
    /// Goes on behind the item of this name, or of this version if `name` is given: `next` of the
    /// last answer.
    after: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FlowPage {
    /// The versions.
    items: Vec<FlowItem>,
    /// The value of `after` with which the list goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A deployed version in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FlowItem {
    /// The name of the flow.
    name: String,
    /// The name of the version.
    version: String,
    /// The purpose of the flow.
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// The JSON Schema of the input, if `name` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    /// Equal for flows that mean the same.
    digest: String,
    /// When it was deployed.
    deployed_at: String,
    /// The account that deployed it.
    deployed_by: String,
}

pub(crate) async fn list_flows(caller: Caller, list: ListFlows) -> Result<FlowPage, Failure> {
    let limit = list.limit.unwrap_or(FLOWS);
    if !(1..=MOST_FLOWS).contains(&limit) {
        let help = format!("ask for 1 to {MOST_FLOWS} flows");
        return Err(Failure::new("bad_limit", format!("a page of {limit} flows is refused"), help));
    }
    let store = caller.flows()?.store();
    let versions = match &list.name {
        None => store.list().await,
        Some(name) => store.versions(name).await,
    };
    let versions = versions.map_err(Failure::of_flows)?;
    if let Some(name) = list.name.as_ref().filter(|_| versions.is_empty()) {
        return Err(Failure::new("not_found", format!("there is no flow {name:?}"), "list the flows without a name"));
    }
    let id = |version: &FlowVersion| match list.name {
        Some(_) => version.version.clone(),
        None => version.name.clone(),
    };
    let begin = match &list.after {
        None => 0,
        Some(after) => match versions.iter().position(|version| id(version) == *after) {
            Some(at) => at + 1,
            None => return Err(Failure::new("bad_cursor", format!("no item is {after:?}"), "take `next` as it was")),
        },
    };
    let page = versions.get(begin..versions.len().min(begin + limit)).unwrap_or_default();
    let next = page.last().filter(|_| begin + limit < versions.len()).map(id);
    Ok(FlowPage { items: page.iter().map(|version| item(version, list.name.is_some())).collect(), next })
}

fn item(version: &FlowVersion, with_input: bool) -> FlowItem {
    FlowItem {
        name: version.name.clone(),
        version: version.version.clone(),
        description: version.definition.description.clone(),
        input: with_input.then(|| version.definition.input.clone()),
        digest: version.digest.clone(),
        deployed_at: time(version.created_at),
        deployed_by: version.created_by.clone(),
    }
}
