//! The MCP interface of workflows: an agent checks, deploys, starts and follows flows, and answers
//! the approvals and decisions that their runs wait for.
//!
//! The tools are those of [`Operate`] and [`Flows`], with the same access, roles and redaction
//! as the HTTP interface. They are served over HTTP by [`Mcp::router`] and over the standard input
//! and output by [`Mcp::serve`]. `docs/guide/agents.md` lists the tools and their errors.
//!
//! ```no_run
//! // no_run: it listens on a port.
//! use std::net::SocketAddr;
//!
//! use workflow_flows::{FlowStore, Flows};
//! use workflow_http::{Access, Actor};
//! use workflow_mcp::Mcp;
//! use workflow_sdk::Client;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("sqlite://orders.db").await?;
//! let flows = Flows::new(client.clone(), FlowStore::connect("sqlite://orders.db").await?);
//! let access = Access::token(std::env::var("AGENT_TOKEN")?, Actor::operator("agent"));
//! let app = axum::Router::new().nest("/mcp", Mcp::new(client).flows(flows).router(access));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7778").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(())
//! # }
//! ```

mod answers;
mod caller;
mod failure;
mod flows;
mod protocol;
mod resources;
mod runs;
mod starts;
mod steps;
mod tools;

use std::fmt;
use std::sync::Arc;

use workflow_flows::Flows;
use workflow_flows::check::ToolCatalog;
use workflow_sdk::operate::Operate;

pub use protocol::McpError;

/// The largest message of a client, in bytes.
pub const LARGEST_MESSAGE: usize = 1024 * 1024;

/// The MCP interface over [`Operate`], and over [`Flows`] if it has them.
#[derive(Clone)]
#[must_use = "nothing is served before `router` or `serve`"]
pub struct Mcp {
    operate: Arc<dyn Operate>,
    flows: Option<Flows>,
    catalog: Option<Arc<dyn ToolCatalog + Send + Sync>>,
}

impl Mcp {
    /// Creates the interface over a client, or over the interface of another server.
    pub fn new(operate: impl Operate + 'static) -> Self {
        Self { operate: Arc::new(operate), flows: None, catalog: None }
    }

    /// Sets the deployed flows. Default: none, and then flows are started from their documents
    /// alone. With a [`Flows::runtime`], `flow_check` and `flow_deploy` can ask its tools.
    pub fn flows(mut self, flows: Flows) -> Self {
        self.flows = Some(flows);
        self
    }

    /// Sets the tools of the workers. Checks then find unknown tools and wrong arguments, and the
    /// resource `flow://tools` lists them. Default: tools are not checked.
    ///
    /// ```
    /// use serde_json::json;
    /// use workflow_flows::check::Catalog;
    /// use workflow_mcp::Mcp;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = workflow_sdk::Client::connect("sqlite::memory:").await?;
    /// let schema = json!({ "type": "object", "properties": { "order": { "type": "string" } } });
    /// let mcp = Mcp::new(client).catalog(Catalog::new().tool("reserve", schema));
    /// # drop(mcp);
    /// # Ok(())
    /// # }
    /// ```
    pub fn catalog(mut self, catalog: impl ToolCatalog + Send + Sync + 'static) -> Self {
        self.catalog = Some(Arc::new(catalog));
        self
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp").field("operate", &self.operate).field("flows", &self.flows).finish_non_exhaustive()
    }
}

/// Compiles the code on this page of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/agents.md")]
struct AgentsPage;
