use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use workflow_sdk::internal::check_name;
use workflow_sdk::{Client, ClientError, LimitRule, NameSubject, Start};

use crate::graph::{Flow, LimitRule as FlowLimit, OnTimeout};
use crate::store::{FlowStore, FlowStoreError};
use crate::{FlowStart, flow};

/// The tag that holds the name of the flow that a run runs.
pub const FLOW_TAG: &str = "flow";
/// The tag that holds the version of the flow that a run runs. A run whose start brought its
/// definition has none.
pub const FLOW_VERSION_TAG: &str = "flow_version";

/// Starts flows by a [`Client`].
///
/// ```
/// use serde_json::json;
/// use workflow_flows::graph::Flow;
/// use workflow_flows::{FlowClient, FlowStore};
/// use workflow_sdk::Client;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let greet: Flow = serde_json::from_value(json!({
///     "language": 1, "name": "greet", "input": true, "timeout": 60_000, "on_timeout": "fail",
///     "body": { "do": [{ "id": "text", "kind": { "set": { "text": "{{input.name}}" } } }] },
/// }))?;
/// let client = Client::connect("sqlite::memory:").await?;
/// let flows = FlowStore::in_memory();
/// flows.deploy(&greet, "ann", None).await?;
///
/// let start = client.start_flow(&flows, "greet", json!({ "name": "Ada" })).await?;
/// let run = start.key("greet-ada").await?;
/// assert_eq!(run.run().await?.tags["flow"], "greet");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait FlowClient {
    /// Starts the newest version of a flow, without an actor. Returns the builder of the start: set
    /// its options, then await it. [`FlowStore::find`] and [`start_definition`] do the same for
    /// another version and for an actor.
    ///
    /// [`start_definition`]: Self::start_definition
    ///
    /// # Errors
    /// A [`FlowStoreError`] if there is no such flow, the input does not fit its schema, or the
    /// store cannot be read.
    async fn start_flow(&self, flows: &FlowStore, name: &str, input: Value) -> Result<Start<Value>, FlowStoreError>;

    /// Starts a flow from its definition, which need not be deployed. Returns the builder of the
    /// start, with the flow's timeout as its deadline and its name as a tag. The start declares the
    /// limits of the flow's steps that have no rule. It does not check the input:
    /// [`FlowStart::check_input`] does.
    fn start_definition(&self, start: FlowStart) -> Start<Value>;

    /// Declares the limits of a flow's steps, as a worker that starts declares its own: the number
    /// that was declared last holds. A rate that a worker has declared stays. A rule that an
    /// operator has [set](workflow_sdk::LimitHandle::set) holds in place of what is declared.
    ///
    /// # Errors
    /// [`FlowStoreError::Limit`] if the name or the number of a limit is refused, or its steps have
    /// different numbers; nothing is declared then. [`FlowStoreError::Client`] if the database
    /// cannot be reached.
    ///
    /// # Cancel safety
    /// If the future is dropped, some limits may be declared. Declaring them again is safe.
    async fn set_limits(&self, flow: &Flow) -> Result<(), FlowStoreError>;
}

#[async_trait]
impl FlowClient for Client {
    async fn start_flow(&self, flows: &FlowStore, name: &str, input: Value) -> Result<Start<Value>, FlowStoreError> {
        let found = flows.find(name, None).await?;
        let found = found.ok_or_else(|| FlowStoreError::Unknown { name: name.to_owned() })?;
        let start = found.into_start().input(input);
        start.check_input().map_err(|error| FlowStoreError::Input { name: name.to_owned(), reason: error.message })?;
        Ok(self.start_definition(start))
    }

    fn start_definition(&self, start: FlowStart) -> Start<Value> {
        let deadline = deadline_of(&start.definition);
        let tags = tags_of(&start.name, &start.version);
        let limits = limits_of(&start.definition);
        let started = self.start(flow, start).limits(limits);
        let started = tags.into_iter().fold(started, |started, (name, value)| started.tag(name, value));
        match deadline {
            Some(deadline) => started.deadline(deadline),
            None => started,
        }
    }

    async fn set_limits(&self, flow: &Flow) -> Result<(), FlowStoreError> {
        check_limits(flow)?;
        Ok(declare_limits(self, flow).await?)
    }
}

/// Refuses a limit that could not be declared, and one whose steps have different numbers.
pub(crate) fn check_limits(flow: &Flow) -> Result<(), FlowStoreError> {
    let refused = |name: &str, reason: String| FlowStoreError::Limit { name: name.to_owned(), reason };
    let first = limits_of(flow);
    for FlowLimit { name, max, .. } in flow.limits() {
        check_name(NameSubject::Limit, name).map_err(|error| refused(&error.shown, error.to_string()))?;
        if *max == 0 {
            return Err(refused(name, "max is 0; write 1 or more".to_owned()));
        }
        let other = first.get(name).and_then(|rule| rule.concurrency).filter(|other| other != max);
        if let Some(other) = other {
            return Err(refused(name, format!("max is {other} and {max}; give all of its steps one number")));
        }
    }
    Ok(())
}

/// Declares the limits of a flow's steps, as far as they are not declared so.
pub(crate) async fn declare_limits(client: &Client, flow: &Flow) -> Result<(), ClientError> {
    let limits = limits_of(flow);
    if limits.is_empty() {
        return Ok(());
    }
    let records = client.limits().await?;
    for (name, limit) in limits {
        let declared = records.iter().find(|record| record.name == name).and_then(|record| record.declared);
        let mut rule = declared.unwrap_or_default();
        rule.concurrency = limit.concurrency;
        if declared != Some(rule) {
            client.limit(name).declare(rule).await?;
        }
    }
    Ok(())
}

/// Returns the limits of a flow's steps by their names. Of steps with different numbers, which no
/// deploy accepts, the first one counts.
pub(crate) fn limits_of(flow: &Flow) -> BTreeMap<String, LimitRule> {
    let mut limits = BTreeMap::new();
    for FlowLimit { name, max, .. } in flow.limits() {
        limits.entry(name.clone()).or_insert(LimitRule::none().concurrency(*max));
    }
    limits
}

/// Returns the deadline of a run of this flow. A flow that is paused or canceled at its timeout has
/// none: the interpreter watches its time.
pub(crate) fn deadline_of(flow: &Flow) -> Option<Duration> {
    (flow.on_timeout == OnTimeout::Fail).then_some(flow.timeout)
}

/// Returns the tags of a run of a flow. The version is empty if the start brought its definition.
pub(crate) fn tags_of(name: &str, version: &str) -> Vec<(&'static str, String)> {
    let version = (!version.is_empty()).then(|| (FLOW_VERSION_TAG, version.to_owned()));
    std::iter::once((FLOW_TAG, name.to_owned())).chain(version).collect()
}
