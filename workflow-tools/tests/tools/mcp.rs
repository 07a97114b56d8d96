//! Against the servers of others (scripts/mcp), and against broken ones.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use workflow_flows::{ErrorClass, FlowDocument, FlowRuntime, FlowRuntimeBuilder, Tool, ToolCall, ToolError};
use workflow_tests::until;
use workflow_tools::mcp::{Mcp, Server};

use crate::stub::{Reply, Stub};
use crate::{call, node, servers};

fn script(package: &str) -> String {
    servers().join("@modelcontextprotocol").join(package).join("dist/index.js").to_str().unwrap().to_owned()
}

/// The server with a tool for everything, over stdio.
fn everything() -> Server {
    Server::program("everything", node(), [script("server-everything"), "stdio".to_owned()])
        .connect_timeout(Duration::from_secs(120))
}

/// A server that is a script of the shell.
fn broken(script: &str) -> Server {
    let server = Server::program("broken", "/bin/sh", ["-c", script]).value("PATH", "/usr/bin:/bin");
    server.connect_timeout(Duration::from_secs(2))
}

/// The processes that this one has started for MCP servers, by a word of their command lines.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |path: &Path| {
        std::fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(word))
    };
    processes.filter(|entry| has(&entry.path())).count()
}

async fn tool_call(mcp: &Mcp, actor: &str, name: (&str, &str), args: Value) -> Result<Value, ToolError> {
    mcp.tool(name.0, name.1).unwrap().call(ToolCall::new(args, actor, "key")).await
}

#[tokio::test]
async fn tools_are_listed_with_their_schemas_and_called() {
    let mcp = Mcp::builder().server(everything()).build();
    let tools = mcp.tools("ann").await.unwrap();
    let sum = tools.iter().find(|tool| tool.name() == "everything/get-sum").unwrap();
    assert!(tools.len() >= 10 && !sum.description().is_empty());
    assert_eq!(sum.input_schema()["required"], json!(["a", "b"]));
    let result = call(sum, json!({ "a": 2, "b": 3 })).await.unwrap();
    assert!(result["text"].as_str().unwrap().contains('5'), "{result}");
    let structured = tools.iter().find(|tool| tool.name() == "everything/get-structured-content").unwrap();
    let result = call(structured, json!({ "location": "New York" })).await.unwrap();
    assert!(result["structured"].is_object(), "{result}");
    let error = call(sum, json!({ "a": "x" })).await.unwrap_err();
    assert!(matches!(error.class, ErrorClass::Invalid | ErrorClass::Failed), "{error}");
    let unknown = tool_call(&mcp, "ann", ("everything", "no-such-tool"), json!({})).await.unwrap_err();
    assert!(matches!(unknown.class, ErrorClass::Invalid | ErrorClass::Failed), "{unknown}");
    assert!(mcp.tool("nothing", "x").is_err());
    assert_eq!(mcp.connections(), 1, "one connection served all of it");
}

#[tokio::test]
async fn a_check_asks_the_servers_and_calls_nothing() {
    let mcp = Mcp::builder().server(everything()).server(broken("exec sleep 72.125")).build();
    let known = [("everything", "get-sum"), ("everything", "no-such-tool"), ("broken", "x"), ("broken", "y")];
    let tools = known.map(|(server, tool)| mcp.tool(server, tool).unwrap());
    let runtime = tools.into_iter().fold(FlowRuntime::builder(), FlowRuntimeBuilder::custom_tool).build();
    let document = "flow: 1\nname: asks\ndo:\n  - { id: a, tool: everything/get-sum, args: { a: 2, b: two } }\n  - { \
                    id: b, tool: everything/no-such-tool }\n  - { id: c, tool: broken/x }\n  - { id: d, tool: broken/y }\n";
    let checked = FlowDocument::new(document).check_connected(&runtime, "ann").await.unwrap();
    let found: Vec<String> = checked.findings.iter().map(|it| format!("{} at {}", it.code, it.line)).collect();
    assert_eq!(found, ["F041 at 4", "F071 at 5", "F070 at 6"], "{:?}", checked.findings);
    assert!(checked.findings[2].message.contains("did not connect within 2s"), "{:?}", checked.findings[2]);
    until("no broken server runs", async || (running("72.125") == 0).then_some(())).await;
}

