//! An agent's side of MCP: the program `workflow mcp`, and a client that speaks with it.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams, Tool};
use rmcp::service::{RunningService, ServiceExt};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use workflow_tests::Live;

/// A client of HTTP that sends these headers with each request.
pub(crate) fn http_client(headers: HeaderMap) -> reqwest::Client {
    // The client needs some cryptography, which it does not use here. It is installed once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().default_headers(headers).build().unwrap()
}

/// The program, as a server over HTTP.
pub(crate) struct Program {
    child: Child,
    /// Where it listens, as `127.0.0.1:4711`.
    pub(crate) address: String,
}

/// The command `workflow mcp` on a database.
fn command(live: &Live, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
    command.arg("mcp").args(arguments).env("WORKFLOW_DATABASE_URL", live.url()).env("WORKFLOW_ACTOR", "agent");
    command.env_remove("WORKFLOW_HTTP_TOKEN").env_remove("WORKFLOW_SCHEMA").kill_on_drop(true);
    if let Some(schema) = live.schema() {
        command.env("WORKFLOW_SCHEMA", schema);
    }
    command
}

impl Program {
    /// Starts the program, and waits until it listens.
    pub(crate) async fn start(live: &Live, token: Option<&str>, arguments: &[&str]) -> Self {
        let mut command = command(live, &[&["--http", "127.0.0.1:0"], arguments].concat());
        if let Some(token) = token {
            command.env("WORKFLOW_HTTP_TOKEN", token);
        }
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("the program says where it listens");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split("/mcp").next());
        Self { address: address.unwrap_or_else(|| panic!("{line}")).to_owned(), child }
    }

    pub(crate) async fn stop(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// A client of MCP. It checks each answer against the schema of its tool.
pub(crate) struct Agent {
    service: RunningService<RoleClient, ()>,
    child: Option<Child>,
    tools: HashMap<String, Tool>,
    /// Everything that the server has answered.
    heard: Arc<Mutex<String>>,
}

impl Agent {
    /// Starts the program, and speaks over its standard input and output.
    pub(crate) async fn over_stdio(live: &Live, arguments: &[&str]) -> Self {
        let mut command = command(live, arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Self::with(().serve(streams).await.unwrap(), Some(child)).await
    }

    /// Speaks with a program that listens.
    pub(crate) async fn over_http(program: &Program, token: Option<&str>) -> Self {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
        }
        let config = StreamableHttpClientTransportConfig::with_uri(format!("http://{}/mcp", program.address));
        let transport = StreamableHttpClientTransport::with_client(http_client(headers), config);
        Self::with(().serve(transport).await.unwrap(), None).await
    }

    async fn with(service: RunningService<RoleClient, ()>, child: Option<Child>) -> Self {
        let tools = service.peer().list_all_tools().await.unwrap();
        let tools = tools.into_iter().map(|tool| (tool.name.to_string(), tool)).collect();
        Self { service, child, tools, heard: Arc::default() }
    }

    /// The text that the server gives its clients at the beginning.
    pub(crate) fn instructions(&self) -> String {
        self.service.peer().peer_info().and_then(|info| info.instructions.clone()).unwrap_or_default()
    }

    pub(crate) fn tools(&self) -> &HashMap<String, Tool> {
        &self.tools
    }

    pub(crate) fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }

    fn hear(&self, text: &str) {
        self.heard.lock().unwrap().push_str(text);
    }

    /// Calls a tool. An error is that of the tool: `code`, `message`, `help`.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Value> {
        let arguments = arguments.as_object().unwrap().clone();
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = match self.service.peer().call_tool(call).await {
            Ok(result) => result,
            Err(error) => {
                self.hear(&error.to_string());
                return Err(json!({ "code": "protocol", "message": error.to_string() }));
            }
        };
        let content = serde_json::to_value(&result.content).unwrap();
        let text = content[0]["text"].as_str().unwrap().to_owned();
        self.hear(&text);
        let value: Value = serde_json::from_str(&text).unwrap();
        if result.is_error == Some(true) {
            assert!(result.structured_content.is_none() && value["error"]["help"].is_string(), "{text}");
            return Err(value["error"].clone());
        }
        assert_eq!(result.structured_content.as_ref(), Some(&value));
        let schema = Value::Object(self.tools[tool].output_schema.as_ref().unwrap().as_ref().clone());
        let faults: Vec<String> =
            jsonschema::validator_for(&schema).unwrap().iter_errors(&value).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{tool}: {faults:?}: {text}");
        Ok(value)
    }

    pub(crate) async fn read(&self, uri: &str) -> Result<String, String> {
        match self.service.peer().read_resource(ReadResourceRequestParams::new(uri)).await {
            Ok(read) => {
                let contents = serde_json::to_value(&read.contents).unwrap();
                let text = contents[0]["text"].as_str().unwrap().to_owned();
                self.hear(&text);
                Ok(text)
            }
            Err(error) => {
                self.hear(&error.to_string());
                Err(error.to_string())
            }
        }
    }

    /// Ends the session. A program over stdio ends with it.
    pub(crate) async fn leave(self) {
        let Self { service, child, .. } = self;
        service.cancel().await.unwrap();
        if let Some(mut child) = child {
            assert!(child.wait().await.unwrap().success(), "the program ends as it was asked to");
        }
    }
}
