//! Tools of MCP servers, as `server/tool`.
//!
//! A connection belongs to one server and one actor, and carries the values that the operator gives
//! for that actor. A pool keeps at most 20 connections and closes one that was idle for 60 s. A
//! call takes a connection and gives it back, so a run that waits has none. If all are in use, a
//! call waits for one within its timeout. Messages of servers are bounded, and their error streams
//! are dropped. A list of tools has at most 100 pages, 5,000 tools and 16 MiB. The structured part
//! of an answer has to fit the `outputSchema` of its tool, if the check of it has a bound.
//!
//! A result looks like this:
//!
//! ```json
//! { "text": "5", "structured": { "sum": 5 }, "content": [{ "type": "text", "text": "5" }] }
//! ```

mod answer;
mod client;
mod line;
mod listing;
mod pool;
mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use workflow_flows::{ErrorClass, Tool, ToolCall, ToolError, ToolServer};

pub use server::Server;

use crate::arguments::{invalid, shortest};
use answer::OutputSchema;
use client::unauthorized;
use pool::{Bounds, Pool};

/// Makes an [`Mcp`].
#[derive(Debug, Default)]
pub struct McpBuilder {
    servers: BTreeMap<String, Arc<Server>>,
    places: Option<usize>,
    idle: Option<Duration>,
}

impl McpBuilder {
    /// Adds a server. One of the same name is replaced.
    #[must_use]
    pub fn server(mut self, server: Server) -> Self {
        self.servers.insert(server.name.clone(), Arc::new(server));
        self
    }

    /// Sets how many connections there are at most. Default: 20; at least 1.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.places = Some(connections.max(1));
        self
    }

    /// Sets how long a connection may be idle before it is closed. Default: 60 s.
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Makes the pool. Connects to nothing yet.
    #[must_use]
    pub fn build(self) -> Mcp {
        let idle = self.idle.unwrap_or(Duration::from_secs(60));
        let pool = Pool::new(Bounds { places: self.places.unwrap_or(20), idle });
        Mcp { servers: Arc::new(self.servers), pool }
    }
}

/// MCP servers and the pool of connections to them. A clone shares the pool.
#[derive(Clone)]
pub struct Mcp {
    servers: Arc<BTreeMap<String, Arc<Server>>>,
    pool: Pool,
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp").field("servers", &self.servers).field("connections", &self.pool.len()).finish()
    }
}

impl Mcp {
    /// Returns a builder without servers.
    #[must_use]
    pub fn builder() -> McpBuilder {
        McpBuilder::default()
    }

    /// Returns how many connections are open or being opened.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.pool.len()
    }

    /// Connects to every server on behalf of the actor and returns all of their tools. A tool with
    /// an `outputSchema` fails with the class `invalid` if its answer does not fit it; if the
    /// schema itself is wrong, the tool is not called. Schemas whose check could take long are not
    /// checked, such as those of more than 64 KiB and those that refer to themselves.
    ///
    /// # Errors
    /// A [`ToolError`] of the first server that cannot be reached, or whose list is too large or
    /// has no end.
    ///
    /// # Cancel safety
    /// Dropping the future gives its connection back.
    pub async fn tools(&self, actor: &str) -> Result<Vec<McpTool>, ToolError> {
        let mut tools = Vec::new();
        for server in self.servers.values() {
            let connection = self.pool.connection(server, actor).await?;
            let mut listed = connection.tools(server).await?;
            let written: Vec<Option<Value>> = listed.iter_mut().map(|tool| tool.output_schema.take()).collect();
            let compiled = tokio::task::spawn_blocking(move || OutputSchema::compile_all(written)).await;
            let outputs = compiled.map_err(|_| {
                invalid(format!("the outputSchemas of the MCP server {} cannot be compiled", server.name))
            })?;
            for (described, output) in listed.into_iter().zip(outputs) {
                let mut tool = self.make(server, &described.name);
                tool.description = described.description;
                tool.input_schema = described.input_schema;
                tool.output = output;
                tools.push(tool);
            }
        }
        Ok(tools)
    }

    /// Returns a tool without asking its server, so without a description and schemas. Its answers
    /// are not checked.
    ///
    /// # Errors
    /// A [`ToolError`] if there is no server of this name.
    pub fn tool(&self, server: &str, tool: &str) -> Result<McpTool, ToolError> {
        let unknown = || {
            let known: Vec<&str> = self.servers.keys().map(String::as_str).collect();
            invalid(format!("there is no MCP server {server:?}; known: {}", known.join(", ")))
        };
        Ok(self.make(self.servers.get(server).ok_or_else(unknown)?, tool))
    }

    fn make(&self, server: &Arc<Server>, tool: &str) -> McpTool {
        McpTool {
            name: format!("{}/{tool}", server.name),
            tool: tool.to_owned(),
            server: Arc::clone(server),
            pool: self.pool.clone(),
            description: String::new(),
            input_schema: Value::Bool(true),
            output: None,
        }
    }
}

/// One tool of one MCP server.
#[derive(Clone)]
pub struct McpTool {
    name: String,
    tool: String,
    server: Arc<Server>,
    pool: Pool,
    description: String,
    input_schema: Value,
    output: Option<Arc<OutputSchema>>,
}

impl fmt::Debug for McpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTool").field("name", &self.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn input_schema(&self) -> Value {
        self.input_schema.clone()
    }

    fn output_schema(&self) -> Option<Value> {
        self.output.as_ref().map(|output| output.written().clone())
    }

    fn server(&self) -> Option<Arc<dyn ToolServer>> {
        Some(Arc::new(AskedServer { server: Arc::clone(&self.server), pool: self.pool.clone() }))
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let arguments = match call.args {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            _ => return Err(invalid(format!("the arguments of {} are not an object", self.name))),
        };
        let output = self.output.as_deref();
        if let Some(output) = output {
            output.ready(&self.name)?;
        }
        let timeout = shortest(self.server.call_timeout, [call.timeout]);
        let work = async {
            // The credentials of the first connection may have ended since it was opened.
            for _ in 0..2 {
                let connection = self.pool.connection(&self.server, &call.actor).await?;
                let called = connection.call(&self.server, &self.tool, arguments.clone(), output, timeout).await?;
                if let Some(result) = called {
                    return Ok(result);
                }
            }
            Err(unauthorized(&self.server))
        };
        let late = || ToolError::new(ErrorClass::Timeout, format!("{} did not answer within {timeout:?}", self.name));
        // The call ends at its timeout by itself and tells the server. This bound is for the wait
        // for a connection.
        let bound = timeout + Duration::from_secs(1);
        tokio::time::timeout(bound, work).await.unwrap_or_else(|_| Err(late()))
    }
}

/// A server as a check asks it, through the pool of its tools.
struct AskedServer {
    server: Arc<Server>,
    pool: Pool,
}

#[async_trait]
impl ToolServer for AskedServer {
    fn name(&self) -> &str {
        &self.server.name
    }

    async fn schemas(&self, actor: &str) -> Result<BTreeMap<String, Value>, ToolError> {
        let connection = self.pool.connection(&self.server, actor).await?;
        let described = connection.tools(&self.server).await?;
        let name = |tool: &str| format!("{}/{tool}", self.server.name);
        Ok(described.into_iter().map(|tool| (name(&tool.name), tool.input_schema)).collect())
    }
}