#[tokio::test]
async fn a_server_has_only_the_environment_that_it_is_given() {
    let of_actor = |actor: &str| vec![("TOKEN".to_owned(), format!("of-{actor}"))];
    let mcp = Mcp::builder().server(everything().value("GREETING", "hi").values_of(of_actor)).build();
    let result = tool_call(&mcp, "ann", ("everything", "get-env"), json!({})).await.unwrap();
    let environment: Value = serde_json::from_str(result["text"].as_str().unwrap()).unwrap();
    let mut names: Vec<&str> = environment.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["GREETING", "TOKEN", "WORKFLOW_TOOL_CALL"]);
    assert_eq!(environment["TOKEN"], "of-ann");
}

#[tokio::test]
async fn a_slow_call_is_canceled_and_the_connection_stays() {
    let mcp = Mcp::builder().server(everything().call_timeout(Duration::from_millis(700))).build();
    mcp.tools("ann").await.unwrap();
    let long = json!({ "duration": 60, "steps": 2 });
    let error =
        tool_call(&mcp, "ann", ("everything", "trigger-long-running-operation"), long.clone()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Timeout, "{error}");
    let dropped = tool_call(&mcp, "ann", ("everything", "trigger-long-running-operation"), long);
    assert!(tokio::time::timeout(Duration::from_millis(200), dropped).await.is_err());
    assert_eq!(mcp.connections(), 1);
    let echo = tool_call(&mcp, "ann", ("everything", "echo"), json!({ "message": "still here" })).await.unwrap();
    assert!(echo["text"].as_str().unwrap().contains("still here"));
}

#[tokio::test]
async fn a_knowledge_graph_and_a_folder_are_served() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "hello").unwrap();
    let memory = Server::program("memory", node(), [script("server-memory")])
        .value("MEMORY_FILE_PATH", root.join("memory.json").to_str().unwrap())
        .connect_timeout(Duration::from_secs(120));
    let files = Server::program("files", node(), [script("server-filesystem"), root.to_str().unwrap().to_owned()])
        .connect_timeout(Duration::from_secs(120));
    let mcp = Mcp::builder().server(memory).server(files).build();
    let entity = json!({ "entities": [{ "name": "Ann", "entityType": "person", "observations": ["likes tea"] }] });
    tool_call(&mcp, "ann", ("memory", "create_entities"), entity).await.unwrap();
    let found = tool_call(&mcp, "ann", ("memory", "search_nodes"), json!({ "query": "tea" })).await.unwrap();
    assert!(found["text"].as_str().unwrap().contains("Ann"), "{found}");
    let read = json!({ "path": root.join("a.txt") });
    let read = tool_call(&mcp, "ann", ("files", "read_text_file"), read).await.unwrap();
    assert!(read["text"].as_str().unwrap().contains("hello"), "{read}");
    let outside = tool_call(&mcp, "ann", ("files", "read_text_file"), json!({ "path": "/etc/passwd" })).await;
    assert!(outside.is_err(), "{outside:?}");
}

/// The server of Playwright, with the Chromium of this machine.
#[cfg(feature = "http")]
#[tokio::test]
async fn a_page_is_read_and_clicked_in_a_browser() {
    const PAGE: &str = "<!doctype html><html lang=en><title>Orders</title><link rel=icon href='data:,'>\
                        <p id=state>o-1 waits for its carrier</p>\
                        <button onclick=\"document.getElementById('state').textContent = 'o-1 was shipped'\">Ship</button>";
    let page = crate::stub::Stub::start(|_| {
        crate::stub::Reply::new("200 OK", "content-type: text/html; charset=utf-8\r\n", PAGE)
    });
    let page = page.await;
    let folder = TempDir::new().unwrap();
    let (home, chromium) = (folder.path().to_str().unwrap(), crate::program("chromium"));
    let script = servers().join("@playwright/mcp/cli.js");
    let arguments = [
        script.to_str().unwrap(),
        "--headless",
        "--isolated",
        "--no-sandbox",
        "--executable-path",
        chromium.to_str().unwrap(),
        "--output-dir",
        home,
    ];
    let browser = Server::program("browser", node(), arguments)
        .value("PATH", "/usr/bin:/bin")
        .value("HOME", home)
        .value("TMPDIR", home)
        .connect_timeout(Duration::from_secs(120))
        .call_timeout(Duration::from_secs(120));
    let mcp = Mcp::builder().server(browser).build();
    let ask = async |tool: &str, args: Value| {
        let answer = tool_call(&mcp, "ann", ("browser", tool), args).await.unwrap();
        answer["text"].as_str().unwrap().to_owned()
    };
    ask("browser_navigate", json!({ "url": page.url("/orders") })).await;
    let before = ask("browser_snapshot", json!({})).await;
    assert!(before.contains("o-1 waits for its carrier") && !before.contains("o-1 was shipped"), "{before}");
    let button = before.lines().find(|line| line.contains("button \"Ship\"")).unwrap();
    let target = button.split("[ref=").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    ask("browser_click", json!({ "element": "the button Ship", "target": target })).await;
    let after = ask("browser_snapshot", json!({})).await;
    assert!(after.contains("o-1 was shipped") && !after.contains("waits for its carrier"), "{after}");
    assert!(page.requests()[0].starts_with("GET /orders "), "{:?}", page.requests());
    let elsewhere = json!({ "element": "no button", "target": "e9999" });
    let refused = tool_call(&mcp, "ann", ("browser", "browser_click"), elsewhere).await.unwrap_err();
    assert_eq!(refused.class, ErrorClass::Failed, "{refused}");
    ask("browser_close", json!({})).await;
    drop(mcp);
    until("the server and its browser have ended", async || (running(home) == 0).then_some(())).await;
}

