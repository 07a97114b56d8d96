//! The flows of one database: deploys, starts, gates and triggers, for operators' programs.

mod decision;
mod deploy;
mod document;
mod failure;
mod gate;
mod newest;
mod reads;
mod report;
mod schedule;
mod start;
mod trigger;
mod version;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use workflow_sdk::Client;
use workflow_sdk::operate::OperateError;

use crate::check::Checked;
use crate::expression::Evaluator;
use crate::token::Tokens;
use crate::{Evaluate, FlowRuntime, FlowStore, FlowVersion, Secrets};
use failure::{no_runtime, unknown_flow, unknown_version};
use newest::Newest;

pub use decision::{OpenQuestion, StepVisit, read_question, read_visits};
pub use document::{CheckedFlow, FlowDocument};
pub(crate) use gate::DECISION;
pub use gate::{Answer, answer_step, refusal_for};
pub(crate) use report::{REPORT, SentReport, visit_number};
pub use report::{Report, ReportedError, report_step};
pub(crate) use schedule::refuse_times;
pub use start::flow_key;
pub use trigger::{Hook, HookRequest, Triggered, check_event};
pub use version::{DeployedFlow, FlowDiagram, FlowSummary};

/// Deploys flows, starts them and answers their gates. Interfaces such as REST and the command line
/// are made of it. A clone shares the connections.
///
/// Its errors are those of operators: with a code, a message and help. It returns a change of a run
/// as an [`Action`](workflow_sdk::operate::Action). The caller performs the action on behalf of its
/// own actor, and the audit log keeps it.
///
/// ```
/// use workflow_flows::{FlowDocument, FlowStore, Flows};
/// use workflow_sdk::Client;
/// use workflow_sdk::operate::{Action, Order};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("sqlite::memory:").await?;
/// let flows = Flows::new(client.clone(), FlowStore::in_memory());
/// let document = FlowDocument::new("flow: 1\nname: greet\ndo: [ { id: a, set: { x: 1 } } ]\n");
/// let flow = document.check().flow.ok_or("not valid")?;
/// assert!(flows.deploy(&flow, "ann", None).await?.is_new);
///
/// let start = flows.find("greet", None).await?.into_start().actor("ann");
/// let run = start.into_run(Some("greet-1"))?;
/// let order = Order::new(Action::StartRun(Box::new(run))).actor("ann");
/// println!("{}", client.operate().perform(order).await?.message);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Flows {
    client: Client,
    store: FlowStore,
    tokens: Option<Tokens>,
    secrets: Option<Arc<dyn Secrets>>,
    evaluator: Arc<dyn Evaluate>,
    runtime: Option<FlowRuntime>,
    newest: Arc<Newest>,
}

impl Flows {
    /// Deploys to this store, and starts runs by this client.
    #[must_use]
    pub fn new(client: Client, store: FlowStore) -> Self {
        Self {
            client,
            store,
            tokens: None,
            secrets: None,
            evaluator: Arc::new(Evaluator::new()),
            runtime: None,
            newest: Arc::default(),
        }
    }

    /// Sets the tokens that decide one gate each: see [`Flows::open_token`]. Default: none, so
    /// that every token is refused.
    #[must_use]
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets where the secrets of webhooks come from. They are looked up for the account that
    /// deployed the flow. Default: there are none, so that signed webhooks are refused.
    #[must_use]
    pub fn secrets(mut self, secrets: impl Secrets) -> Self {
        self.secrets = Some(Arc::new(secrets));
        self
    }

    /// Sets the evaluator of the expressions of triggers. Default: [`Evaluator::new`].
    #[must_use]
    pub fn evaluator(mut self, evaluator: Arc<dyn Evaluate>) -> Self {
        self.evaluator = evaluator;
        self
    }

    /// Sets the runtime of the worker beside this program: [`check_connected`] asks its tools. Its
    /// evaluator is used, and its secrets and tokens if it has them. Default: none.
    ///
    /// [`check_connected`]: Self::check_connected
    #[must_use]
    pub fn runtime(self, runtime: FlowRuntime) -> Self {
        let secrets = runtime.shared_secrets().cloned().or(self.secrets);
        let tokens = runtime.tokens().cloned().or(self.tokens);
        let evaluator = runtime.shared_evaluator();
        Self { secrets, tokens, evaluator, runtime: Some(runtime), ..self }
    }

    /// Returns the store of the versions.
    #[must_use]
    pub fn store(&self) -> &FlowStore {
        &self.store
    }

    /// Checks a document as [`FlowDocument::check_connected`] does, with the tools of the
    /// [`runtime`](Self::runtime).
    ///
    /// # Errors
    /// [`BadInput`](workflow_sdk::operate::OperateErrorCode::BadInput) if there is no runtime, or a
    /// failure of the database.
    pub async fn check_connected(&self, document: &FlowDocument, actor: &str) -> Result<Checked, OperateError> {
        let runtime = self.runtime.as_ref().ok_or_else(no_runtime)?;
        document.check_connected(runtime, actor).await
    }

    /// Returns a version of a flow, or the newest one.
    ///
    /// # Errors
    /// [`NotFound`](workflow_sdk::operate::OperateErrorCode::NotFound) if there is none, or a
    /// failure of the database.
    pub async fn find(&self, name: &str, version: Option<&str>) -> Result<FlowVersion, OperateError> {
        let found = self.store.find(name, version).await?;
        found.ok_or_else(|| match version {
            Some(version) => unknown_version(name, version),
            None => unknown_flow(name),
        })
    }

    /// Returns the newest version of each flow, in the order of their names.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn list(&self) -> Result<Vec<FlowSummary>, OperateError> {
        Ok(self.store.list().await?.iter().map(FlowSummary::from).collect())
    }

    /// Returns the newest version of each of the first flows, at most `most` of them, in the order
    /// of their names. [`Flows::counts`] has the number of all.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn list_first(&self, most: u32) -> Result<Vec<FlowSummary>, OperateError> {
        Ok(self.store.list_first(most).await?.iter().map(FlowSummary::from).collect())
    }

    /// Returns how many versions each flow has, by the names of the flows.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn counts(&self) -> Result<BTreeMap<String, u64>, OperateError> {
        let counts = self.store.counts().await?.into_iter();
        Ok(counts.map(|(name, versions)| (name, u64::try_from(versions).unwrap_or_default())).collect())
    }

    /// Returns the versions of a flow, the newest first.
    ///
    /// # Errors
    /// [`NotFound`](workflow_sdk::operate::OperateErrorCode::NotFound) if there is no such flow, or
    /// a failure of the database.
    pub async fn versions(&self, name: &str) -> Result<Vec<FlowSummary>, OperateError> {
        let found = self.store.versions(name).await?;
        if found.is_empty() {
            return Err(unknown_flow(name));
        }
        Ok(found.iter().map(FlowSummary::from).collect())
    }

    /// Returns the newest versions of a flow, at most `most` of them, the newest first. The list is
    /// empty if there is no such flow. [`Flows::counts`] has the number of all.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn versions_first(&self, name: &str, most: u32) -> Result<Vec<FlowSummary>, OperateError> {
        Ok(self.store.versions_first(name, most).await?.iter().map(FlowSummary::from).collect())
    }
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows").field("store", &self.store).finish_non_exhaustive()
    }
}
