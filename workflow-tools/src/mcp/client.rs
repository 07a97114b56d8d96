//! One connection to an MCP server. The only file that knows the library of the protocol.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification, CancelledNotificationParam,
    ClientRequest, ErrorCode, PaginatedRequestParams, PingRequest, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Map, Value, json};
use tokio::process::{Child, Command};
use workflow_flows::{ErrorClass, ToolError};

use super::answer::OutputSchema;
use super::line::BoundedLines;
use super::listing::{Described, Listing};
use super::server::{Kind, Server};
use crate::arguments::{failed, invalid};
use crate::excerpt::excerpt;
use crate::http::client::plain_client;
use crate::process::{MARK, Processes};

/// The longest message of a server, in bytes.
const MESSAGE_LIMIT: usize = 4 * 1024 * 1024;

/// An open connection. Dropping it closes it and kills the processes of a server that it started.
pub(super) struct Connection {
    service: RunningService<RoleClient, ()>,
    /// A call ended without an answer, or could not be sent. Cleared by an answer to a ping.
    is_late: AtomicBool,
    /// The server wants other credentials than those with which the connection was opened.
    is_unauthorized: AtomicBool,
    /// The variables or headers that the server got. They stand in no error.
    hidden: Value,
    /// The processes are dropped first, so the group is killed while its leader's number is taken.
    _program: Option<(Processes, Child)>,
}

/// A session, and the program that serves it if the client has started one.
type Opened = (RunningService<RoleClient, ()>, Option<(Processes, Child)>);