#[tokio::test]
async fn a_server_is_reached_by_streamable_http() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = tokio::process::Command::new(node())
        .args([script("server-everything"), "streamableHttp".to_owned()])
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("listening") {
            break;
        }
    }
    let url = format!("http://127.0.0.1:{port}/mcp");
    let bearer = |actor: &str| vec![("authorization".to_owned(), format!("Bearer of-{actor}"))];
    let mcp = Mcp::builder().server(Server::url("remote", url).values_of(bearer)).build();
    let tools = mcp.tools("ann").await.unwrap();
    let sum = tools.iter().find(|tool| tool.name() == "remote/get-sum").unwrap();
    assert!(call(sum, json!({ "a": 20, "b": 22 })).await.unwrap()["text"].as_str().unwrap().contains("42"));
    child.kill().await.unwrap();
    let error = call(sum, json!({ "a": 1, "b": 1 })).await.unwrap_err();
    assert!(matches!(error.class, ErrorClass::Connection | ErrorClass::Timeout), "{error}");
}

#[tokio::test]
async fn a_token_that_has_ended_is_replaced() {
    let (valid, own) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(1)));
    let (taken, sent) = (Arc::clone(&valid), Arc::clone(&own));
    let stub = Stub::start(move |request| {
        let token = format!("authorization: bearer {}\r\n", taken.load(Ordering::Relaxed));
        if !request.to_ascii_lowercase().contains(&token) {
            return Reply::new("401 Unauthorized", "www-authenticate: Bearer\r\n", "");
        }
        let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let Ok(body) = serde_json::from_str::<Value>(body) else {
            return Reply::new("405 Method Not Allowed", "", "");
        };
        let server = json!({ "name": "stub", "version": "1" });
        let answer = match body["method"].as_str().unwrap_or_default() {
            _ if body["id"].is_null() => return Reply::new("202 Accepted", "", ""),
            "initialize" => json!({ "result": {
                "protocolVersion": body["params"]["protocolVersion"], "capabilities": {}, "serverInfo": server,
            } }),
            "tools/call" => json!({ "result": { "content": [{ "type": "text", "text": "done" }] } }),
            _ => json!({ "error": { "code": -32601, "message": "there is no such method" } }),
        };
        let mut whole = json!({ "jsonrpc": "2.0", "id": body["id"] });
        whole.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        Reply::json(&whole.to_string())
    })
    .await;
    let bearer = move |_: &str| vec![("authorization".to_owned(), format!("Bearer {}", sent.load(Ordering::Relaxed)))];
    let mcp = Mcp::builder().server(Server::url("remote", stub.url("/mcp")).values_of(bearer)).build();
    let run = async || tool_call(&mcp, "ann", ("remote", "x"), json!({})).await;
    assert_eq!(run().await.unwrap()["text"], "done");
    // The next call comes at once, so the connection is still taken as it is.
    valid.store(2, Ordering::Relaxed);
    own.store(2, Ordering::Relaxed);
    assert_eq!(run().await.unwrap()["text"], "done", "a new connection has the new token");
    valid.store(3, Ordering::Relaxed);
    let error = run().await.unwrap_err();
    assert_eq!(
        (error.class, error.message.contains("refuses the credentials")),
        (ErrorClass::Invalid, true),
        "{error}"
    );
    own.store(3, Ordering::Relaxed);
    assert_eq!(run().await.unwrap()["text"], "done");
    let calls = stub.requests().iter().filter(|request| request.contains("tools/call")).count();
    assert_eq!(calls, 5, "one before each of the changes, and two more that were refused");
}

