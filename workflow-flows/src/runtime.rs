//! The things that a worker gives to the flows that it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use workflow_sdk::Client;

use crate::expression::{Evaluator, ExpressionLimits, InvalidExpressionLimit};
use crate::graph::Recipe;
use crate::token::Tokens;
use crate::{
    AllowAll, ErrorClass, Evaluate, FlowStore, Flows, KnowledgeBase, Model, Policy, Secrets, Tool, ToolCall, ToolError,
};

/// The tools, the rules and the services of a worker that runs flows. It is the state of the
/// worker, or a part of it; a clone shares everything.
///
/// ```
/// use serde::Deserialize;
/// use workflow_flows::{FlowRuntime, ToolCall, flow};
/// use workflow_sdk::Client;
/// use workflow_worker::Worker;
///
/// #[derive(Deserialize)]
/// struct Reserve {
///     order: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = FlowRuntime::builder()
///     .tool("reserve", |args: Reserve, _call: ToolCall| async move {
///         Ok(format!("reserved {}", args.order))
///     })
///     .build();
/// let client = Client::connect("sqlite::memory:").await?;
/// let worker = Worker::new(client, runtime).register(flow);
/// # drop(worker);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FlowRuntime(Arc<Parts>);

struct Parts {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    policy: Arc<dyn Policy>,
    secrets: Option<Arc<dyn Secrets>>,
    evaluator: Arc<dyn Evaluate>,
    model: Option<Arc<dyn Model>>,
    recipes: BTreeMap<String, Recipe>,
    channels: Vec<String>,
    knowledge_base: Option<Arc<dyn KnowledgeBase>>,
    flows: Option<FlowStore>,
    client: Option<Client>,
    triggers: Option<Flows>,
    tokens: Option<Tokens>,
    decision_limit: u32,
}

impl FlowRuntime {
    /// Creates a builder of a runtime without tools, whose policy allows everything.
    pub fn builder() -> FlowRuntimeBuilder {
        FlowRuntimeBuilder(Parts {
            tools: BTreeMap::new(),
            policy: Arc::new(AllowAll),
            secrets: None,
            evaluator: Arc::new(Evaluator::new()),
            model: None,
            recipes: BTreeMap::new(),
            channels: Vec::new(),
            knowledge_base: None,
            flows: None,
            client: None,
            triggers: None,
            tokens: None,
            decision_limit: 10_000,
        })
    }

    /// Returns the tool of this name.
    #[must_use]
    pub fn find_tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.tools.get(name)
    }

    /// Returns the tools in the order of their names.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.0.tools.values()
    }

    pub(crate) fn policy(&self) -> &dyn Policy {
        &*self.0.policy
    }

    pub(crate) fn secrets(&self) -> Option<&dyn Secrets> {
        self.0.secrets.as_deref()
    }

    pub(crate) fn shared_secrets(&self) -> Option<&Arc<dyn Secrets>> {
        self.0.secrets.as_ref()
    }

    pub(crate) fn shared_evaluator(&self) -> Arc<dyn Evaluate> {
        Arc::clone(&self.0.evaluator)
    }

    pub(crate) fn evaluator(&self) -> &dyn Evaluate {
        &*self.0.evaluator
    }

    pub(crate) fn model(&self) -> Option<&dyn Model> {
        self.0.model.as_deref()
    }

    pub(crate) fn recipe(&self, name: &str) -> Option<&Recipe> {
        self.0.recipes.get(name)
    }

    /// Returns the names of the recipes.
    pub(crate) fn recipes(&self) -> impl Iterator<Item = &str> {
        self.0.recipes.keys().map(String::as_str)
    }

    pub(crate) fn channels(&self) -> &[String] {
        &self.0.channels
    }

    pub(crate) fn knowledge_base(&self) -> Option<&Arc<dyn KnowledgeBase>> {
        self.0.knowledge_base.as_ref()
    }

    pub(crate) fn flows(&self) -> Option<&FlowStore> {
        self.0.flows.as_ref()
    }

    /// Returns the flows that an event of a flow may start.
    pub(crate) fn triggers(&self) -> Option<&Flows> {
        self.0.triggers.as_ref()
    }

    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.0.tokens.as_ref()
    }

    pub(crate) fn decision_limit(&self) -> u32 {
        self.0.decision_limit
    }

    pub(crate) fn client(&self) -> Option<&Client> {
        self.0.client.as_ref()
    }
}

impl AsRef<FlowRuntime> for FlowRuntime {
    fn as_ref(&self) -> &FlowRuntime {
        self
    }
}

impl fmt::Debug for FlowRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowRuntime").field("tools", &self.0.tools.keys()).finish_non_exhaustive()
    }
}

/// The builder of a [`FlowRuntime`]. Made by [`FlowRuntime::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct FlowRuntimeBuilder(Parts);

impl FlowRuntimeBuilder {
    /// Adds a closure as a tool. Its arguments are decoded by serde; arguments that do not decode
    /// fail the step with the class `invalid`. A tool of the same name is replaced.
    pub fn tool<A, F, Fut, T>(self, name: impl Into<String>, call: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        F: Fn(A, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
        T: Serialize + 'static,
    {
        self.custom_tool(ClosureTool { name: name.into(), call, types: PhantomData })
    }

    /// Adds a tool under its own name. A tool of the same name is replaced.
    pub fn custom_tool(mut self, tool: impl Tool) -> Self {
        self.0.tools.insert(tool.name().to_owned(), Arc::new(tool));
        self
    }

    /// Adds tools under their own names. A tool of the same name is replaced.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.0.tools.extend(tools.into_iter().map(|tool| (tool.name().to_owned(), tool)));
        self
    }

    /// Sets the policy that is asked before each attempt of a tool. Default: [`AllowAll`].
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.0.policy = Arc::new(policy);
        self
    }

