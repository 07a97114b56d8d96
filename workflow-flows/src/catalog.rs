//! The catalog of a runtime: its tools, and what their servers say at this moment.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use workflow_sdk::operate::{OperateError, OperateErrorCode};

use crate::check::{Checked, Presence, ToolCatalog};
use crate::{FlowDocument, FlowRuntime, ToolServer};

/// The longest wait for the answers of all servers.
const LONGEST_ANSWER: Duration = Duration::from_secs(15);

/// The tools of a server with their schemas, or why it did not answer.
type Answer = Result<BTreeMap<String, Value>, String>;

/// The catalog of a runtime, for one account.
struct RuntimeCatalog {
    runtime: FlowRuntime,
    actor: String,
    /// The schemas of the inputs of the newest versions. `None`: the runtime knows no flows.
    flows: Option<BTreeMap<String, Value>>,
    /// The schemas of the inputs of the versions that the document names.
    versions: BTreeMap<(String, String), Value>,
    answers: BTreeMap<String, Answer>,
}

/// Checks a document with the catalog of a runtime, and asks the servers of the tools that the
/// document calls.
pub(crate) async fn check_connected(
    document: &FlowDocument,
    runtime: &FlowRuntime,
    actor: &str,
) -> Result<Checked, OperateError> {
    let flows = match runtime.flows() {
        Some(store) => {
            let newest = store.list().await?.into_iter();
            Some(newest.map(|flow| (flow.name, flow.definition.input)).collect())
        }
        None => None,
    };
    let (runtime, actor) = (runtime.clone(), actor.to_owned());
    let (versions, answers) = (BTreeMap::new(), BTreeMap::new());
    let catalog = RuntimeCatalog { runtime, actor, flows, versions, answers };
    let (called, versions, mut catalog) = find_called(document.clone(), catalog).await?;
    if let Some(store) = catalog.runtime.flows() {
        for (name, version) in versions {
            if let Some(found) = store.find(&name, Some(&version)).await? {
                catalog.versions.insert((name, version), found.definition.input);
            }
        }
    }
    catalog.answers = ask(&catalog, &called).await;
    let document = document.clone();
    on_a_thread(move || document.check_with(Some(&catalog))).await
}

/// The names of flows with the versions of them that a document names.
type Versions = BTreeSet<(String, String)>;

/// Returns the tools and the versions of flows that a document calls: those for which a check asks
/// its catalog.
async fn find_called(
    document: FlowDocument,
    catalog: RuntimeCatalog,
) -> Result<(BTreeSet<String>, Versions, RuntimeCatalog), OperateError> {
    on_a_thread(move || {
        let called = Called { catalog: &catalog, tools: RefCell::default(), versions: RefCell::default() };
        drop(document.check_with(Some(&called)));
        (called.tools.into_inner(), called.versions.into_inner(), catalog)
    })
    .await
}

/// Asks each server of these tools once, all at the same time.
async fn ask(catalog: &RuntimeCatalog, tools: &BTreeSet<String>) -> BTreeMap<String, Answer> {
    let server = |name: &String| catalog.runtime.find_tool(name).and_then(|tool| tool.server());
    let servers = tools.iter().filter_map(server).map(|server| (server.name().to_owned(), server));
    let servers: BTreeMap<String, Arc<dyn ToolServer>> = servers.collect();
    let answers = servers.into_iter().map(|(name, server)| async move {
        let answer = tokio::time::timeout(LONGEST_ANSWER, server.schemas(&catalog.actor)).await;
        let late = || format!("the server {name:?} did not answer within {LONGEST_ANSWER:?}");
        let answer = answer.map_err(|_| late()).and_then(|answer| answer.map_err(|error| error.message));
        (name, answer)
    });
    join_all(answers).await.into_iter().collect()
}

/// Runs a check on a blocking thread, so that a large document delays no other call.
async fn on_a_thread<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> Result<T, OperateError> {
    let broken = |_| OperateError::new(OperateErrorCode::Unavailable, "the check was broken off", "try again");
    tokio::task::spawn_blocking(check).await.map_err(broken)
}

impl ToolCatalog for RuntimeCatalog {
    fn tool(&self, name: &str) -> Option<Value> {
        self.runtime.find_tool(name).map(|tool| tool.input_schema())
    }

    fn tools(&self) -> Vec<String> {
        self.runtime.tools().map(|tool| tool.name().to_owned()).collect()
    }

    fn recipes(&self) -> Option<Vec<String>> {
        Some(self.runtime.recipes().map(str::to_owned).collect())
    }

    fn flows(&self) -> Option<Vec<String>> {
        self.flows.as_ref().map(|flows| flows.keys().cloned().collect())
    }

    fn flow(&self, name: &str, version: Option<&str>) -> Option<Value> {
        match version {
            None => self.flows.as_ref()?.get(name).cloned(),
            Some(version) => self.versions.get(&(name.to_owned(), version.to_owned())).cloned(),
        }
    }

    fn has_version(&self, name: &str, version: &str) -> bool {
        self.flows.is_none() || self.versions.contains_key(&(name.to_owned(), version.to_owned()))
    }

    fn has_model(&self) -> bool {
        self.runtime.model().is_some()
    }

    fn has_knowledge_base(&self) -> bool {
        self.runtime.knowledge_base().is_some()
    }

    fn lacks_jq(&self) -> Option<String> {
        self.runtime.evaluator().has_jq().err().map(|error| error.to_string())
    }

    fn presence(&self, tool: &str) -> Presence {
        let server = self.runtime.find_tool(tool).and_then(|tool| tool.server());
        let Some(server) = server.map(|server| server.name().to_owned()) else { return Presence::NotAsked };
        match self.answers.get(&server) {
            None => Presence::NotAsked,
            Some(Err(reason)) => Presence::Away { server, reason: reason.clone() },
            Some(Ok(tools)) => match tools.get(tool) {
                Some(schema) => Presence::Present { schema: schema.clone() },
                None => Presence::Gone { server, tools: tools.keys().cloned().collect() },
            },
        }
    }

    fn refused(&self, tool: &str, args: &Value) -> Option<String> {
        (!self.runtime.policy().may_plan(&self.actor, tool, args)).then(|| self.actor.clone())
    }
}

/// A catalog that notes the tools and the versions of flows for which it is asked.
struct Called<'c> {
    catalog: &'c RuntimeCatalog,
    tools: RefCell<BTreeSet<String>>,
    versions: RefCell<Versions>,
}

impl ToolCatalog for Called<'_> {
    fn tool(&self, name: &str) -> Option<Value> {
        self.tools.borrow_mut().insert(name.to_owned());
        self.catalog.tool(name)
    }

    fn tools(&self) -> Vec<String> {
        self.catalog.tools()
    }

    fn flow(&self, name: &str, version: Option<&str>) -> Option<Value> {
        let version = version.map(|version| (name.to_owned(), version.to_owned()));
        self.versions.borrow_mut().extend(version);
        None
    }
}