#[tokio::test]
async fn broken_servers_are_refused_within_their_time() {
    for (script, class) in [
        ("exit 1", ErrorClass::Connection),
        ("exec sleep 70.125", ErrorClass::Timeout),
        ("trap '' TERM; while :; do sleep 70.125; done", ErrorClass::Timeout),
        ("exec cat /dev/zero", ErrorClass::Connection),
        ("while :; do echo garbage; done", ErrorClass::Timeout),
        ("echo '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}'; exec sleep 70.125", ErrorClass::Connection),
    ] {
        let mcp = Mcp::builder().server(broken(script)).build();
        let begun = Instant::now();
        let error = tool_call(&mcp, "ann", ("broken", "x"), json!({})).await.unwrap_err();
        let took = begun.elapsed();
        assert!(error.class == class || error.class == ErrorClass::Timeout, "{script}: {error}");
        assert!(took < Duration::from_secs(20), "{script}: {took:?}");
        assert_eq!(mcp.connections(), 0, "{script}: a server that does not connect takes no place");
    }
    until("no broken server runs", async || (running("70.125") == 0).then_some(())).await;
    let absent = Mcp::builder().server(Server::program("absent", "/no/such/program", [""; 0])).build();
    assert_eq!(tool_call(&absent, "ann", ("absent", "x"), json!({})).await.unwrap_err().class, ErrorClass::Invalid);
    let nowhere = Mcp::builder().server(Server::url("nowhere", "http://127.0.0.1:9/mcp")).build();
    assert_eq!(
        tool_call(&nowhere, "ann", ("nowhere", "x"), json!({})).await.unwrap_err().class,
        ErrorClass::Connection
    );
}

/// A server of a few lines: answers `initialize`, pings, lists and calls, and adds its child to the
/// group. Its tool `liar` breaks its schema, and the schema of `broken` is none. To check an answer
/// of `hostile` would take as many steps as 2 to the power of 40.
const SMALL: &str = r#"
const lines = require('readline').createInterface({ input: process.stdin });
require('child_process').spawn('/bin/sleep', ['71.125']);
let deaf = false;
lines.on('line', (line) => {
  if (deaf) return;
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === 'tools/call' && ['die', 'broken'].includes(params.name)) process.exit(1);
  if (method === 'tools/call' && params.name === 'hang') return;
  if (method === 'tools/call' && params.name === 'deafen') return deaf = true;
  if (method === 'tools/call' && params.name === 'tell') {
    const error = { code: -32000, message: `not with ${process.env.TOKEN}` };
    return console.log(JSON.stringify({ jsonrpc: '2.0', id, error }));
  }
  const reply = (result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
  if (method === 'tools/list') {
    const described = (type) => ({ type: 'object', properties: { n: { type } }, required: ['n'] });
    const tool = (name, type) => ({ name, inputSchema: { type: 'object' }, outputSchema: described(type) });
    const tools = ['honest', 'liar', 'silent'].map((name) => tool(name, 'integer'));
    const $defs = { d0: false, n: { type: 'integer' } };
    for (let d = 1; d <= 40; d++) $defs[`d${d}`] = { anyOf: [0, 1].map(() => ({ $ref: `#/$defs/d${d - 1}` })) };
    const other = (name, outputSchema) => ({ name, inputSchema: { type: 'object' }, outputSchema });
    tools.push(other('hostile', { type: 'object', $ref: '#/$defs/d40', $defs }));
    const n = { $ref: '#/$defs/n' };
    tools.push(other('referring', { type: 'object', properties: { n }, $defs: { n: $defs.n } }));
    tools.push(other('naming', { type: 'object', additionalProperties: $defs.n }));
    tools.push(other('closed', { type: 'object', properties: { n: $defs.n }, additionalProperties: false }));
    return reply({ tools: [...tools, tool('broken', 'nothing')] });
  }
  const [lie, named] = [{ n: 'hunter2' }, { 'ann@x.org': 'hunter2' }];
  const answers = { honest: { n: 7 }, liar: lie, hostile: lie, referring: lie, naming: named, closed: named };
  const structuredContent = answers[params?.name];
  if (structuredContent) return reply({ content: [{ type: 'text', text: 'n' }], structuredContent });
  const info = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } };
  const text = method === 'tools/call' ? String(process.pid) : '';
  const result = method === 'initialize' ? info : method === 'ping' ? {} : { content: [{ type: 'text', text }] };
  reply(result);
});
"#;