impl Connection {
    /// Connects within the time that the server's options give.
    pub(super) async fn open(server: &Server, actor: &str) -> Result<Self, ToolError> {
        // Of equal names the last one counts: the value of the actor.
        let values: Vec<(String, String)> = server.values.iter().cloned().chain(server.own(actor)).collect();
        let hidden = values.iter().map(|(_, value)| value.as_str()).collect();
        let opened = async {
            match &server.kind {
                Kind::Program { path, arguments } => start(server, path, arguments, values).await,
                Kind::Url(url) => connect(server, url, values).await,
            }
        };
        let limit = server.connect_timeout;
        let late =
            || ToolError::new(ErrorClass::Timeout, format!("{} did not connect within {limit:?}", server.shown()));
        let (service, program) = tokio::time::timeout(limit, opened).await.unwrap_or_else(|_| Err(late()))?;
        let (is_late, is_unauthorized) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { service, is_late, is_unauthorized, hidden, _program: program })
    }

    /// Whether nothing can be sent any more: it was closed by either side, or its credentials have
    /// ended.
    pub(super) fn is_closed(&self) -> bool {
        let is_unauthorized = self.is_unauthorized.load(Ordering::Relaxed);
        is_unauthorized || self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// Notes what the failure of a request says about the connection.
    fn note(&self, error: &ServiceError) {
        match error {
            ServiceError::TransportSend(_) if error.is_authorization_required() => {
                self.is_unauthorized.store(true, Ordering::Relaxed);
            }
            ServiceError::TransportSend(_) | ServiceError::Timeout { .. } => {
                self.is_late.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Whether a request ended without an answer, and no ping was answered since then.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    /// Asks whether the server answers a ping within this time.
    pub(super) async fn answers(&self, within: Duration) -> bool {
        let options = PeerRequestOptions::with_timeout(within);
        let ping = ClientRequest::PingRequest(PingRequest::default());
        let answers = match self.service.peer().send_cancellable_request(ping, options).await {
            Ok(handle) => handle.await_response().await.is_ok(),
            Err(_) => false,
        };
        self.is_late.store(!answers, Ordering::Relaxed);
        answers
    }

    /// Returns all tools of the server.
    pub(super) async fn tools(&self, server: &Server) -> Result<Vec<Described>, ToolError> {
        let late = || ToolError::new(ErrorClass::Timeout, format!("{} did not list its tools in time", server.shown()));
        tokio::time::timeout(server.connect_timeout, self.list(server)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn list(&self, server: &Server) -> Result<Vec<Described>, ToolError> {
        let refused = |error| {
            self.note(&error);
            refused(server, &error, std::slice::from_ref(&self.hidden))
        };
        let (mut listing, mut cursor) = (Listing::default(), None);
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.service.peer().list_tools(Some(params)).await.map_err(refused)?;
            let bytes = serde_json::to_vec(&page).map_or(usize::MAX, |page| page.len());
            let described = page.tools.into_iter().map(|tool| Described {
                name: tool.name.to_string(),
                description: tool.description.as_deref().unwrap_or_default().to_owned(),
                input_schema: Value::Object(tool.input_schema.as_ref().clone()),
                output_schema: tool.output_schema.map(|schema| Value::Object(schema.as_ref().clone())),
            });
            listing.add(&server.shown(), described, bytes, page.next_cursor.as_deref())?;
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(listing.tools);
            }
        }
    }

    /// Calls a tool, and checks its answer if it has a schema. The server is told if the time is
    /// over or the future is dropped. `None`: the tool was not called, because the server wants
    /// other credentials than those of this connection.
    pub(super) async fn call(
        &self,
        server: &Server,
        tool: &str,
        arguments: Map<String, Value>,
        output: Option<&OutputSchema>,
        timeout: Duration,
    ) -> Result<Option<Value>, ToolError> {
        let hidden = [Value::Object(arguments.clone()), self.hidden.clone()];
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let refused = |error: ServiceError| {
            self.note(&error);
            if error.is_authorization_required() { Ok(None) } else { Err(refused(server, &error, &hidden)) }
        };
        let options = PeerRequestOptions::with_timeout(timeout);
        let handle = match self.service.peer().send_cancellable_request(request, options).await {
            Ok(handle) => handle,
            Err(error) => return refused(error),
        };
        let (peer, id) = (self.service.peer().clone(), Some(handle.id.clone()));
        let mut cancel = CancelOnDrop { is_late: &self.is_late, peer, id };
        let answered = handle.await_response().await;
        cancel.id = None;
        let result = match answered {
            Ok(ServerResult::CallToolResult(result)) => result,
            Ok(_) => return Err(failed(format!("{} answered a call with something else", server.shown()))),
            Err(error) => return refused(error),
        };
        let result = converted(server, result, &hidden)?;
        if let Some(output) = output {
            output.check(&format!("{}/{tool}", server.name), &result["structured"], &hidden).await?;
        }
        Ok(Some(result))
    }
}

async fn start(
    server: &Server,
    path: &std::path::Path,
    arguments: &[String],
    values: Vec<(String, String)>,
) -> Result<Opened, ToolError> {
    let mark = uuid::Uuid::new_v4().to_string();
    let mut command = Command::new(path);
    command.args(arguments).env_clear().envs(values).env(MARK, &mark);
    command.process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let unstarted = |error: std::io::Error| {
        invalid(format!("{}: {} cannot be started: {error}; see its options", server.shown(), path.display()))
    };
    let mut child = command.spawn().map_err(unstarted)?;
    let processes = Processes::new(child.id(), mark);
    let (Some(stdout), Some(stdin)) = (child.stdout.take(), child.stdin.take()) else {
        return Err(failed(format!("{} has no standard input and output", server.shown())));
    };
    let opened = ().serve((BoundedLines::new(stdout, MESSAGE_LIMIT), stdin)).await;
    let service = opened.map_err(|_| unconnected(server))?;
    Ok((service, Some((processes, child))))
}

async fn connect(server: &Server, url: &str, values: Vec<(String, String)>) -> Result<Opened, ToolError> {
    let mut headers = HashMap::new();
    for (name, value) in values {
        let parsed = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value));
        let (Ok(name), Ok(mut value)) = parsed else {
            return Err(invalid(format!("{}: the header {name:?} is not one of HTTP", server.shown())));
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    config.max_sse_event_size = MESSAGE_LIMIT;
    config.max_json_response_size = MESSAGE_LIMIT;
    let transport = StreamableHttpClientTransport::with_client(plain_client(None)?, config);
    let service = ()
        .serve(transport)
        .await
        .map_err(|error| if error.is_authorization_required() { unauthorized(server) } else { unconnected(server) })?;
    Ok((service, None))
}

/// Tells the server that an answer is not needed, and marks the connection as late.
struct CancelOnDrop<'a> {
    is_late: &'a AtomicBool,
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.is_late.store(true, Ordering::Relaxed);
        let Ok(handle) = tokio::runtime::Handle::try_current() else { return };
        let peer = self.peer.clone();
        handle.spawn(async move {
            let canceled = CancelledNotification::new(CancelledNotificationParam::new(Some(id), None));
            let _ = peer.send_notification(canceled.into()).await;
        });
    }
}

fn unconnected(server: &Server) -> ToolError {
    let message = format!("{} cannot be reached, or does not speak the protocol", server.shown());
    ToolError::new(ErrorClass::Connection, message)
}

/// The failure of an account, and not of the server: it does not count for a breaker, which all
/// accounts share.
pub(super) fn unauthorized(server: &Server) -> ToolError {
    invalid(format!("{} refuses the credentials of this account; give it others in values_of", server.shown()))
}

fn refused(server: &Server, error: &ServiceError, hidden: &[Value]) -> ToolError {
    let shown = server.shown();
    match error {
        ServiceError::McpError(error) => {
            let class = match error.code {
                ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_REQUEST => {
                    ErrorClass::Invalid
                }
                _ => ErrorClass::Failed,
            };
            ToolError::new(class, format!("{shown} refused the call: {}", excerpt(error.message.as_bytes(), hidden)))
        }
        ServiceError::Timeout { timeout } => {
            ToolError::new(ErrorClass::Timeout, format!("{shown} did not answer within {timeout:?}"))
        }
        ServiceError::TransportSend(_) if error.is_authorization_required() => unauthorized(server),
        ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
            ToolError::new(ErrorClass::Connection, format!("the connection to {shown} broke"))
        }
        _ => failed(format!("{shown} did not answer the call")),
    }
}

/// The result of a call: the texts, the structured value and all of the content.
fn converted(server: &Server, result: CallToolResult, hidden: &[Value]) -> Result<Value, ToolError> {
    let content = serde_json::to_value(&result.content).unwrap_or_default();
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        return Err(failed(format!("a tool of {} failed: {}", server.shown(), excerpt(text.as_bytes(), hidden))));
    }
    Ok(json!({ "text": text, "structured": result.structured_content, "content": content }))
}

/// A connection that several calls use at once.
pub(super) type Shared = Arc<Connection>;