    /// Sets where `{{secrets.name}}` comes from. Default: there are no secrets.
    pub fn secrets(mut self, secrets: impl Secrets) -> Self {
        self.0.secrets = Some(Arc::new(secrets));
        self
    }

    /// Sets the evaluator of expressions. Default: [`Evaluator::new`].
    pub fn evaluator(mut self, evaluator: impl Evaluate) -> Self {
        self.0.evaluator = Arc::new(evaluator);
        self
    }

    /// Sets the limits of expressions. It takes the place of [`evaluator`](Self::evaluator): for an
    /// evaluator with other settings too, see
    /// [`EvaluatorBuilder::limits`](crate::expression::EvaluatorBuilder::limits). Default:
    /// [`ExpressionLimits::new`].
    ///
    /// # Errors
    /// [`InvalidExpressionLimit`] for the first limit outside of its range.
    pub fn expression_limits(self, limits: ExpressionLimits) -> Result<Self, InvalidExpressionLimit> {
        Ok(self.evaluator(Evaluator::builder().limits(limits)?.build()))
    }

    /// Sets the number of decisions that a run may make: each evaluation of `when`, `if`, `switch`,
    /// `branch`, `while`, `match`, the `until` of a loop and of a `wait`, and the key of a limit.
    /// The next one fails the run with the code F223, which no `on_error` of a step handles. A long
    /// loop continues its run as new, which begins the count again. Default: 10,000. Range: 1 to
    /// 1,000,000.
    ///
    /// The limit belongs to the worker. A change of it never decides again what a run has recorded.
    ///
    /// ```
    /// use workflow_flows::FlowRuntime;
    ///
    /// let refused = FlowRuntime::builder().decision_limit(0).unwrap_err();
    /// assert!(refused.to_string().ends_with("is 0 decisions; use 1 to 1000000"));
    /// ```
    ///
    /// # Errors
    /// [`InvalidExpressionLimit`] for a number outside of the range.
    pub fn decision_limit(mut self, decisions: u32) -> Result<Self, InvalidExpressionLimit> {
        let (limit, given, least, most) = ("decision_limit", u64::from(decisions), 1, 1_000_000);
        if !(least..=most).contains(&given) {
            return Err(InvalidExpressionLimit { limit, given, least, most, unit: "decisions" });
        }
        self.0.decision_limit = decisions;
        Ok(self)
    }

    /// Sets the model that answers recipes. Default: none, so recipes fail.
    pub fn model(mut self, model: impl Model) -> Self {
        self.0.model = Some(Arc::new(model));
        self
    }

    /// Adds a recipe that flows use by its name.
    pub fn recipe(mut self, name: impl Into<String>, recipe: Recipe) -> Self {
        self.0.recipes.insert(name.into(), recipe);
        self
    }

    /// Adds a tool to those that carry a handoff whose flow names no channel. Default: none.
    pub fn channel(mut self, tool: impl Into<String>) -> Self {
        self.0.channels.push(tool.into());
        self
    }

    /// Sets the knowledge base that flows write to. Default: none, so such steps fail.
    pub fn knowledge_base(mut self, base: impl KnowledgeBase) -> Self {
        self.0.knowledge_base = Some(Arc::new(base));
        self
    }

    /// Sets where flows that are called by their name stand. Default: none, so such steps fail.
    /// With a [`client`](Self::client) too, an event that a flow emits starts the flows that have
    /// it as a trigger.
    pub fn flows(mut self, flows: FlowStore) -> Self {
        self.0.flows = Some(flows);
        self
    }

    /// Sets the client with which a flow pauses or cancels its run at its timeout. Default: none;
    /// then such a timeout fails the run.
    pub fn client(mut self, client: Client) -> Self {
        self.0.client = Some(client);
        self
    }

    /// Sets the tokens of gates. The tools that an approval's `notify` names get the token of the
    /// gate, for a link, as `data.token` beside `data.run` and `data.key`. It is not recorded.
    /// Default: none, so that they get no token.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.0.tokens = Some(tokens);
        self
    }

    /// Returns the runtime.
    #[must_use]
    pub fn build(mut self) -> FlowRuntime {
        if let (Some(client), Some(store)) = (&self.0.client, &self.0.flows) {
            let flows = Flows::new(client.clone(), store.clone());
            self.0.triggers = Some(flows.evaluator(Arc::clone(&self.0.evaluator)));
        }
        FlowRuntime(Arc::new(self.0))
    }
}

impl fmt::Debug for FlowRuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowRuntimeBuilder").field("tools", &self.0.tools.keys()).finish_non_exhaustive()
    }
}

struct ClosureTool<A, F> {
    name: String,
    call: F,
    types: PhantomData<fn(A)>,
}

#[async_trait]
impl<A, F, Fut, T> Tool for ClosureTool<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A, ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
    T: Serialize + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let invalid = |what: &str, error: serde_json::Error| {
            ToolError::new(ErrorClass::Invalid, format!("the {what} of tool {:?}: {error}", self.name))
        };
        let args = serde_json::from_value(call.args.clone()).map_err(|error| invalid("arguments", error))?;
        let result = (self.call)(args, call).await?;
        serde_json::to_value(result).map_err(|error| invalid("result", error))
    }
}