fn small(name: &str) -> Server {
    Server::program(name, node(), ["-e", SMALL]).connect_timeout(Duration::from_secs(120))
}

/// A server whose list of tools has no end, in the way that its variable names.
const ENDLESS: &str = r#"
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const page = Number(params?.cursor ?? 0);
  const manner = {
    pages: { tools: 0, next: page + 1 }, tools: { tools: 1000, next: page + 1 }, cursor: { tools: 1, next: (page + 1) % 3 },
  }[process.env.MANNER];
  const tool = (_, at) => ({ name: `t${page}-${at}`, inputSchema: { type: 'object' } });
  const list = { tools: Array.from({ length: manner.tools }, tool), nextCursor: String(manner.next) };
  const info = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } };
  const result = method === 'initialize' ? info : method === 'tools/list' ? list : {};
  console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
});
"#;

#[tokio::test]
async fn a_list_without_an_end_is_refused() {
    for (manner, message) in [
        ("pages", "lists more than 100 pages of tools, the limit"),
        ("tools", "lists more than 5000 tools, the limit"),
        ("cursor", "lists its tools without an end: a cursor came back"),
    ] {
        let server = Server::program("endless", node(), ["-e", ENDLESS]).value("MANNER", manner);
        let mcp = Mcp::builder().server(server.connect_timeout(Duration::from_secs(120))).build();
        let error = mcp.tools("ann").await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Invalid, "{error}");
        assert!(error.message.starts_with(&format!("the MCP server \"endless\" {message}")), "{error}");
        let runtime = FlowRuntime::builder().custom_tool(mcp.tool("endless", "t0-0").unwrap()).build();
        let document = FlowDocument::new("flow: 1\nname: asks\ndo: [ { id: a, tool: endless/t0-0 } ]\n");
        let checked = document.check_connected(&runtime, "ann").await.unwrap();
        assert_eq!(checked.findings[0].code.to_string(), "F070", "{:?}", checked.findings);
        assert!(checked.findings[0].message.contains(message), "{:?}", checked.findings);
    }
}

#[tokio::test]
async fn a_dead_server_is_replaced_and_its_children_are_killed() {
    let mcp = Mcp::builder().server(small("small")).build();
    let first = tool_call(&mcp, "ann", ("small", "pid"), json!({})).await.unwrap();
    assert_eq!(tool_call(&mcp, "ann", ("small", "pid"), json!({})).await.unwrap(), first, "the connection is kept");
    let error = tool_call(&mcp, "ann", ("small", "die"), json!({})).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Connection, "{error}");
    let second = tool_call(&mcp, "ann", ("small", "pid"), json!({})).await.unwrap();
    assert_ne!(first, second);
    let other = tool_call(&mcp, "bob", ("small", "pid"), json!({})).await.unwrap();
    assert_ne!(second, other, "an actor has a session of its own");
    assert_eq!(mcp.connections(), 2);
    drop(mcp);
    let gone = |result: &Value| !Path::new(&format!("/proc/{}", result["text"].as_str().unwrap())).exists();
    until("all servers are gone", async || (gone(&first) && gone(&second) && gone(&other)).then_some(())).await;
}

#[tokio::test]
async fn a_server_that_answers_nothing_is_replaced() {
    let mcp = Mcp::builder().server(small("small")).build();
    let (short, long) = (Duration::from_millis(500), Duration::from_secs(60));
    let mut pids = Vec::new();
    // The tool ends the call, or the interpreter drops it.
    for (of_tool, of_interpreter) in [(short, long), (long, short)] {
        pids.push(tool_call(&mcp, "ann", ("small", "pid"), json!({})).await.unwrap());
        let mut deafen = ToolCall::new(json!({}), "ann", "key");
        deafen.timeout = Some(of_tool);
        let tool = mcp.tool("small", "deafen").unwrap();
        match tokio::time::timeout(of_interpreter, tool.call(deafen)).await {
            Ok(ended) => assert_eq!(ended.unwrap_err().class, ErrorClass::Timeout),
            Err(_) => assert_eq!(of_interpreter, short),
        }
    }
    pids.push(tool_call(&mcp, "ann", ("small", "pid"), json!({})).await.unwrap());
    assert!(pids[0] != pids[1] && pids[1] != pids[2], "{pids:?}");
}

