use std::collections::BTreeMap;

use serde_json::Value;

/// The tools, recipes and flows of the workers, which flows may call.
pub trait ToolCatalog {
    /// Returns the JSON Schema of a tool's arguments. `None`: there is no such tool.
    fn tool(&self, name: &str) -> Option<Value>;

    /// Returns the names of the tools, for "did you mean".
    fn tools(&self) -> Vec<String>;

    /// Returns the names of the recipes. `None`: unknown, so they are not checked.
    fn recipes(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns the names of the flows. `None`: unknown, so they are not checked.
    fn flows(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns the JSON Schema of the input of a flow: of this version, or of the newest one.
    /// Default: `None`, because it is not known, so arguments of flows are not checked.
    fn flow(&self, name: &str, version: Option<&str>) -> Option<Value> {
        let _ = (name, version);
        None
    }

    /// Returns whether a flow has this version. Default: `true`, so this is not checked.
    fn has_version(&self, name: &str, version: &str) -> bool {
        let _ = (name, version);
        true
    }

    /// Returns the names of the Rust workflows. `None`: unknown, so they are not checked.
    fn workflows(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns whether a model answers recipes. Default: `true`, so this is not checked.
    fn has_model(&self) -> bool {
        true
    }

    /// Returns whether there is a knowledge base. Default: `true`, so this is not checked.
    fn has_knowledge_base(&self) -> bool {
        true
    }

    /// Returns why the worker cannot run jq programs. Default: `None`, so this is not checked.
    fn lacks_jq(&self) -> Option<String> {
        None
    }

    /// Returns what the server of a tool has said about it. Default: it was not asked.
    fn presence(&self, tool: &str) -> Presence {
        let _ = tool;
        Presence::NotAsked
    }

    /// Returns the account that may not call this tool with these arguments, whose templates are
    /// not rendered. Default: `None`, so every call is allowed.
    fn refused(&self, tool: &str, args: &Value) -> Option<String> {
        let _ = (tool, args);
        None
    }
}

/// The answer of a server about one of its tools.
#[derive(Debug, Clone, PartialEq)]
pub enum Presence {
    /// The tool has no server, or the server was not asked.
    NotAsked,
    /// The server gave no answer.
    Away {
        /// The name of the server.
        server: String,
        /// Why there is no answer.
        reason: String,
    },
    /// The server has no such tool.
    Gone {
        /// The name of the server.
        server: String,
        /// The names of its tools, for "did you mean".
        tools: Vec<String>,
    },
    /// The server has the tool.
    Present {
        /// The JSON Schema of the arguments that it takes now.
        schema: Value,
    },
}

/// A [`ToolCatalog`] of names and schemas.
///
/// ```
/// use workflow_flows::check::{Catalog, Code, Options, check};
///
/// let catalog = Catalog::new().tool("http.post", true);
/// let options = Options { catalog: Some(&catalog), ..Options::default() };
/// let checked = check("flow: 1\nname: a\ndo: [ { id: a, tool: http.pots } ]\n", &options);
/// assert_eq!(checked.findings[0].code, Code::F040);
/// assert!(checked.findings[0].message.contains("did you mean \"http.post\"?"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    tools: BTreeMap<String, Value>,
    recipes: Option<Vec<String>>,
    flows: Option<Vec<String>>,
    inputs: BTreeMap<String, Value>,
    workflows: Option<Vec<String>>,
}

impl Catalog {
    /// Creates a catalog without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool with the JSON Schema of its arguments.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, schema: impl Into<Value>) -> Self {
        self.tools.insert(name.into(), schema.into());
        self
    }

    /// Sets the recipes.
    #[must_use]
    pub fn recipes(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.recipes = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the flows.
    #[must_use]
    pub fn flows(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.flows = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a flow with the JSON Schema of its input, which all of its versions have.
    ///
    /// ```
    /// use workflow_flows::check::{Catalog, Code, Options, check};
    ///
    /// let catalog = Catalog::new().flow("refund", serde_json::json!({ "required": ["order"] }));
    /// let options = Options { catalog: Some(&catalog), ..Options::default() };
    /// let text = "flow: 1\nname: a\ndo: [ { id: a, flow: refund, args: {} } ]\n";
    /// let checked = check(text, &options);
    /// assert_eq!(checked.findings[0].code, Code::F041);
    /// ```
    #[must_use]
    pub fn flow(mut self, name: impl Into<String>, input: impl Into<Value>) -> Self {
        let name = name.into();
        self.flows.get_or_insert_default().push(name.clone());
        self.inputs.insert(name, input.into());
        self
    }

    /// Sets the Rust workflows.
    #[must_use]
    pub fn workflows(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.workflows = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

impl ToolCatalog for Catalog {
    fn tool(&self, name: &str) -> Option<Value> {
        self.tools.get(name).cloned()
    }

    fn tools(&self) -> Vec<String> {
        self.tools.keys().cloned().collect()
    }

    fn recipes(&self) -> Option<Vec<String>> {
        self.recipes.clone()
    }

    fn flows(&self) -> Option<Vec<String>> {
        self.flows.clone()
    }

    fn flow(&self, name: &str, _version: Option<&str>) -> Option<Value> {
        self.inputs.get(name).cloned()
    }

    fn workflows(&self) -> Option<Vec<String>> {
        self.workflows.clone()
    }
}
