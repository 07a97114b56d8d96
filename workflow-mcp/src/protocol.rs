//! The protocol: over HTTP, and over a pair of streams. The only file that uses `rmcp`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::stdio_pipes;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};
use workflow_http::internal::{Redacted, refusal_response};
use workflow_http::{Access, Actor};

use crate::caller::Caller;
use crate::resources::{self, INSTRUCTIONS, RESOURCES, RUN_TEMPLATE};
use crate::tools::{self, TOOLS};
use crate::{LARGEST_MESSAGE, Mcp};

/// Why a session over a pair of streams ended early: the client did not speak the protocol.
#[derive(Debug)]
pub struct McpError(Box<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for McpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the client does not speak the Model Context Protocol: {}", self.0)
    }
}

impl std::error::Error for McpError {}

impl Mcp {
    /// Returns the router of streamable HTTP: nest it under any prefix, such as `/mcp`. `access`
    /// says which requests are let in, and what is left out of answers; each request is checked,
    /// and no session is kept. An interface that only reads lets tools that only read be called.
    ///
    /// [`Access::local`] needs the address of the peer: serve the application with
    /// `into_make_service_with_connect_info::<SocketAddr>()`.
    ///
    /// # Errors
    /// A request that is not let in is answered with a problem as RFC 9457 describes it.
    pub fn router(self, access: Access) -> Router {
        let server = Server::new(self, &access, None);
        let mut config = StreamableHttpServerConfig::default();
        // `Access` decides about hosts and origins, as it does for the HTTP interface.
        config = config.disable_allowed_hosts().disable_allowed_origins();
        config = config.with_legacy_session_mode(false).with_json_response(true);
        config = config.with_max_request_body_bytes(LARGEST_MESSAGE);
        let sessions = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
        Router::new().route_service("/", service).layer(from_fn_with_state(Arc::new(access), admit))
    }

    /// Serves one client over the standard input and output, as [`Mcp::serve`] does. Nothing else
    /// may be written to the standard output.
    ///
    /// # Errors
    /// [`McpError`] if the client does not speak the protocol.
    ///
    /// # Cancel safety
    /// That of [`Mcp::serve`].
    pub async fn serve_stdio(self, actor: Actor, access: &Access) -> Result<(), McpError> {
        let (read, write) = stdio_pipes();
        self.serve(actor, access, read, write).await
    }

    /// Serves one client over a pair of streams until its side is closed. All calls are those of
    /// `actor`; `access` says which fields of payloads are left out of answers, and whether changes
    /// are refused.
    ///
    /// # Errors
    /// [`McpError`] if the client does not speak the protocol.
    ///
    /// # Cancel safety
    /// Dropping the future ends the session. Changes that are under way may or may not have their
    /// effect.
    pub async fn serve<R, W>(self, actor: Actor, access: &Access, read: R, write: W) -> Result<(), McpError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let actor = access.restricted(actor);
        let transport = AsyncRwTransport::<RoleServer, _, _>::new(read, write).with_max_line_length(LARGEST_MESSAGE);
        let serving = Server::new(self, access, Some(actor)).serve(transport).await;
        let serving = serving.map_err(|error| McpError(Box::new(error)))?;
        serving.waiting().await.map_err(|error| McpError(Box::new(error)))?;
        Ok(())
    }
}

/// Lets a request in, with its actor, or refuses it.
async fn admit(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match access.admit_call(&parts).await {
        Ok(actor) => {
            parts.extensions.insert(actor);
            next.run(Request::from_parts(parts, body)).await.into_response()
        }
        Err(refusal) => refusal_response(&access, refusal),
    }
}

/// The server of one session or request.
#[derive(Clone)]
struct Server {
    mcp: Mcp,
    /// The actor of all calls. `None`: that of each request.
    actor: Option<Actor>,
}

impl Server {
    fn new(mcp: Mcp, access: &Access, actor: Option<Actor>) -> Self {
        let operate = Redacted::over(mcp.operate, access);
        Self { mcp: Mcp { operate, ..mcp }, actor }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        let of_request =
            || context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Actor>()).cloned();
        let actor = self.actor.clone().or_else(of_request);
        let actor = actor.ok_or_else(|| ErrorData::internal_error("the request has no actor", None))?;
        let Mcp { operate, flows, catalog } = self.mcp.clone();
        Ok(Caller { operate, flows, catalog, actor })
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let program = Implementation::new("workflow", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(program).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(described).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name).map(described)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&call.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}; list the tools", call.name), None));
        };
        let answer = tool.call(self.caller(&context)?, call.arguments.unwrap_or_default()).await;
        let result = match answer {
            Ok(value) => CallToolResult::structured(value),
            // The structured form would have to fit the schema of the output.
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.to_text())]),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = RESOURCES.iter().map(|resource| {
            let described = Resource::new(resource.uri, resource.name).with_description(resource.description);
            described.with_mime_type(resource.media_type)
        });
        Ok(ListResourcesResult::with_all_items(resources.collect()))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let run = ResourceTemplate::new(RUN_TEMPLATE, "run").with_description("A run, as run_status answers it");
        Ok(ListResourceTemplatesResult::with_all_items(vec![run.with_mime_type("application/json")]))
    }

    async fn read_resource(
        &self,
        read: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = resources::read(&self.caller(&context)?, &read.uri).await;
        let (media_type, text) = found.map_err(|failure| ErrorData::resource_not_found(failure.to_text(), None))?;
        let contents = ResourceContents::text(text, read.uri).with_mime_type(media_type);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

fn described(tool: &tools::Tool) -> Tool {
    let effect = tool.effect;
    let hints = ToolAnnotations::new().read_only(effect.read_only).destructive(effect.destructive);
    let hints = hints.idempotent(effect.idempotent).open_world(false);
    let described = Tool::new(tool.name, tool.description, tool.input.clone()).with_annotations(hints);
    described.with_raw_output_schema(Arc::new(tool.output.clone()))
}
