use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_sdk::operate::{OperateError, OperateErrorCode};

use crate::FlowRuntime;
use crate::catalog::check_connected;
use crate::check::{Checked, Dialect, Finding, Options, Severity, ToolCatalog, check, check_input};
use crate::graph::Flow;

/// A document that is handed in to be checked, deployed or started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FlowDocument {
    /// The text, in YAML or JSON.
    pub document: String,
    /// The dialect. Default: found out from the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// The name of a flow whose dialect has no place for one. Default: `flow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The input of a run, which is checked against the schema of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

impl FlowDocument {
    /// Takes this text, in a dialect that is found out from it.
    #[must_use]
    pub fn new(document: impl Into<String>) -> Self {
        Self { document: document.into(), dialect: None, name: None, input: None }
    }

    /// Sets the dialect. Default: found out from the document.
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Self {
        Self { dialect: Some(dialect), ..self }
    }

    /// Sets the name of a flow whose dialect has no place for one. Default: `flow`.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Sets the input that is checked. Default: none is.
    #[must_use]
    pub fn input(self, input: impl Into<Value>) -> Self {
        Self { input: Some(input.into()), ..self }
    }

    /// Checks the document and its input. A finding of [`Severity::Error`] leaves no flow.
    ///
    /// ```
    /// use serde_json::json;
    /// use workflow_flows::FlowDocument;
    ///
    /// let source = "flow: 1\nname: a\ninput: { required: [id] }\ndo: [ { id: a, tool: log } ]\n";
    /// assert!(FlowDocument::new(source).check().is_valid());
    /// let checked = FlowDocument::new(source).input(json!({})).check();
    /// assert_eq!(checked.findings[0].code.to_string(), "F060");
    /// assert!(!checked.is_valid());
    /// ```
    #[must_use]
    pub fn check(&self) -> Checked {
        self.check_with(None)
    }

    /// Checks the document and its input, and the tools that it calls against this catalog.
    #[must_use]
    pub fn check_with(&self, catalog: Option<&dyn ToolCatalog>) -> Checked {
        let name = self.name.as_deref().filter(|_| self.dialect != Some(Dialect::Native));
        let options = Options { dialect: self.dialect, name, catalog, ..Options::default() };
        let mut checked = check(&self.document, &options);
        if let (Some(flow), Some(input)) = (&checked.flow, &self.input) {
            checked.findings.extend(check_input(flow, input));
        }
        if checked.findings.iter().any(|finding| finding.severity == Severity::Error) {
            checked.flow = None;
            checked.digest = None;
        }
        checked
    }

    /// Refuses the flow of this document if it has another name than [`name`](Self::name). This
    /// happens where the document names its flow itself.
    ///
    /// ```
    /// use workflow_flows::FlowDocument;
    ///
    /// let source = "flow: 1\nname: a\ndo: [ { id: a, set: { x: 1 } } ]\n";
    /// let flow = FlowDocument::new(source).check().flow.expect("the document is valid");
    /// assert!(FlowDocument::new(source).name("a").check_name(&flow).is_ok());
    /// assert!(FlowDocument::new(source).name("b").check_name(&flow).is_err());
    /// ```
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) if the names differ.
    pub fn check_name(&self, flow: &Flow) -> Result<(), OperateError> {
        let Some(name) = self.name.as_ref().filter(|name| **name != flow.name) else { return Ok(()) };
        let message = format!("the document has the flow {:?}, and the request the name {name:?}", flow.name);
        Err(OperateError::new(OperateErrorCode::BadInput, message, "use one name in both"))
    }

    /// Checks the document and its input, and what a worker with this runtime has for it: tools,
    /// recipes, flows, a model, a knowledge base and the helper of jq. Asks the servers of the
    /// tools whether they have them, and the policy whether the account may call them. Calls no
    /// tool. A server that gives no answer within 15 s is a finding (F070).
    ///
    /// ```
    /// use serde_json::Value;
    /// use workflow_flows::{FlowDocument, FlowRuntime, Policy, ToolCall};
    ///
    /// struct OnlyOps;
    ///
    /// impl Policy for OnlyOps {
    ///     fn may(&self, actor: &str, _tool: &str, _args: &Value) -> bool {
    ///         actor == "ops"
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), workflow_sdk::operate::OperateError> {
    /// let runtime = FlowRuntime::builder()
    ///     .tool("shell", |_args: Value, _call: ToolCall| async move { Ok(()) })
    ///     .policy(OnlyOps)
    ///     .build();
    /// let document = FlowDocument::new("flow: 1\nname: a\ndo: [ { id: a, tool: shell } ]\n");
    /// assert!(document.check_connected(&runtime, "ops").await?.is_valid());
    /// let checked = document.check_connected(&runtime, "ann").await?;
    /// assert_eq!(checked.findings[0].message, "\"ann\" may not call \"shell\"");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A failure of the store of flows. What is wrong with the document or a server is a finding.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connections that it has begun are given up.
    pub async fn check_connected(&self, runtime: &FlowRuntime, actor: &str) -> Result<Checked, OperateError> {
        check_connected(self, runtime, actor).await
    }
}

/// The answer to a check, without the graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckedFlow {
    /// Whether the flow can be deployed and started.
    pub valid: bool,
    /// The name of the flow, if it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The dialect of the document.
    pub dialect: Dialect,
    /// The digest of the flow, if it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The findings, in the order of their places.
    pub findings: Vec<Finding>,
    /// The number of further findings that are not told, because there are too many.
    pub untold: usize,
}

impl From<&Checked> for CheckedFlow {
    fn from(checked: &Checked) -> Self {
        Self {
            valid: checked.is_valid(),
            name: checked.flow.as_ref().map(|flow| flow.name.clone()),
            dialect: checked.dialect,
            digest: checked.digest.clone(),
            findings: checked.findings.clone(),
            untold: checked.untold,
        }
    }
}
