use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::{Checked, Dialect, Finding, Options, Severity, check, check_input};

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
        let name = self.name.as_deref().filter(|_| self.dialect != Some(Dialect::Native));
        let options = Options { dialect: self.dialect, name, ..Options::default() };
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