#[tokio::test]
async fn an_answer_has_to_fit_the_schema_of_its_tool() {
    let mcp = Mcp::builder().server(small("small")).build();
    let tools = mcp.tools("ann").await.unwrap();
    let named = |name: &str| tools.iter().find(|tool| tool.name() == format!("small/{name}")).unwrap();
    assert_eq!(named("honest").output_schema().unwrap()["required"], json!(["n"]));
    assert_eq!(call(named("honest"), json!({})).await.unwrap()["structured"], json!({ "n": 7 }));
    for (name, message) in [
        ("liar", "the answer of small/liar does not fit its outputSchema: /n: value is not of type \"integer\""),
        ("silent", "the answer of small/silent has no structured content, which its outputSchema describes"),
        ("naming", "the answer of small/naming does not fit its outputSchema: /*: value is not of type \"integer\""),
        ("closed", "the answer of small/closed does not fit its outputSchema: the value: it has properties that"),
        // The server would die of a call.
        ("broken", "small/broken was not called, because its outputSchema is wrong: "),
    ] {
        let error = call(named(name), json!({})).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Invalid, "{error}");
        assert!(error.message.starts_with(message) && !error.message.contains("hunter2"), "{error}");
        assert!(!error.message.contains("ann@x.org"), "{error}");
    }
    let error = call(named("referring"), json!({})).await.unwrap_err();
    assert_eq!(error.message, "the answer of small/referring does not fit its outputSchema", "without the place");
    let unchecked = call(named("hostile"), json!({})).await.unwrap();
    assert_eq!(unchecked["structured"], json!({ "n": "hunter2" }), "its check has no bound");
    let unasked = tool_call(&mcp, "ann", ("small", "liar"), json!({})).await.unwrap();
    assert_eq!(unasked["structured"], json!({ "n": "hunter2" }), "a tool whose server was not asked has no schema");
}

#[tokio::test]
async fn no_error_holds_a_value_of_the_server() {
    let mcp = Mcp::builder().server(small("small").values_of(|_| vec![("TOKEN".to_owned(), "hunter2".to_owned())]));
    let error = tool_call(&mcp.build(), "ann", ("small", "tell"), json!({})).await.unwrap_err();
    assert!(error.message.contains("not with ***"), "{error}");
}

#[tokio::test]
async fn many_servers_share_few_places() {
    let mut builder = Mcp::builder().connections(3).idle(Duration::from_secs(2));
    for number in 0..8 {
        builder = builder.server(small(&format!("s{number}")));
    }
    let mcp = builder.build();
    let calls = (0..8).map(|number| {
        let mcp = mcp.clone();
        tokio::spawn(async move {
            tool_call(&mcp, "ann", (&format!("s{number}"), "pid"), json!({})).await.unwrap();
            mcp.connections()
        })
    });
    // All calls are spawned before the first one is awaited.
    let calls: Vec<_> = calls.collect();
    for ended in calls {
        let connections = ended.await.unwrap();
        assert!((1..=3).contains(&connections), "{connections} connections at once");
    }
    until("idle connections are closed", async || (mcp.connections() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_connection_in_use_is_not_evicted() {
    let hangs = small("a").call_timeout(Duration::from_secs(3));
    let mcp =
        Mcp::builder().connections(1).server(hangs).server(small("b").call_timeout(Duration::from_secs(60))).build();
    let other = mcp.clone();
    let hanging = tokio::spawn(async move { tool_call(&other, "ann", ("a", "hang"), json!({})).await });
    until("the place is taken", async || (mcp.connections() == 1).then_some(())).await;
    let begun = Instant::now();
    tool_call(&mcp, "ann", ("b", "pid"), json!({})).await.unwrap();
    assert!(begun.elapsed() > Duration::from_secs(1), "it waited for the place");
    assert_eq!(hanging.await.unwrap().unwrap_err().class, ErrorClass::Timeout, "and did not take it away");
}
