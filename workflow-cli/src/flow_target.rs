//! The deployed flows that commands reach: those of a database, or of a server before one.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use workflow_flows::check::{Checked, Dialect};
use workflow_flows::graph::Flow;
use workflow_flows::{CheckedFlow, DeployedFlow, FlowDocument, FlowSummary, FlowVersion, Flows};
use workflow_remote::Remote;
use workflow_sdk::Client;
use workflow_sdk::operate::{Action, Done, Operate, OperateError, OperateErrorCode, StartRun};

use crate::Failure;
use crate::arguments::Author;
use crate::flows::Named;
use crate::target::Target;
use crate::verbs::order;

/// The requests of the verbs about deployed flows.
#[async_trait]
pub(crate) trait FlowTarget: Send + Sync {
    /// Lists the newest version of each flow, or the versions of one, the newest first.
    async fn list(&self, name: Option<&str>) -> Result<Vec<FlowSummary>, OperateError>;

    /// Deploys a document, of which a check has made this flow. A server deploys it on behalf of
    /// the actor of the token.
    async fn deploy(
        &self,
        document: &FlowDocument,
        flow: &Flow,
        by: &str,
        version: Option<&str>,
    ) -> Result<DeployedFlow, OperateError>;

    /// Returns a version with its whole definition, or the newest one. A server refuses this.
    async fn find(&self, name: &str, version: Option<&str>) -> Result<FlowVersion, OperateError>;

    /// Starts a run, which acts for its author; by a server, for the actor of the token.
    async fn start(&self, new: NewFlowRun) -> Result<Done, OperateError>;

    /// Returns the interface for operators of this database or server.
    fn operate(&self) -> &dyn Operate;

    /// Returns the client, if this is a database.
    fn client(&self) -> Option<&Client>;
}

/// Opens the deployed flows of the database or the server that is named.
pub(crate) async fn open(target: Target) -> Result<Box<dyn FlowTarget>, Failure> {
    if let Some(remote) = target.server()? {
        return Ok(Box::new(remote));
    }
    let (client, flows) = target.flows().await?;
    Ok(Box::new(FlowDatabase { client, flows }))
}

/// A run of a deployed flow, as a server reads it.
#[derive(Debug, Serialize)]
pub(crate) struct NewFlowRun {
    pub(crate) flow: String,
    pub(crate) version: Option<String>,
    pub(crate) input: Value,
    pub(crate) key: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) tags: BTreeMap<String, String>,
    #[serde(skip)]
    pub(crate) author: Author,
}

/// The deployed flows of a database.
pub(crate) struct FlowDatabase {
    pub(crate) client: Client,
    pub(crate) flows: Flows,
}

#[async_trait]
impl FlowTarget for FlowDatabase {
    async fn list(&self, name: Option<&str>) -> Result<Vec<FlowSummary>, OperateError> {
        match name {
            Some(name) => self.flows.versions(name).await,
            None => self.flows.list().await,
        }
    }

    async fn deploy(
        &self,
        _document: &FlowDocument,
        flow: &Flow,
        by: &str,
        version: Option<&str>,
    ) -> Result<DeployedFlow, OperateError> {
        self.flows.deploy(flow, by, version).await
    }

    async fn find(&self, name: &str, version: Option<&str>) -> Result<FlowVersion, OperateError> {
        self.flows.find(name, version).await
    }

    async fn start(&self, new: NewFlowRun) -> Result<Done, OperateError> {
        let NewFlowRun { flow, version, input, key, queue, delay_ms, tags, author } = new;
        let found = self.flows.find(&flow, version.as_deref()).await?;
        let actor = order::actor(&author).unwrap_or_default();
        let start = found.into_start().input(input).actor(actor);
        let perform = |mut run: StartRun| {
            (run.queue, run.delay_ms) = (queue, delay_ms);
            // The name and the version of the flow are not the caller's to choose.
            let of_flow = std::mem::take(&mut run.tags);
            run.tags = tags.into_iter().chain(of_flow).collect();
            self.client.operate().perform(order::order(Action::StartRun(Box::new(run)), &author))
        };
        self.flows.start(start, key.as_deref(), perform).await
    }

    fn operate(&self) -> &dyn Operate {
        self.client.operate()
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

/// A document that is to be a version, as a server reads it.
#[derive(Serialize)]
struct NewVersion<'d> {
    document: &'d str,
    dialect: Option<Dialect>,
    version: Option<&'d str>,
}

#[async_trait]
impl FlowTarget for Remote {
    async fn list(&self, name: Option<&str>) -> Result<Vec<FlowSummary>, OperateError> {
        let listed = match name {
            Some(name) => self.flow_versions(name).await,
            None => self.flows().await,
        };
        explained(self, listed).await
    }

    async fn deploy(
        &self,
        document: &FlowDocument,
        flow: &Flow,
        _by: &str,
        version: Option<&str>,
    ) -> Result<DeployedFlow, OperateError> {
        let new = NewVersion { document: &document.document, dialect: document.dialect, version };
        explained(self, self.deploy_flow(&flow.name, &new).await).await
    }

    async fn find(&self, _name: &str, _version: Option<&str>) -> Result<FlowVersion, OperateError> {
        let message = "a server leaves fields out of the flows that it shows, so a dry run needs another source";
        Err(refused(message, "give the document in place of the name, or name the database itself with --to"))
    }

    async fn start(&self, new: NewFlowRun) -> Result<Done, OperateError> {
        if new.author.reason.is_some() {
            let message = "a server keeps no reason for the start of a deployed flow";
            return Err(refused(message, "leave --reason out, or name the database itself with --to"));
        }
        explained(self, self.start_flow(&new).await).await
    }

    fn operate(&self) -> &dyn Operate {
        self
    }

    fn client(&self) -> Option<&Client> {
        None
    }
}

/// Checks documents by a server, which also asks its tools if `connect` is set. The graph of a
/// valid one is made here: a document is valid if both programs can read it.
pub(crate) async fn check_by(
    remote: &Remote,
    documents: &[Named],
    connect: bool,
) -> Result<Vec<(String, Checked)>, OperateError> {
    let mut answers = Vec::new();
    for (file, document) in documents {
        let here = document.check();
        let there: CheckedFlow = explained(remote, remote.check_flow(document, connect).await).await?;
        let CheckedFlow { valid, dialect, digest, findings, untold, .. } = there;
        let checked = if valid && !here.is_valid() {
            here
        } else {
            Checked { dialect, findings, untold, digest, flow: here.flow.filter(|_| valid) }
        };
        answers.push((file.clone(), checked));
    }
    Ok(answers)
}

/// Tells a flow that is not there apart from a server that has no paths of flows, because both are
/// answered as not found.
async fn explained<T>(remote: &Remote, answer: Result<T, OperateError>) -> Result<T, OperateError> {
    let is_missing = |error: &OperateError| error.code == OperateErrorCode::NotFound;
    if answer.as_ref().err().is_some_and(is_missing) {
        let listed: Result<Vec<IgnoredAny>, OperateError> = remote.flows().await;
        if listed.as_ref().err().is_some_and(is_missing) {
            let help = "check the prefix in --to; `workflow serve --flows` serves flows, and `run --http` of a program \
                        with flows does; or name the database itself";
            return Err(refused("the server has no paths of flows", help));
        }
    }
    answer
}

fn refused(message: &str, help: &str) -> OperateError {
    OperateError::new(OperateErrorCode::BadInput, message, help)
}
